"""What an app gets without a network: recording, recommending, reasons, and silence."""

from __future__ import annotations

import math
import socket
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrap import FedRap
from tests.sdk.made import ITEMS, Clock, MadeCoordinator, a_device, a_release


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A device that synced once and lost its network."""
    with a_device(tmp_path, MadeCoordinator(retired=[3, 8])) as device:
        device.sync()
    return tmp_path


def names(device: FedRap, n: int = 20, *, filter_seen: bool = True) -> list[str]:
    return [one.item for one in device.recommend(n, filter_seen=filter_seen)]


def test_a_fresh_device_works_without_a_server(tmp_path: Path) -> None:
    with FedRap.open(tmp_path) as device:
        assert device.recommend(5) == []
        device.record("a")
        device.sync()
        report = device.run_round()
        assert (report.joined, report.blocked_by) == (False, "no-consent")
        device.consent(train=True, policy="v1")
        assert device.run_round().blocked_by == "no-server"
        status = device.status()
        assert (status.consented, status.enrolled, status.interactions) == (True, False, 1)
        assert (status.release, status.rounds, status.epsilon) == (None, 0, 0.0)
        assert (status.personal_items, status.pending) == (0, 0)
        assert status.blocked_by == "no-server"
    device.close()  # a second time


def test_a_device_without_a_token_or_a_history_says_so(tmp_path: Path) -> None:
    with FedRap.open(tmp_path, server="http://127.0.0.1:9") as device:
        device.consent(train=True, policy="v1")
        assert device.run_round().blocked_by == "no-token"
    with FedRap.open(tmp_path, server="http://127.0.0.1:9", token="t") as device:
        assert device.run_round().blocked_by == "nothing-to-share"


def test_consent_can_be_taken_back_and_survives_a_restart(tmp_path: Path) -> None:
    for answer in (True, False, True):
        with FedRap.open(tmp_path) as device:
            device.consent(train=answer, policy="v1")
        with FedRap.open(tmp_path) as device:
            assert device.status().consented is answer
            assert (device.status().blocked_by == "no-consent") is not answer


def _refuse(*_: object, **__: object) -> NoReturn:
    raise AssertionError("a socket was opened")


async def test_no_socket_is_opened_before_consent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "socket", _refuse)
    monkeypatch.setattr(socket, "getaddrinfo", _refuse)
    with FedRap.open(tmp_path, server="http://127.0.0.1:9", token=_refuse) as device:
        device.record("a")
        device.recommend(5)
        await device.sync_async()
        assert (await device.run_round_async()).blocked_by == "no-consent"
        device.consent(train=False, policy="v1")
        await device.sync_async()
        assert (await device.run_round_async()).blocked_by == "no-consent"
        device.status()


def test_no_call_reaches_the_transport_without_consent(tmp_path: Path) -> None:
    coordinator = MadeCoordinator()
    with a_device(tmp_path, coordinator) as device:
        device.consent(train=False, policy="v2")
        device.sync()
        assert device.run_round().blocked_by == "no-consent"
    assert coordinator.calls == []


def test_a_coordinator_that_is_not_there_is_reported_and_not_raised(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with FedRap.open(tmp_path, server=f"http://127.0.0.1:{port}", token="t") as device:
        device.consent(train=True, policy="v1")
        device.record("a")
        assert device.run_round().blocked_by == "unreachable"


def test_recommendations_come_best_first_and_unpack(folder: Path) -> None:
    with FedRap.open(folder) as device:
        found = device.recommend(5)
        assert len(found) == 5
        scores = [one.score for one in found]
        assert scores == sorted(scores, reverse=True)
        for one in found:
            item, score = one
            assert (item, score) == (one.item, one.score)
            assert one.shared + one.personal == one.score
            assert one.reasons == ()
        assert device.recommend(3) == found[:3]


@pytest.mark.parametrize(("n", "count"), [(-1, 0), (0, 0), (1, 1), (7, 7), (10**6, 7)])
def test_n_is_kept_as_far_as_there_are_items(folder: Path, n: int, count: int) -> None:
    with FedRap.open(folder) as device:
        assert len(device.recommend(n)) == count  # 12 less 3 seen and 2 retired


def test_seen_items_are_shown_only_when_asked_for(folder: Path) -> None:
    with FedRap.open(folder) as device:
        seen = {"item-1", "item-5", "item-2"}
        assert not seen & set(names(device))
        assert seen <= set(names(device, filter_seen=False))


def test_only_candidates_are_shown(folder: Path) -> None:
    with FedRap.open(folder) as device:
        wanted = ["item-4", "item-9", "item-1", "item-3", "unheard of"]
        found = device.recommend(10, candidates=wanted)
        assert {one.item for one in found} == {"item-4", "item-9"}
        assert device.recommend(10, candidates=[]) == []
        assert device.recommend(10, candidates={"item-1"}, filter_seen=False)[0].item == "item-1"
        everything = {one.item: one.score for one in device.recommend(20)}
        assert all(one.score == everything[one.item] for one in found)


def test_retired_items_are_never_shown(folder: Path) -> None:
    with FedRap.open(folder) as device:
        device.record("item-3")
        for chosen in (None, ["item-3", "item-8"]):
            for seen in (True, False):
                found = device.recommend(20, filter_seen=seen, candidates=chosen)
                assert not {"item-3", "item-8"} & {one.item for one in found}


def test_a_retired_item_comes_back_with_the_catalogue(tmp_path: Path) -> None:
    coordinator = MadeCoordinator(retired=[0])
    with a_device(tmp_path, coordinator) as device:
        device.sync()
        assert "item-0" not in names(device)
        coordinator.retired, coordinator.latest = [], a_release(version=2)
        device.sync()
        assert "item-0" in names(device)


def test_items_without_numbers_are_not_shown(tmp_path: Path) -> None:
    coordinator = MadeCoordinator(latest=a_release(size=4))
    with a_device(tmp_path / "more", coordinator) as device:
        device.sync()
        assert set(names(device, filter_seen=False)) == set(ITEMS[:4])


@settings(max_examples=20)
@given(st.lists(st.sampled_from([*ITEMS, "unheard of"]), max_size=12))
def test_reasons_add_up_to_the_score_and_name_only_own_items(
    tmp_path_factory: pytest.TempPathFactory, history: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("reasons")
    taught = MadeCoordinator(latest=a_release(version=2))
    with a_device(folder, taught, items=tuple(history)) as device:
        device.sync()
        for one in device.recommend(12, explain=True, filter_seen=False):
            shared = sum(reason.shared for reason in one.reasons)
            personal = sum(reason.personal for reason in one.reasons)
            assert math.isclose(shared, one.shared, abs_tol=1e-9)
            assert math.isclose(personal, one.personal, abs_tol=1e-9)
            assert {reason.item for reason in one.reasons} == set(history) - {"unheard of"}
            sizes = [abs(reason.shared + reason.personal) for reason in one.reasons]
            assert sizes == sorted(sizes, reverse=True)


def test_a_new_interaction_changes_the_recommendation_at_once(folder: Path) -> None:
    with FedRap.open(folder) as device:
        before = device.recommend(5)
        liked = before[-1].item
        device.record(liked)
        after = device.recommend(5)
        assert after != before
        assert liked not in [one.item for one in after]
    with FedRap.open(folder) as device:
        anew = device.recommend(5)
        assert [one.item for one in anew] == [one.item for one in after]
        assert [one.score for one in anew] == pytest.approx([one.score for one in after])


def test_personal_rows_exist_only_for_items_that_were_touched(tmp_path: Path) -> None:
    history = ("item-1", "item-5", "item-1", "unheard of")
    with a_device(tmp_path, MadeCoordinator(), items=history) as device:
        assert device.run_round().joined
        assert set(device._state.contents().personal) == {"item-1", "item-5"}
        assert device.status().personal_items == 2
    with FedRap.open(tmp_path) as device:
        assert device.status().personal_items == 2


@pytest.mark.parametrize(
    ("item", "weight"),
    [
        ("", 1.0), ("x" * 201, 1.0), ("\ud800", 1.0), ("a", 0.0), ("a", -1.0), ("a", 1000.1),
        ("a", math.nan), ("a", math.inf),
    ],
)  # fmt: skip
def test_a_bad_interaction_is_refused_and_not_kept(
    tmp_path: Path, item: str, weight: float
) -> None:
    with FedRap.open(tmp_path) as device:
        with pytest.raises(ValueError, match=r".+"):
            device.record(item, weight=weight)
        assert device.status().interactions == 0
        device.record("x" * 200, weight=1000.0)
        assert device.status().interactions == 1


def test_an_interaction_keeps_its_kind_its_weight_and_its_time(tmp_path: Path) -> None:
    with FedRap.open(tmp_path, clock=Clock(77.0)) as device:
        device.record("a")
        device.record("b", kind="buy", weight=3, at=5)
    with FedRap.open(tmp_path) as device:
        kept = [
            (one.item, one.kind, one.weight, one.at)
            for one in device._state.contents().interactions
        ]
    assert kept == [("b", "buy", 3.0, 5.0), ("a", "view", 1.0, 77.0)]


def test_two_apps_in_one_folder_do_not_see_each_other(tmp_path: Path) -> None:
    with FedRap.open(tmp_path, app="one") as one, FedRap.open(tmp_path, app="two") as two:
        one.record("a")
        assert (one.status().interactions, two.status().interactions) == (1, 0)
