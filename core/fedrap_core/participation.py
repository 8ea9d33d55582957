"""The one rule of b and K: no device twice within b released steps, none more than K times in any
window of `window_days`, or in its life; and where K is spread over `spread_days`, a rest in time.

Coordinator, stores, fakes and devices ask here. A store asks over rows that its transaction has
locked, and charges in the same transaction as it grants the slot. A step that was abandoned and is
tried again is still the same step: a device is charged for it once, because it is released at most
once. A device that had a slot but is not in the release keeps the charge, not the waiting time.

The rest is no part of the guarantee: it makes K last, so that a task learns for as long as its
operator said, from all who come in that time. So a device keeps to it before it asks, and who was
given a slot uses it.

Only K renews. The separation is about steps and never ends, so that what a device adds on either
side of a window's border stays as far apart as noise with bands needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from fedrap_core.plan import Privacy
from fedrap_core.wire import problems
from fedrap_core.wire.problems import Problem


def why_not(
    last_step: int | None, counted: int, step: int, privacy: Privacy, idle: float = math.inf
) -> Problem | None:
    """None when a device may join `step`; otherwise the problem that says why not.

    Args:
        last_step: the step it was last charged for; None when it never took part.
        counted: how often it was charged, within the window where there is one: `in_window`.
        idle: seconds since it was last charged.
    """
    if last_step == step:
        return None
    if counted >= privacy.cap:
        return problems.BUDGET_SPENT
    if last_step is not None and step - last_step < privacy.separation:
        return problems.TOO_SOON
    return problems.TOO_SOON if until_rested(idle, privacy) > 0 else None


def until_rested(idle: float, privacy: Privacy) -> float:
    """Seconds that a device still rests which was last charged `idle` seconds ago; 0: none.

    A clock that was set back makes nobody rest longer than the rule says.
    """
    return max(0.0, privacy.rest - max(0.0, idle))


def in_window(charged_at: Iterable[float], now: float, privacy: Privacy) -> int:
    """How many of these charges count against K now; all of them where K is for a life."""
    return sum(1 for at in charged_at if at > now - privacy.window)


def renews_at(charged_at: Iterable[float], privacy: Privacy) -> float:
    """When fewer than K of these charges are in the window again; infinite where K is for a life.

    -inf where there are fewer than K in all.
    """
    times = sorted(charged_at, reverse=True)
    return times[privacy.cap - 1] + privacy.window if len(times) >= privacy.cap else -math.inf
