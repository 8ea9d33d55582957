"""The canary audit with two servers: what leader, helper and public see is as private as claimed.

Canaries walk the real way: the SDK's `prepare_update` makes reports, the coordinator's
`SplitAggregator` and a real helper check, sum and noise them. Each canary has 20 rows of its own
direction; a coin decided whether it takes part. Then somebody who knows the directions guesses:

    public    from what is released, which has the noise of both: mu = 1/(z·sqrt 2)
    leader    the same, less the noise that it added itself: mu = 1/z
    helper    the same, less its own: mu = 1/z

What single reports show a server is `test_split.py`'s. Noise that is two fifths short is found; one
fifth would be in four of five audits. All that is random follows from the seed, the first that
was tried.
"""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedrap.rounds.prepare import LocalData, prepare_update
from fedrap_aggregator import rounds as helper_rounds
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.rounds import split_aggregator
from fedrap_coordinator.rounds.split_aggregator import SplitAggregator
from fedrap_core.model import History
from fedrap_core.plan import Plan, Privacy, SolveMethod, Split
from fedrap_core.privacy.mechanisms import task_noise_key
from fedrap_core.solve.device_share import LocalShare, ShareProblem
from fedrap_core.sparse import RowUpdate, packed_size
from fedrap_core.split.numbers import Terms, server_noise
from fedrap_core.wire.codec import decode_value, encode_value
from fedrap_core.wire.keys import new_private_key
from fedrap_core.wire.messages import HelperKey, Offer
from fedrap_core.wire.releases import model_hash
from testkit.pair import LocalHelper
from tests.attacks.canaries import CanaryTrainer, Measured, distance
from tests.core.made import items_of

SIZE, DIM, ROWS, CANARIES, SEED = 800, 8, 20, 600, 3
CLIP, NOISE = 3.0, 0.7
TASK, ROUND = b"t" * 16, b"r" * 16
KEYRING = Keyring(new_private_key(), bytes(range(32)))
COMMON = items_of(np.zeros((SIZE, DIM)))
PLAN = Plan(
    method=SolveMethod(dim=DIM, order=0.0),
    privacy=Privacy(clip=CLIP, noise=NOISE, separation=2, cap=1),
    split=Split(rows=ROWS, gram_scale=1.0),
    min_updates=2,
)
TERMS = Terms(ROUND, PLAN, SIZE)


class Canary(CanaryTrainer):
    """One direction in some rows, five times as long as the clip."""

    def __init__(self, rows: np.ndarray, values: np.ndarray) -> None:
        gram = np.zeros(packed_size(DIM))
        self._update = RowUpdate(rows, values * 5.0 * CLIP, gram)

    def solve(self, problems: Sequence[ShareProblem]) -> list[LocalShare]:
        return [LocalShare(self._update, np.zeros(DIM), 0.0) for _ in problems]


@dataclass(frozen=True, eq=False)
class Sent:
    """What devices sent to a pair that has opened the round, and who they were."""

    folder: Path  # of the helper
    bodies: list[bytes]
    rows: np.ndarray  # (CANARIES, ROWS)
    values: np.ndarray  # (CANARIES, ROWS, DIM)
    took_part: np.ndarray


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Sent:
    rng = np.random.default_rng(SEED)
    rows = np.stack([np.sort(rng.permutation(SIZE)[:ROWS]) for _ in range(CANARIES)])
    values = rng.normal(size=(CANARIES, ROWS, DIM))
    values /= np.linalg.norm(values.reshape(CANARIES, -1), axis=1)[:, None, None]
    took_part = rng.random(CANARIES) < 0.5
    folder = tmp_path_factory.mktemp("canaries") / "helper"
    (folder / "helper-keys").mkdir(parents=True)
    (folder / "helper-keys" / "noise.key").write_text(bytes(range(32, 64)).hex() + "\n")
    helper = LocalHelper(folder)
    offer = Offer(
        task=TASK, round=ROUND, step=1, plan=encode_value(PLAN), release=1,
        model=model_hash(COMMON.items), seal_key=KEYRING.point(KEYRING.seal_id),
        seal_id=KEYRING.seal_id,
    )  # fmt: skip
    ends_at = helper.clock() + 86400.0
    raw = asyncio.run(_leader(helper).open_round(offer, PLAN, SIZE, ends_at))
    offer = msgspec.structs.replace(offer, helper=decode_value(HelperKey, raw))
    local = LocalData(
        COMMON, np.zeros((DIM, DIM)), History(np.zeros(1, np.int64), np.ones(1)), None
    )
    uniform = np.random.default_rng([SEED, 1]).random
    bodies = [
        prepare_update(
            offer, PLAN, place.to_bytes(16, "big"), local, Canary(rows[one], values[one]), uniform,
            0.0,
        ).body
        for place, one in enumerate(np.flatnonzero(took_part))
    ]  # fmt: skip
    helper.close()
    return Sent(folder, bodies, rows, values, took_part)


