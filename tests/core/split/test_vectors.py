"""Answers to questions as reports for two servers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap_core.errors import MalformedMessage
from fedrap_core.questions.answers import Layout
from fedrap_core.split.numbers import Numbers, add_noise
from fedrap_core.split.proof import R
from fedrap_core.split.report import HELPER, LEADER, Report, make_report
from fedrap_core.split.vectors import (
    STEP,
    VectorTerms,
    join_vectors,
    sum_spread,
    to_vector,
    vector_noise,
    vector_terms,
)
from fedrap_core.split.verify import Looked, RunningSum, accepts

QUESTION, SECRET = bytes(range(16)), b"of both servers."
LAYOUTS = (Layout(1, 1, 1), Layout(3, 2, 1), Layout(1, 1, 7), Layout(1, 1, 0, signed=True))
LISTS = Layout(1, 1, 0, buckets=128)


def report_of(terms: VectorTerms, numbers: np.ndarray, secret: int = 1) -> Report:
    none = np.zeros(0, dtype=np.int64)
    whole = Numbers(none, none.reshape(0, 0), np.asarray(numbers, dtype=np.int64), 0)
    return make_report(terms, whole, bytes([secret]) * 32)


class Pair:
    """Both servers' running sums of one question."""

    def __init__(self, terms: VectorTerms) -> None:
        self.terms = terms
        self.sums = (RunningSum(terms, LEADER), RunningSum(terms, HELPER))

    def count(self, report: Report) -> bool:
        looked: list[Looked] = []
        for server, share in ((LEADER, report.leader), (HELPER, report.helper)):
            looked.append(self.sums[server].look(SECRET, report.id, report.public, share))
        if accepts(self.terms, looked[0].seen, looked[1].seen, looked[0].joint):
            return True
        for one, mine in zip(self.sums, looked, strict=True):
            one.take_out(mine)
        return False

    def total(self) -> np.ndarray:
        nothing = np.zeros(self.terms.whole, dtype=np.int64)
        mine, other = (add_noise(one.share(), nothing) for one in self.sums)
        return join_vectors(mine, other)


@pytest.mark.spec("14.10")
@pytest.mark.parametrize("layout", [*LAYOUTS, LISTS])
def test_both_shares_of_the_sum_are_the_sum_of_the_answers(layout: Layout) -> None:
    terms, rng = vector_terms(QUESTION, layout), np.random.default_rng(0)
    pair, expected = Pair(terms), np.zeros(layout.size)
    for secret in range(3):
        numbers = rng.integers(-3, 4, layout.size)
        assert pair.count(report_of(terms, numbers, secret + 1))
        expected += numbers * STEP
    np.testing.assert_allclose(pair.total(), expected)
    states = [one.encoded() for one in pair.sums]
    pair.sums = (RunningSum(terms, 0, states[0]), RunningSum(terms, 1, states[1]))
    np.testing.assert_allclose(pair.total(), expected)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(LAYOUTS), st.randoms(use_true_random=False), st.integers(0, 1))
def test_no_honest_answer_is_shrunk_however_it_is_rounded(
    layout: Layout, random: object, up: int
) -> None:
    """Also gains of 0 and 1 alone, as of a hit rate, fit below Q."""
    rng = np.random.default_rng(random.randrange(2**32))  # type: ignore[attr-defined]
    lowest = -1.0 if layout.signed else 0.0
    count = (layout.blocks, 1 + layout.compared)
    drawn = (
        rng.choice([lowest, 1.0], count) if rng.random() < 0.5 else rng.uniform(lowest, 1, count)
    )
    gains: list[list[float]] = drawn.tolist()
    answer = layout.vector(gains, layout.groups - 1)
    terms = vector_terms(QUESTION, layout)
    made = to_vector(answer, terms, np.full(layout.size, up * (1.0 - 1e-12)))
    assert np.abs(made.whole * STEP - answer).max() < STEP
    assert made.squares <= terms.limit
    assert terms.limit * STEP**2 < 1.02 * layout.clip**2  # hardly more than a sealed one's


def test_rounding_keeps_the_mean_and_its_spread_is_stated() -> None:
    layout = Layout(1, 1, 1)
    terms, rng = vector_terms(QUESTION, layout), np.random.default_rng(1)
    answer = layout.vector([[0.37, 0.12]], 0)
    total = sum(to_vector(answer, terms, rng.random(layout.size)).whole for _ in range(4000))
    apart = np.abs(total * STEP - 4000 * answer)
    assert apart.max() < 4 * sum_spread(terms, 0.0, 4000)


@pytest.mark.spec("14.10")
@pytest.mark.parametrize("numbers", [[R, R, 9, R, 9], [32, 0, 0, 0, 0], [0, 0, 0, 0, 10**6]])
def test_numbers_that_no_answer_has_are_not_counted(numbers: list[int]) -> None:
    """Their owner keeps to the protocol in all else; the proof is what tells."""
    terms = vector_terms(QUESTION, Layout(1, 1, 1))
    pair = Pair(terms)
    assert not pair.count(report_of(terms, np.array(numbers)))
    assert pair.total().tolist() == [0.0] * 5


def test_an_altered_share_is_refused_or_not_counted() -> None:
    terms = vector_terms(QUESTION, Layout(1, 1, 1))
    report = report_of(terms, np.array([8, 3, 1, -2, 0]))
    altered = bytes([report.leader[80] ^ 1])
    share = report.leader[:80] + altered + report.leader[81:]  # a number
    with pytest.raises(MalformedMessage):
        RunningSum(terms, LEADER).look(SECRET, report.id, report.public, share)
    with pytest.raises(MalformedMessage):
        RunningSum(terms, HELPER).look(SECRET, bytes(16), report.public, report.helper)
    other = VectorTerms(bytes(16), terms.whole, terms.limit)
    with pytest.raises(MalformedMessage):
        RunningSum(other, LEADER).look(SECRET, report.id, report.public, report.leader)
    proof = bytes([report.leader[-1] ^ 1])  # what is not bound is proven
    forged = Report(report.id, report.public, report.leader[:-1] + proof, report.helper)
    assert not Pair(terms).count(forged)


def test_all_reports_of_a_question_have_one_length() -> None:
    terms = vector_terms(QUESTION, LISTS)
    sizes = {
        tuple(map(len, (one.public, one.leader, one.helper)))
        for one in (report_of(terms, np.zeros(131)), report_of(terms, np.eye(131)[5] * R))
    }
    assert len(sizes) == 1


def test_noise_of_one_server_follows_from_its_key_and_the_set_and_has_its_deviation() -> None:
    terms = vector_terms(QUESTION, Layout(1, 1, 0, buckets=1024))
    key = bytes(32)
    drawn = vector_noise(terms, key, 3.0, b"a set")
    assert drawn.tolist() == vector_noise(terms, key, 3.0, b"a set").tolist()
    assert drawn.tolist() != vector_noise(terms, key, 3.0, b"another").tolist()
    assert float(np.std(drawn)) == pytest.approx(3.0 * math.sqrt(terms.limit), rel=0.1)
    assert not vector_noise(terms, key, 0.0, b"a set").any()
