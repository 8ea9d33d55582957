"""Who may take part: no device twice within b released steps, none more than K times, no new key
before it has waited.

Every store decides with these functions, over rows that its transaction has locked, and charges in
the same transaction as it gives the place. A step that was abandoned and is tried again
is still the same step: a device is charged for it once, because it is released at most once. A
device that had a place but is not in the release keeps the charge, not the waiting time.
"""

from __future__ import annotations

from fedrap_core.plan import Privacy
from fedrap_core.wire import problems
from fedrap_core.wire.problems import Problem


def may_join(last_step: int | None, participations: int, step: int, privacy: Privacy) -> bool:
    """May a device that last joined `last_step`, `participations` times in all, join `step`?"""
    return why_not(last_step, participations, step, privacy) is None


def why_not(
    last_step: int | None, participations: int, step: int, privacy: Privacy
) -> Problem | None:
    """None when the device may join; otherwise the problem that says why not."""
    if last_step == step:
        return None
    if participations >= privacy.cap:
        return problems.BUDGET_SPENT
    if last_step is not None and step - last_step < privacy.separation:
        return problems.TOO_SOON
    return None


def why_too_new(
    first_step: int, not_before: float, free_at: float, step: int, now: float
) -> Problem | None:
    """None when a new key has waited long enough for a first place in `step`.

    Enrolling again, also after `forget`, gives a new key; its waiting keeps the separation.
    """
    waited = now >= not_before and (step >= first_step or now >= free_at)
    return None if waited else problems.TOO_NEW
