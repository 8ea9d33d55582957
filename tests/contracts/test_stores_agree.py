"""Operations are data: whatever the order, memory and SQLite answer each of them the same."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap_coordinator.rounds import Phase, Round
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_coordinator.store.protocol import Store, StoredRelease
from fedrap_coordinator.store.sql import SqlStore

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
ops = st.one_of(
    op("task_id", st.binary(min_size=16, max_size=16)),
    op("add_tokens", st.lists(digests, max_size=2), st.just(1.0)),
    op("enrol", digests, devices, st.just(b"key"), st.just(2.0)),
    op("use_nonce", devices, small),
    op("set_phase", rounds, st.sampled_from(Phase)),
    op("assign", rounds, devices, small, st.integers(1, 3), st.integers(1, 3)),
    op("add_update", rounds, devices, digests, st.binary(max_size=3), st.just(3.0)),
    op("update_digest", rounds, devices),
    op("add_release", releases, st.none() | rounds),
    op("add_items", words),
    op("retire_items", words),
    op("catalogue", small),
)


async def _answer(store: Store, name: str, arguments: tuple[Any, ...]) -> Any:
    try:
        return await getattr(store, name)(*arguments)
    except ValueError:
        return "refused"


async def _look(store: Store) -> list[Any]:
    """Everything that can be asked without changing anything."""
    seen: list[Any] = [
        await store.counts(),
        await store.extent(),
        await store.current_round(),
        await store.catalogue(0),
        await store.release(None),
    ]
    for number in range(5):
        device = number.to_bytes(16, "big")
        seen += [await store.device(device), await store.release(number)]
        for one in range(4):
            seen.append(await store.is_assigned(b"r" * 15 + bytes([one]), device))
    for one in range(4):
        place = b"r" * 15 + bytes([one])
        seen.append(await store.round_phase(place))
        seen.append([list(chunk) async for chunk in store.sealed_updates(place)])
    return seen


async def _compare(folder: Path, script: list[Op]) -> None:
    memory, sql = MemoryStore(), SqlStore(f"sqlite:///{folder / 'store.sqlite'}")
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
            if name == "enrol":
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


@settings(max_examples=15)
@given(st.lists(ops, max_size=25))
def test_memory_and_sqlite_answer_every_operation_alike(script: list[Op]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_compare(Path(folder), script))


@settings(max_examples=15)
@given(
    st.lists(
        op("assign", rounds, devices, small, st.integers(1, 3), st.integers(1, 3)), max_size=25
    )
)
def test_memory_and_sqlite_admit_the_same_devices(script: list[Op]) -> None:
    tokens = [b"token %d" % number for number in range(5)]
    start: list[Op] = [("add_tokens", (tokens, 1.0))]
    for number, token in enumerate(tokens):
        start.append(("enrol", (token, number.to_bytes(16, "big"), b"key", 2.0)))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_compare(Path(folder), [*start, *script]))
