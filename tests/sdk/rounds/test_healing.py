"""A coordinator that does not know this device any more: one new enrolment, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedrap import FedRap, Floor, InvalidArgument
from fedrap.testing import FakeCoordinator
from fedrap_core.wire import problems
from tests.sdk.made import Clock, MadeCoordinator, a_device, refused

DAY = 86_400.0


def a_member(
    folder: Path,
    coordinator: FakeCoordinator,
    given: list[str],
    clock: Clock,
    errors: list[Exception],
) -> FedRap:
    def token() -> str:
        given.append("asked")
        return f"token-{len(given)}"

    return FedRap.open(
        folder, transport=coordinator, token=token, clock=clock, on_error=errors.append,
        floor=Floor(separation=1, cap=100, min_updates=2),
    )  # fmt: skip


def lose_everybody(coordinator: FakeCoordinator) -> None:
    """As after a backup of before this device enrolled."""
    coordinator._identity.keys.clear()


@pytest.mark.spec("3.12")
@pytest.mark.parametrize("how", ["unknown", "revoked"])
def test_a_device_that_is_not_known_enrols_once_and_keeps_everything(
    tmp_path: Path, how: str
) -> None:
    clock, given, errors = Clock(), list[str](), list[Exception]()
    coordinator = FakeCoordinator(["tea", "mug", "pot"], clock=clock)
    with a_member(tmp_path, coordinator, given, clock, errors) as device:
        device.consent(train=True, policy="v1")
        device.record("tea")
        assert device.run_round().joined
        first = device._state.contents().credentials
        assert first is not None
        coordinator.publish()
        coordinator.publish()

        def lose() -> None:
            lost = device._state.contents().credentials
            assert lost is not None
            if how == "unknown":
                lose_everybody(coordinator)
            else:
                coordinator.revoke(lost.device)

        lose()
        assert device.run_round().joined
        assert len(given) == 2
        second = device._state.contents().credentials
        assert second is not None
        assert (second.device != first.device, second.task) == (True, first.task)
        status = device.status()
        assert (status.interactions, status.rounds, status.blocked_by) == (1, 2, None)
        coordinator.publish()
        coordinator.publish()
        lose()  # once more on the same day: that is no accident
        word = "not-enrolled" if how == "unknown" else "revoked"
        assert device.run_round().blocked_by == word
        assert (len(given), device.status().blocked_by) == (2, word)
        clock.now += 31 * DAY
        assert device.run_round().joined
        assert (len(given), device.status().blocked_by) == (3, None)


@pytest.mark.spec("3.12")
def test_a_healed_device_takes_no_other_authority(tmp_path: Path) -> None:
    clock, given, errors = Clock(), list[str](), list[Exception]()
    with a_member(tmp_path, FakeCoordinator(["tea"], clock=clock), given, clock, errors) as device:
        device.consent(train=True, policy="v1")
        device.record("tea")
        assert device.run_round().joined
    with a_member(tmp_path, FakeCoordinator(["tea"], clock=clock), given, clock, errors) as device:
        assert device.run_round().blocked_by == "another-authority"
        assert not device.status().enrolled


def test_a_token_that_was_given_once_does_not_heal(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()
    with a_device(tmp_path, coordinator) as device:
        assert device.run_round().joined
        coordinator.fails["release"] = [refused(problems.NOT_ENROLLED)]
        assert device.run_round().blocked_by == "not-enrolled"
        assert device.status().enrolled
        assert device.status().blocked_by == "not-enrolled"
        assert coordinator.calls.count("enrol") == 1


@pytest.mark.parametrize("nonsense", [None, 5, ""])
def test_a_callable_that_gives_no_token_is_heard(tmp_path: Path, nonsense: object) -> None:
    errors: list[Exception] = []
    with FedRap.open(
        tmp_path,
        transport=MadeCoordinator(),
        token=lambda: nonsense,  # type: ignore[arg-type, return-value]
        on_error=errors.append,
    ) as device:
        device.consent(train=True, policy="v1")
        device.record("item-1")
        assert device.run_round().blocked_by == "token-failed"
    assert isinstance(errors[0], InvalidArgument)


def test_an_iterator_of_tokens_that_ended_is_heard_and_nobody_waits_for_ever(
    tmp_path: Path,
) -> None:
    """StopIteration in a thread never comes out of it: the round would hang."""
    errors: list[Exception] = []
    with FedRap.open(
        tmp_path, transport=MadeCoordinator(), token=iter(()).__next__, on_error=errors.append
    ) as device:
        device.consent(train=True, policy="v1")
        device.record("item-1")
        assert device.run_round().blocked_by == "token-failed"
    assert "StopIteration" in str(errors[0])


def test_a_failing_callable_is_heard_by_on_error(tmp_path: Path) -> None:
    errors: list[Exception] = []

    def broken() -> str:
        raise LookupError("the backend is down")

    with FedRap.open(
        tmp_path, transport=MadeCoordinator(), token=broken, on_error=errors.append
    ) as device:
        device.consent(train=True, policy="v1")
        device.record("item-1")
        assert device.run_round().blocked_by == "token-failed"
    assert isinstance(errors[0], LookupError)


@pytest.mark.parametrize(
    "problem",
    [problems.BUDGET_SPENT, problems.TASK_OVER, problems.REVOKED, problems.TOKEN_REFUSED],
)
@pytest.mark.parametrize("said", [None, 30.0])
def test_a_final_answer_is_asked_for_again_in_days_also_by_another_process(
    tmp_path: Path, problem: problems.Problem, said: float | None
) -> None:
    delays, clock = [], Clock()
    for place in range(10):
        coordinator = MadeCoordinator()
        coordinator.fails["offer"] = [refused(problem, said)]
        folder = tmp_path / str(place)
        with a_device(folder, coordinator, clock=clock) as device:
            report = device.run_round()
            assert report.blocked_by == problem.code
            delays.append(report.retry_after or 0.0)
        asked = len(coordinator.calls)
        for _ in range(3):  # a job of every quarter of an hour
            clock.now += 900.0
            with _again(folder, coordinator, clock) as device:
                again = device.run_round()
                assert (again.joined, again.blocked_by) == (False, problem.code)
                assert 0 < (again.retry_after or 0) < delays[-1]
                assert device.status().blocked_by == problem.code
        assert len(coordinator.calls) == asked  # nobody was asked
        clock.now += delays[-1]
        with _again(folder, coordinator, clock) as device:
            device.run_round()
        assert len(coordinator.calls) > asked
    assert DAY <= min(delays) < max(delays) <= 3 * DAY
    assert len(set(delays)) == 10


def _again(
    folder: Path, coordinator: MadeCoordinator, clock: Clock, token: str = "token"
) -> FedRap:
    return FedRap.open(folder, transport=coordinator, token=token, clock=clock)


def _consents(folder: Path, coordinator: MadeCoordinator, clock: Clock) -> FedRap:
    device = _again(folder, coordinator, clock)
    device.consent(train=True, policy="v2")
    return device


def _set_back(folder: Path, coordinator: MadeCoordinator, clock: Clock) -> FedRap:
    clock.now -= 3600.0
    return _again(folder, coordinator, clock)


def _another_token(folder: Path, coordinator: MadeCoordinator, clock: Clock) -> FedRap:
    return _again(folder, coordinator, clock, "fresh")


@pytest.mark.parametrize("opened", [_consents, _set_back, _another_token])
def test_another_token_a_new_answer_or_a_clock_set_back_asks_at_once(
    tmp_path: Path, opened: Callable[[Path, MadeCoordinator, Clock], FedRap]
) -> None:
    coordinator, clock = MadeCoordinator(), Clock()
    coordinator.fails["enrol"] = [refused(problems.TOKEN_REFUSED)]
    with a_device(tmp_path, coordinator, clock=clock) as device:
        assert device.run_round().blocked_by == "token-refused"
        assert device.run_round().blocked_by == "token-refused"
    assert coordinator.calls.count("enrol") == 1
    with opened(tmp_path, coordinator, clock) as device:
        assert device.run_round().joined
        assert device.status().blocked_by is None


def test_a_wait_is_kept_by_the_next_process_too(tmp_path: Path) -> None:
    coordinator, clock = MadeCoordinator(), Clock()
    coordinator.fails["offer"] = [refused(problems.NO_ROUND, 600.0)]
    with a_device(tmp_path, coordinator, clock=clock) as device:
        assert device.run_round().blocked_by == "no-round"
    clock.now += 100.0
    with _again(tmp_path, coordinator, clock) as device:
        report = device.run_round()
        assert (report.blocked_by, report.retry_after) == ("told-to-wait", 500.0)
    clock.now += 501.0
    with _again(tmp_path, coordinator, clock) as device:
        assert device.run_round().joined


def test_a_final_answer_is_said_until_something_else_is_said(tmp_path: Path) -> None:
    coordinator, clock = MadeCoordinator(), Clock()
    coordinator.fails["offer"] = [refused(problems.BUDGET_SPENT), refused(problems.NO_ROUND)]
    with a_device(tmp_path, coordinator, clock=clock) as device:
        assert device.run_round().blocked_by == "budget-spent"
        assert device.status().blocked_by == "budget-spent"
        clock.now += 4 * DAY
        assert device.run_round().blocked_by == "no-round"
        assert device.status().blocked_by is None
