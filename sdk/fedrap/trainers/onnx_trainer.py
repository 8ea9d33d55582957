"""Local rounds as inference graphs in ONNX Runtime: the engine of a device.

`solve_v1.onnx` finds x by conjugate gradients. They need 9 to 15 steps with the weights of a
release and far more with extreme ones, so the graph says how large its error may still be; a
device that is not done after `MOST_STEPS` is solved by the reference instead.

onnxruntime is imported here and nowhere else, because from 1.29 on it reports to its vendor from
Linux, macOS, Android and iOS and writes a lasting identifier under the home directory. Only
ORT_DISABLE_TELEMETRY=1, set before the import, prevents that; its own `disable_telemetry_events`
does not. There is one session per graph and process.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedrap.trainers.batching import (
    chunks,
    pack_paper,
    pack_shares,
    paper_size,
    share_size,
    unpack_paper,
    unpack_shares,
)
from fedrap.trainers.protocol import TrainerUnavailable
from fedrap_core.model import SequenceRows
from fedrap_core.paper.problem import PaperProblem, PaperResult
from fedrap_core.paper.training import train_local
from fedrap_core.sequence.device_share import Expected, Questions, Singles, expect
from fedrap_core.solve.device_share import LocalShare, ShareProblem, compute_share

SWITCH = "ORT_DISABLE_TELEMETRY"
REPORTS_FROM = (1, 29)
ASSETS = Path(__file__).parent.parent / "assets"


CPU = "CPUExecutionProvider"


class TelemetryWarning(UserWarning):
    """The app's onnxruntime may report to its vendor; the message says how to stop it."""


def load_onnxruntime() -> Any:
    """The module, with its telemetry off.

    Raises:
        ImportError: there is no onnxruntime for this platform.
    """
    earlier = "onnxruntime" in sys.modules
    silenced = os.environ.get(SWITCH) == "1"
    if not earlier:
        os.environ[SWITCH] = "1"
    import onnxruntime

    if earlier and not silenced and _version(onnxruntime) >= REPORTS_FROM:
        warnings.warn(
            f"onnxruntime {onnxruntime.__version__} was imported before fedrap and reports to "
            f"its vendor; set {SWITCH}=1 in the environment before that import",
            TelemetryWarning,
            stacklevel=3,
        )
    return onnxruntime


def _version(onnxruntime: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])


class Sessions:
    """Sessions by graph: made on first use, kept, shared by all threads, made anew after a fork."""

    def __init__(self) -> None:
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def get(self, graph: str, provider: str = CPU) -> Any:
        """The session of a graph in assets/, by that execution provider of the runtime."""
        session = self._open.get((graph, provider))
        if session is None:
            with self._lock:
                session = self._open.get((graph, provider))
                if session is None:
                    session = self._open[graph, provider] = _start(graph, provider)
        return session

    def _forget(self) -> None:
        # A fork copies the lock as it is, perhaps held by a thread that the child does not have.
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str], Any] = {}


def _start(graph: str, provider: str) -> Any:
    onnxruntime = load_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    # Higher levels rewrite the arithmetic and are no faster on graphs of this size.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    raw = (ASSETS / graph).read_bytes()
    wanted = [CPU] if provider == CPU else [provider, CPU]
    return onnxruntime.InferenceSession(raw, options, providers=wanted)


SESSIONS = Sessions()


Matrix = npt.NDArray[np.float64]
SOLVE = "solve_v1.onnx"
PAPER = "paper_v1.onnx"
SEQUENCE = "sequence_v1.onnx"
SOLVE_TOGETHER = 64  # devices in one run, up to k 64
_GRAMS = SOLVE_TOGETHER * 64 * 64  # numbers of x x' in one run: with k 256 four devices, not 64
TRAIN_TOGETHER = 16
MOST_STEPS = 64
PRECISION = 2e-6  # bounds the error of x, and of a gradient over the norm of x
_KEPT_RELEASES = 4
_STEPS = np.array(MOST_STEPS, dtype=np.int64)
_OUTPUTS = ["user", "gradients", "outer", "loss", "error", "goal"]


@dataclass(frozen=True, eq=False)
class _Release:
    """What all devices of one release share."""

    base: Matrix  # (k, k) G = w0·C'C + lambda·I
    inverse: Matrix  # (k, k) G^-1
    precision: Matrix  # () PRECISION^2 times the smallest eigenvalue of G, at most 1


