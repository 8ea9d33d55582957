"""Fault points: where the coordinator says it has arrived, so that a test can stop it there.

Each write of the store has two, `written` (in the transaction) and `committed`; each transition of
a round has one of its own. In production nobody listens. There is no setting and no environment
variable that changes this; tests/faults hands in a function that kills the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Reached: TypeAlias = Callable[[str], None]


def pass_by(point: str) -> None:
    """What production does at a fault point."""
