"""Updates as numbers, reports of them, two servers' sums, and every way to be refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap_core.errors import MalformedMessage
from fedrap_core.plan import Plan
from fedrap_core.split import report as report_module
from fedrap_core.split.dpf import Core, ReportBlocks, Shape, expand_leaves, make_core, root_seeds
from fedrap_core.split.field import Words, from_signed, inverse, reduce, to_signed
from fedrap_core.split.numbers import (
    Terms,
    add_noise,
    join_sums,
    server_noise,
    to_numbers,
    uniform_count,
)
from fedrap_core.split.proof import R, decide
from fedrap_core.split.report import (
    HELPER_BYTES,
    Report,
    leader_bytes,
    make_report,
    public_bytes,
)
from fedrap_core.split.verify import RunningSum
from tests.core.split.made import (
    KEY,
    Pair,
    expected_sum,
    secret_of,
    some_numbers,
    some_report,
    some_terms,
    some_update,
)


@settings(max_examples=20)
@given(st.integers(0, 1000), st.integers(0, 12), st.floats(0, 30), st.booleans())
def test_numbers_keep_within_the_clip(seed: int, count: int, size: float, sequence: bool) -> None:
    terms = some_terms(sequence=sequence)
    numbers = some_numbers(terms, seed, count, size)
    assert numbers.squares <= terms.circuit.limit
    assert max(abs(numbers.values).max(initial=0), abs(numbers.whole).max()) <= R
    assert len(numbers.rows) <= 6
    assert numbers.fits in (R, -R)
    assert (np.diff(numbers.rows) > 0).all()


def test_rounding_keeps_the_mean() -> None:
    terms = some_terms()
    update = some_update(terms, 1, size=0.3)
    drawn = np.random.default_rng(5).random((4000, uniform_count(terms)))
    mean = np.mean([to_numbers(update, terms, one).values for one in drawn], axis=0)
    assert np.allclose(mean * terms.step, update.values, atol=5 * terms.step * 0.5 / 4000**0.5)


def test_of_too_many_rows_the_longest_are_kept() -> None:
    terms = some_terms(rows=3)
    update = some_update(terms, 2, count=8)
    numbers = to_numbers(update, terms, np.full(uniform_count(terms), 0.5))
    longest = np.argsort(-np.sum(update.values**2, axis=1))[:3]
    assert set(numbers.rows) == set(update.rows[longest])


def test_a_plan_without_split_has_no_terms() -> None:
    with pytest.raises(ValueError, match="no split"):
        Terms(bytes(16), Plan(), 10)


@pytest.mark.spec("13.3", "13.7")
@pytest.mark.parametrize("sequence", [False, True])
def test_two_servers_sum_what_devices_have(sequence: bool) -> None:
    terms = some_terms(sequence=sequence)
    pair, many = Pair(terms), [some_numbers(terms, seed) for seed in range(5)]
    for seed, numbers in enumerate(many):
        assert pair.offer(make_report(terms, numbers, secret_of(seed)))
    both = to_signed(reduce(pair.leader.share() + pair.helper.share()))
    assert (both == expected_sum(terms, many)).all()
    zero = server_noise(terms, bytes(32), 1, {})
    shares = [add_noise(s.share(), zero) for s in (pair.leader, pair.helper)]
    joined = join_sums(terms, shares[0], shares[1], 5, 1)
    touched = sorted({int(r) for n in many for r, v in zip(n.rows, n.values, strict=True)
                      if v[: terms.method.dim].any()})  # fmt: skip
    assert joined.total.rows.tolist() == touched
    exact = sum(n.whole[:10] for n in many) * terms.step / 8.0  # the scale of the Gram matrix
    assert np.allclose(joined.total.packed_gram, exact)
    assert joined.fitting == sum(n.fits for n in many) / R / 2
    assert joined.total.bound == pytest.approx(3**0.5 * 10.0)
    assert [len(part.rows) > 0 for part in joined.total.parts] == [True] * len(terms.parts)


def test_each_server_adds_noise_of_its_own() -> None:
    terms = some_terms(items=2000, noise=1.5)
    one, other = (server_noise(terms, key, 3, {3: b"set"}) for key in (b"k" * 32, b"l" * 32))
    assert np.std(one[1:]) == pytest.approx(1.5 * 155, rel=0.05)  # z·S/Δ, S/Δ = 31/.2
    assert abs(np.corrcoef(one[1:], other[1:])[0, 1]) < 0.05
    again = server_noise(terms, b"k" * 32, 3, {3: b"set"})
    assert (again == one).all()
    assert not (server_noise(terms, b"k" * 32, 3, {3: b"tes"}) == one).all()
    shares = [add_noise(from_signed(np.zeros(terms.sum_words, int)), n) for n in (one, other)]
    joined = join_sums(terms, shares[0], shares[1], 2, 3)
    assert joined.total.spread == pytest.approx(2**0.5 * 1.5 * 10.0)
    assert np.std(joined.total.values) == pytest.approx(joined.total.spread, rel=0.05)


def test_a_running_sum_goes_on_where_it_was_written_down() -> None:
    terms = some_terms()
    whole, first = Pair(terms), Pair(terms)
    for seed in (1, 2):
        whole.offer(some_report(terms, seed))
    first.offer(some_report(terms, 1))
    first.helper = RunningSum(terms, 1, first.helper.encoded())
    first.offer(some_report(terms, 2))
    assert (first.helper.share() == whole.helper.share()).all()
    with pytest.raises(MalformedMessage):
        RunningSum(some_terms(items=61, rows=9), 1, first.helper.encoded())


@pytest.mark.spec("13.2")
def test_all_reports_have_one_length() -> None:
    terms = some_terms(sequence=True)
    for seed, count in ((1, 0), (2, 1), (3, 6), (4, 50)):
        report = some_report(terms, seed, count)
        assert len(report.public) == public_bytes(terms)
        assert len(report.leader) == leader_bytes(terms)
        assert len(report.helper) == HELPER_BYTES


def test_a_report_follows_from_its_secret() -> None:
    terms = some_terms()
    assert some_report(terms, 3).public == some_report(terms, 3).public
    assert some_report(terms, 3).id != some_report(terms, 4).id


@pytest.mark.spec("13.3")
@pytest.mark.parametrize("field", ["public", "leader", "helper"])
def test_an_altered_report_is_refused(field: str) -> None:
    terms = some_terms()
    report = some_report(terms, 1)
    raw = getattr(report, field)
    before = [s.encoded() for s in (Pair(terms).leader, Pair(terms).helper)]
    for at in sorted({0, 20, 40, len(raw) // 3, len(raw) // 2, len(raw) - 3}):
        if at >= len(raw):
            continue
        changed = raw[:at] + bytes([raw[at] ^ 2]) + raw[at + 1 :]
        pair = Pair(terms)
        try:
            counted = pair.offer(dataclasses.replace(report, **{field: changed}))
        except MalformedMessage:
            continue
        assert not counted
        # taken out again: nothing is left of it; p and 0 are the same number
        for mine, empty in zip((pair.leader, pair.helper), before, strict=True):
            kept = np.frombuffer(mine.encoded(), "<u4") % (2**31 - 1)
            assert not kept.any()
            assert not any(empty)


@pytest.mark.spec("13.3")
def test_shares_of_two_reports_do_not_go_together() -> None:
    terms = some_terms()
    one, other = some_report(terms, 1), some_report(terms, 2)
    for mixed in (
        dataclasses.replace(one, leader=other.leader),
        dataclasses.replace(one, helper=other.helper),
        dataclasses.replace(one, id=other.id),
        dataclasses.replace(one, public=other.public),
    ):
        with pytest.raises(MalformedMessage):
            Pair(terms).look(mixed)


@pytest.mark.parametrize("length", [0, 1, 63, 65])
def test_shares_of_another_length_are_refused(length: int) -> None:
    terms = some_terms()
    report = dataclasses.replace(some_report(terms, 1), helper=bytes(length))
    with pytest.raises(MalformedMessage):
        Pair(terms).look(report)


def _with_rows(monkeypatch: pytest.MonkeyPatch, change: object) -> None:
    """Reports whose corrections are made by a cheating device."""
    monkeypatch.setattr(report_module, "make_core", change)


def test_a_row_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = some_terms()

    def larger(shape: Shape, blocks: ReportBlocks, seeds: tuple[bytes, bytes],
               positions: np.ndarray, rows: Words) -> Core:  # fmt: skip
        rows = rows.copy()
        rows[0, 0] = 5000
        return make_core(shape, blocks, seeds, positions, rows)

    _with_rows(monkeypatch, larger)
    assert not Pair(terms).offer(some_report(terms, 1))


@pytest.mark.spec("13.5")
def test_two_rows_in_one_slot_are_refused_by_their_tags_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who knows both seeds can make two huge rows whose sum is small: the proof passes."""
    terms = some_terms()
    forged = _forger(terms)
    for seed in range(20):  # signs must be equal: every other try
        _with_rows(monkeypatch, forged)
        report = some_report(terms, seed)
        leader, helper = Pair(terms).look(report)
        if decide(terms.circuit, leader.seen.words, helper.seen.words, helper.joint):
            assert leader.seen.tags != helper.seen.tags
            assert not Pair(terms).offer(report)
            return
    raise AssertionError("no forged report passed the proof: this test shows nothing")


