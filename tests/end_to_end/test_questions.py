"""Questions about quality over HTTP: asked by the operator, answered by devices, summed up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedrap import FedRap, Floor
from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.documents import QuestionLine
from fedrap_coordinator.admin.quality import quality_gauges
from fedrap_coordinator.admin.question_actions import QuestionActions
from fedrap_coordinator.errors import ConfigError
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import Keyring, fresh_keyring
from fedrap_coordinator.rounds.asking import read_question
from fedrap_coordinator.settings import Questions
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.plan import SolveMethod, TrendMethod
from fedrap_core.questions.answers import pack
from fedrap_core.wire.codec import encode
from fedrap_core.wire.messages import Question
from fedrap_core.wire.question_layout import layout_of
from fedrap_core.wire.seal import seal_answer
from testkit.harness import DIM, ITEMS, LiveServer, Player, serve, small_settings

DAY = 86_400.0
NO_PRIVACY = Floor.without_privacy(separation=1, min_updates=1)
ALMOST_NONE = 1e5  # epsilon: noise of some hundredths


class Clock:
    """Seconds since 1970 that a test moves."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class World:
    """A coordinator whose devices hold its first learnt release, and its operator."""

    served: LiveServer
    store: MemoryStore
    keyring: Keyring
    clock: Clock
    actions: QuestionActions
    devices: list[FedRap]

    async def answers(self) -> list[int]:
        """What each device answers when most of a question's day is over."""
        self.clock.now += 0.95 * DAY
        return [await device.answer_questions_async() for device in self.devices]

    async def ended(self, question: str) -> QuestionLine:
        self.clock.now += DAY
        assert await self.served.app[COORDINATOR].sum_up() == 1
        return await self.actions.question(question)

    async def question(self) -> Question:
        (row,) = await self.store.questions(1)
        return read_question(row)


@asynccontextmanager
async def world(
    folder: Path, count: int = 3, *, least: int = 2, epsilon: float = ALMOST_NONE, cap: int = 3,
    trend: bool = False,
) -> AsyncIterator[World]:  # fmt: skip
    clock, store, keyring = Clock(), MemoryStore(), fresh_keyring()
    asking = Questions(least=least, epsilon=epsilon, answers=cap, days=1.0)
    wanted = msgspec.structs.replace(small_settings(separation=1), questions=asking)
    if trend:
        method = SolveMethod(dim=DIM, trend=TrendMethod(half_days=1.0))
        wanted = msgspec.structs.replace(wanted, method=method)
    async with serve(wanted, store, keyring, clock, monotonic=clock) as served:
        devices = []
        for number in range(count):
            device = await served.device(
                folder / str(number), [f"item-{number}"], floor=NO_PRIVACY, clock=clock
            )
            device.consent(policy="test", train=True, measure=True)
            devices.append(device)
        for device in [*devices[:2], *devices]:  # the first two make a release; all enrol
            await device.run_round_async()
            await served.app[COORDINATOR].advance()
        for number, device in enumerate(devices):
            await device.sync_async()
            clock.now += 1.0
            device.record(f"item-{number + 4}")
        admin = AdminActions(store, wanted, Sources(clock, clock), "ann", keyring=keyring)
        yield World(served, store, keyring, clock, QuestionActions(admin), devices)


