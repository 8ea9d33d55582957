"""`fedrap-sim`: the door. Says which extra is missing before anything is imported."""

from __future__ import annotations

import importlib.util
import os
import sys


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 is good, 2 means that something must be fixed first."""
    for name in ("rich", "sqlalchemy"):
        if importlib.util.find_spec(name) is None:
            sys.stderr.write(f"fedrap-sim needs {name}: pip install fedrap-simulation\n")
            return 2
    if (sys.argv[1:] if argv is None else argv)[:1] in (["scenario"], ["field"]):
        # Thousands of small solves: threads of BLAS would only wait for each other.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from fedrap_simulation.commands import run

    return run(argv)
