"""A token, a key, a device: what enrols, what does not, and what is answered again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from fedrap_coordinator.domain.records import DeviceRecord
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.keys import new_private_key, public_point
from fedrap_core.wire.messages import Enrol, Enrolled
from testkit.harness import LiveServer, serve, small_settings


@pytest_asyncio.fixture
async def served(tmp_path: Path) -> AsyncIterator[LiveServer]:
    async with serve(small_settings(updates=2), str(tmp_path / "c.sqlite")) as running:
        yield running


@pytest.mark.spec("3.1")
async def test_a_token_enrols_one_device_only(served: LiveServer) -> None:
    token, player = await served.token(), await served.player()
    keys = [public_point(new_private_key().public_key()) for _ in range(2)]
    first, second = (encode(Enrol(token=token, public_key=key)) for key in keys)
    assert (await player.send("POST", "/v1/enrol", first, {})).status == 200
    assert (await player.send("POST", "/v1/enrol", second, {})).problem == "token-refused"
    unknown = encode(Enrol(token="never made", public_key=keys[1]))
    assert (await player.send("POST", "/v1/enrol", unknown, {})).problem == "token-refused"


@pytest.mark.spec("3.2")
async def test_a_key_off_the_curve_does_not_use_up_the_token(served: LiveServer) -> None:
    token, player = await served.token(), await served.player()
    key = public_point(new_private_key().public_key())
    off = encode(Enrol(token=token, public_key=b"\x04" + bytes(64)))
    assert (await player.send("POST", "/v1/enrol", off, {})).problem == "malformed"
    good = encode(Enrol(token=token, public_key=key))
    assert (await player.send("POST", "/v1/enrol", good, {})).status == 200


class SlowToSee(MemoryStore):
    """Its next look at a device is one from before the device was written."""

    late = False

    async def device(self, device: bytes) -> DeviceRecord | None:
        """What the slower of two requests sees."""
        if self.late:
            self.late = False
            return None
        return await super().device(device)


@pytest.mark.spec("3.11")
async def test_a_device_that_asks_twice_at_once_with_two_tokens_is_one_device() -> None:
    store = SlowToSee()
    async with serve(small_settings(), store) as served:
        player, token = await served.player(), await served.token()
        store.late = True
        own = public_point(player.key.public_key())
        second = encode(Enrol(token=token, public_key=own))
        again = await player.send("POST", "/v1/enrol", second, {})
        assert decode(Enrolled, again.body).device == player.id
        other = public_point(new_private_key().public_key())
        spared = encode(Enrol(token=token, public_key=other))
        assert (await player.send("POST", "/v1/enrol", spared, {})).status == 200


@pytest.mark.spec("3.11")
async def test_who_was_revoked_is_not_enrolled_by_asking_again(served: LiveServer) -> None:
    player = await served.player()
    await served.app[COORDINATOR].store.revoke_device(player.id, 1.0)
    own = public_point(player.key.public_key())
    for token in ("any", await served.token()):
        again = encode(Enrol(token=token, public_key=own))
        assert (await player.send("POST", "/v1/enrol", again, {})).problem == "revoked"