async def test_devices_are_asked_and_the_sum_is_theirs(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        version = w.devices[0].status().release
        asked = await w.actions.ask("ndcg")
        assert (asked.state, asked.releases, asked.results) == ("open", [version], [])
        assert await w.answers() == [1, 1, 1]
        assert await w.answers() == [0, 0, 0]
        found = await w.ended(asked.id[:8])
        assert (found.state, found.answers) == ("answered", 3)
        [result] = found.results
        assert result.mean is not None
        assert result.devices == pytest.approx(3, abs=0.5)
        assert 0.1 < result.mean.value < 1
        assert result.mean.low < result.mean.value < result.mean.high
        assert [device.status().answers for device in w.devices] == [1, 1, 1]
        (entry,) = [row.entry for row in await w.store.audit_rows(0, 100)]
        assert (entry.who, entry.action) == ("ann", "ask")


@pytest.mark.spec("14.3")
async def test_where_there_is_a_trend_its_list_stands_beside_the_popular_one(
    tmp_path: Path,
) -> None:
    """All touch one item far down the catalogue; the next one to touch it found it first there."""
    async with world(tmp_path, 4, least=1, trend=True) as w:
        w.clock.now += 8 * DAY  # what was touched before is forgotten
        for device in w.devices[:2]:
            device.record(ITEMS[-1])
            await device.run_round_async()
        await w.served.app[COORDINATOR].advance()
        asked = await w.actions.ask("ndcg")
        w.clock.now += 1.0
        for device in w.devices[2:]:
            await device.sync_async()
            assert device.trending(1) == [ITEMS[-1]]
            device.record(ITEMS[-1])
        w.clock.now += 0.95 * DAY
        for device in w.devices:
            assert await device.answer_questions_async() == 1
        [result] = (await w.ended(asked.id)).results
        assert result.mean is not None
        popular, lately = result.compared
        assert lately.value > popular.value
        assert lately.value + result.mean.value == pytest.approx(1.0, abs=0.1)
        found = quality_gauges([await w.actions.question(asked.id)], w.clock.now)
        assert found["quality_uplift_lately"] == -lately.value


async def test_candidates_are_asked_about_and_their_differences_come_back(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        asked = await w.actions.ask("ndcg", changes=[{"ridge": 60.0}, {"beta": 0.0, "gamma": 1.0}])
        assert [one["ridge"] for one in asked.variants] == [60.0, 60.0, 60.0]
        await w.answers()
        [result] = (await w.ended(asked.id)).results
        assert result.mean is not None
        same, _ = result.compared
        assert abs(same.value) < 0.3  # noise alone
        assert len(result.compared) == 2


async def test_too_few_answers_say_nothing_and_are_destroyed(tmp_path: Path) -> None:
    async with world(tmp_path, least=4) as w:
        asked = await w.actions.ask()
        await w.answers()
        found = await w.ended(asked.id)
        assert (found.state, found.results, found.answers) == ("too-few", [], 3)
        (row,) = await w.store.questions(1)
        assert row.total == b""
        assert [body async for some in w.store.sealed_answers(row.id) for body in some] == []


async def test_the_sum_is_the_same_whoever_makes_it_and_how_often(tmp_path: Path) -> None:
    """A crash between summing and keeping the sum draws no second noise."""
    async with world(tmp_path, epsilon=1.0) as w:
        await w.actions.ask()
        await w.answers()
        (row,) = await w.store.questions(1)
        question, open_ones = read_question(row), w.served.app[COORDINATOR]._questions
        first, again = [await open_ones._total(row, question) for _ in range(2)]
        assert first is not None
        assert again is not None
        np.testing.assert_array_equal(first.total, again.total)
        await w.ended(row.id.hex())
        (row,) = await w.store.questions(1)
        np.testing.assert_array_equal(np.frombuffer(row.total), first.total)


async def test_the_key_of_an_open_question_outlives_rotations(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        asked = await w.actions.ask()
        question = await w.question()
        w.keyring.rotate(w.clock.now)
        for device in w.devices[:2]:
            await device.run_round_async()
            await w.served.app[COORDINATOR].advance()
        w.keyring.private(question.seal_id)  # still there
        await w.answers()
        assert (await w.ended(asked.id)).state == "answered"


async def hostile(w: World) -> tuple[Player, Question, str]:
    await w.actions.ask()
    question, player = await w.question(), await w.served.player()
    return player, question, f"/v1/questions/{question.question.hex()}/answers"


@pytest.mark.parametrize("plaintext", [b"", b"\xff" * 20, bytes(16), bytes(24), b"\x7f" * 20])
async def test_an_answer_of_another_shape_is_refused(tmp_path: Path, plaintext: bytes) -> None:
    async with world(tmp_path, 2) as w:
        player, question, path = await hostile(w)
        body = encode(seal_answer(question, player.id, plaintext))
        answer = await player.send("POST", path, body)
        if plaintext == b"\x7f" * 20:  # finite and absurd: it is clipped
            assert answer.status == 200
        else:
            assert answer.problem in ("wrong-shape", "not-finite")


@pytest.mark.spec("14.4")
async def test_a_lie_moves_the_sum_by_the_clip_at_most(tmp_path: Path) -> None:
    async with world(tmp_path, 2) as w:
        player, question, path = await hostile(w)
        layout = layout_of(question)
        lie = encode(seal_answer(question, player.id, pack(np.full(layout.size, 1e30))))
        assert (await player.send("POST", path, lie)).status == 200
        foreign = encode(seal_answer(question, b"somebody else's.", pack(np.zeros(layout.size))))
        assert (await player.send("POST", path, foreign)).problem == "malformed"
        await w.answers()
        await w.ended(question.question.hex())
        (row,) = await w.store.questions(1)
        assert np.linalg.norm(np.frombuffer(row.total)) <= 3 * layout.clip + 1.0


@pytest.mark.parametrize("body", [b"", b"\x81", b"garbage" * 100, b"\xdf\xff\xff\xff\xff"])
async def test_hostile_bytes_are_refused(tmp_path: Path, body: bytes) -> None:
    async with world(tmp_path, 2) as w:
        player, _, path = await hostile(w)
        assert (await player.send("POST", path, body)).problem == "malformed"
        assert (await player.send("POST", path, bytes(20_000))).problem == "too-large"
        unknown = "/v1/questions/" + "ab" * 16 + "/answers"
        assert (await player.send("POST", unknown, body)).problem == "not-found"
        (row,) = await w.store.questions(1)
        assert row.answers == 0


@pytest.mark.spec("14.5")
async def test_a_budget_is_the_coordinators_too(tmp_path: Path) -> None:
    """A device that answers more often than it may is refused, whatever it thinks."""
    async with world(tmp_path, 2, cap=1) as w:
        player, question, path = await hostile(w)
        zeros = pack(np.zeros(layout_of(question).size))
        body = encode(seal_answer(question, player.id, zeros))
        assert (await player.send("POST", path, body)).status == 200
        assert (await player.send("POST", path, body)).status == 200  # the same bytes again
        other = encode(seal_answer(question, player.id, zeros))
        assert (await player.send("POST", path, other)).problem == "conflicting-update"
        w.clock.now += 3600.0
        await w.actions.ask()
        (second, _) = await w.store.questions(2)
        again = read_question(second)
        body = encode(seal_answer(again, player.id, zeros))
        path = f"/v1/questions/{again.question.hex()}/answers"
        assert (await player.send("POST", path, body)).problem == "budget-spent"


async def test_what_makes_no_sense_cannot_be_asked(tmp_path: Path) -> None:
    async with world(tmp_path, 2) as w:
        for releases, changes in [
            ([99], []),
            ([1, 2], [{"ridge": 1.0}]),
            ([], [{"rigde": 1.0}]),
            ([], [{"ridge": -1.0}]),
            ([], [{"sequence.kappa": 1.0}]),
            ([], [{"name": 1.0}]),
            (list(range(1, 10)), []),
        ]:
            with pytest.raises(ConfigError):
                await w.actions.ask("ndcg", releases, changes)
        assert not await w.store.questions(1)


async def test_answers_are_all_of_one_length_whatever_the_history(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        for number in range(8):
            w.clock.now += 1.0
            w.devices[0].record(f"item-{number}")
        await w.actions.ask()
        await w.answers()
        (row,) = await w.store.questions(1)
        sizes = {len(body) async for some in w.store.sealed_answers(row.id) for body in some}
        assert len(sizes) == 1


@pytest.mark.spec("14.9")
async def test_what_lists_consist_of_comes_back_as_two_figures(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        lists = [[one.item for one in device.recommend(10)] for device in w.devices]
        asked = await w.actions.ask(lists=True)
        assert asked.about_lists
        await w.answers()
        found = await w.ended(asked.id)
        assert found.results == []
        assert found.lists is not None
        first = {"item-0", "item-1"}  # a tenth of twelve, in the order of the catalogue
        popular = np.mean([len(first & set(one)) / len(one) for one in lists])
        assert found.lists.popular.value == pytest.approx(popular, abs=0.1)
        assert found.lists.items.value > 3
        assert found.lists.items.low <= found.lists.items.value <= found.lists.items.high
        for changes, light, releases in [([{"ridge": 1.0}], 0, []), ([], 5, []), ([], 0, [1])]:
            with pytest.raises(ConfigError, match="by itself"):
                await w.actions.ask("ndcg", releases, changes, light=light, lists=True)
