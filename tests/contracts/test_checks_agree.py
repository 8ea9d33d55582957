"""The rule of b and K is `participation.why_not`; the checks beside it say the same.

The CASE of `device_states` in SQL and the audit of the history are written apart from the rule, so
that a mistake in one shows in the other.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import sqlalchemy as sa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedrap_coordinator.domain.charges import with_charge
from fedrap_coordinator.domain.decisions import SlotRequest, SlotRule
from fedrap_coordinator.domain.privacy_audit import PrivacyAudit
from fedrap_coordinator.domain.records import Charge, DeviceStates, RoundRow
from fedrap_coordinator.domain.rounds import Phase, Round
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_coordinator.store.protocol import Store
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.participation import in_window, why_not
from fedrap_core.plan import DAY, OFF, Plan, Privacy
from fedrap_core.wire import problems
from fedrap_core.wire.codec import encode_value

NOW, STEP = 400.0 * DAY, 6
_times = st.sampled_from([0.0, NOW - 1, NOW, NOW + 1])
_devices = st.fixed_dictionaries(
    {
        "participations": st.integers(0, 4),
        "last_step": st.none() | st.integers(0, STEP + 2),
        "first_step": st.integers(0, STEP + 2),
        "not_before": _times,
        "free_at": _times,
        "valid_until": st.sampled_from([NOW - 1, NOW, NOW + 1]),
        "revoked_at": st.none() | st.just(5.0),
        "charges": st.lists(
            st.tuples(st.integers(0, 401), st.sampled_from([0.5, 2.0])), max_size=5
        ),
    }
)
WAITS: dict[str, object] = {
    "participations": 0,
    "last_step": None,
    "first_step": 0,
    "not_before": 0.0,
    "free_at": NOW + 1,
    "valid_until": NOW + 1,
    "revoked_at": None,
    "charges": [],
}
_rules = st.builds(
    Privacy,
    separation=st.integers(1, 4),
    cap=st.integers(1, 4),
    noise=st.sampled_from([0.0, 1.0]),
    window_days=st.sampled_from([OFF, 0.0, 30.0, 365.0]),
    spread_days=st.sampled_from([OFF, 0.0, 30.0, 365.0]),
)


def _insert(db: sa.Connection, rows: Sequence[dict[str, object]]) -> None:
    made = []
    for number, row in enumerate(rows):
        charges, most = "", 0.0
        for day, cost in sorted(row["charges"]):  # type: ignore[call-overload]
            charges, most = with_charge(charges, day * DAY, cost), max(most, cost)
        device = {"id": number.to_bytes(16, "big"), "public_key": b"k", "enrolled_at": 0.0}
        made.append({**row, **device, "charges": charges, "dearest": most})
    if made:
        db.execute(t.device.insert(), made)


async def _counted(rows: Sequence[dict[str, object]], rule: Privacy) -> list[DeviceStates]:
    """What SQL counts, what memory counts, and what asking for a slot says of each device."""
    with tempfile.TemporaryDirectory() as folder:
        store, memory = SqlStore(f"sqlite:///{folder}/c.sqlite"), MemoryStore()
        await store.open()
        try:
            await store.transact(_insert, rows)
            known = await store.devices(b"", len(rows) + 1)
            memory._devices.update({one.id: one for one in known})
            stores: list[Store] = [store, memory]
            found = [await s.device_states(STEP, rule, NOW) for s in stores]
            await store.open_round(Round(b"r" * 16, STEP, 1, 0.0), b"")
            asked = [SlotRequest(one.id) for one in known]
            slots = SlotRule(STEP, len(rows) + 1, rule)
            results, _ = await store.assign_slots(b"r" * 16, asked, slots, NOW)
        finally:
            await store.close()
    names = {
        None: "ready",
        problems.TOO_SOON: "resting",
        problems.TOO_NEW: "waiting",
        problems.BUDGET_SPENT: "spent",
        problems.CERTIFICATE_EXPIRED: "expired",
        problems.REVOKED: "revoked",
    }
    states: Counter[str] = Counter()
    free: list[int] = []  # steps from which those that wait may take part
    for result, before in zip(results, known, strict=True):
        has_slot = result.problem is None and before.last_step == STEP  # its step is charged
        states["resting" if has_slot else names[result.problem]] += 1
        if result.problem is problems.TOO_NEW and before.first_step > STEP:
            free.append(before.first_step)
    charged = Counter(one.participations for one in known)
    first = min(free, default=0)
    decided = DeviceStates(**states, charged=dict(sorted(charged.items())), first_free=first)
    return [*found, decided]


@settings(max_examples=40)
@given(st.lists(_devices, max_size=12), _rules)
@example([{**WAITS, "first_step": STEP + 1}], Privacy())
@example([{**WAITS, "first_step": STEP + 1}, {**WAITS, "not_before": NOW + 1}], Privacy())
def test_sql_counts_devices_as_the_rule_decides(
    rows: list[dict[str, object]], rule: Privacy
) -> None:
    sql, memory, decided = asyncio.run(_counted(rows, rule))
    assert sql == memory
    assert replace(sql, most_spent=0.0, most_promised=0.0) == decided


def _history(steps: Iterable[int], rule: Privacy) -> list[tuple[RoundRow, list[Charge]]]:
    """Released rounds in which one device was counted, in these steps."""
    plan = encode_value(Plan(privacy=rule))
    return [
        (
            RoundRow(bytes([step]), step, 1, Phase.RELEASED, plan, 20 * DAY * step, 1, 1),
            [Charge(b"d", came=True)],
        )
        for step in steps
    ]


@given(st.sets(st.integers(1, 20), max_size=10).map(sorted), _rules)
def test_the_audit_finds_a_violation_exactly_where_the_rule_says_no(
    steps: list[int], rule: Privacy
) -> None:
    audit, expected = PrivacyAudit(), set()
    last: int | None = None
    for number, step in enumerate(steps):
        before = in_window([20 * DAY * one for one in steps[:number]], 20 * DAY * step, rule)
        if why_not(last, before, step, rule) is not None:
            expected.add(step)
        last = step
    for row, charges in _history(steps, rule):
        audit.add(row, charges)
    found = {int(one.removeprefix("step ").split(":")[0]) for one in audit.violations}
    assert found == expected


@given(st.sets(st.integers(1, 20), max_size=10).map(sorted), _rules)
def test_what_the_rule_lets_in_is_a_history_without_violations(
    steps: list[int], rule: Privacy
) -> None:
    audit, joined = PrivacyAudit(), list[int]()
    for step in steps:
        counted = in_window([20 * DAY * one for one in joined], 20 * DAY * step, rule)
        if why_not(joined[-1] if joined else None, counted, step, rule) is None:
            joined.append(step)
    for row, charges in _history(joined, rule):
        audit.add(row, charges)
    assert audit.violations == []
