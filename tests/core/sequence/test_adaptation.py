"""A query that is adapted to what its user did and the model did not expect."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.model import SequenceRows
from fedrap_core.plan import Scoring, SequenceScoring
from fedrap_core.sequence.adaptation import HALF, LAST, expected_rows, surprises
from fedrap_core.sequence.model import Matrix, SequenceItems, from_rows, to_rows
from fedrap_core.sequence.user import derive_query, sequence_reasons, sequence_scores
from tests.core.made import history_of, quick, seeds

from .made import DIM, SIZE, query_by_hand, some_items

histories = st.lists(st.integers(0, SIZE - 1), max_size=60)
windows = st.sampled_from([2, 5, 40, 200])


def scoring(adapt: float = 0.7, **changes: object) -> SequenceScoring:
    return msgspec.structs.replace(SequenceScoring(adapt=adapt), **changes)


def expected_by_hand(items: SequenceItems, query: Matrix) -> Matrix:
    chances = np.exp(items.outputs @ query + items.bias)
    return np.asarray(chances @ items.outputs / chances.sum())


@pytest.mark.spec("10.8")
@quick
@given(seeds, histories, windows)
def test_the_step_is_that_of_the_formula(seed: int, newest_first: list[int], longest: int) -> None:
    items, mix = some_items(seed), scoring(longest=longest)
    step = np.zeros(DIM)
    for age in range(min(LAST, longest, max(0, len(newest_first) - 1))):
        before = newest_first[age + 1 : age + 1 + longest]
        expected = expected_by_hand(items, query_by_hand(items, before, mix))
        step += 2.0 ** (-age / HALF) * (items.outputs[newest_first[age]] - expected)
    plain = query_by_hand(items, newest_first[:longest], mix)
    found = derive_query(items, history_of(*newest_first), mix)
    np.testing.assert_allclose(found.query, plain + 0.7 * step, atol=2e-5)
    reasons = sequence_reasons(found, items, np.arange(SIZE), 0.5)
    np.testing.assert_allclose(
        reasons.history.sum(axis=1) + reasons.popularity,
        sequence_scores(found, items, 0.5),
        atol=1e-9,
    )


@quick
@given(seeds, histories, histories, windows)
def test_following_a_history_gives_what_deriving_it_gives(
    seed: int, older: list[int], newer: list[int], longest: int
) -> None:
    rows, mix = to_rows(some_items(seed)), scoring(longest=longest)
    user, seen = derive_query(rows, history_of(*older), mix), older
    for item in newer[:8]:
        seen = [item, *seen]
        user = derive_query(rows, history_of(*seen), mix, user)
        fresh = derive_query(rows, history_of(*seen), mix)
        np.testing.assert_allclose(user.query, fresh.query, atol=1e-5)
        assert user.items.tolist() == fresh.items.tolist()
    # Whatever another history was like, what is derived is of this one.
    other = derive_query(rows, history_of(*newer), mix, user)
    fresh = derive_query(rows, history_of(*newer), mix)
    np.testing.assert_allclose(other.query, fresh.query, atol=1e-5)


def test_only_what_is_new_is_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, mix, asked = to_rows(some_items(3)), scoring(), list[int]()

    def watched(items: SequenceItems | SequenceRows, queries: Matrix) -> Matrix:
        asked.append(len(queries))
        return expected_rows(items, queries)

    monkeypatch.setattr("fedrap_core.sequence.adaptation.expected_rows", watched)
    many = [n % SIZE for n in range(300)]
    user = derive_query(rows, history_of(*many), mix)
    derive_query(rows, history_of(4, *many), mix, user)
    assert asked == [LAST, 1]
    derive_query(rows, history_of(*many[1:]), mix, user)  # the newest was removed
    assert asked == [LAST, 1, LAST]


def test_blocks_of_a_large_catalogue_add_up() -> None:
    items = from_rows(to_rows(some_items(5, size=20_000)))
    queries = np.random.default_rng(0).normal(0.0, 2.0, (3, DIM))
    by_hand = [expected_by_hand(items, query) for query in queries]
    np.testing.assert_allclose(expected_rows(items, queries), by_hand, atol=1e-4)
    np.testing.assert_allclose(expected_rows(to_rows(items), queries), by_hand, atol=1e-4)
    assert surprises(items, np.array([3]), scoring()).shape == (0, DIM)  # nothing stands before it


@pytest.mark.parametrize("mix", [SequenceScoring(), scoring(0.0)])
def test_off_it_changes_nothing(mix: SequenceScoring) -> None:
    items, history = some_items(2), history_of(1, 5, 1, 3)
    found = derive_query(items, history, mix).query
    np.testing.assert_array_equal(found, derive_query(items, history, SequenceScoring()).query)


def test_without_order_it_is_off() -> None:
    flat = SequenceScoring(adapt=0.7, ordered=False)
    assert flat.adapts == 0.0
    assert scoring().adapts == 0.7


def test_what_is_off_is_not_in_the_bytes() -> None:
    off, on = Scoring(sequence=SequenceScoring()), Scoring(sequence=scoring(0.25))
    assert b"adapt" not in msgspec.msgpack.encode(off)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(on), type=Scoring) == on
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"adapt": -0.1}, SequenceScoring)
