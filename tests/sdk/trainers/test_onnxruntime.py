"""How onnxruntime is used: silent, started once, safe under threads and after a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from fedrap.trainers import make_trainer, onnx_trainer
from fedrap.trainers.onnx_trainer import PAPER, SOLVE
from fedrap_core.plan import PaperMethod
from fedrap_core.solve.device_share import ShareProblem
from tests.core.paper.made import round_of

ROUND = """
import numpy as np
from fedrap.trainers import make_trainer
from fedrap_core.solve.device_share import ShareProblem

problem = ShareProblem(np.arange(3), np.eye(3), np.ones(3), np.eye(3))
(share,) = make_trainer("onnx").solve([problem])
assert abs(share.user[0] - 0.5) < 1e-6
"""


def run(code: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, whose home is an empty directory."""
    kept = {key: value for key, value in os.environ.items() if key != onnx_trainer.SWITCH}
    places = ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "TMPDIR")
    kept.update({place: str(home) for place in places}, PYTHONDONTWRITEBYTECODE="1")
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", code],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )


def problem_of(seed: int, count: int = 20, dim: int = 6) -> ShareProblem:
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(count, dim))
    return ShareProblem(np.arange(count), own, np.full(count, 5.0), 4 * np.eye(dim))


def test_importing_the_trainers_imports_no_engine(tmp_path: Path) -> None:
    code = """
import sys
import fedrap.trainers
assert "onnxruntime" not in sys.modules and "torch" not in sys.modules
"""
    run(code, tmp_path)


def test_a_trained_round_leaves_no_file_and_loads_no_torch(tmp_path: Path) -> None:
    code = f"""{ROUND}
import os, sys
assert os.environ["{onnx_trainer.SWITCH}"] == "1"
assert "torch" not in sys.modules and "onnx" not in sys.modules
"""
    done = run(code, tmp_path)
    assert list(tmp_path.rglob("*")) == []
    assert "TelemetryWarning" not in done.stderr


# A fake stands in for the app's onnxruntime: the real one, not silenced, would report from here.
def test_an_app_that_imported_a_reporting_version_first_is_warned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = types.ModuleType("onnxruntime")
    fake.__version__ = "1.29.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    monkeypatch.delenv(onnx_trainer.SWITCH, raising=False)
    with pytest.warns(onnx_trainer.TelemetryWarning, match="before fedrap"):
        assert onnx_trainer.load_onnxruntime() is fake
    monkeypatch.setenv(onnx_trainer.SWITCH, "1")
    assert onnx_trainer.load_onnxruntime() is fake  # no warning: warnings are errors here


def test_a_version_that_does_not_report_is_taken_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = types.ModuleType("onnxruntime")
    fake.__version__ = "1.28.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    monkeypatch.delenv(onnx_trainer.SWITCH, raising=False)
    assert onnx_trainer.load_onnxruntime() is fake


def test_one_session_serves_every_shape_and_every_trainer() -> None:
    trainer = make_trainer("onnx")
    session = onnx_trainer.SESSIONS.get(SOLVE)
    for count in (1, 5, 50):
        trainer.solve([problem_of(count, count)])
    make_trainer("onnx").solve([problem_of(1, 7, dim=3)])
    assert onnx_trainer.SESSIONS.get(SOLVE) is session


def test_a_session_starts_once_however_many_threads_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    together = threading.Barrier(8)

    def start(graph: str, provider: str) -> object:
        started.append(graph)
        return object()

    monkeypatch.setattr(onnx_trainer, "_start", start)
    sessions = onnx_trainer.Sessions()

    def ask(_: int) -> object:
        together.wait()
        return sessions.get(SOLVE)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    assert started == [SOLVE]


def test_threads_that_train_at_once_get_what_one_alone_gets() -> None:
    trainer = make_trainer("onnx")
    problems = [problem_of(seed, 10 + seed) for seed in range(24)]
    rounds = [round_of(np.random.default_rng(s), PaperMethod(dim=4)) for s in range(24)]
    alone = [
        (trainer.solve([problem])[0].user.tobytes(), trainer.train([one])[0].user.tobytes())
        for problem, one in zip(problems, rounds, strict=True)
    ]
    with ThreadPoolExecutor(6) as pool:
        shares = pool.map(lambda problem: trainer.solve([problem])[0].user.tobytes(), problems)
        trained = pool.map(lambda one: trainer.train([one])[0].user.tobytes(), rounds)
        assert list(zip(shares, trained, strict=True)) == alone


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_child_starts_its_own_session_even_if_a_lock_was_held(tmp_path: Path) -> None:
    code = f"""{ROUND}
import os
from fedrap.trainers import onnx_trainer

trainer, before = make_trainer("onnx"), onnx_trainer.SESSIONS.get("{SOLVE}")
onnx_trainer.SESSIONS._lock.acquire()  # as if another thread were starting a session
child = os.fork()
if child == 0:
    (share,) = trainer.solve([problem])
    same = onnx_trainer.SESSIONS.get("{SOLVE}") is before
    os._exit(0 if abs(share.user[0] - 0.5) < 1e-6 and not same else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    run(code, tmp_path)


@pytest.mark.parametrize("graph", [SOLVE, PAPER])
def test_a_graph_is_small(graph: str) -> None:
    assert (onnx_trainer.ASSETS / graph).stat().st_size < 16 * 1024
