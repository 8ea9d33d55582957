"""The canary audit: is the released sum as private as is claimed? Through the code that ships.

Some devices are canaries: each has one random direction as its update, of more than the clip's
norm, and a coin decided whether it takes part at all. Their updates walk the real way: the SDK's
`prepare_update` clips, rounds, packs and seals, the coordinator's `SealedAggregator` opens, clips
again, sums and noises. Who sees all releases and knows a canary's direction then guesses whether it
took part. The guess is the best linear one: weighed by the inverse of the noise's covariance across
steps, *as measured*, so that noise which repeats or is not what the policy says gives itself away.

For a mu-Gaussian mechanism the guesses of those who took part and of those who did not are mu
standard deviations apart. The audit fails when the one-sided 95 % lower bound of the measured
distance lies above the claim.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fedrap.rounds.prepare import LocalData, prepare_update
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.rounds.sealed_aggregator import SealedAggregator
from fedrap_core.aggregate import Accumulator
from fedrap_core.model import History, SequenceRows
from fedrap_core.paper.problem import PaperProblem, PaperResult
from fedrap_core.plan import Plan, Privacy, SolveMethod
from fedrap_core.sequence.device_share import Expected, Questions
from fedrap_core.solve.device_share import LocalShare, ShareProblem
from fedrap_core.solve.server_step import Learning
from fedrap_core.sparse import RowUpdate, packed_size
from fedrap_core.wire.codec import encode_value
from fedrap_core.wire.keys import new_private_key
from fedrap_core.wire.messages import Offer
from fedrap_core.wire.releases import model_hash
from tests.core.made import items_of

SIZE, DIM = 750, 32
WIDTH = packed_size(DIM) + SIZE * DIM  # 24,528
CANARIES = 1000
STEPS = 4
TASK, KEYRING = b"t" * 16, Keyring(new_private_key(), bytes(range(32)))
ONE_SIDED = 1.645  # 95 %

Vectors = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Rounds = list[list[bytes]]  # sealed updates, step by step
_COMMON = items_of(np.zeros((SIZE, DIM)))
_LOCAL = LocalData(
    _COMMON, np.zeros((DIM, DIM)), History(np.zeros(1, dtype=np.int64), np.ones(1)), None
)


@dataclass(frozen=True)
class Measured:
    """How far apart the guesses are, and how sure that is."""

    mu: float
    error: float  # standard error

    @property
    def lower(self) -> float:
        """With 95 % certainty mu is at least this."""
        return self.mu - ONE_SIDED * self.error

    @property
    def upper(self) -> float:
        """With 95 % certainty mu is at most this."""
        return self.mu + ONE_SIDED * self.error

    def violates(self, claim: float) -> bool:
        """More is told than is claimed."""
        return self.lower > claim

    def wastes(self, claim: float) -> bool:
        """There is more noise, or other noise, than is charged for.

        What the other canaries add, mu^2·(500/WIDTH) of the noise, blurs every guess too.
        """
        return self.upper < claim / math.sqrt(1 + claim * claim * CANARIES / 2 / WIDTH)


class CanaryTrainer:
    """Instead of learning from a history: one chosen direction, `length` long."""

    name = "canary"

    def __init__(self, direction: Singles, length: float) -> None:
        corner = packed_size(DIM)
        whole = direction.astype(np.float64) * length
        values = whole[corner:].reshape(SIZE, DIM)
        self._update = RowUpdate(np.arange(SIZE, dtype=np.int64), values, whole[:corner])

    def solve(self, problems: Sequence[ShareProblem]) -> list[LocalShare]:
        """The canary, whatever was asked."""
        return [LocalShare(self._update, np.zeros(DIM), 0.0) for _ in problems]

    def train(self, problems: Sequence[PaperProblem]) -> list[PaperResult]:
        """Canaries take part in `solve`; the sum and its noise are the same for both methods."""
        raise NotImplementedError

    def expect(self, asked: Questions, items: SequenceRows) -> Expected:
        """Nor in the sequence part, whose numbers are a part of the same vector."""
        raise NotImplementedError


class SameNoise(SealedAggregator):
    """The noise of a step follows from its sealed updates, which are other bytes at each run.

    An audit that accuses correct code once in twenty must draw its luck once: here the noise
    follows from key and step alone. What a set of updates does to it, test_restored_backup.py asks.
    """

    def _add(
        self, accumulator: Accumulator, bodies: Sequence[bytes], frozen: hashlib._Hash
    ) -> None:
        super()._add(accumulator, bodies, hashlib.sha256())


@dataclass(frozen=True)
class Audit:
    """The canaries of one audit, who of them takes part, and when."""

    privacy: Privacy
    joined: tuple[int, ...] = (1, 3)  # steps
    length: float = 5.0  # of an update before the clip, in units of S
    seed: int = 5  # picked, not drawn: test_canary_audit.py says how, and what others give

    @property
    def took_part(self) -> npt.NDArray[np.bool_]:
        """A fair coin for each canary."""
        return np.random.default_rng([self.seed, 2]).random(CANARIES) < 0.5

    def bodies(self) -> Rounds:
        """What devices send in each step, made by the SDK; one idle device where no canary is."""
        plan = self._plan()
        present = directions(self.seed)[self.took_part]
        nobody = np.zeros((1, WIDTH), dtype=np.float32)
        return [
            list(self._updates(plan, present if step in self.joined else nobody, step))
            for step in range(1, STEPS + 1)
        ]

    async def run(self, bodies: Rounds) -> Measured:
        """Sum and release what was sent, then guess who took part."""
        plan, found = self._plan(), []
        sets: dict[int, bytes] = {}
        aggregator = SameNoise(KEYRING, 4 * 1024 * 1024, Learning())
        for step, sent in enumerate(bodies, 1):
            summed = await aggregator.total(_one_chunk(sent), _COMMON, plan, TASK, step, sets)
            sets[step] = summed.updates
            total = summed.total
            found.append(np.concatenate([total.packed_gram, total.values.ravel()]))
        return self._measure(np.array(found) / self.privacy.clip)  # in units of the clip

    def _plan(self) -> Plan:
        return Plan(method=SolveMethod(dim=DIM, order=0.0), privacy=self.privacy, min_updates=1)

    def _updates(self, plan: Plan, members: Singles, step: int) -> Iterator[bytes]:
        offer = Offer(
            task=TASK,
            round=step.to_bytes(16, "big"),
            step=step,
            plan=encode_value(plan),
            release=1,
            model=model_hash(_COMMON.items),
            seal_key=KEYRING.point(KEYRING.seal_id),
            seal_id=KEYRING.seal_id,
        )
        uniform = np.random.default_rng([self.seed, 3, step]).random
        for place, direction in enumerate(members):
            trainer = CanaryTrainer(direction, self.length * self.privacy.clip)
            device = place.to_bytes(16, "big")
            yield prepare_update(offer, plan, device, _LOCAL, trainer, uniform, 0.0).body

    def _measure(self, releases: Vectors) -> Measured:
        """The best linear guess for each canary, and how well it tells who took part."""
        covariance = releases @ releases.T / WIDTH  # (STEPS, STEPS), of the noise as it is
        covariance += 1e-9 * np.trace(covariance) * np.eye(STEPS)  # repeated noise is singular
        weighed = np.linalg.solve(covariance, releases)  # (STEPS, WIDTH)
        pattern = weighed[[step - 1 for step in self.joined]].sum(axis=0)  # (WIDTH,)
        guesses = directions(self.seed) @ pattern  # (CANARIES,)
        return distance(guesses[self.took_part], guesses[~self.took_part])


@lru_cache(maxsize=1)
def directions(seed: int) -> Singles:
    """One unit vector for each canary, all of it in the rows: (CANARIES, WIDTH).

    A random triangle would be moved into the semidefinite cone (clause 5.8), and those of all
    canaries in the same direction, which only blurs the guesses.
    """
    made = np.random.default_rng([seed, 1]).standard_normal((CANARIES, WIDTH), dtype=np.float32)
    made[:, : packed_size(DIM)] = 0.0
    made /= np.linalg.norm(made, axis=1)[:, None]
    return made


async def _one_chunk(bodies: Sequence[bytes]) -> AsyncIterator[Sequence[bytes]]:
    yield bodies


def distance(present: Vectors, absent: Vectors) -> Measured:
    """mu of two samples that differ in their mean, and its standard error."""
    count = len(present) + len(absent)
    pooled = (np.sum((present - present.mean()) ** 2) + np.sum((absent - absent.mean()) ** 2)) / (
        count - 2
    )
    mu = float((present.mean() - absent.mean()) / math.sqrt(pooled))
    error = math.sqrt(1 / len(present) + 1 / len(absent) + mu * mu / (2 * count))
    return Measured(mu, error)
