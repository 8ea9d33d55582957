"""Public attributes of items: fetched with the catalogue, kept, tested, and never half."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fedrap import FedRap, FedRapError
from fedrap_core.errors import BrokenModel, SignatureInvalid
from fedrap_core.wire import problems
from fedrap_core.wire.attributes import Pages, make_pages
from fedrap_core.wire.keys import new_private_key
from tests.sdk.made import ITEMS, Clock, MadeCoordinator, a_device, a_release, refused

SAID: list[dict[str, str]] = [
    {"title": f"The {item}", "category": "tea" if row % 3 else "mug", "url": f"https://x/{item}"}
    for row, item in enumerate(ITEMS)
]
del SAID[-1]["category"]


def a_coordinator() -> MadeCoordinator:
    made = MadeCoordinator(latest=a_release(version=2))
    made.pages = make_pages(["title", "category"], SAID)
    return made


def opened(folder: Path, coordinator: MadeCoordinator, clock: Clock | None = None) -> FedRap:
    device = FedRap.open(
        folder, transport=coordinator, token="token", attributes=True, clock=clock or Clock()
    )
    device.consent(recommend=True, train=True, policy="v1")
    device.record("item-1")
    return device


@pytest.mark.spec("11.1", "11.2", "11.3")
def test_attributes_are_there_offline_and_only_what_is_public(tmp_path: Path) -> None:
    coordinator = a_coordinator()
    with opened(tmp_path, coordinator) as device:
        assert device.attributes("item-3") == {}
        device.sync()
    with FedRap.open(tmp_path, offline=True) as device:
        assert device.attributes("item-3") == {"title": "The item-3", "category": "mug"}
        assert device.attributes("item-11") == {"title": "The item-11"}
        assert device.attributes("nothing like it") == {}
        assert str(device.because(device.recommend(1)[0].item)) in (
            "",
            "because you liked The item-1",
        )


def test_a_list_is_filtered_by_attributes(tmp_path: Path) -> None:
    with opened(tmp_path, a_coordinator()) as device:
        device.sync()
        everything = [one.item for one in device.recommend(20)]

        def passing(**test: str | list[str]) -> list[str]:
            return [one.item for one in device.recommend(20, filter=test)]

        of = {item: said.get("category", "") for item, said in zip(ITEMS, SAID, strict=True)}
        assert passing(category="mug") == [one for one in everything if of[one] == "mug"]
        assert passing(category=["mug", "tea"]) == [one for one in everything if of[one]]
        assert passing(category="") == ["item-11"]
        assert passing(category="mug", title="The item-3") == ["item-3"]
        assert passing(category="book") == []
        assert passing(colour="red") == []  # nobody told anything of colours
        assert passing(colour="") == everything
        assert passing() == everything
        mugs = device.recommend(2, filter={"category": "mug"}, diversity=0.3)
        assert {of[one.item] for one in mugs} == {"mug"}


def test_who_does_not_want_them_asks_for_nothing(tmp_path: Path) -> None:
    coordinator = a_coordinator()
    with a_device(tmp_path, coordinator) as device:
        device.sync()
        device.run_round()
        assert device.recommend(3, filter={"category": "mug"}) == []
    assert "attributes" not in coordinator.calls


@pytest.mark.spec("11.3")
def test_only_pages_that_changed_are_fetched_and_all_of_them(tmp_path: Path) -> None:
    coordinator = MadeCoordinator(latest=a_release(version=2))
    coordinator.pages = _in_pages_of(4, SAID)
    with opened(tmp_path, coordinator) as device:
        device.sync()
        assert coordinator.calls.count("attribute_page") == 3
        device.sync()
        assert coordinator.calls.count("attribute_page") == 3
        changed = [dict(one) for one in SAID]
        changed[5]["title"] = "Another name"
        coordinator.pages, coordinator.attributes_version = _in_pages_of(4, changed), 2
        device.sync()
        assert coordinator.calls.count("attribute_page") == 4
        assert device.attributes("item-5")["title"] == "Another name"
        coordinator.pages, coordinator.attributes_version = make_pages([], []), 3
        device.sync()
        assert device.attributes("item-5") == {}  # nothing is told any more


def _in_pages_of(rows: int, said: list[dict[str, str]]) -> Pages:
    parts = [make_pages(["title"], said[start : start + rows]) for start in range(0, 12, rows)]
    digests = [one for part in parts for one in part.digests]
    bodies = {digest: raw for part in parts for digest, raw in part.bodies.items()}
    return Pages(["title"], len(said), rows, digests, bodies)


@pytest.mark.spec("11.4")
def test_an_older_entry_changes_nothing(tmp_path: Path) -> None:
    coordinator = a_coordinator()
    coordinator.attributes_version = 5
    with opened(tmp_path, coordinator) as device:
        device.sync()
        coordinator.pages, coordinator.attributes_version = make_pages(["title"], []), 4
        device.sync()
        assert device.attributes("item-3")["title"] == "The item-3"


def _other_digest(made: MadeCoordinator) -> None:
    made.pages = replace(made.pages, bodies=dict.fromkeys(made.pages.digests, b"something else"))


def _fewer_rows(made: MadeCoordinator) -> None:
    made.pages = replace(made.pages, count=11)


def _other_names(made: MadeCoordinator) -> None:
    made.pages = replace(made.pages, names=["title"])


def _missing_page(made: MadeCoordinator) -> None:
    made.pages = replace(made.pages, digests=[])


def _a_name_twice(made: MadeCoordinator) -> None:
    made.pages = make_pages(["title", "title"], SAID)


def _other_authority(made: MadeCoordinator) -> None:
    made.authority = new_private_key()


@pytest.mark.spec("11.1", "11.2")
@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (_other_digest, BrokenModel),
        (_fewer_rows, BrokenModel),
        (_other_names, BrokenModel),
        (_missing_page, SignatureInvalid),
        (_a_name_twice, SignatureInvalid),
        (_other_authority, SignatureInvalid),
    ],
)
def test_what_was_not_signed_or_does_not_fit_is_not_taken(
    tmp_path: Path, spoil: Callable[[MadeCoordinator], None], error: type[FedRapError]
) -> None:
    coordinator = a_coordinator()
    with opened(tmp_path, coordinator) as device:
        device.run_round()  # enrols: the authority is known from now on
        held = device.attributes("item-3")
        assert held
        coordinator.attributes_version = 9
        coordinator.pages = make_pages(["title", "category"], [*SAID[:-1], {"title": "new"}])
        spoil(coordinator)
        with pytest.raises(error):
            device.sync()
        assert device.attributes("item-3") == held
    with FedRap.open(tmp_path) as device:
        assert device.attributes("item-3") == held


def test_a_round_brings_them_too_and_is_not_harmed_by_them(tmp_path: Path) -> None:
    coordinator, clock = a_coordinator(), Clock()
    errors: list[Exception] = []
    device = FedRap.open(
        tmp_path, transport=coordinator, token="token", attributes=True, clock=clock,
        on_error=errors.append,
    )  # fmt: skip
    with device:
        device.consent(train=True, policy="v1")
        device.record("item-1")
        coordinator.fails["attributes"] = [refused(problems.UNAVAILABLE, 5.0)]
        assert device.run_round().joined
        assert len(errors) == 1
        clock.now += 60.0
        coordinator.latest = a_release(version=3, seed=1)
        device.run_round()
        assert device.attributes("item-3")["title"] == "The item-3"
        asked = coordinator.calls.count("attributes")
        device.run_round()
        assert coordinator.calls.count("attributes") == asked  # of the same release, minutes ago


def test_a_coordinator_of_before_there_were_any_is_no_error(tmp_path: Path) -> None:
    coordinator = a_coordinator()
    coordinator.fails["attributes"] = [refused(problems.NOT_FOUND)]
    with opened(tmp_path, coordinator) as device:
        device.sync()
        assert device.attributes("item-3") == {}
        assert len(device.recommend(3)) == 3


def test_large_attributes_come_in_more_pages_and_too_large_ones_not_at_all() -> None:
    items = [{"text": 520 * "ü"} for _ in range(3000)]
    pages = make_pages(["text"], items)
    assert pages.rows == 512
    assert max(map(len, pages.bodies.values())) <= 1024 * 1024
    with pytest.raises(ValueError, match="at most"):
        make_pages(["text"], 25 * [{"text": 4_000_000 * "x"}])
