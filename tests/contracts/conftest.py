"""The stores that the contract suites run over.

Two of them share their database with the stores of two other tasks, which know devices, items and
releases by the same ids. Whatever a test does must leave not a byte of those changed; and because
it finds what it expects, it sees nothing of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import sqlalchemy as sa

from fedrap_coordinator.domain.records import AdminRecord, AuditEntry
from fedrap_coordinator.domain.rounds import Round
from fedrap_coordinator.store.engine import open_engine
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_coordinator.store.protocol import Store
from fedrap_coordinator.store.sql import SqlStore
from testkit.postgres import postgres_url
from tests.contracts.test_stores import a_release, device_id, round_id
from tests.contracts.test_stores_questions import a_question

OWN = "music__"  # what tables of the store under test are called, where it is one of several


@pytest_asyncio.fixture(
    params=["memory", "sqlite", "postgresql", "sqlite, of several", "postgresql, of several"]
)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    kind, _, several = request.param.partition(",")
    if kind == "memory":
        made = MemoryStore()
        await made.open()
        yield made
        await made.close()
        return
    url = postgres_url() if kind == "postgresql" else f"sqlite:///{tmp_path / 'store.sqlite'}"
    plain = SqlStore(url)
    if not several:
        await plain.open()
        yield plain
        await plain.close()
        return
    own, other = plain.beside("music"), plain.beside("musical")
    for one in (plain, other, own):
        await one.open()
    for one in (plain, other):
        await fill(one)
    before = rows_of_others(url)
    yield own
    assert rows_of_others(url) == before
    for one in (own, other, plain):
        await one.close()


async def fill(store: Store) -> None:
    """Something of each kind, under ids that tests use."""
    await store.task_id(b"o" * 16)
    await store.policy(b"another policy")
    await store.secret("session-key", b"another key")
    tokens = [b"one", b"two", b"token 1", b"token 2"]
    await store.add_tokens([*tokens, b"unused"], 1.0)
    for number, token in enumerate(tokens, 1):
        assert await store.enrol(token, device_id(number), b"another %d" % number, 2.0)
    await store.add_items(["a", "b", "another"])
    await store.add_release(a_release(1, 0), None)
    assert await store.open_round(Round(round_id(1), 1, 1, 10.0), b"another plan")
    await store.add_refusals(round_id(1), {"too-soon": 5})
    await store.add_question(a_question())
    await store.add_admin(AdminRecord("ann", "viewer", 1.0), b"d" * 32)
    await store.write_audit(AuditEntry(1.0, "ann", "fill"))


def rows_of_others(url: str) -> dict[str, list[str]]:
    """Every row of every table in this database that is not of the store under test."""
    engine = open_engine(url)
    try:
        with engine.begin() as db:
            names = sorted(sa.inspect(db).get_table_names())
            assert sum(name.startswith(OWN) for name in names) * 3 == len(names)
            others = [name for name in names if not name.startswith(OWN)]
            rows = {one: db.execute(sa.text(f'SELECT * FROM "{one}"')).all() for one in others}
    finally:
        engine.dispose()
    found = {name: sorted(repr(tuple(row)) for row in kept) for name, kept in rows.items()}
    assert any(found.values())
    return found
