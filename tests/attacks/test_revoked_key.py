"""Revoked, forgotten, and enrolled again with the same key.

In version 0.1 `forget` dropped the record of a revoked device, and with it the word that its key
is shut out: the next token let it in again.
"""

from __future__ import annotations

import pytest

from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.wire.codec import encode
from fedrap_core.wire.keys import public_point
from fedrap_core.wire.messages import Enrol, Forget
from testkit.harness import serve, small_settings


@pytest.mark.spec("3.9", "2.6")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_revoked_key_never_enrols_again(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = str(tmp_path_factory.mktemp("store") / "fedrap.sqlite")
    opened = MemoryStore() if kind == "memory" else path
    async with serve(small_settings(), opened) as served:
        store = served.app[COORDINATOR].store
        player = await served.player()
        again = Enrol(token=await served.token(), public_key=public_point(player.key.public_key()))
        assert await store.revoke_device(player.id, 1.0)
        left = await player.send("POST", "/v1/forget", encode(Forget()))
        assert left.status == 200
        answer = await player.send("POST", "/v1/enrol", encode(again))
        assert (answer.status, answer.problem) == (403, "revoked")
        record = await store.device(player.id)
        assert record is not None
        assert record.public_key == b""  # all but the id is gone
        assert (await player.ask()).problem in ("revoked", "not-enrolled")
