"""The rank-one and sign attack: what one device's update tells who can read it.

In both methods every row of a device's delta is close to a number times its user vector: the top
singular vector of the rows is that vector, and a row's sign against it says liked or not.
`from_share` is for who reads the plaintext; `from_bytes` for who has only bytes, and tries every
place in them where row numbers or int8 rows could stand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrap_core.sparse import RowUpdate

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Guess:
    """What the attacker believes."""

    scores: Vector  # (m,) the higher, the more likely an item of this user
    directions: Vector  # (c, k) unit vectors, one of which could be the user's


def from_share(update: RowUpdate, size: int, *, mostly_negatives: bool) -> Guess:
    """From the plaintext: support, sign and direction. The plan says which method it was."""
    _, _, right = np.linalg.svd(update.values, full_matrices=False)
    along = update.values @ right[0]  # (n,)
    scores = np.zeros(size)
    if mostly_negatives:  # `paper`: liked rows point away from the many sampled ones
        scores[update.rows] = -np.sign(np.median(along)) * along
    else:  # `solve`: only own items have a row
        scores[update.rows] = np.abs(along) + 1e-9
    return Guess(scores, right[:1])


def from_bytes(raw: bytes, size: int, dim: int) -> Guess:
    """From bytes alone: u32 that could be rows, and int8 rows from each of the k first places."""
    scores = np.zeros(size)
    for start in range(4):
        words = np.frombuffer(raw[start : start + (len(raw) - start) // 4 * 4], dtype="<u4")
        found = words[(words > 0) & (words < size)]  # zeros are padding
        np.add.at(scores, found.astype(np.int64), 1.0)
    steps, directions = np.frombuffer(raw, dtype=np.int8), []
    for start in range(dim):
        rows = steps[start : start + (len(steps) - start) // dim * dim].reshape(-1, dim)
        directions.append(np.linalg.svd(rows.astype(np.float64), full_matrices=False)[2][0])
    return Guess(scores, np.array(directions))


def auc(scores: Vector, liked: npt.NDArray[np.bool_]) -> float:
    """Probability that a liked item scores above another one; ties count half."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts - 1) / 2  # mid-rank of each distinct score
    ranks = middle[places]
    many, few = int(liked.sum()), int((~liked).sum())
    return float((ranks[liked].sum() - many * (many + 1) / 2) / (many * few))


def cosine(guess: Guess, user: Vector) -> float:
    """How close the best of the guessed directions comes to the user's, whatever its sign."""
    return float(np.max(np.abs(guess.directions @ user)) / np.linalg.norm(user))
