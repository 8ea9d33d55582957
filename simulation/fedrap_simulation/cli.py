"""`fedrap-sim`: the door. Says which extra is missing before anything is imported."""

from __future__ import annotations

import importlib.util
import sys


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 is good, 2 means that something must be fixed first."""
    for name in ("rich", "sqlalchemy"):
        if importlib.util.find_spec(name) is None:
            sys.stderr.write(f"fedrap-sim needs {name}: pip install 'fedrap[simulation]'\n")
            return 2
    from fedrap_simulation.commands import run

    return run(argv)
