"""A full disk, a database that goes away and comes back, a clock that jumps: nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from fedrap_coordinator.domain.rounds import Phase
from fedrap_coordinator.errors import StoreGone
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.wire.codec import encode
from testkit.harness import Answer, LiveServer, one_cell, serve, small_settings, until_async
from testkit.postgres import own_server, postgres_url
from tests.contracts.one_by_one import round_phase


async def _sent(served: LiveServer, count: int) -> list[Callable[[], Coroutine[Any, Any, Answer]]]:
    """Devices with a place, and how each hands in its update."""
    made: list[Callable[[], Coroutine[Any, Any, Answer]]] = []
    for row in range(count):
        player = await served.player()
        offer = await player.offer()
        body = encode(player.update(offer, one_cell(row)))
        made.append(partial(player.post, offer.round, body))
    return made


def _fill(db: sa.Connection, number: int) -> None:
    """Where an update would go, so that there is no room left for one."""
    values = {"round_id": b"filler", "device_id": b"%d" % number, "digest": b"", "received_at": 0.0}
    db.execute(t.update.insert().values(**values, body=bytes(400)))


async def _fill_up(store: SqlStore) -> None:
    for number in range(100_000):
        await store.transact(_fill, number)


def _is_away(answer: Answer) -> None:
    assert (answer.status, answer.problem) == (503, "unavailable")
    assert answer.document["family"] == "retry"
    assert answer.document["retry_after"] > 0


async def test_a_full_disk_refuses_for_now_and_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqlStore(f"sqlite:///{tmp_path / 'c.sqlite'}")
    pages = [1_000_000]

    @sa.event.listens_for(store._engine, "checkout")
    def limit(connection: Any, *_: object) -> None:
        connection.execute(f"PRAGMA max_page_count={pages[0]}")

    async with serve(small_settings(updates=3), store) as served:
        first, second, third = await _sent(served, 3)
        assert (await first()).status == 200
        pages[0] = 1  # SQLite takes no less than there is: not one page more
        with pytest.raises(StoreGone, match="full"):
            await _fill_up(store)
        _is_away(await second())
        async with served.session.get(served.url + "/v1/releases/latest") as answer:
            assert answer.status == 200
        async with served.session.get(served.url + "/readyz") as answer:
            assert answer.status == 503  # at once: nothing can be kept
        pages[0] = 1_000_000
        await until_async(lambda: store.serves)  # without a word of anybody
        async with served.session.get(served.url + "/readyz") as answer:
            assert answer.status == 200
        assert [(await send()).status for send in (second, third)] == [200, 200]
        assert (await served.app[COORDINATOR].release(None)).version == 2
    said = [one.getMessage() for one in caplog.records if "the database is" in one.getMessage()]
    assert said == ["the database is away; trying again", "the database is back"]


def _allow(url: str, name: str, allowed: bool) -> None:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as db:
        db.execute(sa.text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {str(allowed).lower()}"))
        if not allowed:
            ask = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
            db.execute(sa.text(ask), {"name": name})
    engine.dispose()


async def test_a_database_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    shared = sa.make_url(postgres_url()).set(drivername="postgresql+psycopg", query={
        key: value for key, value in sa.make_url(postgres_url()).query.items() if key != "options"
    })  # fmt: skip
    admin, name = shared.render_as_string(hide_password=False), f"gone_{tmp_path.name.lower()}"
    engine = sa.create_engine(admin, isolation_level="AUTOCOMMIT")
    with engine.connect() as db:
        db.execute(sa.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    own = shared.set(database=name, drivername="postgresql").render_as_string(hide_password=False)
    async with serve(small_settings(updates=3), SqlStore(own)) as served:
        coordinator = served.app[COORDINATOR]
        first, second, third = await _sent(served, 3)
        assert (await first()).status == 200
        _allow(admin, name, False)
        _is_away(await second())
        await until_async(lambda: not coordinator.is_ready)
        _is_away(await second())
        async with served.session.get(served.url + "/v1/releases/latest") as answer:
            assert answer.status == 200  # C is in memory
        _allow(admin, name, True)
        await until_async(lambda: coordinator.is_ready)
        assert [(await send()).status for send in (second, third, first)] == [200, 200, 200]
        assert (await coordinator.release(None)).version == 2


async def test_a_file_that_is_moved_away_takes_no_update_until_it_is_back(tmp_path: Path) -> None:
    """SQLite itself would write on, into a file that nobody finds again."""
    path, away = tmp_path / "c.sqlite", tmp_path / "away.sqlite"
    async with serve(small_settings(updates=3), str(path)) as served:
        coordinator = served.app[COORDINATOR]
        first, second, third = await _sent(served, 3)
        assert (await first()).status == 200
        path.rename(away)
        await until_async(lambda: not coordinator.is_ready)  # also while nobody writes
        _is_away(await second())
        async with served.session.get(served.url + "/readyz") as answer:
            assert answer.status == 503
        path.write_bytes(away.read_bytes())  # a copy is another file: it lacks what is in the log
        _is_away(await second())
        away.replace(path)
        await until_async(lambda: coordinator.is_ready)
        assert [(await send()).status for send in (second, third, first)] == [200, 200, 200]
        assert (await coordinator.release(None)).version == 2


async def test_a_postgresql_server_that_stops_or_crashes_and_starts_again() -> None:
    """The real server: what it said is kept is kept, and the round goes on when it is back."""
    with own_server() as server:
        async with serve(small_settings(updates=4), SqlStore(server.url)) as served:
            coordinator = served.app[COORDINATOR]
            sends = await _sent(served, 4)
            for number, mode in enumerate(("fast", "immediate")):
                assert (await sends[number]()).status == 200
                await asyncio.to_thread(server.stop, mode)
                _is_away(await sends[number + 1]())
                await until_async(lambda: not coordinator.is_ready)
                _is_away(await sends[number]())  # a device that did not hear the answer
                await asyncio.to_thread(server.start)
                await until_async(lambda: coordinator.is_ready)
            assert [(await send()).status for send in reversed(sends)] == [200] * 4
            assert coordinator.model is not None
            assert (coordinator.model.stored.step, coordinator.model.stored.devices) == (1, 4)


@pytest.mark.spec("7.6")
async def test_a_clock_that_jumps_ahead_ends_rounds_and_charges_nobody_twice(
    tmp_path: Path,
) -> None:
    now = [1_000.0]
    store = SqlStore(f"sqlite:///{tmp_path / 'c.sqlite'}")
    async with serve(small_settings(updates=2), store, clock=lambda: now[0]) as served:
        coordinator = served.app[COORDINATOR]
        player = await served.player()
        offer = await player.offer()
        now[0] += 3600.0 * 24
        await coordinator.advance()
        assert coordinator.round is not None
        assert coordinator.round.step == 1  # abandoned, and tried again
        assert await round_phase(store, offer.round) is Phase.ABANDONED
        again = await player.offer()
        assert again.round != offer.round
        known = await store.device(player.id)
        assert known is not None
        assert known.participations == 1


async def test_a_clock_that_is_set_back_does_not_keep_a_round_open(tmp_path: Path) -> None:
    now = [1e9]
    plain = small_settings(updates=3, min_updates=2)
    limits = msgspec.structs.replace(plain.round, min_seconds=0.3, max_seconds=2.0)
    settings = msgspec.structs.replace(plain, round=limits)
    store = SqlStore(f"sqlite:///{tmp_path / 'c.sqlite'}")
    async with serve(settings, store, clock=lambda: now[0]) as served:
        now[0] -= 3600.0 * 24 * 365
        for send in await _sent(served, 2):
            assert (await send()).status == 200
        coordinator = served.app[COORDINATOR]
        await until_async(lambda: coordinator.round is not None and coordinator.round.step == 2)
