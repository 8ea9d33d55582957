"""Whether times are times, on sets made to be and not to be."""

from __future__ import annotations

import numpy as np
import pytest

from fedrap_simulation.data.interactions import Interactions, Numbers
from fedrap_simulation.data.times import are_labels, are_ranks, are_real, doubts

USERS, ITEMS, EACH = 30, 40, 12


def data(time: Numbers | None) -> Interactions:
    rng = np.random.default_rng(1)
    user = np.repeat(np.arange(USERS), EACH)
    item = np.concatenate([rng.permutation(ITEMS)[:EACH] for _ in range(USERS)])
    users, items = (tuple(str(one) for one in range(n)) for n in (USERS, ITEMS))
    return Interactions("made", users, items, user, item, time=time)


ITEM = data(None).item
RANKS = np.tile(np.arange(EACH, dtype=np.float64), USERS)
SECONDS = np.random.default_rng(2).integers(10**9, 2 * 10**9, USERS * EACH).astype(np.float64)


@pytest.mark.parametrize(
    ("time", "ranks", "labels", "words"),
    [
        (None, False, False, []),
        (SECONDS, False, False, []),
        (RANKS, True, False, ["ranks within each user"]),
        (RANKS[::-1] + 100.0, True, False, ["ranks within each user"]),
        (1e6 - 3.0 * ITEM, False, True, ["labels of the items"]),
        (np.floor(RANKS / 4.0), False, False, ["100% of the interactions share"]),
        (np.zeros(USERS * EACH), False, False, ["100% of the interactions share"]),
    ],
    ids=["none", "real", "ranks", "ranks from 100", "labels", "tied", "one time"],
)
def test_what_times_are(time: Numbers | None, ranks: bool, labels: bool, words: list[str]) -> None:
    made = data(time)
    assert are_ranks(made) == ranks
    assert are_labels(made) == labels
    assert are_real(made) == (time is not None and not ranks and not labels)
    found = list(doubts(made))
    assert len(found) == len(words)
    assert all(part in one for part, one in zip(words, found, strict=True))


def test_a_few_gaps_do_not_hide_ranks() -> None:
    time = RANKS.copy()
    time[EACH - 1] += 5.0  # one user of thirty
    assert are_ranks(data(time))