def _forger(terms: Terms) -> object:
    def forge(shape: Shape, blocks: ReportBlocks, seeds: tuple[bytes, bytes],
              positions: np.ndarray, rows: Words) -> Core:  # fmt: skip
        core = make_core(shape, blocks, seeds, positions, rows)
        slot, depth = 0, shape.layout.depth
        bits, words = core.bits.copy(), core.words.copy()
        lost = 1 - int(positions[slot] & 1)
        bits[slot, depth - 1, lost] ^= np.uint64(1)  # now the neighbour has the correction, too
        core = Core(core.seeds, bits, words, core.tags)
        roots = [root_seeds(seed, shape.layout.slots) for seed in seeds]
        controls = [expand_leaves(shape, blocks, b, roots[b], core)[1][slot] for b in (0, 1)]
        here = int(positions[slot])
        there = here ^ 1
        if there >= shape.layout.size:
            return core
        sign = [int(controls[0][at]) - int(controls[1][at]) for at in (here, there)]
        if sign[0] != sign[1]:
            return core
        # row here = X + sign·W was made to be `rows`; with W' both rows sum up to it again:
        # X + 2·sign·W' = rows and X = rows - sign·W, so W' = W/2
        words[slot] = (words[slot].astype(object) * inverse(2) % (2**31 - 1)).astype(np.uint32)
        return core

    return forge


def test_what_one_server_has_says_nothing_of_the_numbers() -> None:
    """The helper's whole view of two devices with other numbers and the same secret seeds."""
    terms = some_terms()
    one = make_report(terms, some_numbers(terms, 1), secret_of(9))
    other = make_report(terms, some_numbers(terms, 2), secret_of(9))
    assert one.helper[:32] == other.helper[:32]  # seed and blind
    assert one.public != other.public
    looked = [RunningSum(terms, 1).look(KEY, r.id, r.public, r.helper) for r in (one, other)]
    assert looked[0].share.whole.tolist() == looked[1].share.whole.tolist()
    assert isinstance(one, Report)
