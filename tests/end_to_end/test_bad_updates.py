"""Whatever a device sends, it gets its own clear problem, and the round goes on unharmed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgpack
import msgspec
import numpy as np
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from fedrap_coordinator.domain.rounds import Phase
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_core.quantize import QuantizedRows
from fedrap_core.sparse import RowUpdate, packed_size
from fedrap_core.wire import problems
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.keys import new_private_key, public_point
from fedrap_core.wire.messages import Offer, OfferRequest, Share, Signed
from fedrap_core.wire.seal import seal_id
from fedrap_core.wire.share import encode_share, pad
from fedrap_core.wire.signing import SIGNATURE_HEADER
from testkit.harness import (
    DIM,
    ITEMS,
    Answer,
    LiveServer,
    Player,
    one_cell,
    serve,
    small_settings,
)

Spoil = Callable[[Player, Offer], Awaitable[Answer]]


@pytest_asyncio.fixture
async def served(tmp_path: Path) -> AsyncIterator[LiveServer]:
    async with serve(small_settings(updates=2), str(tmp_path / "c.sqlite")) as running:
        yield running


async def _truncated(player: Player, offer: Offer) -> Answer:
    body = encode(player.update(offer, one_cell(0)))
    return await player.post(offer.round, body[: len(body) // 2])


async def _oversized(player: Player, offer: Offer) -> Answer:
    return await player.post(offer.round, b"\0" * (64 * 1024 + 1))


async def _wrong_version(player: Player, offer: Offer) -> Answer:
    fields = msgpack.unpackb(encode(player.update(offer, one_cell(0))))
    return await player.post(offer.round, msgpack.packb({**fields, "v": 2}))


async def _wrong_type(player: Player, offer: Offer) -> Answer:
    return await player.post(offer.round, encode(OfferRequest(release=1)))


async def _row_out_of_range(player: Player, offer: Offer) -> Answer:
    body = encode(player.update(offer, one_cell(len(ITEMS))))
    return await player.post(offer.round, body)


async def _rows_repeated(player: Player, offer: Offer) -> Answer:
    rows = np.array([3, 3], dtype=np.int64)
    share = RowUpdate(rows, np.ones((2, DIM)), np.zeros(packed_size(DIM)))
    return await player.post(offer.round, encode(player.update(offer, share)))


async def _wrong_dimension(player: Player, offer: Offer) -> Answer:
    body = encode(player.update(offer, one_cell(0, dim=DIM + 1)))
    return await player.post(offer.round, body)


async def _not_finite(player: Player, offer: Offer) -> Answer:
    share = Share(
        rows=np.array([0], dtype="<u4").tobytes(),
        scales=np.array([np.nan], dtype="<f4").tobytes(),
        values=bytes([1] * DIM),
        triangle_scales=np.zeros(3, dtype="<f4").tobytes(),
        triangle=bytes(3 * DIM),
    )
    return await player.post(offer.round, encode(player.update(offer, pad(encode(share)))))


async def _not_padded(player: Player, offer: Offer) -> Answer:
    body = player.update(offer, encode_share(one_cell(0), np.zeros((4, DIM)))[:-1])
    return await player.post(offer.round, encode(body))


async def _sealed_to_another_key(player: Player, offer: Offer) -> Answer:
    stranger = new_private_key().public_key()
    other = msgspec.structs.replace(offer, seal_key=public_point(stranger))
    return await player.post(offer.round, encode(player.update(other, one_cell(0))))


async def _naming_another_key(player: Player, offer: Offer) -> Answer:
    stranger = new_private_key().public_key()
    other = msgspec.structs.replace(
        offer, seal_key=public_point(stranger), seal_id=seal_id(stranger)
    )
    return await player.post(offer.round, encode(player.update(other, one_cell(0))))


async def _sealed_bits_flipped(player: Player, offer: Offer) -> Answer:
    update = player.update(offer, one_cell(0))
    broken = update.sealed[:-1] + bytes([update.sealed[-1] ^ 1])
    return await player.post(offer.round, encode(msgspec.structs.replace(update, sealed=broken)))


async def _badly_signed(player: Player, offer: Offer) -> Answer:
    body = encode(player.update(offer, one_cell(0)))
    path = f"/v1/rounds/{offer.round.hex()}/updates"
    headers = player.signed("POST", path, body + b"x")
    return await player.post(offer.round, body, headers)


async def _signature_not_base64(player: Player, offer: Offer) -> Answer:
    body = encode(player.update(offer, one_cell(0)))
    path = f"/v1/rounds/{offer.round.hex()}/updates"
    return await player.post(
        offer.round, body, {**player.signed("POST", path, body), SIGNATURE_HEADER: "%%%"}
    )


async def _for_another_device(player: Player, offer: Offer) -> Answer:
    update = msgspec.structs.replace(player.update(offer, one_cell(0)), device=bytes(16))
    return await player.post(offer.round, encode(update))


async def _for_another_model(player: Player, offer: Offer) -> Answer:
    other = msgspec.structs.replace(offer, model=bytes(32))
    return await player.post(offer.round, encode(player.update(other, one_cell(0))))


async def _for_another_round(player: Player, offer: Offer) -> Answer:
    other = msgspec.structs.replace(offer, round=bytes(16))
    return await player.post(offer.round, encode(player.update(other, one_cell(0))))


async def _to_a_round_that_never_was(player: Player, offer: Offer) -> Answer:
    return await player.post(bytes(16), encode(player.update(offer, one_cell(0))))


CASES: list[tuple[Spoil, str, int]] = [
    (_truncated, "malformed", 400),
    (_oversized, "too-large", 413),
    (_wrong_version, "unsupported-version", 400),
    (_wrong_type, "unsupported-version", 400),
    (_row_out_of_range, "wrong-shape", 422),
    (_rows_repeated, "wrong-shape", 422),
    (_wrong_dimension, "wrong-shape", 422),
    (_not_finite, "not-finite", 422),
    (_not_padded, "malformed", 400),
    (_sealed_to_another_key, "malformed", 400),
    (_naming_another_key, "stale-model", 409),
    (_sealed_bits_flipped, "malformed", 400),
    (_badly_signed, "bad-signature", 401),
    (_signature_not_base64, "bad-signature", 401),
    (_for_another_device, "bad-signature", 401),
    (_for_another_model, "stale-model", 409),
    (_for_another_round, "stale-model", 409),
    (_to_a_round_that_never_was, "not-found", 404),
]


@pytest.mark.spec("1.2", "1.4", "1.5", "1.6", "2.2", "2.4", "4.1", "4.2", "4.3", "7.9", "7.10")
@pytest.mark.parametrize(
    ("spoil", "code", "status"), CASES, ids=[case[0].__name__.lstrip("_") for case in CASES]
)
async def test_a_bad_update_gets_its_problem_and_the_round_goes_on(
    served: LiveServer, spoil: Spoil, code: str, status: int
) -> None:
    bad, good = await served.player(), await served.player()
    answer = await spoil(bad, await bad.offer())
    assert (answer.problem, answer.status) == (code, status)
    document = answer.document
    assert document["title"] == problems.ALL[code].title
    assert document["family"] == problems.ALL[code].family.value
    # The device that failed may still hand in a good one, and the round ends as it should.
    await bad.join()
    await good.join()
    assert (await served.app[COORDINATOR].release(None)).version == 2


@pytest.mark.spec("4.4")
async def test_malformed_and_badly_sealed_bytes_get_the_same_words(
    served: LiveServer,
) -> None:
    player = await served.player()
    offer = await player.offer()
    assert (await _truncated(player, offer)).body == (
        await _sealed_to_another_key(player, offer)
    ).body


@pytest.mark.spec("2.3")
async def test_a_captured_request_sent_again_is_refused_as_replayed(
    served: LiveServer,
) -> None:
    player = await served.player()
    offer = await player.offer()
    body = encode(player.update(offer, one_cell(0)))
    headers = player.signed("POST", f"/v1/rounds/{offer.round.hex()}/updates", body)
    assert (await player.post(offer.round, body, headers)).status == 200
    assert (await player.post(offer.round, body, headers)).problem == "replayed"


@pytest.mark.spec("2.3")
async def test_a_nonce_that_is_not_larger_is_refused(served: LiveServer) -> None:
    player = await served.player()
    body = encode(OfferRequest(release=1))
    for nonce, expected in ((50, 200), (50, 409), (49, 409), (51, 200)):
        headers = player.signed("POST", "/v1/offers", body, nonce)
        assert (await player.send("POST", "/v1/offers", body, headers)).status == expected


@pytest.mark.spec("7.8")
async def test_a_duplicate_of_the_same_bytes_is_success_also_after_the_release(
    served: LiveServer,
) -> None:
    player, other = await served.player(), await served.player()
    offer = await player.offer()
    body = encode(player.update(offer, one_cell(0)))
    first = await player.post(offer.round, body)
    again = await player.post(offer.round, body)
    assert first.status == again.status == 200
    assert decode(Signed, first.body).body == decode(Signed, again.body).body
    await other.join()
    assert (await served.app[COORDINATOR].release(None)).version == 2
    assert (await player.post(offer.round, body)).status == 200


@pytest.mark.spec("7.8")
async def test_other_bytes_of_a_device_that_is_counted_are_a_conflict(
    served: LiveServer,
) -> None:
    player = await served.player()
    offer = await player.offer()
    assert (await player.post(offer.round, encode(player.update(offer, one_cell(0))))).status == 200
    answer = await player.post(offer.round, encode(player.update(offer, one_cell(1))))
    assert answer.problem == "conflicting-update"


@pytest.mark.spec("7.9", "7.12")
async def test_a_late_update_is_refused_and_told_when_to_come_back(
    served: LiveServer,
) -> None:
    late, one, two = [await served.player() for _ in range(3)]
    offer = await late.offer()
    await one.join()
    await two.join()
    answer = await late.post(offer.round, encode(late.update(offer, one_cell(0))))
    assert answer.problem == "round-closed"
    assert answer.document["retry_after"] >= 0
    assert "Retry-After" in answer.headers


@pytest.mark.spec("7.9")
async def test_a_device_without_a_place_is_refused(served: LiveServer) -> None:
    invited, uninvited = await served.player(), await served.player()
    offer = await invited.offer()
    answer = await uninvited.post(offer.round, encode(uninvited.update(offer, one_cell(0))))
    assert answer.problem == "not-assigned"


@pytest.mark.spec("2.2")
async def test_an_unknown_device_is_told_to_enrol(served: LiveServer) -> None:
    player = await served.player()
    player.id = bytes(16)
    assert (await player.ask(1)).problem == "not-enrolled"


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/v1/nothing", "not-found"),
        ("GET", "/v1/offers", "method-not-allowed"),
        ("GET", "/v1/releases/99", "not-found"),
        ("GET", "/v1/releases/minus", "malformed"),
        ("GET", "/v1/catalogue?start=-1", "malformed"),
        ("GET", "/v1/catalogue?start=99999999999999999999", "malformed"),
        ("POST", "/v1/rounds/zz/updates", "malformed"),
        ("POST", "/v1/enrol", "malformed"),
    ],
)
@pytest.mark.spec("2.4")
async def test_every_wrong_address_is_answered_with_a_problem(
    served: LiveServer, method: str, path: str, code: str
) -> None:
    player = await served.player()
    headers = player.signed(method, path, b"") if "rounds" in path else {}
    assert (await player.send(method, path, b"", headers)).problem == code


@pytest.mark.spec("1.6")
async def test_arbitrary_bytes_never_give_a_500_nor_harm_the_round(
    served: LiveServer,
) -> None:
    player = await served.player()
    offer = await player.offer()
    seal = player.update(offer, one_cell(0))

    bodies: list[bytes] = []

    @hypothesis_settings(max_examples=80, database=None)
    @given(
        st.one_of(
            st.binary(max_size=300),
            st.binary(max_size=300).map(
                lambda raw: encode(msgspec.structs.replace(seal, sealed=raw))
            ),
            st.binary(max_size=600).map(lambda raw: encode(player.update(offer, raw))),
        )
    )
    def collect(body: bytes) -> None:
        bodies.append(body)

    collect()
    for body in bodies:
        answer = await player.post(offer.round, body)
        assert 400 <= answer.status < 500, answer.body
    current = served.app[COORDINATOR].round
    assert current is not None
    assert (current.phase, current.accepted) == (Phase.COLLECTING, 0)
    # And a share made of arbitrary int8 steps and scales is either counted or refused.
    rows = QuantizedRows(np.full((1, DIM), 127, np.int8), np.full(1, 3e38, np.float32))
    huge = Share(
        rows=np.zeros(1, dtype="<u4").tobytes(),
        scales=rows.scales.tobytes(),
        values=rows.values.tobytes(),
        triangle_scales=bytes(12),
        triangle=bytes(3 * DIM),
    )
    answer = await player.post(offer.round, encode(player.update(offer, pad(encode(huge)))))
    assert answer.problem == "not-finite"
