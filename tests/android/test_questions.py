"""A Java device answers the coordinator's questions beside Python ones, and says the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.rounds.asking import read_question
from fedrap_core.questions.answers import unpack
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Answer
from fedrap_core.wire.question_layout import layout_of
from fedrap_core.wire.seal import open_answer
from tests.android.java_devices import JavaDevices, java_devices
from tests.end_to_end.test_questions import DAY, World, world
from tests.end_to_end.test_rollouts import World as RolloutWorld
from tests.end_to_end.test_rollouts import touched
from tests.end_to_end.test_rollouts import world as rollout_world


@pytest.fixture(scope="module")
def java() -> Iterator[JavaDevices]:
    with java_devices() as devices:
        yield devices


async def twin(java: JavaDevices, w: World, folder: Path) -> None:
    """A device in Java with the history of the first one in Python, at the same release."""
    await java.do(
        "twin", "open", folder=str(folder / "java"), server=w.served.url,
        token=await w.served.token(), now=w.clock.now, measure=True,
    )  # fmt: skip
    await java.do("twin", "consent", train=True, measure=True)
    await java.record("twin", ["item-0"])
    await java.do("twin", "record", items=[["item-4", 1.0, w.clock.now]])
    await java.run("twin")  # enrols, and may be what a release waited for
    await w.served.app[COORDINATOR].advance()
    await java.do("twin", "sync")
    for device in w.devices:
        await device.sync_async()
    assert (await java.status("twin"))["release"] == w.devices[0].status().release
    w.clock.now += 1.0
    for device in w.devices:
        device.record("item-7")
    await java.do("twin", "clock", now=w.clock.now)
    await java.do("twin", "record", items=[["item-7", 1.0, w.clock.now]])


async def opened(
    w: World | RolloutWorld, number: int
) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    """What the holder of the sealing key reads of a question, the newest being 0."""
    row = (await w.store.questions(10))[number]
    asked = read_question(row)
    key = w.keyring.private(asked.seal_id)
    bodies = [body async for some in w.store.sealed_answers(row.id) for body in some]
    return [unpack(open_answer(decode(Answer, one), key), layout_of(asked)) for one in bodies]


@pytest.mark.spec("14.1", "14.2", "14.3", "14.6")
@pytest.mark.parametrize("trend", [False, True], ids=["plain", "beside the trend"])
async def test_both_answer_the_same_and_are_summed_up(
    java: JavaDevices, tmp_path: Path, trend: bool
) -> None:
    """Of two devices with one history nobody can tell which language answered."""
    async with world(tmp_path, trend=trend) as w:
        await twin(java, w, tmp_path)
        asked = await w.actions.ask("mrr")
        w.clock.now += 1.0
        await w.actions.ask("ndcg", changes=[{"ridge": 600.0}, {"tau": 9.0}], light=1)
        assert await java.do("twin", "answer") == 0  # its moment has not come
        w.clock.now += 0.95 * DAY
        await java.do("twin", "clock", now=w.clock.now)
        assert await java.do("twin", "answer") == 2
        assert await java.do("twin", "answer") == 0
        for number in (0, 1):
            assert len(await opened(w, number)) == 1
        assert await w.devices[0].answer_questions_async() == 2
        for number in (0, 1):
            mine, theirs = await opened(w, number)
            np.testing.assert_allclose(mine, theirs, atol=1e-6)
            assert np.abs(mine).max() > 0.2  # it had something to say
        status = await java.status("twin")
        here = w.devices[0].status()
        assert (status["answers"], here.answers) == (2, 2)
        assert status["answers_epsilon"] == pytest.approx(here.answers_epsilon)
        for device in w.devices[1:]:
            assert await device.answer_questions_async() == 2
        w.clock.now += DAY
        assert await w.served.app[COORDINATOR].sum_up() == 2
        found = await w.actions.question(asked.id)
        assert (found.state, found.answers) == ("answered", 4)
        (result,) = found.results
        assert result.mean is not None
        assert 0.05 < result.mean.value < 1
        assert len(result.compared) == 1 + trend


@pytest.mark.spec("14.9")
async def test_both_say_the_same_of_what_their_lists_consist_of(
    java: JavaDevices, tmp_path: Path
) -> None:
    async with world(tmp_path, 2) as w:
        await twin(java, w, tmp_path)
        asked = await w.actions.ask(lists=True)
        w.clock.now += 0.95 * DAY
        await java.do("twin", "clock", now=w.clock.now)
        assert await java.do("twin", "answer") == 1
        assert await w.devices[0].answer_questions_async() == 1
        mine, theirs = await opened(w, 0)
        np.testing.assert_allclose(mine, theirs, atol=1e-6)
        assert mine[3:].sum() == pytest.approx(1)
        assert await w.devices[1].answer_questions_async() == 1
        assert len({one.tobytes() for one in await opened(w, 0)}) == 2  # another user's is another
        w.clock.now += DAY
        assert await w.served.app[COORDINATOR].sum_up() == 1
        found = await w.actions.question(asked.id)
        assert (found.answers, found.lists is not None) == (3, True)


async def test_a_java_user_who_did_not_agree_to_it_answers_nothing(
    java: JavaDevices, tmp_path: Path
) -> None:
    async with world(tmp_path, 2) as w:
        await twin(java, w, tmp_path)
        await java.do("twin", "consent", train=True, measure=False)
        await w.actions.ask("mrr")
        await java.do("twin", "clock", now=w.clock.now + 0.95 * DAY)
        assert await java.do("twin", "answer") == 0
        assert await opened(w, 0) == []


@pytest.mark.spec("9.7", "14.7", "14.8")
async def test_a_java_device_holds_both_releases_and_says_what_its_twin_says(
    java: JavaDevices, tmp_path: Path
) -> None:
    """One in the share, and one whose user did not agree to be measured and is never shown it."""
    async with rollout_world(tmp_path) as w:
        first = w.devices[0]
        how = {"server": w.served.url, "now": w.clock.now, "measure": True}
        for name in ("twin", "apart"):
            folder = str(tmp_path / name)
            await java.do(name, "open", folder=folder, token=await w.served.token(), **how)
            await java.do(name, "consent", train=True, measure=name == "twin")
            await java.record(name, touched(0, 6))
            assert (await java.run(name))["joined"]
        for device in w.devices[2:]:  # as many as the round still waits for
            await device.run_round_async()
        await w.coordinator.advance()
        full = w.full
        assert await w.versions() == [full] * len(w.devices)
        for name in ("twin", "apart"):
            await java.do(name, "sync")
        await w.rollouts.start(version=1)  # as it was before anything was learnt
        await w.goes_on()
        await w.used(6)
        for name, version in (("twin", full + 1), ("apart", full)):
            await java.do(name, "clock", now=w.clock.now)
            await java.do(name, "sync")
            assert await java.do(name, "answer") == 0  # it is too early, but the share is drawn
            assert (await java.status(name))["release"] == version
            recorded = [[item, 1.0, w.clock.now] for item in touched(0, 5, 6)]
            await java.do(name, "record", items=recorded)
        assert first.status().release == full + 1
        listed = [one["item"] for one in await java.do("twin", "recommend", n=5)]
        assert listed == [one.item for one in first.recommend(5)]
        await java.do("twin", "close")
        await java.do("twin", "open", folder=str(tmp_path / "twin"), token=None, **how)
        assert (await java.status("twin"))["release"] == full + 1  # also after a restart
        w.clock.now += 0.92 * DAY
        for name, answered in (("twin", 1), ("apart", 0)):
            await java.do(name, "clock", now=w.clock.now)
            assert await java.do(name, "answer") == answered
        assert await first.answer_questions_async() == 1
        mine, theirs = await opened(w, 0)
        np.testing.assert_allclose(mine, theirs, atol=1e-6)
        assert mine[0] == 0.25
        assert mine[1] < -0.1  # it is the worse one
        for device in w.devices[1:]:
            assert await device.answer_questions_async() == 1
        w.clock.now += 0.1 * DAY
        await w.goes_on()
        await w.goes_on()
        assert (await w.last()).state == "halted"
        for name in ("twin", "apart"):
            await java.do(name, "sync")
            assert (await java.status(name))["release"] == full + 2
