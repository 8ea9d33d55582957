"""Questions whose answers are shares for two servers: real devices, coordinator and helper."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedrap import Floor
from fedrap.rounds import answering
from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.question_actions import QuestionActions
from fedrap_coordinator.app import create_app, usual_aggregator
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.settings import Questions
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.paper.sampling import Uniform
from fedrap_core.plan import OFF
from fedrap_core.questions.answers import Vector
from fedrap_core.split.report import Report
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Question
from fedrap_core.wire.shares import (
    CloseRound,
    HelperReport,
    ReportBatch,
    SplitAnswer,
    seal_split_answer,
)
from testkit.harness import Player, serve_app, small_settings
from testkit.pair import LocalHelper, with_split
from tests.end_to_end.test_questions import Clock, World

NO_PRIVACY = Floor.without_privacy(separation=1, min_updates=1)
STEP = 1 / 31


class Pair(World):
    """The world of questions, with a helper."""

    async def opened(self) -> Question:
        """Once the coordinator has asked the helper for a key."""
        await self.served.app[COORDINATOR].sum_up()
        return await self.question()


@pytest.fixture
def helper(tmp_path: Path) -> Iterator[LocalHelper]:
    made = LocalHelper(tmp_path / "helper", clock=Clock())
    yield made
    made.close()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[Vector]:
    """What devices had to say, before it became shares."""
    found: list[Vector] = []
    real = answering.answer_report

    def noted(question: Question, answer: Vector, uniform: Uniform) -> Report:
        found.append(answer)
        return real(question, answer, uniform)

    monkeypatch.setattr(answering, "answer_report", noted)
    return found


@asynccontextmanager
async def pair(
    folder: Path, helper: LocalHelper, count: int = 3, *, least: int = 2, epsilon: float = 1e5
) -> AsyncIterator[Pair]:
    clock = helper.clock
    assert isinstance(clock, Clock)
    store, keyring = MemoryStore(), fresh_keyring()
    asking = Questions(least=least, epsilon=epsilon, answers=3, days=1.0)
    wanted = msgspec.structs.replace(small_settings(separation=1), questions=asking)
    wanted = with_split(wanted, helper.identity)
    sources = Sources(clock, clock)
    aggregator = usual_aggregator(wanted, keyring, helper)
    app = create_app(wanted, store, keyring, sources, aggregator=aggregator)
    async with serve_app(app) as served:
        devices = []
        for number in range(count):
            device = await served.device(
                folder / str(number), [f"item-{number}"], floor=NO_PRIVACY, clock=clock,
                aggregation="split", helper=helper.identity,
            )  # fmt: skip
            device.consent(policy="test", train=True, measure=True)
            devices.append(device)
        for device in [*devices[:2], *devices]:
            await device.run_round_async()
            await served.app[COORDINATOR].advance()
        for number, device in enumerate(devices):
            await device.sync_async()
            clock.now += 1.0
            device.record(f"item-{number + 4}")
        admin = AdminActions(store, wanted, sources, "ann", keyring=keyring)
        yield Pair(served, store, keyring, clock, QuestionActions(admin), devices)


async def row_total(w: Pair) -> np.ndarray:
    (row,) = await w.store.questions(1)
    return np.frombuffer(row.total, dtype="<f8")


@pytest.mark.spec("14.10")
async def test_the_sum_of_shares_is_that_of_what_devices_had_to_say(
    tmp_path: Path, helper: LocalHelper, said: list[Vector]
) -> None:
    async with pair(tmp_path, helper) as w:
        asked = await w.actions.ask("ndcg")
        assert asked.state == "opening"
        assert (await w.opened()).helper is not OFF
        assert await w.answers() == [1, 1, 1]
        assert await w.answers() == [0, 0, 0]
        found = await w.ended(asked.id)
        assert (found.state, found.answers) == ("answered", 3)
        [result] = found.results
        assert result.mean is not None
        assert result.mean.low < result.mean.value < result.mean.high
        expected = np.sum(said, axis=0)
        assert len(said) == 3
        assert abs(expected[1]) > 4 * STEP  # there was something to say
        assert np.abs(await row_total(w) - expected).max() <= 3 * STEP + 1e-9


@pytest.mark.spec("14.10")
async def test_neither_server_is_sent_a_number_and_the_helper_no_device(
    tmp_path: Path, helper: LocalHelper
) -> None:
    async with pair(tmp_path, helper) as w:
        await w.actions.ask("ndcg", lists=False)
        question = await w.opened()
        await w.answers()
        bodies = [one async for some in w.store.sealed_answers(question.question) for one in some]
        assert len({len(one) for one in bodies}) == 1
        answers = [decode(SplitAnswer, one, 16384) for one in bodies]
        await w.ended(question.question.hex())
        (batch,) = [
            one for one in helper.seen
            if isinstance(one, ReportBatch) and one.round == question.question
        ]  # fmt: skip
        raw = encode(batch)
        assert len(batch.reports) == 3
        assert not any(one.device in raw or one.leader in raw for one in answers)


@pytest.mark.spec("14.10")
async def test_a_device_answers_only_in_the_mode_and_to_the_helper_of_its_app(
    tmp_path: Path, helper: LocalHelper
) -> None:
    other = LocalHelper(tmp_path / "other")
    async with pair(tmp_path, helper, 1) as w:
        await w.actions.ask()
        await w.opened()
        options = {"aggregation": "split", "helper": other.identity}
        swapped = await w.served.device(
            tmp_path / "b", ["item-1"], floor=NO_PRIVACY, clock=w.clock, **options
        )
        sealed = await w.served.device(tmp_path / "c", ["item-1"], floor=NO_PRIVACY, clock=w.clock)
        for one in (swapped, sealed):
            one.consent(policy="test", train=True, measure=True)
            await one.run_round_async()
            w.devices.append(one)
        assert await w.answers() == [1, 0, 0]
    other.close()


async def hostile(w: Pair) -> tuple[Player, Question, str]:
    await w.actions.ask()
    question, player = await w.opened(), await w.served.player()
    return player, question, f"/v1/questions/{question.question.hex()}/answers"


def answer_of(question: Question, player: Player, numbers: list[float], seed: int) -> SplitAnswer:
    """What a device of that player would send."""
    assert question.helper is not OFF
    rng = np.random.default_rng(seed)
    report = answering.answer_report(question, np.array(numbers), rng.random)
    return seal_split_answer(question, question.helper, player.id, report)


@pytest.mark.spec("14.10")
async def test_altered_foreign_and_sealed_answers_are_refused(
    tmp_path: Path, helper: LocalHelper
) -> None:
    change = msgspec.structs.replace
    async with pair(tmp_path, helper, 2) as w:
        player, question, path = await hostile(w)
        good = answer_of(question, player, [0.25, 0.5, 0.1, -0.2, 0.0], 1)
        leader = good.leader[:-1] + bytes([good.leader[-1] ^ 1])
        for bad in (
            change(good, device=b"somebody else's."), change(good, question=bytes(16)),
            change(good, task=bytes(16)), change(good, seal_id=bytes(8)),
            change(good, report=bytes(16)), change(good, leader=leader),
            change(good, public=good.public[:-1]), change(good, public=bytes(64)),
            change(good, helper=good.helper[:-1]),
        ):  # fmt: skip
            assert (await player.send("POST", path, encode(bad))).problem == "malformed", bad
        assert (await player.send("POST", path, encode(good))).status == 200
        assert (await player.send("POST", path, encode(good))).status == 200  # the same again
        again = answer_of(question, player, [0.25, 0.5, 0.1, -0.2, 0.0], 2)
        assert (await player.send("POST", path, encode(again))).problem == "conflicting-update"


@pytest.mark.spec("14.10")
async def test_a_replayed_report_counts_once_and_a_broken_helper_share_not_at_all(
    tmp_path: Path, helper: LocalHelper, said: list[Vector]
) -> None:
    change = msgspec.structs.replace
    async with pair(tmp_path, helper, 2) as w:
        player, question, path = await hostile(w)
        good = answer_of(question, player, [0.25, 0.5, 0.1, -0.2, 0.0], 1)
        assert (await player.send("POST", path, encode(good))).status == 200
        thief, vandal = await w.served.player(), await w.served.player()
        stolen = change(good, device=thief.id)
        assert (await thief.send("POST", path, encode(stolen))).status == 200
        broken = answer_of(question, vandal, [0.25, 1.0, 0.25, 1.0, 0.25], 3)
        broken = change(broken, helper=bytes(len(broken.helper)))
        assert (await vandal.send("POST", path, encode(broken))).status == 200  # nobody can tell
        await w.answers()
        found = await w.ended(question.question.hex())
        assert found.state == "answered"
        expected = np.sum(said, axis=0)  # of the player, and of two devices
        assert len(said) == 4  # the vandal's own was made here, too
        expected -= said[1]
        assert np.abs(await row_total(w) - expected).max() <= 3 * STEP + 1e-9


@pytest.mark.spec("14.11")
async def test_too_few_answers_say_nothing_and_the_helper_is_never_asked_for_a_sum(
    tmp_path: Path, helper: LocalHelper
) -> None:
    async with pair(tmp_path, helper, least=4) as w:
        asked = await w.actions.ask()
        question = await w.opened()
        await w.answers()
        found = await w.ended(asked.id)
        assert (found.state, found.results) == ("too-few", [])
        closed = [one.round for one in helper.seen if isinstance(one, CloseRound)]
        assert question.question not in closed
        assert [body async for some in w.store.sealed_answers(question.question)
                for body in some] == []  # fmt: skip


async def test_a_helper_that_counts_too_few_gives_no_sum(
    tmp_path: Path, helper: LocalHelper
) -> None:
    async with pair(tmp_path, helper) as w:
        asked = await w.actions.ask()
        question = await w.opened()
        await w.answers()
        helper.least = 4  # its own bound, whatever the question says
        helper.start()
        assert (await w.ended(asked.id)).state == "too-few"
        assert question.least == 2


FAULTS = (
    "cut", "lost", "doubled", "helper: key made", "helper: round kept", "helper: batch kept",
    "helper: summed", "helper: sum kept", "helper: key destroyed",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["OpenQuestion", "ReportBatch", "CloseRound"])
async def test_a_question_comes_to_the_same_sum_whatever_breaks_on_the_way(
    tmp_path: Path, helper: LocalHelper, kind: str, said: list[Vector]
) -> None:
    """Every fault at this verb of the helper, one after the other, on one question."""
    async with pair(tmp_path, helper) as w:
        asked = await w.actions.ask()
        coordinator = w.served.app[COORDINATOR]
        waiting = [*FAULTS]
        if kind == "OpenQuestion":
            while (await w.question()).helper is OFF:
                if waiting:
                    helper.planned[kind] = waiting.pop(0)
                await coordinator.sum_up()
        await w.opened()
        await w.answers()
        w.clock.now += 86400.0
        for _ in range(2 * len(FAULTS)):
            if waiting and kind != "OpenQuestion":
                helper.planned[kind] = waiting.pop(0)
            if await coordinator.sum_up():
                break
        found = await w.actions.question(asked.id)
        assert (found.state, found.answers) == ("answered", 3)
        expected = np.sum(said, axis=0)
        assert np.abs(await row_total(w) - expected).max() <= 3 * STEP + 1e-9
        mine = bytes.fromhex(asked.id)
        closing = [one for one in helper.seen if isinstance(one, CloseRound) and one.round == mine]
        assert len({one.digest for one in closing}) == 1  # never another set


async def test_a_question_waits_for_a_helper_that_is_away_and_nobody_is_asked_meanwhile(
    tmp_path: Path, helper: LocalHelper
) -> None:
    async with pair(tmp_path, helper) as w:
        await w.actions.ask()
        helper.faults = ["cut"]
        assert (await w.opened()).helper is OFF
        assert await w.answers() == [0, 0, 0]
        assert (await w.opened()).helper is not OFF
        w.clock.now += 3.0
        assert [await device.answer_questions_async() for device in w.devices] == [1, 1, 1]


def test_a_batch_names_a_helpers_report_and_nothing_else() -> None:
    assert set(HelperReport.__struct_fields__) == {"report", "public", "helper", "seen"}
