"""Releases to some devices first, over HTTP: the good one becomes everybody's, the bad one goes.

Two kinds of users touch two halves of the catalogue, so what was learnt ranks well what they touch
next, and the first release, which was drawn at random, does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from fedrap import FedRap
from fedrap.rounds.answering import in_share
from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.catalogue_actions import CatalogueActions
from fedrap_coordinator.admin.documents import RolloutLine
from fedrap_coordinator.admin.question_actions import QuestionActions
from fedrap_coordinator.admin.rollout_actions import RolloutActions
from fedrap_coordinator.app import usual_aggregator
from fedrap_coordinator.domain.questions import QuestionState
from fedrap_coordinator.errors import ConfigError, Refusal
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import Keyring, fresh_keyring
from fedrap_coordinator.rounds.asking import Wanted, make_question, read_question
from fedrap_coordinator.rounds.coordinator import Coordinator
from fedrap_coordinator.rounds.releases import load_model
from fedrap_coordinator.settings import Questions, Rollouts
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.errors import SignatureInvalid
from fedrap_core.plan import OFF, Scoring
from fedrap_core.questions.gains import PairedGains
from fedrap_core.wire.authority import check_leads, entry_digest, read_entry
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Delta, Log, Question, Release, Trial
from fedrap_core.wire.messages import Questions as QuestionsMessage
from fedrap_core.wire.question_layout import layout_of
from testkit.harness import LiveServer, serve, small_settings
from tests.end_to_end.test_questions import ALMOST_NONE, NO_PRIVACY, Clock

DAY = 86_400.0
HALF = 12
ITEMS = [f"item-{row}" for row in range(2 * HALF)]
USERS = 6


def touched(user: int, count: int, start: int = 0) -> list[str]:
    """Items of this user's half of the catalogue, each user beginning with another one."""
    first = HALF * (user % 2)
    return [ITEMS[first + (3 * user + n) % HALF] for n in range(start, start + count)]


@dataclass
class World:
    """A coordinator that has learnt, its devices and its operator."""

    served: LiveServer
    store: MemoryStore
    keyring: Keyring
    clock: Clock
    rollouts: RolloutActions
    releases: CatalogueActions
    devices: list[FedRap]

    @property
    def coordinator(self) -> Coordinator:
        return self.served.app[COORDINATOR]

    @property
    def full(self) -> int:
        assert self.coordinator.model is not None
        return self.coordinator.model.stored.version

    async def goes_on(self) -> None:
        """The coordinator's timers: rounds and releases, then questions."""
        await self.coordinator.advance()
        await self.coordinator.sum_up()
        self.clock.now += 3.0

    async def a_round(self) -> None:
        for device in self.devices:
            await device.run_round_async()
        await self.coordinator.advance()

    async def used(self, start: int) -> None:
        """Devices see what is staged, then their users touch five items more."""
        for user, device in enumerate(self.devices):
            await device.sync_async()
            assert await device.answer_questions_async() == 0  # it is too early
            for item in touched(user, 5, start):
                self.clock.now += 1.0
                device.record(item)

    async def stage_ends(self) -> None:
        """All devices answer, and the sum is made."""
        self.clock.now += 0.92 * DAY
        assert [await one.answer_questions_async() for one in self.devices] == [1] * USERS
        self.clock.now += 0.1 * DAY
        await self.goes_on()
        await self.goes_on()

    async def last(self) -> RolloutLine:
        return (await self.rollouts.rollouts(1)).rollouts[0]

    async def versions(self) -> list[int | None]:
        """What is in use, after everybody asked."""
        for device in self.devices:
            await device.sync_async()
        return [device.status().release for device in self.devices]

    async def acts(self) -> list[str]:
        return [row.entry.action for row in await self.store.audit_rows(0, 100)]


