"""`fedrap-sim evaluate`: methods, seeds, one row each. Settings on validation, test once.

Settings are chosen on the validation task of the first seed and kept for the others: what is
reported then varies by the split's draws and the method's own, not by the choice. In time they are
chosen again at each cut, from what was before it, as whoever runs such a system would.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

import msgspec

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Interactions
from fedrap_simulation.data.load import load
from fedrap_simulation.data.times import doubts
from fedrap_simulation.evaluation.fairness import ndcg_by_group
from fedrap_simulation.evaluation.metrics import measure
from fedrap_simulation.evaluation.results import Answer, AnswerCache, PrivacyTarget, Question, Row
from fedrap_simulation.evaluation.splits import (
    Published,
    Split,
    SplitKind,
    load_published,
    make_split,
)
from fedrap_simulation.evaluation.task import ProtocolName
from fedrap_simulation.evaluation.time_split import DAYS, VALIDATIONS, make_time_split
from fedrap_simulation.methods.protocol import InForce, Method, OnProgress, Private
from fedrap_simulation.methods.registry import make_method

Tell = Callable[[str, int, float, str], None]  # method, seed, share done, words


@dataclass(frozen=True)
class Request:
    """What is to be evaluated."""

    data: str
    methods: tuple[str, ...]
    protocol: ProtocolName = "clean"
    split: SplitKind | None = None
    seeds: int = 1
    first_seed: int = 0
    least: int = 10
    days: float = DAYS  # that a split in time asks about
    tune: bool = True
    target: PrivacyTarget | None = None
    data_dir: Path | None = None
    cache: Path | None = None
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)  # by method


class Evaluation:
    """Answers questions about one set of data; splits and tuned settings are made once.

    Who asks many requests of the same data gives it, so that it is not read for each of them.
    """

    def __init__(self, request: Request, data: Interactions | None = None) -> None:
        if request.seeds < 1:
            raise BadData("at least one seed is needed")
        if request.split not in (None, *get_args(SplitKind)):
            raise BadData(f"there is no split {request.split!r}: {', '.join(get_args(SplitKind))}")
        self._request = request
        self._cache = AnswerCache(request.cache)
        self._data = data
        self._splits: dict[int, Split] = {}
        self._tuned: dict[tuple[str, int], tuple[Method, float]] = {}  # and the seed it is for
        for name in request.methods:  # a wrong name shows before an hour of work
            make_method(name, request.changes.get(name, {}))
        if request.split is None:
            self._kind: SplitKind = "last" if self.data.time is not None else "random"
        else:
            self._kind = request.split

    @property
    def data(self) -> Interactions:
        """Read at the first use: cached answers need none."""
        if self._data is None:
            self._data = load(self._request.data, self._request.data_dir)
        return self._data

    @property
    def kind(self) -> SplitKind:
        """How people are asked."""
        return self._kind

    def warnings(self) -> list[str]:
        """What is to be known about the order of the data before a number is believed."""
        return [] if self._kind == "random" else list(doubts(self.data))

    def split(self, seed: int) -> Split:
        """The split of a seed, made once."""
        if seed not in self._splits:
            published: Published | None = None
            if self._kind == "ncf":
                published = load_published(self._request.data, self._request.data_dir)
            self._splits = {
                seed: make_time_split(
                    self.data,
                    seed,
                    days=self._request.days,
                    least=self._request.least,
                    protocol=self._request.protocol,
                    validations=VALIDATIONS,
                )
                if self._kind == "time"
                else make_split(
                    self.data,
                    seed,
                    protocol=self._request.protocol,
                    kind=self._kind,
                    least=self._request.least,
                    published=published,
                )
            }
        return self._splits[seed]

    def questions(self) -> Iterator[Question]:
        """Seed by seed, so that a run that is stopped has all methods for some seeds."""
        request = self._request
        for seed in range(request.first_seed, request.first_seed + request.seeds):
            for name in request.methods:
                yield Question(
                    method=name,
                    dataset=self.data.name,
                    split=f"time:{request.days:g}" if self._kind == "time" else self._kind,
                    protocol=request.protocol,
                    seed=seed,
                    least=request.least,
                    changes=self._changes(name),
                    tune=request.tune,
                    target=request.target if self._is_private(name) else None,
                )

    def _changes(self, name: str) -> dict[str, Any]:
        """What was changed by hand; of a file its digest, so that an answer is of this one."""
        changes = self._request.changes.get(name, {})
        if not name.endswith(".py"):
            return changes
        return {"digest": make_method(name, {}).settings["file"], **changes}

    def _is_private(self, name: str) -> bool:
        """Whether a method can give a guarantee; the others are measured without privacy."""
        return isinstance(make_method(name, {}), Private)

    def run(self, tell: Tell) -> Iterator[Answer]:
        """One answer per question, from the cache where it is known."""
        for question in self.questions():
            known = self._cache.get(question)
            if known is None:
                known = self._answer(question, tell)
                self._cache.put(question, known)
            else:
                tell(question.method, question.seed, 1.0, "known from an earlier run")
            yield known

    def _answer(self, question: Question, tell: Tell) -> Answer:
        def on_progress(done: float, words: str) -> None:
            tell(question.method, question.seed, done, words)

        method, tuning = self._method(question, lambda done, words: on_progress(done / 2, words))
        task = self.split(question.seed).test
        started = time.perf_counter()
        fitted = method.fit(
            task, question.seed, lambda done, words: on_progress(0.5 + done / 2, words)
        )
        seconds = time.perf_counter() - started
        measured = measure(fitted, task)
        what = {
            "method": question.method,
            "dataset": question.dataset,
            "split": question.split,
            "protocol": question.protocol,
            "leaky": question.protocol == "paper",
            "seed": question.seed,
            "users": len(task.asked_users),
            "items": task.items,
        }
        cost = asdict(fitted.cost)
        seconds += cost.pop("spared")
        settings = method.settings
        if isinstance(fitted, InForce):
            settings = settings | {"in_force": fitted.in_force}
        took = {"seconds": seconds, "seconds_tuning": tuning, "settings": settings}
        found = measured.summary() | ndcg_by_group(measured.full, task)
        parts = what | found | cost | took
        return Answer(msgspec.convert(parts, Row), measured.full, measured.sampled)

    def _method(self, question: Question, on_progress: OnProgress) -> tuple[Method, float]:
        """The method with its settings chosen, and the seconds that took."""
        chosen_at = question.seed if self._kind == "time" else self._request.first_seed
        key = (question.method, chosen_at)
        if key not in self._tuned:
            method = make_method(question.method, question.changes)
            started = time.perf_counter()
            target = question.target
            if target is not None:
                assert isinstance(method, Private)
                method = method.private(target.epsilon, target.delta, target.banded)
            # Under `paper` the published settings are used as they are. Under a guarantee choosing
            # would have to be charged, so the built-in ones are.
            elif question.tune and question.protocol == "clean":
                method = method.tune(self.split(chosen_at).validation, chosen_at, on_progress)
            self._tuned[key] = (method, time.perf_counter() - started)
        return self._tuned[key]
