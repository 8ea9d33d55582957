"""A roll-out among many devices with planted ranks, through the product's own statistics.

Every device draws its place from its own key (`in_share`), keeps leads as a device does
(`PairedGains`), packs an answer that the coordinator clips and sums, noise is put on the sum, and
`domain.rollouts.decide` says what becomes of it. Nothing is sent and nothing is learnt: what is
planted are the ranks that the items users touch next have under the full and the staged release.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrap.rounds.answering import in_share
from fedrap_coordinator.domain.rollouts import NEXT, Rollout, RolloutState, arm_of, decide
from fedrap_core.privacy.accounting import noise_for
from fedrap_core.questions.answers import Layout, pack, unpack
from fedrap_core.questions.estimates import estimates
from fedrap_core.questions.gains import PairedGains
from fedrap_core.wire.messages import Trial

Ranks = npt.NDArray[np.int64]
LAYOUT = Layout(1, 1, 0, signed=True)
DELTA = 1e-5
SPREAD, APART = 2.0, 0.3  # of log ranks between items, and between two releases of one item
MIDDLE = 3.8  # mean log rank: a quarter of them are within the first ten, NDCG@10 is .14
MOST = 5  # interactions of a device while a stage is open; one to so many


@dataclass(frozen=True, eq=False)
class Population:
    """Ranks of what users touched next under both releases: of each device a few of them."""

    before: Ranks  # (n, MOST)
    after: Ranks
    counts: Ranks  # (n,) how many of them there are


def ndcg10(ranks: Ranks) -> float:
    """The mean."""
    return float(np.mean(np.where(ranks < 10, 1.0 / np.log2(ranks + 2.0), 0.0)))


def shift_for(quality: float) -> float:
    """How much higher log ranks are under a release with this share of the old one's NDCG@10."""
    rng = np.random.default_rng(0)
    logs = rng.normal(MIDDLE, np.hypot(SPREAD, APART), 400_000)
    wanted, low, high = quality * ndcg10(_ranks(logs)), 0.0, 3.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if ndcg10(_ranks(logs + middle)) > wanted else (low, middle)
    return low


def planted(devices: int, shift: float, rng: np.random.Generator) -> Population:
    """Devices whose staged release has log ranks higher by `shift`; 0 is as good as the old one.

    What two releases say of an item differs by chance as much as two trained from other seeds do.
    """
    items = rng.normal(MIDDLE, SPREAD, (devices, MOST))
    before, after = (items + rng.normal(0.0, APART, items.shape) for _ in range(2))
    return Population(_ranks(before), _ranks(after + shift), rng.integers(1, MOST + 1, devices))


def drawn(before: Ranks, after: Ranks) -> Callable[[int, np.random.Generator], Population]:
    """Devices that each are a user of a data set, asked once, drawn with replacement."""

    def draw(devices: int, rng: np.random.Generator) -> Population:
        who = rng.integers(0, len(before), devices)
        ones = np.ones(devices, dtype=np.int64)
        return Population(before[who, None], after[who, None], ones)

    return draw


def _ranks(logs: npt.NDArray[np.float64]) -> Ranks:
    return np.floor(np.exp(np.clip(logs, 0.0, 12.0))).astype(np.int64) - 1


def roll_out(
    people: Population,
    shares: tuple[float, ...],
    rng: np.random.Generator,
    *,
    epsilon: float | None,
    answers: int,
    least: int = 100,
) -> Rollout:
    """The whole of it, to its end; `epsilon` is for so many answers of a device, None: no noise."""
    stddev = 0.0 if epsilon is None else noise_for(epsilon, DELTA, answers) * LAYOUT.clip
    keys = [rng.bytes(32) for _ in range(len(people.counts))]
    row = Rollout(rng.bytes(16), NEXT, shares, 0.05, 0.0).begun(1, 2)
    while row.state is RolloutState.RUNNING:
        trial = Trial(rollout=row.id, share=row.share, base=1)
        total = np.zeros(LAYOUT.size)
        for device, key in enumerate(keys):
            if in_share(key, trial):  # all others answer with zeros
                total += unpack(pack(LAYOUT.vector([_said(people, device)], 0)), LAYOUT)
        total += rng.normal(0.0, 1.0, LAYOUT.size) * stddev
        [[found]] = estimates(total, LAYOUT, stddev, arm_of(least))
        enough = len(keys) >= least
        row = decide(row, enough, None if found is None else found.first, 0.0)
    return row


def _said(people: Population, device: int) -> tuple[float] | None:
    pair = PairedGains(2)
    for one in range(int(people.counts[device])):
        pair = pair.with_ranks(int(people.before[device, one]), int(people.after[device, one]))
    return None if pair.mean is None else (pair.mean,)