@asynccontextmanager
async def world(folder: Path, *, rounds: int = 4, least: int = 2) -> AsyncIterator[World]:
    clock, store, keyring = Clock(), MemoryStore(), fresh_keyring()
    wanted = msgspec.structs.replace(
        small_settings(updates=USERS, separation=1, cap=50),
        questions=Questions(least=least, epsilon=ALMOST_NONE, answers=10, days=1.0),
        rollouts=Rollouts(shares=(1.0,)),
    )
    async with serve(wanted, store, keyring, clock, ITEMS, monotonic=clock) as served:
        devices = []
        for user in range(USERS):
            device = await served.device(
                folder / str(user), touched(user, 6), floor=NO_PRIVACY, clock=clock
            )
            device.consent(policy="test", train=True, measure=True)
            devices.append(device)
        admin = AdminActions(store, wanted, Sources(clock, clock), "ann", keyring=keyring)
        w = World(
            served, store, keyring, clock, RolloutActions(admin), CatalogueActions(admin), devices
        )
        for _ in range(rounds):
            await w.a_round()
        await w.versions()
        yield w


@pytest.mark.spec("14.7")
async def test_a_bad_release_is_halted_and_everybody_has_the_old_one_again(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        full, model = w.full, w.coordinator.model
        await w.rollouts.start(version=1)  # as it was before anything was learnt
        await w.goes_on()
        assert (await w.last()).state == "running"
        assert w.full == full  # everybody else keeps it
        await w.used(6)
        assert await w.versions() == [full + 1] * USERS  # all are in the share here
        await w.stage_ends()
        ended = await w.last()
        assert ended.state == "halted"
        assert ended.reason.startswith("worse: lead -")
        [stage] = ended.stages
        assert stage.lead is not None
        assert stage.lead.high < 0
        assert await w.versions() == [full + 2] * USERS
        assert model is not None
        assert w.coordinator.model is not None
        assert w.coordinator.model.message.model == model.message.model  # the same numbers
        acts = ["rollout-start", "publish-staged", "stage", "halting", "publish-halted"]
        assert await w.acts() == acts
        await w.a_round()  # learning goes on
        assert w.full == full + 3


@pytest.mark.spec("14.7")
async def test_a_good_release_becomes_everybodys(tmp_path: Path) -> None:
    """Of the round that is at work: it is staged as it comes, and learning rests meanwhile."""
    async with world(tmp_path, rounds=1) as w:
        full = w.full
        await w.rollouts.start()
        await w.a_round()
        assert (await w.last()).version == full + 1
        step = w.coordinator.model.stored.step if w.coordinator.model else -1
        assert w.full == full
        for device in w.devices:
            assert (await device.run_round_async()).blocked_by == "no-round"
        await w.goes_on()
        await w.used(6)
        await w.stage_ends()
        ended = await w.last()
        assert ended.state == "promoted"
        assert "harm" in ended.reason
        assert await w.versions() == [full + 2] * USERS
        assert w.coordinator.model is not None
        assert w.coordinator.model.stored.step == step + 1
        await w.a_round()
        assert w.full == full + 3


async def test_other_scalars_are_staged_and_stay_where_they_are_promoted(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.rollouts.start(change={"ridge": 29.0})
        await w.goes_on()
        assert w.coordinator.model is not None
        before = w.coordinator.model.message.scoring
        await w.rollouts.promote()
        await w.goes_on()
        assert (await w.last()).state == "promoted"
        scoring = w.coordinator.model.message.scoring
        assert isinstance(scoring, Scoring)
        assert scoring.ridge == 29.0
        await w.versions()
        await w.a_round()
        assert w.coordinator.model.message.scoring == scoring
        await w.rollouts.start(change={"ridge": 1.0})
        await w.goes_on()
        await w.rollouts.halt()
        await w.goes_on()
        assert w.coordinator.model.message.scoring == scoring != before


@pytest.mark.spec("9.7")
async def test_the_log_is_one_chain_and_those_outside_the_share_keep_the_full_one(
    tmp_path: Path,
) -> None:
    """Also a device that never heard of staged releases, which asks as it always did."""
    async with world(tmp_path) as w:
        full = w.full
        keys = [one._state.snapshot().credentials for one in w.devices]
        await w.rollouts.start(version=full - 1, shares=[0.5, 1.0])
        await w.goes_on()
        await w.goes_on()
        rollout = (await w.store.rollouts(1))[0]
        trial = Trial(rollout=rollout.id, share=0.5, base=full)
        chosen = [key is not None and in_share(key.private_key, trial) for key in keys]
        await w.used(6)
        assert await w.versions() == [full + 1 if one else full for one in chosen]
        session, url = w.served.session, w.served.url
        async with session.get(f"{url}/v1/questions") as answer:
            assert decode(QuestionsMessage, await answer.read()).questions == []
        async with session.get(f"{url}/v1/questions?all=1") as answer:
            [signed] = decode(QuestionsMessage, await answer.read()).questions
        assert decode(Question, signed.body).trial == trial
        async with session.get(f"{url}/v1/releases/latest?have={full - 1}") as answer:
            raw = await answer.read()
        latest = decode(Delta, raw, 10**6) if b"delta" in raw[:40] else decode(Release, raw, 10**6)
        assert latest.version == full
        async with session.get(f"{url}/v1/log?since={full - 1}") as answer:
            log = decode(Log, await answer.read(), 10**6)
        staged = read_entry(log.head)
        assert staged.staged == rollout.id
        assert [read_entry(one).staged for one in log.entries] == [OFF, rollout.id]
        await w.rollouts.halt()
        await w.goes_on()
        async with session.get(f"{url}/v1/log?since={full - 1}") as answer:
            log = decode(Log, await answer.read(), 10**6)
        check_leads(log.entries[0], log.entries[1:])
        assert read_entry(log.head).before == entry_digest(log.entries[1])
        assert await w.versions() == [full + 2] * USERS


@pytest.mark.spec("14.8")
async def test_a_device_outside_the_share_answers_as_well_and_says_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.rollouts.start(version=1, shares=[1e-9, 1.0])
        await w.goes_on()
        await w.used(6)
        await w.stage_ends()
        (question,) = [row for row in await w.store.questions(9) if row.total]
        assert layout_of(read_question(question)).size == 3
        assert question.answers == USERS
        going = await w.last()
        assert (going.state, going.stage) == ("running", 1)
        assert going.reason == "nothing to be seen at 1e-09 of the devices"
        assert going.stages[0].lead is None


async def test_what_nobody_answers_is_asked_again_and_then_taken_back(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        full = w.full
        await w.rollouts.start(version=1)
        await w.goes_on()
        for _ in range(2):
            await w.goes_on()
            w.clock.now += 1.1 * DAY
            await w.goes_on()
        await w.goes_on()
        ended = await w.last()
        assert (ended.state, w.full) == ("halted", full + 2)
        assert ended.reason == "too few answers at 1 of the devices, 2 times"


async def test_one_at_a_time_and_nothing_else_meanwhile(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        full = w.full
        for arguments in ({"version": 99}, {"version": full}, {"change": {"rigde": 1.0}}):
            with pytest.raises(ConfigError):
                await w.rollouts.start(**arguments)
        for shares in ([0.5, 0.1], [0.0], [2.0], [0.1, 0.1]):
            with pytest.raises(ConfigError):
                await w.rollouts.start(shares=shares)
        with pytest.raises(Refusal):
            await w.rollouts.halt()
        await w.rollouts.start(version=1)
        with pytest.raises(Refusal, match="goes on"):
            await w.rollouts.start(version=1)
        with pytest.raises(Refusal, match="nothing is staged"):
            await w.rollouts.promote()
        await w.goes_on()
        with pytest.raises(Refusal, match="rollout halt"):
            await w.releases.roll_back(1)
        await w.coordinator.add_items(["item-new"])  # waits for its end
        await w.goes_on()
        assert w.full == full
        await w.rollouts.halt()
        await w.goes_on()
        w.clock.now += 60.0
        await w.goes_on()
        assert w.coordinator.model is not None
        assert w.coordinator.model.common.size == len(ITEMS) + 1


async def test_who_no_longer_lets_itself_be_measured_has_the_full_one_at_once(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        full, device = w.full, w.devices[0]
        await w.rollouts.start(version=1)
        await w.goes_on()
        await w.used(6)
        assert device.status().release == full + 1
        listed = device.recommend(5)
        device.consent(policy="test", train=True, measure=False)
        assert device.status().release == full
        assert device.recommend(5) != listed


async def test_both_releases_and_the_leads_are_there_after_a_restart(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        full, old = w.full, w.devices[0]
        await w.rollouts.start(version=1)
        await w.goes_on()
        await w.used(6)
        await old.sync_async()  # looks at what was touched
        pair = old._state._gains.pair(full + 1)
        assert 1 <= pair.count <= 5
        old.close()
        again = FedRap.open(tmp_path / "0", offline=True, clock=w.clock, floor=NO_PRIVACY)
        assert again.status().release == full + 1
        assert again._state._gains.pair(full + 1) == pair != PairedGains(full + 1)
        again.close()


async def test_two_processes_at_the_same_roll_out_do_everything_once(tmp_path: Path) -> None:
    """And one that begins in the middle, as after a crash, takes up what the other left."""
    async with world(tmp_path) as w:
        full, first = w.full, w.coordinator
        settings = first.settings
        other = Coordinator(
            w.store, w.keyring, settings, usual_aggregator(settings, w.keyring),
            Sources(w.clock, w.clock),
        )  # fmt: skip

        async def both_go_on() -> None:
            if not other.is_ready:
                await other.start()
            await asyncio.gather(first.advance(), other.advance())
            await asyncio.gather(first.sum_up(), other.sum_up())
            w.clock.now += 3.0

        await w.rollouts.start(version=1)
        await both_go_on()
        await w.used(6)
        w.clock.now += 0.92 * DAY
        assert [await one.answer_questions_async() for one in w.devices] == [1] * USERS
        w.clock.now += 0.1 * DAY
        for _ in range(3):
            await both_go_on()
        assert (await w.last()).state == "halted"
        acts = [act for act in await w.acts() if act != "publish-items"]
        assert acts == ["rollout-start", "publish-staged", "stage", "halting", "publish-halted"]
        assert [first.model and first.model.stored.version] == [full + 2]
        assert [other.model and other.model.stored.version] == [full + 2]
        assert await other.log(full) == await first.log(full)


async def test_two_processes_that_follow_a_vote_ask_the_next_one_once(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        settings = w.coordinator.settings
        other = Coordinator(
            w.store, w.keyring, settings, usual_aggregator(settings, w.keyring),
            Sources(w.clock, w.clock),
        )  # fmt: skip
        await other.start()
        await QuestionActions(w.rollouts._admin).tune()
        w.clock.now += 1.1 * DAY
        await asyncio.gather(w.coordinator.sum_up(), other.sum_up())
        await asyncio.gather(w.coordinator._tuning.advance(), other._tuning.advance())
        rows = await w.store.questions(10)
        assert sorted(row.purpose for row in rows) == ["tune 0: kept", "tune 1"]
        assert (await w.acts()).count("ask") == 2


@pytest.mark.spec("14.7")
async def test_a_release_that_was_not_staged_is_not_used_beside_the_full_one(
    tmp_path: Path,
) -> None:
    """The authority itself cannot show one device something that the log does not say."""
    async with world(tmp_path) as w:
        full, device = w.full, w.devices[0]
        for version, says in ((full - 1, "another roll-out"), (full + 9, "none at all")):
            wanted = Wanted(
                [version], trial=Trial(rollout=b"a targeted one..", share=1.0, base=full)
            )
            row = make_question(
                wanted, w.coordinator.task, w.coordinator.settings, w.keyring,
                Sources(w.clock, w.clock),
            )  # fmt: skip
            await w.store.add_question(row)
            w.clock.now += 3.0
            await device.answer_questions_async()
            assert device.status().release == full, says
            assert device._state.staged_version() is None
            await w.store.end_question(row.id, QuestionState.TOO_FEW, QuestionState.OPEN)


@pytest.mark.spec("9.7")
async def test_a_staged_release_is_never_taken_for_the_full_one(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        full, device = w.full, w.devices[0]
        await w.rollouts.start(version=1)
        await w.goes_on()
        stored = await w.store.release(full + 1)
        assert stored is not None
        w.coordinator._driver.model = load_model(stored)  # a coordinator that lies
        with pytest.raises(SignatureInvalid, match="staged"):
            await device.sync_async()
        assert device.status().release == full
