"""Where sections get their numbers: rows by way of `evaluate`, parts of their own, both kept.

Nothing is computed twice: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from fedrap_core.errors import FedRapError
from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.load import load
from fedrap_simulation.data.named import NAMED
from fedrap_simulation.evaluation.compare import means
from fedrap_simulation.evaluation.results import RESULT_VERSION, Answer, AnswerCache, FileCache
from fedrap_simulation.evaluation.runner import Evaluation, Request
from fedrap_simulation.evaluation.splits import Split, make_split
from fedrap_simulation.evaluation.task import ProtocolName
from fedrap_simulation.methods.paper import FedRap
from fedrap_simulation.methods.registry import make_method
from fedrap_simulation.methods.solve import Solve
from fedrap_simulation.paper_report.request import FULL, QUICK, Ask, Frame, ReportRequest

T = TypeVar("T")
PIECE_VERSION = 1  # raise it when a section computes something else from the same configuration


class SectionCache:
    """Parts of a section by what they were computed from, so that a run can be resumed."""

    def __init__(self, folder: Path) -> None:
        self._files = FileCache(folder)

    def get(self, config: dict[str, Any], kind: type[T]) -> T | None:
        """The part, if it was computed before and is whole."""
        raw = self._files.read(_name(config))
        try:
            return None if raw is None else msgspec.json.decode(raw, type=kind)
        except (UnicodeDecodeError, msgspec.MsgspecError):
            return None

    def put(self, config: dict[str, Any], piece: object) -> None:
        """Keep a part."""
        self._files.write(_name(config), msgspec.json.encode(piece))


def _name(config: dict[str, Any]) -> str:
    whole = {"config": config, "versions": [PIECE_VERSION, RESULT_VERSION]}
    raw = msgspec.json.encode(whole, order="deterministic")
    return f"{hashlib.sha256(raw).hexdigest()[:20]}.json"


OnProgress = Callable[[float, str], None]  # share of the piece at hand, and a few words


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a table: a method under a protocol, over all seeds."""

    label: str
    method: str
    protocol: ProtocolName
    leaky: bool
    mean: dict[str, float] | None = None  # None where it could not be done
    deviation: dict[str, float] = {}
    rounds: float = 0.0
    zeros: float | None = None
    seconds: float = 0.0  # learning and tuning, all seeds
    settings: dict[str, Any] = {}
    failed: str = ""  # why it could not be done


class Bench:
    """One set of data and everything that is asked about it."""

    def __init__(self, request: ReportRequest, on_progress: OnProgress) -> None:
        if request.seeds < 1:
            raise BadData("at least one seed is needed")
        self._order, self._on_progress = request, on_progress
        self.data = load(request.data, request.data_dir)
        self.fingerprint = self._fingerprint()
        root = request.cache or request.out / "cache"
        # Rows are kept by the name of the data, and only a named set is always the same.
        self._rows = root if request.data in NAMED else root / f"data-{self.fingerprint[:12]}"
        self._sections_cache = SectionCache(root / "pieces")
        self._splits: dict[tuple[ProtocolName, int], Split] = {}
        self.failures: list[str] = []  # lines that could not be done, and why
        self.computed = 0  # rows and pieces that no earlier run had
        first = self.split("clean", 0)
        self.frame = Frame(
            request,
            QUICK if request.quick else FULL,
            first.kind,
            first.test.users,
            first.test.items,
        )

    def split(self, protocol: ProtocolName, seed: int) -> Split:
        """The split that `evaluate` would ask."""
        if (protocol, seed) not in self._splits:
            self._splits[protocol, seed] = make_split(self.data, seed, protocol=protocol)
        return self._splits[protocol, seed]

    def on_progress(self, done: float, words: str) -> None:
        """How far the piece at hand is."""
        self._on_progress(done, words)

    def piece(self, name: str, config: dict[str, Any], kind: type[T], make: Callable[[], T]) -> T:
        """What `make` gives, or what it gave in an earlier run with the same configuration."""
        whole = {"piece": name, "data": self.fingerprint, **config}
        known = self._sections_cache.get(whole, kind)
        if known is not None:
            return known
        self.computed += 1
        self.on_progress(0.0, name)
        made = make()
        self._sections_cache.put(whole, made)
        return made

    def lines(self, asks: Sequence[Ask], protocol: ProtocolName) -> list[Line]:
        """One line for each ask, in their order; what can't be done says why."""
        return [self._line(ask, protocol) for ask in asks]

    def _line(self, ask: Ask, protocol: ProtocolName) -> Line:
        what: dict[str, Any] = {"label": ask.name, "method": ask.method, "protocol": protocol}
        what["leaky"] = protocol == "paper"
        try:
            answers = self._answers(ask, protocol)
        except (FedRapError, ValueError) as error:  # one method must not end the others' run
            self.failures.append(f"{ask.name}, {protocol}: {error}")
            return Line(**what, failed=str(error))
        mean = means(answers, None)[0]
        rows = [answer.row for answer in answers]
        zeros = [row.zeros for row in rows if row.zeros is not None]
        return Line(
            **what,
            mean=mean.mean,
            deviation=mean.deviation,
            rounds=float(np.mean([row.rounds for row in rows])),
            zeros=float(np.mean(zeros)) if zeros else None,
            seconds=sum(row.seconds for row in rows) + rows[0].seconds_tuning,
            settings=rows[0].settings,
        )

    def _answers(self, ask: Ask, protocol: ProtocolName) -> list[Answer]:
        request = Request(
            data=self._order.data,
            methods=(ask.method,),
            protocol=protocol,
            seeds=self._order.seeds,
            tune=self.frame.scale.tune and ask.tune,
            data_dir=self._order.data_dir,
            cache=self._rows,
            changes={ask.method: self.frame.changes(ask)},
        )
        evaluation, cache = Evaluation(request, self.data), AnswerCache(self._rows)
        self.computed += sum(cache.get(one) is None for one in evaluation.questions())

        def tell(_method: str, seed: int, done: float, words: str) -> None:
            leaky = " LEAKY" if protocol == "paper" else ""
            self.on_progress(done, f"{ask.name}, {protocol}{leaky}, seed {seed}: {words}")

        return list(evaluation.run(tell))

    def solve(self, ask: Ask) -> Solve:
        """The method of an ask, which is one of ours."""
        method = make_method(ask.method, self.frame.changes(ask))
        assert isinstance(method, Solve)
        return method

    def paper(self, ask: Ask) -> FedRap:
        """The method of an ask, which is one of the paper's."""
        method = make_method(ask.method, self.frame.changes(ask))
        assert isinstance(method, FedRap)
        return method

    def _fingerprint(self) -> str:
        digest = hashlib.sha256(repr((self.data.name, len(self.data.items))).encode())
        for column in (self.data.user, self.data.item, self.data.time):
            digest.update(b"none" if column is None else column.tobytes())
        return digest.hexdigest()