def _leader(helper: LocalHelper) -> SplitAggregator:
    return SplitAggregator(KEYRING, helper, bytes.fromhex(helper.identity), 1 << 20)


async def views(sent: Sent, folder: Path) -> dict[str, Measured]:
    """What each of the three can tell of who took part, from a round that is summed anew."""
    shutil.copytree(sent.folder, folder)
    helper = LocalHelper(folder)

    async def bodies() -> AsyncIterator[Sequence[bytes]]:
        yield sent.bodies

    found = await _leader(helper).total(bodies(), COMMON, PLAN, TASK, 1, {})
    keys = {"leader": KEYRING.noise, "helper": helper.keys.noise}
    helper.close()
    assert found.total.devices == int(sent.took_part.sum())  # every report was found good
    released = np.zeros((SIZE, DIM))
    released[found.total.rows] = found.total.values
    guessed = {"public": _guess(sent, released)}
    for name, key in keys.items():
        where = split_aggregator if name == "leader" else helper_rounds
        own = vars(where)["server_noise"](TERMS, task_noise_key(key, TASK), 1, {1: found.updates})
        rows = own[1 + TERMS.whole :].reshape(SIZE, DIM) * TERMS.step
        guessed[name] = _guess(sent, released - rows)
    return guessed


def _guess(sent: Sent, seen: np.ndarray) -> Measured:
    guesses = np.einsum("crd,crd->c", sent.values, seen[sent.rows])
    return distance(guesses[sent.took_part], guesses[~sent.took_part])


CLAIMS = {"public": 1 / (NOISE * math.sqrt(2.0)), "leader": 1 / NOISE, "helper": 1 / NOISE}


async def test_nobody_of_the_three_learns_more_than_is_claimed(sent: Sent, tmp_path: Path) -> None:
    for name, found in (await views(sent, tmp_path / "helper")).items():
        assert not found.violates(CLAIMS[name]), (name, found)
        blur = math.sqrt(1 + CLAIMS[name] ** 2 * CANARIES / 2 / (SIZE * DIM))
        assert found.upper > 0.9 * CLAIMS[name] / blur, (name, found)  # nor is noise wasted


Noise = Callable[..., Any]


def _short(times: float) -> Noise:
    def noise(terms: Terms, *rest: Any) -> Any:
        return np.rint(server_noise(terms, *rest) * times).astype(np.int64)

    return noise


@pytest.mark.parametrize(
    ("where", "blind"), [(helper_rounds, "leader"), (split_aggregator, "helper")],
    ids=["the helper's", "the leader's"],
)  # fmt: skip
async def test_a_server_whose_noise_is_short_is_seen_by_the_other(
    sent: Sent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any, blind: str
) -> None:
    """Each is protected from one server by the noise of the other alone."""
    monkeypatch.setattr(where, "server_noise", _short(0.6))
    found = await views(sent, tmp_path / "helper")
    assert found[blind].violates(CLAIMS[blind]), found
    other = "helper" if blind == "leader" else "leader"
    assert not found[other].violates(CLAIMS[other]), found
