"""Who can read an update reads the user. So nobody on the way can: not the network, not the disk.

The plain delta is the labelled insecure simulation: what would leave a device if updates were not
sealed. There the attack must succeed, or its failure elsewhere would mean nothing.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedrap import FedRap, Floor
from fedrap.rounds.prepare import LocalData, prepare_update
from fedrap.trainers.numpy_trainer import NumpyTrainer
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_core.model import CommonItems, History
from fedrap_core.paper.problem import fresh_state
from fedrap_core.plan import Method, PaperMethod, Plan, Privacy, SolveMethod
from fedrap_core.solve.device_share import compute_share, pose_share
from fedrap_core.sparse import RowUpdate, packed_size
from fedrap_core.wire.codec import decode, encode_value
from fedrap_core.wire.keys import new_private_key, public_point
from fedrap_core.wire.messages import Offer, Release, Update
from fedrap_core.wire.releases import model_hash, unpack_release
from fedrap_core.wire.seal import open_update, seal_id
from fedrap_core.wire.share import decode_share
from testkit.harness import LiveServer, serve, small_settings
from tests.attacks.rank_one import Guess, Vector, auc, cosine, from_bytes, from_share
from tests.core.made import items_of
from tests.end_to_end.test_capture import Capture, recording

SIZE, DIM, DEVICES, LIKES = 300, 32, 20, 40
ITEMS = [f"item-{row:03d}" for row in range(SIZE)]
METHODS: list[Method] = [SolveMethod(dim=DIM), PaperMethod(dim=DIM)]
both = pytest.mark.parametrize("method", METHODS, ids=["solve", "paper"])


def _histories() -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [rng.choice(SIZE, LIKES, replace=False).tolist() for _ in range(DEVICES)]


def _user(common: CommonItems, rows: list[int], method: Method) -> Vector:
    """The vector that an update is about."""
    if isinstance(method, PaperMethod):
        return fresh_state(method).user
    history = History(np.array(rows[::-1]), np.ones(len(rows)))
    return compute_share(pose_share(common, common.gram(), history, method)).user


def _success(guesses: list[Guess], common: CommonItems, method: Method) -> tuple[float, float]:
    """Mean AUC of the labels and mean cosine with the user vector."""
    found = []
    for guess, rows in zip(guesses, _histories(), strict=True):
        liked = np.zeros(SIZE, dtype=np.bool_)
        liked[rows] = True
        direction = cosine(guess, _user(common, rows, method))
        found.append((auc(guess.scores, liked), direction))
    labels, directions = np.mean(found, axis=0)
    return float(labels), float(directions)


def _plaintexts(common: CommonItems, method: Method) -> list[bytes]:
    """What devices would send if nothing were sealed: made by the SDK, and opened again."""
    private = new_private_key()
    plan = Plan(method=method, privacy=Privacy(clip=1e4))
    offer = Offer(
        task=bytes(16), round=bytes(16), step=1, plan=encode_value(plan), release=1,
        model=model_hash(common.items), seal_key=public_point(private.public_key()),
        seal_id=seal_id(private.public_key()),
    )  # fmt: skip
    found = []
    for place, rows in enumerate(_histories()):
        history = History(np.array(rows[::-1]), np.ones(len(rows)))
        local = LocalData(common, common.gram(), history, None)
        uniform = np.random.default_rng(place).random
        made = prepare_update(offer, plan, bytes(16), local, NumpyTrainer(), uniform, 0.0)
        found.append(open_update(decode(Update, made.body), private))
    return found


@both
def test_a_plain_delta_tells_what_the_user_likes_and_who_the_user_is(method: Method) -> None:
    """INSECURE SIMULATION: updates that are not sealed."""
    common = items_of(np.random.default_rng(1).normal(0.0, 0.1, (SIZE, DIM)))
    paper = isinstance(method, PaperMethod)
    guesses = [
        from_share(decode_share(raw, DIM), SIZE, mostly_negatives=paper)
        for raw in _plaintexts(common, method)
    ]
    labels, direction = _success(guesses, common, method)
    assert labels > 0.99
    assert direction > 0.98


def test_the_attack_on_bytes_needs_no_decoder() -> None:
    """INSECURE SIMULATION: on plaintext bytes it works, so its failure below means something."""
    method = METHODS[0]
    common = items_of(np.random.default_rng(1).normal(0.0, 0.1, (SIZE, DIM)))
    guesses = [from_bytes(raw, SIZE, DIM) for raw in _plaintexts(common, method)]
    labels, direction = _success(guesses, common, method)
    assert labels > 0.95
    assert direction > 0.95


async def _join_all(served: LiveServer, capture: Capture, folder: Path) -> list[bytes]:
    """Every device takes part over real HTTP; the bodies of their updates as they crossed it."""
    for place, rows in enumerate(_histories()):
        token, server = await served.token(), f"http://127.0.0.1:{capture.port}"
        with FedRap.open(
            folder / str(place),
            server=server,
            token=token,
            floor=Floor.without_privacy(min_updates=2),
        ) as device:
            device.consent(train=True, policy="test")
            for row in rows:
                device.record(ITEMS[row])
            assert (await device.run_round_async()).joined
    sent = [one for one in capture.requests() if one.line.startswith("POST /v1/rounds/")]
    return [one.body for one in sent]


def _stored(path: Path) -> dict[bytes, bytes | None]:
    with sqlite3.connect(path) as database:
        return dict(database.execute("SELECT device_id, body FROM update_").fetchall())


def _fails(guesses: list[Guess], common: CommonItems, method: Method) -> None:
    labels, direction = _success(guesses, common, method)
    assert 0.45 <= labels <= 0.55
    assert direction < 3 / np.sqrt(DIM)


@both
async def test_the_network_and_the_database_learn_nothing(method: Method, tmp_path: Path) -> None:
    settings = msgspec.structs.replace(
        small_settings(updates=DEVICES + 1, over_selection=1.5), method=method
    )
    path = tmp_path / "c.sqlite"
    async with (
        serve(settings, str(path), items=ITEMS) as served,
        recording(served.url) as capture,
    ):
        raw = (await served.app[COORDINATOR].release(None)).body
        common = unpack_release(decode(Release, raw))
        bodies = await _join_all(served, capture, tmp_path)
        assert len(bodies) == DEVICES
        _fails([from_bytes(body, SIZE, DIM) for body in bodies], common, method)
        assert len({len(body) for body in bodies}) == 1  # as many likes: the same bucket
        stored = _stored(path)
        by_device = [stored[decode(Update, body).device] for body in bodies]
        _fails([from_bytes(body or b"", SIZE, DIM) for body in by_device], common, method)

        none = np.zeros(0, dtype=np.int64)
        empty = RowUpdate(none, np.zeros((0, DIM)), np.zeros(packed_size(DIM)))
        await (await served.player()).join(empty)  # the last one: a release is made
        assert (await served.app[COORDINATOR].release(None)).version == 2
        assert set(_stored(path).values()) == {None}
