"""What speaks against an item, what is hidden, and what is taken back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedrap import FedRap, InvalidArgument, Kinds
from fedrap.testing import FakeCoordinator
from tests.sdk.made import ITEMS, Clock, MadeCoordinator, a_device, a_release

GROUPS = [[f"{name}-{n}" for n in range(6)] for name in ("tea", "pen", "lamp")]
SHOP = [item for group in GROUPS for item in group]
KINDS = Kinds(view=1, cart=2, buy=5, dislike=-1, hide=None)


def a_shop(folder: Path, **options: object) -> FedRap:
    """A device of a shop with three groups of items, synced."""
    coordinator = FakeCoordinator(SHOP, alike=GROUPS)
    options = {"kinds": KINDS, "clock": Clock(), "token": "t", **options}
    device = FedRap.open(folder, transport=coordinator, **options)  # type: ignore[arg-type]
    device.consent(train=True, policy="v1")
    device.sync()
    return device


def scores(device: FedRap) -> dict[str, float]:
    return {one.item: one.score for one in device.recommend(99, filter_seen=False)}


def test_a_dislike_lowers_the_item_and_its_neighbours_and_leaves_others(tmp_path: Path) -> None:
    with a_shop(tmp_path) as device:
        for item in ("tea-0", "pen-0"):
            device.record(item)
        before = scores(device)
        device.record("tea-3", kind="dislike")
        after = scores(device)
    for item in GROUPS[0]:
        assert after[item] < before[item]
    for item in (*GROUPS[1], *GROUPS[2]):
        assert after[item] == pytest.approx(before[item], abs=1e-9)
    assert before["tea-3"] - after["tea-3"] == max(before[one] - after[one] for one in GROUPS[0])


def test_reasons_still_add_up_where_something_speaks_against(tmp_path: Path) -> None:
    with a_shop(tmp_path) as device:
        device.record("tea-0", kind="buy")
        device.record("tea-1", kind="dislike")
        for one in device.recommend(9, explain=True):
            assert sum(why.shared for why in one.reasons) == pytest.approx(one.shared, abs=1e-9)
            assert sum(why.personal for why in one.reasons) == pytest.approx(one.personal, abs=1e-9)


def test_the_newest_word_on_an_item_counts(tmp_path: Path) -> None:
    with a_shop(tmp_path) as device:
        device.record("tea-0", kind="buy")
        liked = scores(device)
        device.record("tea-0", kind="dislike")
        assert max(scores(device)[item] for item in GROUPS[0]) <= 1e-9
        device.record("tea-0", kind="buy")
        assert scores(device)["tea-1"] == pytest.approx(liked["tea-1"], rel=0.01)


def test_a_kind_counts_what_the_app_says_now(tmp_path: Path) -> None:
    with a_shop(tmp_path) as device:
        device.record("tea-0", kind="view")
        device.record("pen-0", kind="buy")
        device.record("lamp-0", kind="view")
    with a_shop(tmp_path, kinds=Kinds(view=-1, buy=1)) as device:
        best = device.recommend(1)[0].item
        assert best.startswith("pen")
        assert scores(device)["tea-1"] < scores(device)["pen-1"]


@pytest.mark.spec("5.9")
def test_what_is_negative_never_leaves_the_device(tmp_path: Path) -> None:
    coordinator = FakeCoordinator(SHOP, alike=GROUPS)
    with FedRap.open(tmp_path, transport=coordinator, token="t") as device:
        device.consent(train=True, policy="v1")
        device.record("pen-0", kind="dislike")
        assert device.run_round().blocked_by == "nothing-to-share"
        device.record("tea-0")
        device.record("tea-1")
        device.record("tea-1", kind="dislike")
        assert device.run_round().joined
    assert [update.items for update in coordinator.updates] == [("tea-0",)]


def test_words_that_the_app_does_not_name_are_refused_and_old_ones_count_one(
    tmp_path: Path,
) -> None:
    with a_shop(tmp_path, kinds=None) as device:
        device.record("tea-0", kind="tap")  # any word, where the app names none
        plain = scores(device)
    with a_shop(tmp_path) as device:
        assert scores(device) == pytest.approx(plain)
        with pytest.raises(InvalidArgument, match="kind: one of view, cart, buy, dislike, hide"):
            device.record("tea-0", kind="tap")
        assert len(list(device.history())) == 1


def test_what_is_hidden_is_never_recommended_until_it_is_shown_again(tmp_path: Path) -> None:
    with a_shop(tmp_path) as device:
        device.record("tea-0")
        first = device.recommend(1)[0].item
        before = scores(device)
        device.hide(first)
        device.record("pen-0", kind="hide")  # the same thing by its kind
        assert {first, "pen-0"}.isdisjoint(scores(device))
        assert "pen-0" not in device.popular(99)
        assert device.recommend(9, candidates=[first]) == []
        assert (device.status().hidden, device.status().interactions) == (2, 1)
    with a_shop(tmp_path) as device:
        assert sorted(device.hidden()) == sorted([first, "pen-0"])
        assert device.unhide(first)
        assert not device.unhide(first)
        assert device.unhide("pen-0")
        assert scores(device) == pytest.approx(before)


def test_removing_an_item_is_as_if_it_had_never_been(tmp_path: Path) -> None:
    coordinator = MadeCoordinator(latest=a_release(2))
    with a_device(tmp_path / "one", coordinator, items=("item-1", "item-5", "item-1")) as device:
        device.sync()
        assert device.remove("item-1") == 2
        assert device.remove("item-1") == 0
        left = device.recommend(12)
    with a_device(tmp_path / "other", coordinator, items=("item-5",)) as device:
        device.sync()
        assert device.recommend(12) == left
    with FedRap.open(tmp_path / "one") as device:
        assert [one.item for one in device.history()] == ["item-5"]
        assert device.recommend(12) == left


def test_one_interaction_can_be_taken_back(tmp_path: Path) -> None:
    with FedRap.open(tmp_path, clock=Clock()) as device:
        for at in (1.0, 2.0, 3.0):
            device.record("item-1", at=at)
        _, second, _ = device.history()
        assert device.remove(second) == 1
        assert [one.at for one in device.history()] == [1.0, 3.0]


def test_taking_back_drops_what_was_still_to_be_sent_and_rows_of_d(tmp_path: Path) -> None:
    from fedrap import CoordinatorUnreachable

    coordinator = MadeCoordinator()
    coordinator.fails["send_update"] = [CoordinatorUnreachable("gone")]
    with a_device(tmp_path, coordinator) as device:
        assert not device.run_round().joined
        assert (device.status().pending, device.status().rounds) == (1, 1)
        assert "item-1" in device._state.contents().personal
        device.remove("item-1")
        assert (device.status().pending, device.status().rounds) == (0, 1)  # charged all the same
        assert "item-1" not in device._state.contents().personal
        coordinator.latest = a_release(4)
        assert device.run_round().joined
    _, share = coordinator.opened(coordinator.sent[-1][1])
    assert ITEMS.index("item-1") not in share.rows


def test_a_history_that_is_cleared_is_gone_with_what_was_hidden(tmp_path: Path) -> None:
    with a_device(tmp_path, MadeCoordinator()) as device:
        assert device.run_round().joined
        device.hide("item-3")
        assert device.clear_history() == 3
        assert (list(device.history()), device.hidden()) == ([], [])
    with FedRap.open(tmp_path) as device:
        status = device.status()
        assert (status.interactions, status.hidden, status.personal_items) == (0, 0, 0)
        assert (status.rounds, status.consented) == (1, True)


def test_candidates_exclusions_filters_and_boosts_work_together(tmp_path: Path) -> None:
    with a_shop(tmp_path) as device:
        device.record("tea-0")
        names = [one.item for one in device.recommend(3, exclude=["tea-1"])]
        assert "tea-1" not in names
        assert names[0] == "tea-2"
        asked: list[str] = []

        def odd(item: str) -> bool:
            asked.append(item)
            return item[-1] in "135"

        found = [one.item for one in device.recommend(5, filter=odd)]
        assert len(found) == 5
        assert all(item[-1] in "135" for item in found)
        assert len(asked) == len(set(asked))
        few = device.recommend(2, candidates=["pen-1", "pen-2", "tea-5", "gone"])
        assert [one.item for one in few] == ["tea-5", "pen-1"]
        raised = device.recommend(2, boost={"lamp-3": 5.0, "gone": 1.0, "tea-1": -9.0})
        assert [one.item for one in raised] == ["lamp-3", "tea-2"]
        assert raised[0].score == raised[0].shared + raised[0].personal + 5.0
        assert raised[0].boost == 5.0


def test_a_diverse_list_goes_through_the_groups_and_0_changes_nothing(tmp_path: Path) -> None:
    with a_shop(tmp_path) as device:
        for item in ("lamp-0", "pen-0", "tea-0"):
            device.record(item, at=5.0)
        plain = [one.item for one in device.recommend(6)]
        assert [one.item for one in device.recommend(6, diversity=0.0)] == plain
        diverse = [one.item.split("-")[0] for one in device.recommend(3, diversity=0.9)]
        assert sorted(diverse) == ["lamp", "pen", "tea"]
        assert device.recommend(1, diversity=1.0)[0].item == plain[0]


def test_an_item_is_explained_in_words(tmp_path: Path) -> None:
    with a_shop(tmp_path) as device:
        assert str(device.because("tea-2")) == ""
        device.record("tea-0")
        device.record("tea-1")
        device.record("pen-3", kind="dislike")
        why = device.because("tea-2")
        assert set(why.items) == {"tea-0", "tea-1"}
        assert str(why) == f"because you liked {why.items[0]} and {why.items[1]}"
        titles = {"tea-0": "Assam", "tea-1": "Darjeeling"}
        assert why.words(titles, most=1) == f"because you liked {titles[why.items[0]]}"
        assert str(device.because("unknown")) == ""


def test_popular_items_come_in_the_order_of_the_catalogue(tmp_path: Path) -> None:
    with a_shop(tmp_path) as device:
        device.hide("tea-1")
        assert device.popular(3) == ["tea-0", "tea-2", "tea-3"]
        assert device.popular(0) == []


def test_following_a_history_with_dislikes_equals_starting_afresh(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    with a_shop(tmp_path) as device:
        for place in range(25):
            item = SHOP[int(rng.integers(len(SHOP)))]
            device.record(item, kind=["view", "dislike", "buy"][place % 3])
            live = scores(device)
            with device._state._lock:
                assert device._state._model is not None
                device._state._model = device._state._model.anew()
            assert scores(device) == pytest.approx(live, abs=1e-9)
