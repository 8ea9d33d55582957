"""Questions about quality on a device: what it measures, when it answers, and what stays here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fedrap import FedRap, Floor
from fedrap.errors import InvalidArgument
from fedrap.rounds.answering import LATEST, answer_time
from fedrap.testing import FakeCoordinator
from fedrap_core.plan import Scoring
from fedrap_core.questions.answers import ROUGH
from fedrap_core.questions.gains import gains_of

ITEMS = [f"item-{n}" for n in range(40)]


class Clock:
    """Seconds that a test moves."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fake(clock: Clock) -> FakeCoordinator:
    return FakeCoordinator(ITEMS, clock=clock)


def open_device(
    folder: Path, fake: FakeCoordinator, clock: Clock, floor: Floor | None = None
) -> FedRap:
    return FedRap.open(folder, transport=fake, token="any", clock=clock, floor=floor)


@pytest.fixture
def device(tmp_path: Path, fake: FakeCoordinator, clock: Clock) -> Iterator[FedRap]:
    """Enrolled, with a history, and asked for everything."""
    with open_device(tmp_path, fake, clock) as made:
        made.consent(policy="2026", train=True, measure=True)
        made.record("item-0")
        assert made.run_round().joined
        yield made


def record(device: FedRap, clock: Clock, *items: str) -> None:
    for item in items:
        clock.now += 60.0
        device.record(item)


@pytest.mark.spec("14.2", "14.3")
def test_the_rank_is_that_of_the_list_shown_before(
    device: FedRap, fake: FakeCoordinator, clock: Clock
) -> None:
    shown = [one.item for one in device.recommend(39)]
    popular = device.popular(40)
    popular.remove("item-0")  # seen
    record(device, clock, shown[3])
    fake.ask(releases=[1])
    assert device.answer_questions() == 1
    own, beside = gains_of(3)[1], gains_of(popular.index(shown[3]))[1]
    expected = [ROUGH, own, ROUGH * own**2, beside - own, ROUGH * (beside - own) ** 2]
    np.testing.assert_allclose(fake.answers[0].numbers, expected, rtol=1e-6)


def test_what_was_recorded_before_the_release_came_never_counts(
    tmp_path: Path, fake: FakeCoordinator, clock: Clock
) -> None:
    with open_device(tmp_path, fake, clock) as device:
        device.consent(policy="2026", train=True, measure=True)
        record(device, clock, "item-0", "item-1", "item-2")
        assert device.run_round().joined
        fake.ask()
        assert device.answer_questions() == 1
    assert not fake.answers[0].numbers.any()  # it answers all the same: that says nothing


def test_a_new_release_starts_sums_of_its_own(
    device: FedRap, fake: FakeCoordinator, clock: Clock
) -> None:
    record(device, clock, "item-1", "item-2")
    fake.publish()
    device.sync()
    record(device, clock, "item-3")
    fake.ask(releases=[1, 2], metric="hr10")
    device.answer_questions()
    first, second = fake.answers[0].numbers.reshape(2, 5)
    assert first[0] == second[0] == ROUGH
    assert second[1] in (0.0, 1.0)


def test_variants_are_ranked_as_they_would_have_been(
    device: FedRap, fake: FakeCoordinator, clock: Clock
) -> None:
    record(device, clock, "item-7", "item-1", "item-12")
    fake.ask(variants=[Scoring(ridge=1.0), Scoring(ridge=1.0), Scoring(beta=0.0, gamma=1.0)])
    device.answer_questions()
    numbers = fake.answers[0].numbers
    assert len(numbers) == 3 + 2 * 2
    assert numbers[1] > 0
    assert numbers[3] == 0.0  # the same scoring has the same gains


def test_light_and_heavy_users_answer_in_their_group(
    device: FedRap, fake: FakeCoordinator, clock: Clock
) -> None:
    fake.ask(light=2)
    fake.ask(light=1)
    record(device, clock, "item-1")
    assert device.answer_questions() == 2
    groups = [answer.numbers.reshape(2, 5)[:, 0] for answer in fake.answers]
    np.testing.assert_array_equal(groups, [[ROUGH, 0], [0, ROUGH]])


def test_without_consent_nothing_is_measured_asked_for_or_sent(
    tmp_path: Path, fake: FakeCoordinator, clock: Clock
) -> None:
    with open_device(tmp_path, fake, clock) as device:
        device.consent(policy="2026", train=True)
        record(device, clock, "item-0")
        assert device.run_round().joined
        record(device, clock, "item-1")
        fake.ask()
        assert device.answer_questions() == 0
        assert "questions" not in [call.verb for call in fake.calls]
        device.consent(policy="2026", train=True, measure=True)
        assert device.answer_questions() == 1
        device.consent(policy="2026", train=True, measure=False)
        fake.ask()
        assert device.answer_questions() == 0
    assert len(fake.answers) == 1


