"""Java devices beside Python ones, at the real coordinator over a real socket.

What should happen: nobody can tell which language a device is written in.
What should not happen: a share that differs, a step charged twice after a crash, a refusal that is
not understood, a byte before consent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedrap import FedRap, Floor
from fedrap_coordinator.handlers import COORDINATOR
from fedrap_coordinator.identity_settings import Enrolment
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Release
from fedrap_core.wire.releases import MAX_RELEASE_BYTES, unpack_release
from tests.android.java_devices import Died, JavaDevices, java_devices, needs_java
from tests.end_to_end.test_capture import recording, spellings
from tests.harness import ITEMS, Served, serve, small_settings

pytestmark = needs_java
HISTORIES = [ITEMS[i : i + 5] + ITEMS[: i % 3] for i in range(6)]
STEPS = ["before-offer", "after-offer", "before-commit", "before-send", "after-send", "after-forget"]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaDevices]:
    """One process for all tests that kill nobody."""
    with java_devices() as devices:
        yield devices


async def latest(served: Served) -> np.ndarray[Any, np.dtype[np.float64]]:
    """C of the latest release, (m, k)."""
    raw = (await served.app[COORDINATOR].release(None)).body
    common = unpack_release(decode(Release, raw, MAX_RELEASE_BYTES))
    return common.take(np.arange(common.size))


async def advance(served: Served) -> None:
    """What follows from the updates that came."""
    await served.app[COORDINATOR].advance()


async def python_round(served: Served, folder: Path, histories: list[list[str]]) -> list[FedRap]:
    """A device of the Python SDK for each history, all of them in one round."""
    devices = []
    for number, items in enumerate(histories):
        device = await served.device(folder / f"python-{number}", items)
        assert (await device.run_round_async()).joined
        devices.append(device)
    return devices


async def java_round(
    java: JavaDevices, served: Served, folder: Path, histories: list[list[str]]
) -> list[str]:
    """The same with devices in Java."""
    names = []
    for number, items in enumerate(histories):
        name = f"{folder.name}-{number}"
        await java.device(name, folder / name, served.url, await served.token(), items)
        report = await java.run(name)
        assert report["joined"], report
        await advance(served)
        names.append(name)
    return names


@pytest.mark.parametrize("javas", [3, 6])
async def test_a_release_is_the_same_whoever_the_devices_are(
    java: JavaDevices, tmp_path: Path, javas: int
) -> None:
    keyring, found = fresh_keyring(), []
    for count in (0, 0, javas):
        folder = tmp_path / f"{len(found)}-of-{javas}"
        async with serve(small_settings(updates=6), MemoryStore(), keyring) as served:
            start = await latest(served)
            await java_round(java, served, folder, HISTORIES[:count])
            await python_round(served, folder, HISTORIES[count:])
            assert (await served.app[COORDINATOR].release(None)).version == 2
            found.append(await latest(served) - start)
    print("DEBUG", [np.abs(one).max() for one in found], np.abs(found[0]-found[1]).max(), np.abs(found[0]-found[2]).max())
    chance = np.abs(found[0] - found[1]).max()  # two times Python: rounding is at random
    assert np.abs(found[2] - found[0]).max() <= 3 * chance + 1e-6
