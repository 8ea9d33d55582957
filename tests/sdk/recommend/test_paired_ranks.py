"""A staged release beside the full one: what each new interaction says of both."""

from __future__ import annotations

import math

import numpy as np

from fedrap.recommend.local_model import LocalModel
from fedrap.recommend.measuring import Gains, measured
from fedrap.recommend.release import ItemList, head_of
from fedrap.results import Interaction
from fedrap_core.items import join_ids
from fedrap_core.model import CommonItems
from fedrap_core.plan import Scoring
from fedrap_core.quantize import quantize_rows
from fedrap_core.questions.gains import MOST_COUNTED
from fedrap_core.wire.releases import pack_release

NAMES = [f"item-{row}" for row in range(40)]
ROWS = np.random.default_rng(2).normal(size=(40, 4))
USED = [
    (number, Interaction(f"item-{3 * number}", "view", 1.0, float(number))) for number in range(9)
]


def a_model(version: int, rows: np.ndarray, withheld: tuple[int, ...] = ()) -> LocalModel:
    common = CommonItems(version, quantize_rows(rows))
    hidden = np.isin(np.arange(len(rows)), withheld)
    message = pack_release(bytes(16), 3, common, 1, Scoring(), 0.0, hidden)
    return LocalModel(head_of(message), common, ItemList(1, 40, join_ids(NAMES)))


def looked_at(full: LocalModel, staged: LocalModel) -> Gains:
    """After the first three interactions both releases are there."""
    return measured(Gains().adopted(2), staged, USED, None, full)


def test_the_same_numbers_lead_by_nothing() -> None:
    found = looked_at(a_model(7, ROWS), a_model(8, ROWS)).pair(8)
    assert (found.count, found.mean) == (6, 0.0)


def test_leads_are_of_the_ranks_under_both() -> None:
    other = np.random.default_rng(3).normal(size=ROWS.shape)
    full, staged = a_model(7, ROWS), a_model(8, other)
    gains, wanted = looked_at(full, staged), []
    for number, one in USED[3:]:
        before = [each for _, each in USED[:number]]
        mine, theirs = full.anew().ranks_of(before, None, one), staged.ranks_of(before, None, one)
        assert mine is not None
        assert theirs is not None
        bits = math.log2((mine[0] + 2) / (theirs[0] + 2))
        wanted.append(max(-1.0, min(1.0, bits / 2)))
    assert gains.pair(8).leads == sum(wanted) != 0
    assert gains.of(8).count == 6  # the staged one is in use, so its own gains count too
    assert gains.of(7).count == 0


def test_an_item_that_the_staged_one_no_longer_shows_counts_against_it() -> None:
    """A release that lost items would look as if nothing had been touched otherwise."""
    gone = tuple(3 * number for number in range(3, 9))
    found = looked_at(a_model(7, ROWS), a_model(8, ROWS, gone))
    assert (found.pair(8).count, found.pair(8).mean) == (6, -1.0)
    assert found.of(8).count == 0
    back = looked_at(a_model(7, ROWS, gone), a_model(8, ROWS))
    assert back.pair(8).mean == 1.0
    neither = looked_at(a_model(7, ROWS, gone), a_model(8, ROWS, gone))
    assert neither.pair(8).count == 0


def test_no_device_counts_for_more_than_its_twenty() -> None:
    pair = Gains().pair(8)
    for rank in range(3 * MOST_COUNTED):
        pair = pair.with_ranks(10 * rank, rank)
    assert pair.count == MOST_COUNTED
    assert pair.mean is not None
    assert 0 < pair.mean <= 1
