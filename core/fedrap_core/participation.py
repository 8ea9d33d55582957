"""The one rule of b and K: no device twice within b released steps, none more than K times.

Coordinator, stores, fakes and devices ask here. A store asks over rows that its transaction has
locked, and charges in the same transaction as it grants the slot. A step that was abandoned and is
tried again is still the same step: a device is charged for it once, because it is released at most
once. A device that had a slot but is not in the release keeps the charge, not the waiting time.
"""

from __future__ import annotations

from fedrap_core.plan import Privacy
from fedrap_core.wire import problems
from fedrap_core.wire.problems import Problem


def why_not(
    last_step: int | None, participations: int, step: int, privacy: Privacy
) -> Problem | None:
    """None when a device may join `step`; otherwise the problem that says why not.

    Args:
        last_step: the step it was last charged for; None when it never took part.
        participations: how often it was charged in all.
    """
    if last_step == step:
        return None
    if participations >= privacy.cap:
        return problems.BUDGET_SPENT
    if last_step is not None and step - last_step < privacy.separation:
        return problems.TOO_SOON
    return None
