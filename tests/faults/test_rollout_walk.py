"""A roll-out on SQLite that dies at each of its transactions, once before and once after each.

Whatever the point is: a coordinator that starts again ends it as it would have ended, under the
same versions, with one chain of entries and each act once in the audit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.rollout_actions import RolloutActions
from fedrap_coordinator.app import usual_aggregator
from fedrap_coordinator.domain.records import StoredRelease
from fedrap_coordinator.errors import Refusal
from fedrap_coordinator.keyring import Keyring, fresh_keyring
from fedrap_coordinator.rounds.coordinator import Coordinator
from fedrap_coordinator.rounds.releases import Model, encode_release, publish
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.model import CommonItems
from fedrap_core.quantize import quantize_rows
from fedrap_core.wire.authority import check_leads
from fedrap_core.wire.codec import encode
from fedrap_core.wire.releases import pack_release
from testkit.harness import ITEMS, small_settings
from tests.end_to_end.test_questions import Clock

SETTINGS = small_settings(total=2)  # rounds are over: nothing else is at work
TASK = bytes(range(16))
VERBS = {"add_rollout", "roll_back", "add_question", "move_rollout"}


class Killed(Exception):
    """Nothing after it runs."""


async def learnt(url: str, keyring: Keyring) -> None:
    """A database with two releases that rounds made."""
    store, before = SqlStore(url), None
    await store.open()
    await store.add_items(ITEMS)
    assert await store.task_id(TASK) == TASK
    catalogue = (await store.extent()).catalogue
    for version in (1, 2):
        rows = np.random.default_rng(version).normal(size=(len(ITEMS), SETTINGS.method.dim))
        common = CommonItems(version, quantize_rows(rows))
        message = pack_release(TASK, version, common, catalogue, SETTINGS.released_scoring())
        stored = StoredRelease(version, version, 3, encode(message), None)
        made = Model(stored, common, message, encode_release(stored))
        before = publish(made, before, keyring.authority, 0.0)
        await store.add_release(before.stored, None)
        keyring.keep_entries(TASK, [before.stored.entry])
    await store.close()


async def go_on(
    url: str, keyring: Keyring, clock: Clock, ends: str, reached: Callable[[str], None]
) -> str:
    """What is left to do of a roll-out of version 1, from wherever it stands; its last state."""
    store, sources = SqlStore(url, reached), Sources(clock, clock)
    coordinator = Coordinator(
        store, keyring, SETTINGS, usual_aggregator(SETTINGS, keyring), sources
    )
    try:
        await coordinator.start()
        acts = RolloutActions(AdminActions(store, SETTINGS, sources, "ann", keyring=keyring))
        if not await store.rollouts(1):
            await acts.start(version=1, shares=[0.5])
        for _ in range(4):
            await coordinator.advance()
            await coordinator.sum_up()
            clock.now += 30.0
            row = await store.rollout()
            if row is not None and row.state.value == "running":
                if await store.question(row.question()) is None:
                    continue
                try:
                    await (acts.promote() if ends == "promoted" else acts.halt())
                except Refusal:
                    continue
        return (await store.rollouts(1))[0].state.value
    finally:
        await store.close()


@pytest.mark.parametrize("ends", ["promoted", "halted"])
async def test_a_roll_out_that_dies_anywhere_ends_as_it_would_have(
    tmp_path: Path, ends: str
) -> None:
    clean, points = f"sqlite:///{tmp_path / 'clean.sqlite'}", list[str]()
    keyring = fresh_keyring()
    await learnt(clean, keyring)
    assert await go_on(clean, keyring, Clock(), ends, points.append) == ends
    of_it = [place for place, name in enumerate(points) if name.partition(":")[0] in VERBS]
    assert {points[place].partition(":")[0] for place in of_it} == VERBS
    for place in of_it:
        url, left, ring = f"sqlite:///{tmp_path / str(place)}.sqlite", [place], fresh_keyring()
        clock = Clock()
        await learnt(url, ring)

        def reached(point: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                raise Killed(point)

        with pytest.raises(Killed):
            await go_on(url, ring, clock, ends, reached)
        assert await go_on(url, ring, clock, ends, lambda _: None) == ends, points[place]
        store = SqlStore(url)
        await store.open()
        entries, head = await store.log(0, 10)
        check_leads(entries[0], entries[1:])
        assert (len(entries), entries[-1]) == (4, head)
        latest = await store.release(None)
        assert latest is not None
        assert (latest.version, latest.step, latest.restores) == (
            4,
            2,
            3 if ends == "promoted" else 2,
        )
        acts = [row.entry.action for row in await store.audit_rows(0, 50)]
        by_hand = "rollout-promote" if ends == "promoted" else "rollout-halt"
        wanted = ["rollout-start", "publish-staged", "stage", by_hand, f"publish-{ends}"]
        assert acts == wanted, points[place]
        await store.close()
