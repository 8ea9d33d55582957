"""The privacy ledger as history: every place that was given, and a check of the promise. Pure.

An auditor needs no device ids: devices are numbered in the order of their ids, anew in each
export. The check repeats what the admission promised, from the rows alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fedrap_coordinator.domain.records import Charge, RoundRow
from fedrap_coordinator.domain.rounds import Phase
from fedrap_core.errors import FedRapError
from fedrap_core.plan import Plan, Privacy
from fedrap_core.wire.codec import decode_value


@dataclass
class _Books:
    """One device's past, as the rows tell it."""

    steps: set[int] = field(default_factory=set)  # charged
    counted: list[int] = field(default_factory=list)  # released with an update of this device


@dataclass
class Audit:
    """Reads rounds in the order in which they were opened."""

    _books: dict[bytes, _Books] = field(default_factory=dict)
    breaches: list[str] = field(default_factory=list)

    def add(self, row: RoundRow, charges: Iterable[Charge]) -> None:
        """One round and all its places."""
        rule = privacy_of(row)
        for charge in charges:
            books = self._books.setdefault(charge.device, _Books())
            books.steps.add(row.step)
            if rule is not None and len(books.steps) > rule.cap:
                self._breach(row, f"a device is charged for {len(books.steps)} steps, K {rule.cap}")
            if not charge.came or row.phase is not Phase.RELEASED:
                continue
            gap = row.step - books.counted[-1] if books.counted else None
            if rule is not None and gap is not None and gap < rule.separation:
                self._breach(row, f"a device counted {gap} steps apart, b {rule.separation}")
            books.counted.append(row.step)

    def _breach(self, row: RoundRow, what: str) -> None:
        if len(self.breaches) < 100:
            self.breaches.append(f"step {row.step}: {what}")

    def charged(self) -> Mapping[int, int]:
        """How many devices were charged how often; also those that were forgotten since."""
        return dict(sorted(Counter(len(books.steps) for books in self._books.values()).items()))

    def numbers(self) -> Mapping[bytes, int]:
        """A number for each device, for one export only."""
        return {device: number for number, device in enumerate(sorted(self._books), 1)}


def privacy_of(row: RoundRow) -> Privacy | None:
    """The rule a round was opened with; None where its plan is of another version."""
    try:
        return decode_value(Plan, row.plan).privacy
    except FedRapError:
        return None


def round_line(row: RoundRow) -> dict[str, object]:
    """A round of the history, without any device."""
    rule = privacy_of(row)
    line: dict[str, object] = {
        "step": row.step,
        "phase": row.phase.value,
        "opened_at": row.opened_at,
        "charged": row.assigned,
        "updates": row.accepted,
    }
    if rule is not None:
        line |= {
            "clip": rule.clip, "noise": rule.noise, "separation": rule.separation,
            "cap": rule.cap, "delta": rule.delta,
        }  # fmt: skip
    return line


def summary(rows: Sequence[RoundRow], audit: Audit, total: int, cap: int) -> dict[str, object]:
    """The state of the budget, and whether the history keeps the promise."""
    released = sum(row.phase is Phase.RELEASED for row in rows)
    charged = audit.charged()
    return {
        "rounds_released": released,
        "rounds_total": total,
        "rounds_left": max(0, total - released),
        "cap": cap,
        "devices_charged": sum(charged.values()),
        "devices_spent": sum(count for times, count in charged.items() if times >= cap),
        "devices_by_charges": {str(times): count for times, count in charged.items()},
        "breaches": audit.breaches,
        "rounds": [round_line(row) for row in rows],
    }
