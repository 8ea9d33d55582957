"""One suite for all stores: releases that return and go, items with attributes, what is watched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedrap_coordinator.domain.records import Facts, Imported, NewItem, Quality, StoredRelease
from fedrap_coordinator.domain.rounds import Phase, Round
from fedrap_coordinator.errors import AlreadyReleased
from fedrap_coordinator.store.protocol import Store
from fedrap_core.plan import Privacy
from tests.contracts.one_by_one import add_update, assign, round_phase
from tests.contracts.test_stores import device_id, round_id

BOOK, FILM = {"category": "book", "title": "Emma"}, {"category": "film", "year": "1995"}


def release(version: int, step: int, restores: int | None = None) -> StoredRelease:
    facts = Facts(10.0 * version, 7, 0.25, 1000, None if version == 1 else 100)
    return StoredRelease(version, step, 3, b"body %d" % version, b"g", restores, facts)


async def filled(store: Store, count: int = 4) -> None:
    for version in range(1, count + 1):
        await store.add_release(release(version, version - 1), None)


async def test_an_earlier_release_returns_under_a_new_version_and_ends_the_open_round(
    store: Store,
) -> None:
    await filled(store)
    await store.open_round(Round(round_id(1), 4, 4, 5.0), b"plan")
    await store.add_tokens([b"t" * 32], 0.0)
    await store.enrol(b"t" * 32, device_id(1), b"k" * 65, 0.0)
    assert await assign(store, round_id(1), device_id(1), 4, 2, 9, 6.0)
    await add_update(store, round_id(1), device_id(1), b"d" * 32, b"sealed", 6.0)
    await store.roll_back(release(5, 3, restores=2))
    latest = await store.release(None)
    assert latest == release(5, 3, restores=2)
    assert await round_phase(store, round_id(1)) is Phase.ABANDONED
    assert [body async for body in store.sealed_updates(round_id(1))] == []
    (row,) = await store.rounds(5)
    assert row.closed_at == 50.0
    known = await store.device(device_id(1))
    assert known is not None
    assert known.participations == 1  # what was charged stays charged


async def test_a_version_is_never_given_twice_and_a_step_is_made_once(store: Store) -> None:
    await filled(store)
    with pytest.raises(AlreadyReleased, match="released before"):
        await store.roll_back(release(4, 3, restores=1))
    with pytest.raises(AlreadyReleased, match="released before"):
        await store.add_release(release(5, 3), None)
    await store.roll_back(release(5, 3, restores=1))
    await store.roll_back(release(6, 3, restores=2))  # the same step, twice
    await store.prune_releases(1)
    with pytest.raises(AlreadyReleased, match="released before"):
        await store.add_release(release(2, 9), None)  # also when its body is gone


async def test_old_bodies_go_and_what_is_known_of_them_stays(store: Store) -> None:
    await filled(store, 5)
    assert await store.prune_releases(2) == 3
    assert await store.prune_releases(2) == 0
    assert await store.release(3) is None
    kept = await store.release(4)
    assert kept is not None
    assert kept.facts == release(4, 3).facts
    history = await store.release_history(4)
    assert [(row.version, row.kept) for row in history] == [
        (5, True),
        (4, True),
        (3, False),
        (2, False),
    ]
    assert history[-1].facts == release(2, 1).facts
    assert (await store.counts()).releases == 5
    assert await store.prune_releases(0) == 1  # the latest is never dropped
    assert (await store.release(None)) == release(5, 4)


async def test_a_round_has_its_end(store: Store) -> None:
    for number, phase in ((1, Phase.ABANDONED), (2, Phase.SUMMING)):
        await store.open_round(Round(round_id(number), 1, 1, float(number)), b"plan")
        await store.set_phase(round_id(number), phase, now=8.0)
    await store.add_release(replace(release(1, 1), facts=Facts(made_at=9.0)), round_id(2))
    assert [row.closed_at for row in await store.rounds(3)] == [9.0, 8.0]


async def test_items_keep_rows_and_get_attributes(store: Store) -> None:
    first = [NewItem("emma", BOOK), NewItem("heat", FILM), NewItem("bare")]
    assert await store.import_items(first) == Imported(3, 0, 0)
    await store.retire_items(["heat"])
    version = (await store.extent()).catalogue
    again = [NewItem("new", FILM), NewItem("heat", {"category": "thriller"}), NewItem("emma")]
    assert await store.import_items(again) == Imported(1, 1, 1)
    assert (await store.extent()).catalogue == version + 1
    rows = await store.items(0, 10)
    assert [(one.row, one.id, one.retired) for one in rows] == [
        (0, "emma", False), (1, "heat", False), (2, "bare", False), (3, "new", False),
    ]  # fmt: skip
    assert [dict(one.attributes) for one in rows] == [BOOK, {"category": "thriller"}, {}, FILM]
    assert await store.import_items(again) == Imported(0, 0, 0)
    assert (await store.extent()).catalogue == version + 1


async def test_items_are_found_by_id_and_by_attribute(store: Store) -> None:
    await store.import_items(
        [NewItem("a-100%", BOOK), NewItem("b_1", FILM), NewItem("bx1", BOOK), NewItem("c")]
    )
    assert [one.id for one in await store.items(0, 10, "100%")] == ["a-100%"]
    assert [one.id for one in await store.items(0, 10, "b_1")] == ["b_1"]
    assert [one.id for one in await store.items(0, 10, "EMMA")] == ["a-100%", "bx1"]
    assert [one.id for one in await store.items(1, 1, "emma")] == ["bx1"]
    assert await store.items(9, 10) == []


async def test_who_is_like_the_new_items(store: Store) -> None:
    await store.import_items([NewItem("a", BOOK), NewItem("b", FILM), NewItem("c", BOOK)])
    await store.import_items([NewItem("d", {"category": "film", "year": "2001"}), NewItem("e")])
    assert sorted(await store.shared_attributes(3)) == [
        (1, "category", "film"), (3, "category", "film"), (3, "year", "2001"),
    ]  # fmt: skip
    assert await store.shared_attributes(5) == []


async def test_categories_count_what_is_shown(store: Store) -> None:
    await store.import_items([NewItem("a", BOOK), NewItem("b", FILM), NewItem("c", BOOK)])
    await store.import_items([NewItem("d", FILM), NewItem("e", {"category": "art"})])
    assert await store.categories(2) == [("book", 2), ("film", 2)]
    await store.retire_items(["a", "e"])
    assert await store.categories(9) == [("film", 2), ("book", 1)]


async def test_refusals_add_up_for_their_round(store: Store) -> None:
    for number in (1, 2, 3):
        await store.open_round(Round(round_id(number), number, 1, float(number)), b"plan")
    await store.add_refusals(round_id(1), {"no-round": 9})
    await store.add_refusals(round_id(2), {"no-round": 2, "too-soon": 1})
    await store.add_refusals(round_id(2), {"no-round": 3})
    assert await store.refusals(2) == {round_id(2): {"no-round": 5, "too-soon": 1}}


async def test_devices_by_state_are_those_that_the_admission_would_tell(store: Store) -> None:
    names = ["ready", "resting", "spent", "revoked", "expired", "again"]
    await store.add_tokens([name.encode().ljust(32) for name in names], 0.0)
    for place, name in enumerate(names):
        await store.enrol(name.encode().ljust(32), device_id(place), b"k" * 65, 0.0)
    for number, step, who in ((1, 1, 2), (2, 3, 2), (3, 4, 1), (4, 5, 5)):
        await store.open_round(Round(round_id(number), step, 1, float(number)), b"plan")
        assert await assign(store, round_id(number), device_id(who), step, 2, 2, 1.0)
    await store.revoke_device(device_id(3), 1.0)
    await store.renew_device(device_id(4), 2.0, "none")
    states = await store.device_states(5, Privacy(separation=2, cap=2), 3.0)
    assert (states.ready, states.resting, states.spent) == (1, 2, 1)
    assert (states.revoked, states.expired, states.waiting) == (1, 1, 0)
    assert states.charged == {0: 3, 1: 2, 2: 1}
    may = [await assign(store, round_id(4), device_id(who), 5, 2, 2, 3.0) for who in range(6)]
    assert may == [True, False, False, False, False, None]


async def test_quality_is_noted_by_version_and_metric(store: Store) -> None:
    one = Quality(3, "ndcg@10", 0.1, 5.0, "panel of 500")
    for quality in (
        one,
        replace(one, version=2),
        replace(one, value=0.2),
        replace(one, metric="hr"),
    ):
        await store.add_quality(quality)
    assert await store.quality(2) == [replace(one, metric="hr"), replace(one, value=0.2)]


async def test_a_secret_is_made_once(store: Store) -> None:
    assert await store.secret("session", b"one") == b"one"
    assert await store.secret("session", b"two") == b"one"


async def test_public_attributes_come_by_row_and_their_version_grows_with_each_change(
    store: Store,
) -> None:
    await store.add_items(["a", "b"])
    first = await store.extent()
    said = [NewItem("b", {"title": "B", "margin": "7"}), NewItem("c", {"title": "C"})]
    await store.import_items(said)
    second = await store.extent()
    assert second.attributes > first.attributes
    assert await store.public_attributes(["title"]) == [{}, {"title": "B"}, {"title": "C"}]
    await store.import_items(said)
    assert (await store.extent()).attributes == second.attributes  # nothing changed
    await store.import_items([NewItem("b", {"title": "B again"})])
    third = await store.extent()
    assert (third.attributes, third.catalogue) == (second.attributes + 1, second.catalogue)
    assert (await store.public_attributes(["title", "margin"]))[1] == {"title": "B again"}
