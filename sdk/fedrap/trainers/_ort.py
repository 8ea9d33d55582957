"""The one place that imports onnxruntime: silenced first, one session per graph and process.

onnxruntime from 1.29 on reports to its vendor from Linux, macOS, Android and iOS, and writes a
lasting identifier under the home directory. Only ORT_DISABLE_TELEMETRY=1, set before the import,
prevents that; its own `disable_telemetry_events` does not.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

SWITCH = "ORT_DISABLE_TELEMETRY"
REPORTS_FROM = (1, 29)
ASSETS = Path(__file__).parent.parent / "assets"


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

    def get(self, graph: str) -> Any:
        """The session of a graph in assets/."""
        session = self._open.get(graph)
        if session is None:
            with self._lock:
                session = self._open.get(graph)
                if session is None:
                    session = self._open[graph] = _start(graph)
        return session

    def _forget(self) -> None:
        # A fork copies the lock as it is, perhaps held by a thread that the child does not have.
        self._lock = threading.Lock()
        self._open: dict[str, Any] = {}


def _start(graph: str) -> Any:
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
    return onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])


SESSIONS = Sessions()
