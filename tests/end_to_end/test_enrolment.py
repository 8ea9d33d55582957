"""A token, a key, a device: what enrols, what does not, and what is answered again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from fedrap_coordinator.domain.records import DeviceRecord
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.keys import new_private_key, public_point
from fedrap_core.wire.messages import Enrol, Enrolled
from testkit.harness import EncodedRelease, serve, small_settings


@pytest_asyncio.fixture
async def served(tmp_path: Path) -> AsyncIterator[EncodedRelease]:
    async with serve(small_settings(updates=2), str(tmp_path / "c.sqlite")) as running:
        yield running


@pytest.mark.spec("3.1")
async def test_a_token_enrols_one_device_only(served: EncodedRelease) -> None:
    token, player = await served.token(), await served.player()
    keys = [public_point(new_private_key().public_key()) for _ in range(2)]
    first, second = (encode(Enrol(token=token, public_key=key)) for key in keys)
    assert (await player.send("POST", "/v1/enrol", first, {})).status == 200
    assert (await player.send("POST", "/v1/enrol", second, {})).problem == "token-refused"
    unknown = encode(Enrol(token="never made", public_key=keys[1]))
    assert (await player.send("POST", "/v1/enrol", unknown, {})).problem == "token-refused"


@pytest.mark.spec("3.2")
async def test_a_key_off_the_curve_does_not_use_up_the_token(served: EncodedRelease) -> None:
    token, player = await served.token(), await served.player()
    key = public_point(new_private_key().public_key())
    off = encode(Enrol(token=token, public_key=b"\x04" + bytes(64)))
    assert (await player.send("POST", "/v1/enrol", off, {})).problem == "malformed"
    good = encode(Enrol(token=token, public_key=key))
    assert (await player.send("POST", "/v1/enrol", good, {})).status == 200


@pytest.mark.spec("3.11")
async def test_a_device_that_asks_twice_at_once_with_two_tokens_is_one_device(
    served: EncodedRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    player, store = await served.player(), served.app[COORDINATOR].store
    token = await served.token()
    known, looks = store.device, [True]

    async def not_there_yet(device: bytes) -> DeviceRecord | None:
        """What the slower request saw before the faster one was written."""
        return None if looks and looks.pop() else await known(device)

    monkeypatch.setattr(store, "device", not_there_yet)
    own = public_point(player.key.public_key())
    again = await player.send("POST", "/v1/enrol", encode(Enrol(token=token, public_key=own)), {})
    assert decode(Enrolled, again.body).device == player.id
    other = public_point(new_private_key().public_key())
    spared = await player.send(
        "POST", "/v1/enrol", encode(Enrol(token=token, public_key=other)), {}
    )
    assert spared.status == 200


@pytest.mark.spec("3.11")
async def test_who_was_revoked_is_not_enrolled_by_asking_again(served: EncodedRelease) -> None:
    player = await served.player()
    await served.app[COORDINATOR].store.revoke_device(player.id, 1.0)
    own = public_point(player.key.public_key())
    for token in ("any", await served.token()):
        again = encode(Enrol(token=token, public_key=own))
        assert (await player.send("POST", "/v1/enrol", again, {})).problem == "revoked"
