"""`fedrap-coordinator`: the door. Says which extra is missing before anything is imported."""

from __future__ import annotations

import importlib.util
import sys


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 is good, 2 means that the operator must fix something."""
    if importlib.util.find_spec("sqlalchemy") is None:
        sys.stderr.write("fedrap-coordinator needs sqlalchemy: pip install 'fedrap[coordinator]'\n")
        return 2
    from fedrap_coordinator.commands import run

    return run(argv)
