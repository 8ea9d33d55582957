"""Asked in time: learn from all that happened before a moment, then ask what is touched in the
days after it.

Leave-last-out asks each user at the end of that user's history, and lets a method learn from what
others did later. Here one moment cuts the whole data, as on the day on which a release is made:
everybody's past may be learnt from, and who comes back within the days is asked for one item that
is new to that person, drawn by the seed among those days' items.

Cuts roll: seed 0 cuts half-way through the span of the data, each further seed a tenth later, so
that settings which were chosen for the first are never of the future. Validation cuts so many days
before the test as are asked about; and, where settings are chosen, as many days before that again
and again, for one cut has few answers. No answer of a validation is later than the test's cut.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np

from fedrap_simulation.data.errors import BadData
from fedrap_simulation.data.interactions import Interactions, Rows, make_histories
from fedrap_simulation.data.times import are_real
from fedrap_simulation.evaluation.splits import Split, draw_negatives, first_of_each
from fedrap_simulation.evaluation.task import ProtocolName, Stage, Task

DAY = 86_400.0  # seconds
DAYS = 10.0  # that are asked about, unless said
CUTS = 5
VALIDATIONS = 6  # cuts that settings are chosen on, where the data has as many
ENOUGH = 1_000  # answers after which no further cut is needed: each one is learnt anew
_FIRST, _STEP = 0.5, 0.1  # of the span of the data


def cut_at(data: Interactions, seed: int) -> float:
    """The moment of the test's cut.

    Raises:
        BadData: there are no times, times of users cannot be compared, or no such cut.
    """
    if data.time is None or not are_real(data):
        raise BadData(
            f"{data.name} has no times that can be compared between users; use --split last"
        )
    if not 0 <= seed < CUTS:
        raise BadData(f"--split time has {CUTS} cuts: seeds 0 to {CUTS - 1}, got {seed}")
    start, end = float(data.time.min()), float(data.time.max())
    return start + (_FIRST + _STEP * seed) * (end - start)


def make_time_split(
    data: Interactions,
    seed: int,
    *,
    days: float = DAYS,
    least: int = 10,
    protocol: ProtocolName = "clean",
    validations: int = 1,
) -> Split:
    """The questions of a cut. Who has fewer than `least` items by then is learnt from, not asked.

    With more than one of the `validations` the later ones are the `earlier` of the first, until
    they have ENOUGH answers together; those that nobody could be asked at are left out.

    Raises:
        BadData: as `cut_at`; or nobody comes back.
    """
    if not days > 0:
        raise BadData("--days must be above 0")
    cut = cut_at(data, seed)
    test, names = _task(data, seed, "test", cut, days, least, protocol)
    validation, _ = _task(data, seed, "validation", cut - days * DAY, days, least, protocol)
    earlier: list[Task] = []
    for back in range(2, validations + 1):
        if sum(len(one.asked_users) for one in (validation, *earlier)) >= ENOUGH:
            break
        with contextlib.suppress(BadData):
            at = cut - back * days * DAY
            earlier.append(_task(data, seed, "validation", at, days, least, protocol, back)[0])
    validation = replace(validation, earlier=tuple(earlier))
    return Split(validation, test, names, "time")


def _task(
    data: Interactions,
    seed: int,
    stage: Stage,
    cut: float,
    days: float,
    least: int,
    protocol: ProtocolName,
    back: int = 1,
) -> tuple[Task, tuple[str, ...]]:
    """The question of a cut, and who is known before it, in order."""
    assert data.time is not None
    rng = np.random.default_rng([seed, 0x71E, stage == "test", *([back] if back > 1 else [])])
    order = np.lexsort((rng.random(len(data)), data.time))
    order = order[first_of_each(data.user[order], data.item[order], len(data.items))]
    time = data.time[order]
    past, soon = order[time <= cut], order[(time > cut) & (time <= cut + days * DAY)]
    known = np.unique(data.user[past])  # (U,) places in data.users
    soon = soon[np.isin(data.user[soon], known)]
    user = np.searchsorted(known, data.user[past])
    train = make_histories(user, data.item[past], len(known))
    # One new item of each user who comes back: the first in an order that is drawn.
    drawn = soon[rng.permutation(len(soon))]
    who, first = np.unique(np.searchsorted(known, data.user[drawn]), return_index=True)
    enough = train.lengths[who] >= least
    asked, target = who[enough], data.item[drawn[first]][enough]
    if len(asked) == 0:
        raise BadData(
            f"nobody in {data.name} with {least} items before the cut has a new one within "
            f"{days:g} days; ask about more with --days, or lower --min-interactions"
        )
    everyone = np.concatenate([user, np.searchsorted(known, data.user[soon])])
    whole = make_histories(everyone, np.concatenate([data.item[past], data.item[soon]]), len(known))
    task = Task(
        data.name,
        protocol,
        stage,
        len(data.items),
        train,
        True,
        _spread(asked, target, len(known)),
        draw_negatives(whole, len(data.items), rng),
        train if protocol == "clean" else whole,
        times=data.time[past][np.argsort(user, kind="stable")],
        asked=asked,
        asked_at=cut,
    )
    return task, tuple(data.users[one] for one in known)


def _spread(asked: Rows, target: Rows, users: int) -> Rows:
    """(U,) the target of who is asked, -1 for all others."""
    found = np.full(users, -1, dtype=np.int64)
    found[asked] = target
    return found
