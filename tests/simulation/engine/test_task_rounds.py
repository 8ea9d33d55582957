"""Rounds of a whole task: with bounds that bind nobody what the engine of one part learns, and with
bounds that bind what the core's rules say."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np
import pytest

from fedrap_coordinator.privacy.recipe import Expected, derive
from fedrap_coordinator.settings import Settings
from fedrap_core.plan import OFF, SolveMethod, sequence_of
from fedrap_simulation.engine.task_rounds import TaskReleased, run_task_rounds, schedule_of
from tests.simulation.methods.planted import planted_split

TASK = planted_split().test
TURNS = 10


def settings(**learning: object) -> Settings:
    """What `init` writes for the planted population, with small parts and few rounds."""
    made = derive(Expected(TASK.users, TASK.items, None, 20.0)).settings
    assert isinstance(made.method, SolveMethod)
    part = sequence_of(made.method)
    assert part is not None
    part = msgspec.structs.replace(part, dim=8)
    return msgspec.structs.replace(
        made,
        method=msgspec.structs.replace(made.method, dim=8, sequence=part),
        round=msgspec.structs.replace(made.round, total=2 * TURNS),
        learning=msgspec.structs.replace(made.learning, **learning),
    )


def released(these: Settings, seed: int = 0) -> list[TaskReleased]:
    return list(run_task_rounds(TASK.train, TASK.items, these, seed))


def test_a_start_and_a_release_for_each_round_the_same_under_the_same_seed() -> None:
    first, again = released(settings()), released(settings())
    assert [one.step for one in first] == list(range(2 * TURNS + 1))
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(one.common, other.common)
        assert one.sequence is not None
        assert other.sequence is not None
        assert np.array_equal(one.sequence.outputs, other.sequence.outputs)
    assert not np.array_equal(first[-1].common, released(settings(), seed=1)[-1].common)


def test_no_row_goes_further_than_its_step_allows() -> None:
    """`row_step` root mean square norms of C at the most, and what int8 rounds away."""
    reach = 0.02
    alone = {"score_cap": None, "zeros": 0.0, "min_support": 0.0}
    found = released(settings(row_step=reach, **alone))
    free = released(settings(row_step=None, **alone))

    def furthest(some: list[TaskReleased]) -> float:
        """The longest move, in root mean square norms before it."""
        return max(
            float(np.linalg.norm(after.common - before.common, axis=1).max())
            / float(np.sqrt(np.mean(np.sum(before.common**2, axis=1))))
            for before, after in pairwise(some)
        )

    assert furthest(found) < 1.5 * reach < furthest(free)


def test_items_that_too_few_stand_behind_are_withheld() -> None:
    touched = np.bincount(TASK.train.items, minlength=TASK.items)
    last = released(settings(min_support=6.0))[-1]
    assert last.withheld[touched == 0].all()
    assert not last.withheld[touched > 20].any()
    assert not released(settings(min_support=0.0))[-1].withheld.any()


def test_a_plan_without_the_sequence_part_has_none() -> None:
    these = settings()
    plain = msgspec.structs.replace(these.method, sequence=OFF)
    assert released(msgspec.structs.replace(these, method=plain))[-1].sequence is None


@pytest.mark.parametrize(
    ("users", "most", "total", "rounds", "cohort"),
    [
        (6040, 604, 100, 100, 604),  # as `init` plans for ml-1m
        (943, 94, 100, 100, 94),
        (1000, 100, 5000, 100, 100),  # a task that goes on: K = 10 are spent after 100 rounds
        (300, 2000, 100, 20, 150),  # made for more devices than there are: b = 2 leaves half
    ],
)
def test_nobody_takes_part_more_than_k_times_or_twice_in_a_row(
    users: int, most: int, total: int, rounds: int, cohort: int
) -> None:
    these = settings(min_support=0.0)
    limits = msgspec.structs.replace(
        these.round, max_updates=most, min_updates=min(most, 20), total=total
    )
    planned = schedule_of(users, msgspec.structs.replace(these, round=limits))
    assert (planned.rounds, round(planned.part * users)) == (rounds, cohort)


def test_noise_is_refused() -> None:
    these = settings(min_support=0.0)
    noisy = msgspec.structs.replace(these.privacy, noise=1.0)
    with pytest.raises(ValueError, match="without noise"):
        released(msgspec.structs.replace(these, privacy=noisy))
