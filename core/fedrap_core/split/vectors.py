"""One short vector of every device, for two servers: answers to questions about quality.

A report without tables. Its numbers, each in [-1, 1], are in steps of Δ = 1/R, rounded up or down
by chance so that the mean stays; squares add up to Q at most, which is proven on shares as for an
update. Q holds every honest answer however its numbers were rounded:

    Q = blocks·(R² + 2·h² + compared·(R² + h²) + [buckets]·R²)     h = ceil(p·R)

with p the weight of the rough numbers (questions/answers.py), so S = sqrt(Q)·Δ is a little above
the S of a sealed answer. Each server adds noise z·S, in whole steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fedrap_core.privacy.mechanisms import question_noise
from fedrap_core.questions.answers import ROUGH, Layout, Vector
from fedrap_core.split import layout as places
from fedrap_core.split.dpf import Shape
from fedrap_core.split.field import Words, from_signed, to_signed
from fedrap_core.split.numbers import SERVERS, Numbers, Whole
from fedrap_core.split.proof import Circuit, R

STEP = 1.0 / R  # Δ


@dataclass(frozen=True)
class VectorTerms:
    """All that fixes the shape of a question's reports."""

    round: bytes  # the question's id, in the place of a round's
    whole: int  # numbers
    limit: int  # Q

    @cached_property
    def shape(self) -> Shape:
        """Without tables."""
        return Shape(places.Layout(self.round, 0, 0), 0)

    @cached_property
    def circuit(self) -> Circuit:
        """Of the proof."""
        return Circuit(self.whole, self.limit)

    @property
    def sum_words(self) -> int:
        """Numbers of a sum."""
        return self.whole

    def in_order(self, table_sums: npt.NDArray[np.uint32], whole: Words, fits: int) -> Words:
        """A server's sums as one vector: (whole,)."""
        return whole


def vector_terms(question: bytes, layout: Layout) -> VectorTerms:
    """Of the answers to a question."""
    rough = math.ceil(ROUGH * R)
    block = R**2 + 2 * rough**2 + layout.compared * (R**2 + rough**2)
    if layout.buckets:
        block += R**2
    return VectorTerms(question, layout.size, layout.blocks * block)


def to_vector(answer: Vector, terms: VectorTerms, uniform: npt.NDArray[np.float64]) -> Numbers:
    """An answer, as float32, in steps of Δ, by as many `uniform` numbers in [0, 1)."""
    scaled = np.clip(answer.astype(np.float32).astype(np.float64), -1.0, 1.0) * R
    rounded = _rounded(scaled, uniform)
    while int(np.sum(rounded**2)) > terms.limit:  # no honest gains do that
        scaled = scaled * 0.99
        rounded = _rounded(scaled, uniform)
    none = np.zeros(0, dtype=np.int64)
    return Numbers(none, none.reshape(0, 0), rounded, 0)


def _rounded(values: Vector, chance: npt.NDArray[np.float64]) -> Whole:
    return np.clip(np.floor(values + chance), -R, R).astype(np.int64)


def vector_noise(terms: VectorTerms, key: bytes, noise: float, made_of: bytes) -> Whole:
    """One server's noise of z for a sum of the answers `made_of`, in whole steps: (whole,)."""
    if noise == 0:
        return np.zeros(terms.whole, dtype=np.int64)
    stddev = noise * math.sqrt(terms.limit)
    drawn = question_noise(key, terms.round, made_of, terms.whole, stddev)
    return np.rint(drawn).astype(np.int64)


def join_vectors(leader: npt.NDArray[np.uint32], helper: npt.NDArray[np.uint32]) -> Vector:
    """The sum of both servers' noised shares, as numbers again."""
    both = to_signed(from_signed(leader.astype(np.int64) + helper.astype(np.int64)))
    return np.asarray(both * STEP, dtype=np.float64)


def sum_spread(terms: VectorTerms, noise: float, devices: int) -> float:
    """Standard deviation of a number of a sum: noise of both servers, and rounding at the most."""
    by_noise = math.sqrt(SERVERS) * noise * math.sqrt(terms.limit) * STEP
    return math.hypot(by_noise, STEP / 2.0 * math.sqrt(devices))