def test_to_measure_needs_to_train(tmp_path: Path, fake: FakeCoordinator, clock: Clock) -> None:
    with open_device(tmp_path, fake, clock) as device:
        for answer in ({"recommend": True}, {"train": False}):
            with pytest.raises(InvalidArgument, match="measure"):
                device.consent(policy="2026", measure=True, **answer)


@pytest.mark.spec("14.6")
def test_each_question_is_answered_once_and_charged(
    device: FedRap, fake: FakeCoordinator, clock: Clock
) -> None:
    before = device.status()
    fake.ask(noise=20.0)
    assert [device.answer_questions() for _ in range(3)] == [1, 0, 0]
    after = device.status()
    assert (before.answers, after.answers) == (0, 1)
    assert before.epsilon < after.epsilon
    assert 0 < after.answers_epsilon < 1
    assert after.rounds == before.rounds


def test_what_was_kept_and_not_sent_is_sent_again_byte_for_byte(
    tmp_path: Path, device: FedRap, fake: FakeCoordinator, clock: Clock
) -> None:
    record(device, clock, "item-1")
    fake.ask()
    fake.refuse("unavailable", verb="send_answer")
    assert device.answer_questions() == 0
    assert device.status().answers == 1  # charged before anything left
    device.close()
    with open_device(tmp_path, fake, clock) as again:
        assert again.status().pending == 1
        again.answer_questions()
        assert again.status().pending == 0
        assert again.status().answers == 1
    assert len(fake.answers) == 1


def test_withdrawal_empties_what_was_to_be_sent(
    device: FedRap, fake: FakeCoordinator, clock: Clock
) -> None:
    record(device, clock, "item-1")
    fake.ask()
    fake.refuse("unavailable", verb="send_answer")
    device.answer_questions()
    device.consent(policy="2026", train=True, measure=False)
    assert device.status().pending == 0
    device.consent(policy="2026", train=True, measure=True)
    assert device.answer_questions() == 0
    assert not fake.answers


def test_what_is_removed_is_in_no_answer(
    device: FedRap, fake: FakeCoordinator, clock: Clock
) -> None:
    record(device, clock, "item-1")
    device.sync()  # measured by now
    device.remove("item-1")
    fake.ask()
    assert device.answer_questions() == 1
    assert not fake.answers[0].numbers.any()


@pytest.mark.parametrize(
    ("floor", "asked"),
    [
        (Floor(max_question_epsilon=0.1), {}),
        (Floor(max_epsilon=4.0), {"noise": 0.6}),
        (Floor(min_updates=50), {}),
        (Floor(), {"noise": 0.0}),
    ],
)
def test_a_question_below_the_floor_is_not_answered(
    tmp_path: Path, fake: FakeCoordinator, clock: Clock, floor: Floor, asked: dict[str, float]
) -> None:
    with open_device(tmp_path, fake, clock) as device:
        device.consent(policy="2026", train=True, measure=True)
        device.record("item-0")
        assert device.run_round().joined
    with open_device(tmp_path, fake, clock, floor) as device:
        fake.ask(noise=asked.get("noise", 10.0))
        assert device.answer_questions() == 0
    assert not fake.answers


def test_the_budget_of_questions_ends(device: FedRap, fake: FakeCoordinator) -> None:
    for _ in range(5):
        fake.ask(budget=3, noise=30.0)
    assert device.answer_questions() == 3


@pytest.mark.spec("14.1")
def test_devices_answer_at_moments_of_their_own(fake: FakeCoordinator, clock: Clock) -> None:
    question = fake.ask(seconds=1000.0)
    times = [answer_time(bytes([key]) * 32, question) for key in range(100)]
    assert len(set(times)) == 100
    assert min(times) >= question.asked_at
    assert max(times) <= question.asked_at + LATEST * 1000.0
    assert 300 < np.mean(times) - question.asked_at < 600
    assert times[0] == answer_time(bytes(32), question)


def test_before_its_moment_a_device_is_silent(
    device: FedRap, fake: FakeCoordinator, clock: Clock
) -> None:
    fake.ask(seconds=10_000.0)
    assert device.answer_questions() == 0
    clock.now += 9_500.0
    assert device.answer_questions() == 1


def test_a_question_that_is_over_is_not_answered(
    device: FedRap, fake: FakeCoordinator, clock: Clock
) -> None:
    fake.ask(seconds=10.0)
    clock.now += 11.0
    assert device.answer_questions() == 0
