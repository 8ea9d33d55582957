"""lambda(a) and mu(a) of Eq. 3: how much the two regularisers weigh in round a.

    tanh    v·tanh(a/10)                the paper's choice: from nothing to v
    fixed   v
    sin     v·max(0, sin(a/10))         the paper keeps weights between 0 and v, so the negative
                                        half waves are cut: a negative mu is no norm
    square  0 for ten rounds, v for ten rounds, and so on
    frac    v/(a + 1)

Rounds count from 1, in the paper and in the step of an offer: a is that step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from fedrap_core.plan import PaperMethod

Curriculum = Literal["tanh", "fixed", "sin", "square", "frac"]
PERIOD = 10  # rounds, in every curriculum that has one


@dataclass(frozen=True)
class Weights:
    """The two weights of Eq. 3 in one round."""

    apart: float  # lambda(a), of -|D - C|^2
    sparse: float  # mu(a), of |C|_1


def curriculum_share(curriculum: Curriculum, a: int) -> float:
    """The weight of round a as a share of its largest value, always in [0, 1]."""
    if curriculum == "tanh":
        return math.tanh(a / PERIOD)
    if curriculum == "sin":
        return max(0.0, math.sin(a / PERIOD))
    if curriculum == "square":
        return float(a // PERIOD % 2)
    if curriculum == "frac":
        return 1.0 / (a + 1)
    return 1.0


def weights_at(method: PaperMethod, step: int) -> Weights:
    """lambda and mu in the round with this step.

    Without shared or without personal items there is nothing to keep apart, and without a
    penalty or shared items nothing to make sparse.
    """
    share = curriculum_share(method.curriculum, step)
    both = method.common and method.personal
    shrinks = method.common and method.penalty != "none"
    return Weights(
        apart=share * method.apart if both else 0.0,
        sparse=share * method.sparse if shrinks else 0.0,
    )