class OnnxTrainer:
    """ONNX Runtime on the CPU, one thread; the sequence part by another provider where asked for.

    Raises:
        TrainerUnavailable: the runtime cannot use that provider.
    """

    name = "onnx"

    def __init__(self, provider: str = CPU) -> None:
        SESSIONS.get(SOLVE)  # a platform without onnxruntime shows here, not in a round
        self._releases: tuple[_Release, ...] = ()
        self._provider = provider
        if provider != CPU:
            _check_provider(provider)

    @property
    def provider(self) -> str:
        """What computes the sequence part."""
        return self._provider

    def expect(self, asked: Questions, items: SequenceRows) -> Expected:
        """The softmax of the sequence part over all items."""
        return expect(asked, items, self._look)

    def _look(
        self, queries: Matrix, values: npt.NDArray[np.int8], scales: Singles, bias: Singles
    ) -> tuple[Matrix, Matrix, Matrix]:
        peak, groups, pulled = SESSIONS.get(SEQUENCE, self._provider).run(
            ["peak", "groups", "pulled"],
            {
                "queries": queries.astype(np.float32),
                "values": values,
                "scales": scales,
                "bias": bias,
            },
        )
        return peak[:, 0], groups, pulled

    def solve(self, problems: Sequence[ShareProblem]) -> list[LocalShare]:
        """Each device's share of a round of `solve`; raises like `Trainer.solve`."""
        shares: dict[int, LocalShare] = {}
        dim = max((len(problem.base) for problem in problems), default=1)
        together = max(1, min(SOLVE_TOGETHER, _GRAMS // dim**2))
        for places in chunks(problems, share_size, together):
            for release, group in self._by_release(problems, places):
                found = _solve([problems[place] for place in group], release)
                shares.update(zip(group, found, strict=True))
        return [shares[place] for place in range(len(problems))]

    def train(self, problems: Sequence[PaperProblem]) -> list[PaperResult]:
        """Each device's local round of `paper`; raises like `Trainer.train`."""
        results: dict[int, PaperResult] = {}
        for places in chunks(problems, paper_size, TRAIN_TOGETHER):
            found = _train([problems[place] for place in places])
            results.update(zip(places, found, strict=True))
        return [results[place] for place in range(len(problems))]

    def _by_release(
        self, problems: Sequence[ShareProblem], places: list[int]
    ) -> list[tuple[_Release | None, list[int]]]:
        """The places grouped by the G that they share; None where G has no usable inverse."""
        groups: list[tuple[_Release | None, Matrix, list[int]]] = []
        for place in places:
            base = problems[place].base
            for _, known, group in groups:
                if known is base or np.array_equal(known, base):
                    group.append(place)
                    break
            else:
                groups.append((self._release(base), base, [place]))
        return [(release, group) for release, _, group in groups]

    def _release(self, base: Matrix) -> _Release | None:
        for release in self._releases:
            if release.base is base or np.array_equal(release.base, base):
                return release
        try:
            with np.errstate(all="ignore"):
                inverse = np.asarray(np.linalg.inv(base), dtype=np.float64)
                floor = float(np.linalg.eigvalsh(base)[0])
        except np.linalg.LinAlgError:
            return None
        if not (np.all(np.isfinite(inverse)) and floor > 0):
            return None
        release = _Release(base, inverse, np.array(PRECISION**2 * min(floor, 1.0)))
        # One assignment of an immutable value: two threads can at worst compute it twice.
        self._releases = (release, *self._releases[: _KEPT_RELEASES - 1])
        return release


def _check_provider(provider: str) -> None:
    """Raises TrainerUnavailable where the runtime names a provider that it cannot start."""
    try:
        used = SESSIONS.get(SEQUENCE, provider).get_providers()
    except Exception as error:  # each provider has its own ways to fail
        raise TrainerUnavailable(f"{provider} cannot be started: {error}") from error
    if provider not in used:
        raise TrainerUnavailable(f"{provider} cannot be started, the runtime took {used[0]}")


def _solve(problems: list[ShareProblem], release: _Release | None) -> list[LocalShare]:
    """Devices of one release in one run, those that fail by the reference."""
    if release is None or max(len(problem.rows) for problem in problems) == 0:
        return [compute_share(problem) for problem in problems]
    scaled, roots = pack_shares(problems)
    users, gradients, outers, losses, errors, goals = SESSIONS.get(SOLVE).run(
        _OUTPUTS,
        {
            "scaled": scaled,
            "roots": roots,
            "base": problems[0].base,
            "inverse": release.inverse,
            "precision": release.precision,
            "steps": _STEPS,
        },
    )
    done = (errors <= goals).ravel().tolist()  # NaN is not done
    return unpack_shares(problems, users[:, 0], gradients, outers, losses.ravel(), done)


def _train(problems: list[PaperProblem]) -> list[PaperResult]:
    batch = pack_paper(problems, np.float64)
    if batch.steps == 0:
        return [train_local(problem) for problem in problems]
    outputs = SESSIONS.get(PAPER).run(None, batch.arrays)
    return list(unpack_paper(problems, *outputs))
