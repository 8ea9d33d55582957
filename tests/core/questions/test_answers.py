"""Gains and answers: within their bounds whatever is said, and read back as they were."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.errors import NotFinite, WrongShape
from fedrap_core.questions.answers import Layout, pack, unpack
from fedrap_core.questions.gains import METRICS, MOST_COUNTED, ReleaseGains, gains_of

layouts = st.builds(
    Layout, st.integers(1, 8), st.integers(1, 2), st.integers(0, 15), signed=st.booleans()
)
share = st.floats(0, 1)


def test_gains_are_the_formulas() -> None:
    assert gains_of(0) == (1.0, 1.0, 1.0, 1.0)
    assert gains_of(9) == (1.0, 1 / math.log2(11), 1 / math.log2(11), 0.1)
    assert gains_of(10) == (0.0, 0.0, 1 / math.log2(12), 1 / 11)


def test_a_device_counts_a_few_interactions_and_no_more() -> None:
    gains = ReleaseGains(3)
    assert gains.means("ndcg10") is None
    for rank in range(2 * MOST_COUNTED):
        gains = gains.with_ranks(0, rank, 1)
    assert gains.count == MOST_COUNTED
    assert gains.is_full
    for metric in METRICS:
        own, popular, lately = gains.means(metric) or (0.0, 0.0, 0.0)
        assert own == 1.0
        assert 0 < popular < lately <= 1


@given(layouts, st.data())
def test_no_gains_lie_above_the_clip(layout: Layout, data: st.DataObject) -> None:
    lines = st.one_of(
        st.none(), st.lists(share, min_size=1 + layout.compared, max_size=1 + layout.compared)
    )
    gains = data.draw(st.lists(lines, min_size=layout.blocks, max_size=layout.blocks))
    group = data.draw(st.integers(0, layout.groups - 1))
    answer = layout.vector(gains, group)
    assert answer.shape == (layout.size,)
    assert np.linalg.norm(answer) <= layout.clip * (1 + 1e-12)
    assert layout.clipped(answer) is answer or np.linalg.norm(answer) > layout.clip


def test_the_clip_is_reached_and_so_it_is_the_sensitivity() -> None:
    layout = Layout(2, 2, 3)
    answer = layout.vector([(1.0, 0.0, 0.0, 0.0)] * 2, 1)
    assert np.linalg.norm(answer) == pytest.approx(layout.clip)


@given(layouts, st.integers(0, 2**32 - 1), st.floats(0, 1e30))
def test_a_lying_device_moves_a_sum_by_the_clip_at_most(
    layout: Layout, seed: int, size: float
) -> None:
    lie = np.random.default_rng(seed).normal(0.0, size, layout.size)
    assert np.linalg.norm(unpack(pack(lie), layout)) <= layout.clip * (1 + 1e-6)


@given(layouts)
def test_all_answers_have_one_length(layout: Layout) -> None:
    nothing = layout.vector([None] * layout.blocks, 0)
    everything = layout.vector([[0.5] * (1 + layout.compared)] * layout.blocks, 0)
    assert len(pack(nothing)) == len(pack(everything)) == 4 * layout.size
    np.testing.assert_allclose(unpack(pack(everything), layout), everything, rtol=1e-6)


@pytest.mark.parametrize("length", [0, 3, 4, 16, 24])
def test_another_length_is_no_answer(length: int) -> None:
    with pytest.raises(WrongShape):
        unpack(bytes(length), Layout(1, 1, 1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_only(bad: float) -> None:
    with pytest.raises(NotFinite):
        unpack(pack(np.full(5, bad)), Layout(1, 1, 1))
