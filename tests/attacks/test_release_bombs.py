"""A small answer that unpacks to a huge release: what does it cost a device?

Version 0.1 unpacked whatever came, up to 600 MiB, and made C of whatever size the release stated:
an answer of 29 kB took the SDK to 2.3 GB.
"""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest
from aiohttp import web

from fedrap import CoordinatorUnreachable
from fedrap.recommend.release import ItemList, ReleaseHeader, read_release
from fedrap.storage.release_codec import load_common
from fedrap_core.errors import BrokenModel
from fedrap_core.plan import Scoring
from fedrap_core.wire.codec import encode
from fedrap_core.wire.messages import Delta, Release
from fedrap_core.wire.releases import MAX_ENTRIES, MAX_RELEASE_BYTES, unpack_entries, unpack_release
from tests.sdk.made import ITEMS, TASK, MadeCoordinator, a_device, a_release
from tests.sdk.transport.test_http import answering

MIB = 1024 * 1024


@contextmanager
def costs_at_most(size: int) -> Iterator[None]:
    """The block takes no more memory than that at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


def a_bomb(rows: int, dim: int) -> Release:
    """A release of nothing but zeros."""
    return Release(
        task=TASK, version=2, step=1, size=rows, dim=dim, catalogue=1, scoring=Scoring(ridge=1.0),
        model=bytes(32), scales=bytes(4 * rows), bitmap=bytes(-(-rows * dim // 8)), values=b"",
    )  # fmt: skip


def a_delta_bomb(rows: int, held: Release) -> Delta:
    bomb = a_bomb(rows, held.dim)
    return Delta(
        task=TASK, since=held.version, version=2, step=1, size=rows, dim=held.dim, catalogue=1,
        scoring=bomb.scoring, model=bytes(32), values=b"", bitmap=bomb.bitmap, scales=bomb.scales,
        rows=np.arange(rows, dtype="<u4").tobytes(),
    )  # fmt: skip


async def test_a_small_answer_does_not_unpack_to_a_large_one() -> None:
    packed = gzip.compress(encode(a_bomb(100_000, 512)), 9)
    assert len(packed) < 30_000

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    async with answering(answer) as transport:
        with costs_at_most(10 * MIB):
            for _ in range(3):
                with pytest.raises(CoordinatorUnreachable, match="unpack"):
                    await transport.release(None)
                with pytest.raises(CoordinatorUnreachable, match="unpack"):
                    await transport.catalogue(0)


@pytest.mark.parametrize("times", [1, 2])
async def test_an_honest_release_still_unpacks(times: int) -> None:
    release = a_release(size=30_000)
    packed = gzip.compress(encode(release), 6)
    packed = packed if times == 1 else packed + b"x"

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    async with answering(answer) as transport:
        if times == 1:
            assert await transport.release(None) == release
        else:
            with pytest.raises(CoordinatorUnreachable):
                await transport.release(None)


@pytest.mark.parametrize("coding", ["deflate", "br", "gzip, gzip", "zstd"])
async def test_another_coding_than_was_asked_for_is_refused(coding: str) -> None:
    body = zlib.compress(encode(a_release()))

    async def answer(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "gzip"
        return web.Response(body=body, headers={"Content-Encoding": coding})

    async with answering(answer) as transport:
        with pytest.raises(CoordinatorUnreachable, match="coding"):
            await transport.release(None)


async def test_gzip_that_is_cut_off_or_none_is_refused() -> None:
    whole = gzip.compress(encode(a_release()))
    for body in (whole[:-5], b"not gzip at all", whole[:3]):

        async def answer(_: web.Request, body: bytes = body) -> web.Response:
            return web.Response(body=body, headers={"Content-Encoding": "gzip"})

        async with answering(answer) as transport:
            with pytest.raises(CoordinatorUnreachable):
                await transport.release(None)


@pytest.mark.parametrize("rows", [len(ITEMS) + 1, 2_000_000])
def test_a_release_has_no_more_rows_than_the_catalogue(tmp_path: Path, rows: int) -> None:
    coordinator = MadeCoordinator()
    with a_device(tmp_path, coordinator) as device:
        device.sync()
        coordinator.latest = a_bomb(rows, 512)
        with costs_at_most(2 * MIB), pytest.raises(BrokenModel, match="catalogue"):
            device.sync()
        assert device.status().release == 1


@pytest.mark.parametrize("rows", [len(ITEMS) + 1, 2_000_000])
def test_nor_has_a_delta(rows: int) -> None:
    held = a_release()
    common, bomb = unpack_release(held), a_delta_bomb(rows, held)
    with costs_at_most(MIB), pytest.raises(BrokenModel, match="catalogue"):
        read_release(bomb, common, ItemList(1, len(ITEMS)))


def test_nor_has_what_the_store_holds() -> None:
    header = ReleaseHeader(1, 1, 500_000_000, 512, bytes(32), Scoring(ridge=1.0))
    with costs_at_most(MIB), pytest.raises(Exception, match="catalogue"):
        load_common(header, ItemList(1, len(ITEMS)), lambda _: b"")


def test_unpacking_costs_what_it_gives_and_little_more() -> None:
    bitmap = bytes(4 * MIB)
    with costs_at_most(32 * MIB + 8 * MIB):
        unpack_entries(bitmap, b"", 32 * MIB // 64, 64)


def test_the_limits_are_these() -> None:
    assert MAX_RELEASE_BYTES == MAX_ENTRIES == 256 * MIB


def test_a_bomb_that_the_catalogue_allows_is_what_its_rows_cost(tmp_path: Path) -> None:
    """k is at most 512: the rest is for the hash."""
    coordinator = MadeCoordinator()
    with a_device(tmp_path, coordinator) as device:
        device.sync()
        coordinator.latest = msgspec.structs.replace(a_bomb(len(ITEMS), 512), catalogue=1)
        with costs_at_most(2 * MIB), pytest.raises(BrokenModel, match="hash"):
            device.sync()
