"""Several devices as one set of padded arrays, and back.

Rows that only fill up have weight zero and change nothing. Devices are sorted by size first, so
that little is filled up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fedrap_core.paper.objective import LocalModel
from fedrap_core.paper.problem import PaperProblem, PaperResult
from fedrap_core.paper.training import finish
from fedrap_core.solve.device_share import LocalShare, ShareProblem, compute_share
from fedrap_core.sparse import RowUpdate

Array = npt.NDArray[Any]
P = TypeVar("P")
MOST_ROWS = 16_384  # in one batch: beyond this it no longer fits a core's cache


def chunks(
    problems: Sequence[P],
    size: Callable[[P], tuple[int, ...]],
    most: int,
    most_rows: int = MOST_ROWS,
) -> Iterator[list[int]]:
    """Places in `problems`, alike ones together, at most `most` and `most_rows` at a time.

    `size` ends with numbers of rows; what comes before only sorts.
    """
    order = sorted(range(len(problems)), key=lambda place: size(problems[place]))
    chunk: list[int] = []
    for place in order:
        rows = sum(size(problems[place])[-2:])
        if chunk and (len(chunk) == most or (len(chunk) + 1) * rows > most_rows):
            yield chunk
            chunk = []
        chunk.append(place)
    if chunk:
        yield chunk


def share_size(problem: ShareProblem) -> tuple[int, ...]:
    """What makes two problems of `solve` alike."""
    return (len(problem.rows),)


def pack_shares(problems: Sequence[ShareProblem]) -> tuple[Array, Array]:
    """sqrt(a_l)·C_l (B, n, k) and sqrt(a_l) (B, 1, n), in float64."""
    if len(problems) == 1:
        root = np.sqrt(problems[0].weights)
        return (problems[0].own * root[:, None])[None], root[None, None]
    most = max(len(problem.rows) for problem in problems)
    scaled = np.zeros((len(problems), most, problems[0].own.shape[1]))
    roots = np.zeros((len(problems), 1, most))
    for place, problem in enumerate(problems):
        count = len(problem.rows)
        root = np.sqrt(problem.weights, out=roots[place, 0, :count])
        np.multiply(problem.own, root[:, None], out=scaled[place, :count])
    return scaled, roots


def unpack_shares(
    problems: Sequence[ShareProblem],
    users: Array,
    gradients: Array,
    outers: Array,
    losses: Array,
    good: Sequence[bool],
) -> list[LocalShare]:
    """Each device's share from (B, …) arrays; those that are not `good` by the reference.

    users (B, k), gradients (B, >= n, k), outers (B, k, k), losses (B,).

    Raises:
        BrokenModel: the reference refuses a device's C as well.
    """
    dim = users.shape[1]
    grams = outers.reshape(len(problems), dim * dim).take(_upper(dim), axis=1, mode="clip")
    updates = [
        RowUpdate(problem.rows, gradients[place, : len(problem.rows)], grams[place])
        for place, problem in enumerate(problems)
    ]
    return [
        LocalShare(update, user, float(loss)) if fine else compute_share(problem)
        for problem, update, user, loss, fine in zip(
            problems, updates, users, losses, good, strict=True
        )
    ]


@lru_cache(maxsize=8)
def _upper(dim: int) -> npt.NDArray[np.int64]:
    """Indices of the upper half in a flat k x k matrix, in the order of `pack_gram`."""
    rows, columns = np.triu_indices(dim)
    return np.asarray(rows * dim + columns, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class PaperBatch:
    """Inputs of the paper graph by name; (S, B, …) for what changes with the step."""

    arrays: dict[str, Array]
    steps: int


def paper_size(problem: PaperProblem) -> tuple[int, ...]:
    """What makes two local rounds alike: steps, rows with a D, rows without."""
    return problem.steps, len(problem.own_rows), len(problem.other_rows)


def pack_paper(problems: Sequence[PaperProblem], dtype: type[np.floating[Any]]) -> PaperBatch:
    """The batch of local rounds with the same k. Every block has at least one row."""
    count, dim = len(problems), len(problems[0].start.user)
    steps = max(problem.steps for problem in problems)
    own = max(1, *(len(problem.own_rows) for problem in problems))
    other = max(1, *(len(problem.other_rows) for problem in problems))
    arrays: dict[str, Array] = {
        "user": np.zeros((count, 1, dim), dtype),
        "bias": np.zeros((count, 1, 1), dtype),
        "personal": np.zeros((count, own, dim), dtype),
        "own": np.zeros((count, own, dim), dtype),
        "other": np.zeros((count, other, dim), dtype),
        "own_weights": np.zeros((steps, count, own, 1), dtype),
        "own_liked": np.zeros((steps, count, own, 1), dtype),
        "other_weights": np.zeros((steps, count, other, 1), dtype),
        "other_liked": np.zeros((steps, count, other, 1), dtype),
        "reach": np.zeros((count, 1, 1), dtype),
    }
    scalars = np.zeros((len(SCALARS), steps, count, 1, 1), dtype)
    for place, problem in enumerate(problems):
        _fill(arrays, place, problem)
        scalars[:, : problem.steps, place, 0, 0] = _scalars(problem, dim)
    arrays.update(zip(SCALARS, scalars, strict=True))
    return PaperBatch(arrays, steps)


SCALARS = ("user_rate", "personal_rate", "common_rate", "push", "shrink", "fade", "apart",
           "l1", "l2")  # fmt: skip


def _scalars(problem: PaperProblem, dim: int) -> Array:
    """What a step needs beside the samples, in the order of `SCALARS`: (9, S)."""
    plan = problem.schedule
    level = plan.common_rate * plan.sparse / dim  # theta / w_j
    weight = plan.sparse / dim
    none = np.zeros(problem.steps)
    return np.stack(
        [
            plan.user_rate,
            plan.personal_rate,
            plan.common_rate,
            plan.personal_rate * 2.0 * plan.apart / dim,
            level if plan.penalty == "l1" else none,
            2.0 * level if plan.penalty == "l2" else none,
            plan.apart / dim,
            weight if plan.penalty == "l1" else none,
            weight if plan.penalty == "l2" else none,
        ]
    )


def _fill(arrays: dict[str, Array], place: int, problem: PaperProblem) -> None:
    own, other, steps = len(problem.own_rows), len(problem.other_rows), problem.steps
    start = problem.start
    arrays["user"][place, 0] = start.user
    arrays["bias"][place] = start.bias
    arrays["personal"][place, :own] = start.personal
    arrays["own"][place, :own] = start.own
    arrays["other"][place, :other] = start.other
    arrays["own_weights"][:steps, place, :own, 0] = problem.own_weights
    arrays["own_liked"][:steps, place, :own, 0] = problem.own_liked
    arrays["other_weights"][:steps, place, :other, 0] = problem.other_weights
    arrays["other_liked"][:steps, place, :other, 0] = problem.other_liked
    arrays["reach"][place] = problem.schedule.reach * np.sqrt(len(start.user))


def unpack_paper(
    problems: Sequence[PaperProblem],
    user: Array,
    bias: Array,
    personal: Array,
    own: Array,
    other: Array,
    losses: Array,
) -> Iterator[PaperResult]:
    """Each device's result, in float64 and checked.

    Raises:
        Diverged: a device's round ran away.
    """
    for place, problem in enumerate(problems):
        with_d, without = len(problem.own_rows), len(problem.other_rows)
        model = LocalModel(
            user[place, 0].astype(np.float64),
            float(bias[place, 0, 0]),
            personal[place, :with_d].astype(np.float64),
            own[place, :with_d].astype(np.float64),
            other[place, :without].astype(np.float64),
        )
        yield finish(problem, model, losses[: problem.steps, place, 0, 0].astype(np.float64))
