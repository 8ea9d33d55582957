"""When a device was charged and what for, in one text that a database can compare. Pure.

A charge is 32 characters, the newest first: ten digits of seconds since 1970, then mu^2 in 22 that
lose nothing of it. So the K-th newest lies at a place that follows from K, and
SQL can ask whether it is within the window without knowing the others: digits compare as numbers.
"""

from __future__ import annotations

import math

from fedrap_coordinator.domain.records import DeviceRecord
from fedrap_core.participation import in_window, renews_at
from fedrap_core.plan import DAY, Privacy

WIDTH, DIGITS = 32, 10
MOST = 400  # charges that are remembered; K per window is far below
# The coordinator's window is a day longer than a device's own: clocks differ, a device writes its
# ledger after it got its slot, and a slot that its ledger then forbids would be charged in vain.
SLACK = DAY


def with_charge(charges: str, at: float, cost: float) -> str:
    """One more charge; time does not run backwards here."""
    whole = max(0, int(at), int(charges[:DIGITS] or 0))
    return (f"{whole:0{DIGITS}d}{cost:22.16e}" + charges)[: WIDTH * MOST]


def with_cost(charges: str, cost: float) -> str:
    """The newest charge with another cost."""
    return f"{charges[:DIGITS]}{cost:22.16e}{charges[WIDTH:]}" if charges else charges


def charge_times(charges: str) -> list[float]:
    """Seconds since 1970, the newest first."""
    return [float(charges[at : at + DIGITS]) for at in range(0, len(charges), WIDTH)]


def dearest(charges: str, now: float, rule: Privacy) -> float:
    """mu^2 of the dearest charge that is in the window; 0 where none is."""
    start = now - rule.window
    costs = [float(charges[at + DIGITS : at + WIDTH]) for at in range(0, len(charges), WIDTH)]
    inside = zip(charge_times(charges), costs, strict=True)
    return max((cost for at, cost in inside if at > start), default=0.0)


def counted(known: DeviceRecord, now: float, rule: Privacy) -> int:
    """How often a device was charged, as K counts it now."""
    if math.isinf(rule.window):
        return known.participations
    return in_window(charge_times(known.charges), now - SLACK, rule)


def until_renewed(known: DeviceRecord, now: float, rule: Privacy) -> float | None:
    """Seconds until a device that has spent K may take part again; None: never."""
    if math.isinf(rule.window):
        return None
    return max(0.0, renews_at(charge_times(known.charges), rule) + SLACK - now)


def idle(known: DeviceRecord, now: float) -> float:
    """Seconds since a device was last charged; infinite where it never was."""
    return now - float(known.charges[:DIGITS]) if known.charges else math.inf


def rested(now: float, rule: Privacy) -> str:
    """The digits of newest charges whose devices have rested: those up to this one."""
    before = math.floor(now - rule.rest)
    return f"{before:0{DIGITS}d}" if before >= 0 else ""


def edge(now: float, rule: Privacy) -> str:
    """The digits of charges that are out of the window: those up to this one."""
    if math.isinf(rule.window):
        return "0" * DIGITS
    return f"{max(0, math.floor(now - SLACK - rule.window)):0{DIGITS}d}"
