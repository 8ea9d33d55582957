"""Operations are data: whatever the order, memory and SQL answer each of them the same."""

from __future__ import annotations

import asyncio
import math
import tempfile
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import Phase as Stage
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap_coordinator.domain.decisions import SlotRequest, SlotRule, Submission
from fedrap_coordinator.domain.records import (
    AdminRecord,
    AuditEntry,
    Issuer,
    StoredRelease,
    Terms,
    Ticket,
)
from fedrap_coordinator.domain.rounds import Phase, Round
from fedrap_coordinator.errors import StoreConflict
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_coordinator.store.protocol import Store
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.plan import Privacy
from testkit.postgres import postgres_url
from tests.contracts.one_by_one import is_assigned, round_phase

NO_SHRINK = (Stage.explicit, Stage.reuse, Stage.generate)  # a database each costs too much
Op: TypeAlias = tuple[str, tuple[Any, ...]]

small = st.integers(0, 4)
devices = small.map(lambda n: n.to_bytes(16, "big"))
rounds = st.integers(0, 3).map(lambda n: b"r" * 15 + bytes([n]))
words = st.lists(st.sampled_from(["a", "b", "c", "ä", "d e"]), max_size=4)
digests = st.sampled_from([b"d1", b"d2"])


def op(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Op]:
    return st.tuples(st.just(name), st.tuples(*arguments))


releases = st.builds(
    StoredRelease, small, small, small, st.binary(max_size=3), st.none() | st.binary(max_size=3)
)
names = st.sampled_from(["ann", "bob"])
# PostgreSQL keeps no NUL in text; what comes in is checked before it gets here.
texts = st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=3)
entries = st.builds(AuditEntry, small.map(float), names, st.just("look"), texts)
issuers = st.builds(Issuer, names, st.just(b"key"), small.map(float))
admins = st.builds(AdminRecord, names, st.sampled_from(["viewer", "operator"]), st.just(1.0))
terms = st.builds(
    Terms,
    wait_steps=st.integers(0, 2),
    wait_seconds=st.integers(0, 2).map(float),
    wait_most_seconds=st.sampled_from([1.0, math.inf]),
    valid_until=st.sampled_from([2.0, math.inf]),
)
tickets = st.builds(
    Ticket,
    st.sampled_from([b"t1", b"t2", b"t3"]),
    st.integers(0, 6).map(float),
    st.sampled_from([None, b"a1", b"a2"]),
    st.integers(1, 2),
)
nonces = st.none() | small
asks = st.builds(SlotRequest, devices, nonces)
sent = st.builds(Submission, devices, nonces, digests, st.none() | st.binary(max_size=3))
rules = st.builds(
    SlotRule,
    small,
    st.integers(0, 3),
    st.builds(Privacy, separation=st.integers(1, 3), cap=st.integers(1, 3)),
)

ops = st.one_of(
    op("task_id", st.binary(min_size=16, max_size=16)),
    op("add_tokens", st.lists(digests, max_size=2), st.just(1.0)),
    op("enrol", digests, devices, st.just(b"key"), st.just(2.0)),
    op("enrol_signed", tickets, devices, st.just(b"key"), small.map(float), terms),
    op("use_nonce", devices, small),
    op("renew_device", devices, small.map(float), st.sampled_from(["none", "strong"])),
    op("revoke_device", devices, small.map(float), st.none() | entries),
    op("forget_device", devices),
    op("add_issuer", issuers, st.none() | entries),
    op("remove_issuer", names, st.none() | entries),
    op("add_admin", admins, digests, st.none() | entries),
    op("remove_admin", names, st.none() | entries),
    op("write_audit", entries),
    op("set_phase", rounds, st.sampled_from(Phase), st.none() | st.sampled_from(Phase)),
    op("assign_slots", rounds, st.lists(asks, max_size=4), rules, small.map(float)),
    op("add_updates", rounds, st.lists(sent, max_size=4), small, small.map(float)),
    op("device_keys", st.lists(devices, max_size=3)),
    op("progress"),
    op("add_release", releases, st.none() | rounds),
    op("add_items", words),
    op("retire_items", words),
    op("catalogue", small),
)


async def _answer(store: Store, name: str, arguments: tuple[Any, ...]) -> Any:
    try:
        return await getattr(store, name)(*arguments)
    except StoreConflict:
        return "refused"


async def _look(store: Store) -> list[Any]:
    """Everything that can be asked without changing anything."""
    seen: list[Any] = [
        await store.counts(),
        await store.extent(),
        await store.current_round(),
        await store.catalogue(0),
        await store.release(None),
        await store.devices(b"", 9),
        await store.issuers(),
        await store.admins(),
        await store.admin_of(b"d1"),
        await store.audit_rows(0, 99),
        await store.rounds(3),
    ]
    for number in range(5):
        device = number.to_bytes(16, "big")
        seen += [await store.device(device), await store.release(number)]
        for one in range(4):
            seen.append(await is_assigned(store, b"r" * 15 + bytes([one]), device))
    for one in range(4):
        place = b"r" * 15 + bytes([one])
        seen.append(await round_phase(store, place))
        seen.append([list(chunk) async for chunk in store.sealed_updates(place)])
        seen.append([list(chunk) async for chunk in store.charges(place)])
    return seen


async def _compare(url: str, script: list[Op]) -> None:
    memory, sql = MemoryStore(), SqlStore(url)
    enrolled: set[bytes] = set()
    await sql.open()
    try:
        for number in range(4):  # one of them open, as in life
            opened = Round(b"r" * 15 + bytes([number]), number, 1, 10.0)
            for store in (memory, sql):
                await store.open_round(opened, b"plan")
                if number:
                    await store.set_phase(opened.id, Phase.ABANDONED)
        for name, arguments in script:
            if name in ("enrol", "enrol_signed"):
                if arguments[1] in enrolled:  # device ids are random: none comes twice
                    continue
                enrolled.add(arguments[1])
            if name == "set_phase" and arguments[0][-1]:
                continue
            answers = [await _answer(store, name, arguments) for store in (memory, sql)]
            assert answers[0] == answers[1], (name, arguments)
            assert await _look(memory) == await _look(sql), (name, arguments)
    finally:
        await sql.close()


def _compare_on(database: str, script: list[Op]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sqlite = f"sqlite:///{Path(folder) / 'store.sqlite'}"
        asyncio.run(_compare(sqlite if database == "sqlite" else postgres_url(), script))


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@settings(max_examples=12, phases=NO_SHRINK)
@given(st.lists(ops, max_size=25))
def test_memory_and_sql_answer_every_operation_alike(database: str, script: list[Op]) -> None:
    _compare_on(database, script)


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@settings(max_examples=8, phases=NO_SHRINK)
@given(
    st.lists(
        op("assign_slots", rounds, st.lists(asks, max_size=3), rules, st.just(5.0)), max_size=25
    )
)
def test_memory_and_sql_admit_the_same_devices(database: str, script: list[Op]) -> None:
    tokens = [b"token %d" % number for number in range(5)]
    start: list[Op] = [("add_tokens", (tokens, 1.0))]
    for number, token in enumerate(tokens):
        start.append(("enrol", (token, number.to_bytes(16, "big"), b"key", 2.0)))
    _compare_on(database, [*start, *script])
