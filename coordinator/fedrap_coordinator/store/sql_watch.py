"""What an operator watches, in SQL: refusals of rounds and devices by state."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.operator_protocol import DeviceStates


def add_refusals(db: sa.Connection, round_id: bytes, counts: Mapping[str, int]) -> None:
    """Add up; several processes may count for one round."""
    insert = postgresql.insert if db.dialect.name == "postgresql" else sqlite.insert
    # In one order, so that no two processes wait for each other.
    for problem, count in sorted(counts.items()):
        one = insert(t.refusal).values(round_id=round_id, problem=problem, count=count)
        db.execute(
            one.on_conflict_do_update(
                index_elements=["round_id", "problem"],
                set_={"count": t.refusal.c.count + count},
            )
        )


def refusals(db: sa.Connection, rounds: int) -> Mapping[bytes, Mapping[str, int]]:
    """Of the last rounds."""
    r = t.round_.c
    last = sa.select(r.id).order_by(r.opened_at.desc(), r.id.desc()).limit(rounds).subquery()
    query = t.refusal.select().where(t.refusal.c.round_id.in_(sa.select(last.c.id)))
    found: dict[bytes, dict[str, int]] = {}
    for row in db.execute(query):
        found.setdefault(bytes(row.round_id), {})[row.problem] = int(row._mapping["count"])
    return found


def device_states(
    db: sa.Connection, step: int, separation: int, cap: int, now: float
) -> DeviceStates:
    """One pass over the devices; the order of the cases is that of the admission."""
    d = t.device.c
    waiting = sa.or_(d.not_before > now, sa.and_(d.first_step > step, d.free_at > now))
    state = sa.case(
        (d.revoked_at.is_not(None), "revoked"),
        (d.valid_until <= now, "expired"),
        (sa.and_(d.last_step.is_not(None), d.last_step == step), "resting"),
        (d.participations >= cap, "spent"),
        (sa.and_(d.last_step.is_not(None), d.last_step > step - separation), "resting"),
        (waiting, "waiting"),
        else_="ready",
    ).label("state")
    counted = sa.select(state, d.participations, sa.func.count().label("n"))
    sums: dict[str, int] = {}
    charged: dict[int, int] = {}
    for row in db.execute(counted.group_by(state, d.participations)):
        sums[row.state] = sums.get(row.state, 0) + row.n
        charged[row.participations] = charged.get(row.participations, 0) + row.n
    return DeviceStates(**sums, charged=dict(sorted(charged.items())))
