"""Was this device in the round? Who sees a release can't tell better than mu allows.

For a mu-Gaussian mechanism no score separates members from others with an AUC above Phi(mu/sqrt 2).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrap_core.aggregate import Accumulator
from fedrap_core.model import History
from fedrap_core.plan import SolveMethod
from fedrap_core.privacy.mechanisms import clip_to_norm
from fedrap_core.solve.device_share import compute_share, pose_share
from fedrap_core.sparse import packed_size
from tests.attacks.rank_one import Vector, auc
from tests.core.made import items_of

SIZE, DIM, MEMBERS, KEYS, CLIP = 400, 16, 100, 12, 1.0
METHOD = SolveMethod(dim=DIM, order=0.0)


def _shares() -> tuple[list[Vector], Accumulator]:
    """The updates of 200 devices as vectors of norm 1, and the sum of the first 100."""
    rng = np.random.default_rng(0)
    common = items_of(rng.normal(0.0, 0.2, (SIZE, DIM)))
    gram, total, vectors = common.gram(), Accumulator(SIZE, DIM, CLIP), []
    for place in range(2 * MEMBERS):
        rows = rng.choice(SIZE, 30, replace=False)
        problem = pose_share(common, gram, History(rows, np.ones(30)), METHOD)
        update = clip_to_norm(compute_share(problem).update, CLIP)
        if place < MEMBERS:
            total.add(update)
        values = np.zeros((SIZE, DIM))
        values[update.rows] = update.values
        vectors.append(np.concatenate([update.packed_gram, values.ravel()]))
    return vectors, total


def _success(vectors: list[Vector], total: Accumulator, noise: float) -> float:
    """Mean AUC of the dot product with the release, over some noise keys."""
    members = np.arange(2 * MEMBERS) < MEMBERS
    found = []
    for key in range(KEYS):
        released = total.total(noise, bytes([key]) * 32, 1)
        values = np.zeros((SIZE, DIM))
        values[released.rows] = released.values
        seen = np.concatenate([released.packed_gram, values.ravel()])
        found.append(auc(np.array([vector @ seen for vector in vectors]), members))
    return float(np.mean(found))


@pytest.mark.parametrize("noise", [0.5, 1.0, 2.0])
def test_membership_is_told_no_better_than_mu_allows(noise: float) -> None:
    vectors, total = _shares()
    assert len(vectors[0]) == packed_size(DIM) + SIZE * DIM
    allowed = 0.5 * math.erfc(-1 / noise / 2)  # Phi(mu/sqrt 2), mu = 1/z
    error = math.sqrt((2 * MEMBERS + 1) / (12 * MEMBERS * MEMBERS))  # of one AUC
    assert _success(vectors, total, noise) <= allowed + 3 * error / math.sqrt(KEYS)


def test_without_noise_the_same_score_tells_members() -> None:
    """INSECURE SIMULATION: a sum without noise is no privacy."""
    vectors, total = _shares()
    assert _success(vectors, total, 0.0) > 0.9
