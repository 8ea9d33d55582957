"""Scalars chosen by votes, through the real coordinator and real devices."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fedrap_coordinator.errors import ConfigError, Refusal
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.rounds.asking import read_question
from fedrap_core.plan import Scoring
from fedrap_core.questions.answers import pack
from fedrap_core.questions.tuning import RUNGS
from fedrap_core.wire.codec import encode
from fedrap_core.wire.question_layout import layout_of, variants_of
from fedrap_core.wire.seal import seal_answer
from tests.end_to_end.test_questions import ALMOST_NONE, DAY, World, world


async def vote(w: World, best: float, *, voters: int) -> str:
    """Players who all gain by one value of what is asked about; the purpose at the end."""
    (row,) = await w.store.questions(1)
    question = read_question(row)
    layout, variants = layout_of(question), variants_of(question)
    name = RUNGS[int(row.purpose.removeprefix("tune "))][0]
    gains = [0.9 if getattr(one, name) == best else 0.3 for one in variants]
    for _ in range(voters):
        player = await w.served.player()
        body = encode(seal_answer(question, player.id, pack(layout.vector([gains], 0))))
        path = f"/v1/questions/{question.question.hex()}/answers"
        assert (await player.send("POST", path, body)).status == 200
    w.clock.now += DAY
    assert await w.served.app[COORDINATOR].sum_up() == 1
    ended = await w.store.question(row.id)
    assert ended is not None
    return ended.purpose


async def test_what_clearly_wins_is_adopted_and_released_alone(tmp_path: Path) -> None:
    async with world(tmp_path, 2) as w:
        coordinator = w.served.app[COORDINATOR]
        before = coordinator.model
        assert before is not None
        await w.actions.tune()
        with pytest.raises(Refusal):
            await w.actions.tune()
        assert await vote(w, 4.0, voters=3) == "tune 0: tau 4"
        after = coordinator.model
        assert after is not None
        assert isinstance(after.message.scoring, Scoring)
        assert after.message.scoring.tau == 4.0
        assert after.stored.version == before.stored.version + 1
        assert after.stored.step == before.stored.step
        assert after.message.model == before.message.model  # C is the same
        delta = await coordinator.release_since(before.stored.version)
        assert len(delta.gzipped) < 1500
        acts = [row.entry.action for row in await w.store.audit_rows(0, 100)]
        assert acts == ["ask", "adopt", "publish-scalars", "ask"]
        await w.devices[0].sync_async()
        assert w.devices[0].status().release == after.stored.version

        assert await vote(w, 0.1, voters=3) == "tune 1: kept"
        still = coordinator.model
        assert still is not None
        assert still.message.scoring == after.message.scoring


async def test_scalars_stay_adopted_through_rounds_until_the_file_says_otherwise(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, 2) as w:
        coordinator = w.served.app[COORDINATOR]
        await w.actions.tune()
        await vote(w, 1.0, voters=3)
        for device in w.devices:
            assert (await device.run_round_async()).joined
        await coordinator.advance()
        made = coordinator.model
        assert made is not None
        assert isinstance(made.message.scoring, Scoring)
        assert made.message.scoring.tau == 1.0
        driver = coordinator._driver
        scoring = msgspec.structs.replace(driver.settings.scoring, tau=7.0)
        driver._settings = msgspec.structs.replace(driver._settings, scoring=scoring)
        for device in w.devices:
            await device.sync_async()
            assert (await device.run_round_async()).joined
        await coordinator.advance()
        made = coordinator.model
        assert made is not None
        assert isinstance(made.message.scoring, Scoring)
        assert made.message.scoring.tau == 7.0


async def test_the_ladder_is_climbed_to_its_end_and_again_when_it_is_time(tmp_path: Path) -> None:
    # A hundred answers share epsilon: at the usual one noise alone would win a rung in 1 run of 40.
    async with world(tmp_path, 2, cap=100, epsilon=10 * ALMOST_NONE) as w:
        await w.actions.tune()
        for rung in range(5):
            assert (await vote(w, -1.0, voters=2)).startswith(f"tune {rung}: kept")
        assert not await w.store.questions(10, only_open=True)
        coordinator = w.served.app[COORDINATOR]
        asking = msgspec.structs.replace(coordinator._tuning._settings.questions, tune_every=1)
        coordinator._tuning._settings = msgspec.structs.replace(
            coordinator._tuning._settings, questions=asking
        )
        await coordinator.sum_up()
        assert not await w.store.questions(10, only_open=True)  # nothing new was released
        for device in w.devices:
            assert (await device.run_round_async()).joined
        await coordinator.advance()
        await coordinator.sum_up()
        (row,) = await w.store.questions(10, only_open=True)
        assert row.purpose == "tune 0"


async def test_before_anything_was_learnt_there_is_nothing_to_tune(tmp_path: Path) -> None:
    async with world(tmp_path, 0) as w:
        with pytest.raises(ConfigError, match="nothing was learnt"):
            await w.actions.tune()
