"""`fedrap-coordinator`: the door. Says which extra is missing before anything is imported."""

from __future__ import annotations

import importlib.util
import os
import sys


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 is good, 2 means that the operator must fix something."""
    if importlib.util.find_spec("sqlalchemy") is None:
        sys.stderr.write("fedrap-coordinator needs sqlalchemy: pip install fedrap-coordinator\n")
        return 2
    # Threads of BLAS wait for each other on a busy machine: the sum of 1,000 updates, matrices of
    # k x k each, took 24 s instead of 5. Must be said before NumPy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from fedrap_coordinator.commands import run

    return run(argv)
