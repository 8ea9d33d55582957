"""The privacy ledger as history: every slot that was given, held against the guarantee. Pure.

An auditor needs no device ids: devices are numbered in the order of their ids, anew in each
export. The check repeats b and K from the rows alone, independent of `participation.why_not` on
purpose, and is tested against it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fedrap_coordinator.domain.records import Charge, DeviceStates, RoundRow
from fedrap_coordinator.domain.rounds import Phase
from fedrap_core.errors import FedRapError
from fedrap_core.plan import Plan, Privacy
from fedrap_core.privacy.accounting import step_cost
from fedrap_core.wire.codec import decode_value

MOST_VIOLATIONS = 100  # that are listed


@dataclass
class _History:
    """One device's past, as the rows tell it."""

    steps: dict[int, float] = field(default_factory=dict)  # charged, and when
    counted: list[int] = field(default_factory=list)  # released with an update of this device


@dataclass
class PrivacyAudit:
    """Reads rounds in the order in which they were opened."""

    _histories: dict[bytes, _History] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def add(self, row: RoundRow, charges: Iterable[Charge]) -> None:
        """One round and all its slots."""
        rule = privacy_of(row)
        for charge in charges:
            past = self._histories.setdefault(charge.device, _History())
            past.steps.setdefault(row.step, row.opened_at)
            # When in a round a slot was given is not in the rows: what counts too often by the
            # end of this one and the beginning of those before does so in any case.
            start = (row.closed_at or row.opened_at) - (0.0 if rule is None else rule.window)
            times = sum(1 for at in past.steps.values() if at > start)
            if rule is not None and times > rule.cap:
                self._note(row, f"a device is charged for {times} steps, K {rule.cap}")
            if not charge.came or row.phase is not Phase.RELEASED:
                continue
            gap = row.step - past.counted[-1] if past.counted else None
            if rule is not None and gap is not None and gap < rule.separation:
                self._note(row, f"a device counted {gap} steps apart, b {rule.separation}")
            past.counted.append(row.step)

    def _note(self, row: RoundRow, what: str) -> None:
        if len(self.violations) < MOST_VIOLATIONS:
            self.violations.append(f"step {row.step}: {what}")

    def charged(self) -> Mapping[int, int]:
        """How many devices were charged how often; also those that were forgotten since."""
        return dict(sorted(Counter(len(one.steps) for one in self._histories.values()).items()))

    def numbers(self) -> Mapping[bytes, int]:
        """A number for each device, for one export only."""
        return {device: number for number, device in enumerate(sorted(self._histories), 1)}


def with_costs(
    states: DeviceStates, spent: Mapping[int, float], rule: Privacy, dearest: float = 0.0
) -> DeviceStates:
    """What devices have spent at the most, and will have spent if they take part as `rule` lets.

    Args:
        states: the same devices by state.
        spent: mu^2 of the device that has most, by how often devices took part.
        rule: of the steps that are to come.
        dearest: mu^2 of the dearest charge that is still in anybody's window.
    """
    cost = step_cost(rule.charged_noise)
    if math.isfinite(rule.window):  # what is in a window never costs more than K of the dearest
        most = max(spent.values(), default=0.0)
        return replace(states, most_spent=most, most_promised=rule.cap * max(cost, dearest))
    to_come = [
        so_far + (rule.cap - times) * cost if times < rule.cap else so_far
        for times, so_far in spent.items()
    ]
    return replace(
        states,
        most_spent=max(spent.values(), default=0.0),
        most_promised=max(to_come, default=0.0),
    )


def privacy_of(row: RoundRow) -> Privacy | None:
    """The rule a round was opened with; None where its plan is of another version."""
    try:
        return decode_value(Plan, row.plan).privacy
    except FedRapError:
        return None
