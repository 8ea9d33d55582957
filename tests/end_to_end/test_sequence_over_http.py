"""The sequence part over a real socket: what is released follows from the devices' own numbers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedrap import FedRap, Floor
from fedrap.rounds import runner
from fedrap.trainers import select
from fedrap.trainers.numpy_trainer import NumpyTrainer
from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.catalogue_actions import CatalogueActions
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.privacy.recipe import Expected, derive
from fedrap_coordinator.rounds.releases import load_model
from fedrap_coordinator.rounds.sequence_state import learn_sequence, pack_learner, unpack_learner
from fedrap_coordinator.settings import Releases, Serve, Settings
from fedrap_coordinator.sources import SYSTEM
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.aggregate import Accumulator
from fedrap_core.model import CommonItems
from fedrap_core.paper.sampling import private_stream
from fedrap_core.parts import empty_parts, more_parts
from fedrap_core.plan import (
    OFF,
    Plan,
    Scoring,
    SequenceMethod,
    SequenceScoring,
    SolveMethod,
    sequence_of,
)
from fedrap_core.privacy.mechanisms import clip_share
from fedrap_core.sequence.device_share import answer, ask, draw, pose_sequence
from fedrap_core.sequence.model import to_rows, window
from fedrap_core.sequence.server_step import SequenceLearning
from fedrap_core.solve.device_share import join_shares, pose_round
from fedrap_core.solve.server_step import Learner
from fedrap_core.sparse import RowPart, RowUpdate
from fedrap_core.wire.codec import decode, encode
from fedrap_core.wire.messages import Release
from fedrap_core.wire.releases import MAX_RELEASE_BYTES, unpack_release
from fedrap_core.wire.share import decode_share, encode_share, uniform_count
from testkit.harness import DIM, ITEMS, LiveServer, serve, small_settings

PART = SequenceMethod(dim=3, targets=4, longest=6, taus=(0.5, 4.0), scale=0.25)
FREE = Floor.without_privacy(separation=1, min_updates=2)
HISTORIES = [ITEMS[:5], [*ITEMS[4:9], ITEMS[5]], [ITEMS[11]]]


def _settings(part: SequenceMethod | None = PART, **changed: float) -> Settings:
    base = small_settings(updates=3, separation=1, clip=3.0, **changed)  # type: ignore[arg-type]
    return msgspec.structs.replace(
        base,
        method=SolveMethod(dim=DIM, sequence=OFF if part is None else part),
        sequence=SequenceLearning(rounds=4, warm_up=0.0),
        scoring=Scoring(sequence=SequenceScoring(solve=2.0, sequence=0.5, kappa=0.25)),
    )


async def _devices(served: LiveServer, folder: Path, trainer: str = "numpy") -> list[FedRap]:
    return [
        await served.device(folder / str(number), items, floor=FREE, trainer=trainer)
        for number, items in enumerate(HISTORIES)
    ]


async def _released(served: LiveServer) -> CommonItems:
    body = (await served.app[COORDINATOR].release(None)).body
    return unpack_release(decode(Release, body, MAX_RELEASE_BYTES))


def _sent(device: FedRap, round_id: bytes, plan: Plan, common: CommonItems) -> RowUpdate:
    """What this device adds to a round, from its history and its own randomness."""
    known = device._state.contents()
    assert known.credentials is not None
    assert known.model is not None
    assert common.sequence is not None
    assert isinstance(plan.method, SolveMethod)
    history = known.model.history(known.interactions)
    problem = pose_round(common, common.gram(), history, plan.method)
    update = join_shares(problem, NumpyTrainer().solve(problem.problems)).update
    uniform = private_stream(known.credentials.private_key, round_id)
    draws = draw(len(window(history, PART)), PART, uniform)
    asked = ask(pose_sequence(history, PART, draws), common.sequence)
    parts = answer(asked, NumpyTrainer().expect(asked, common.sequence)).parts(PART.scale)
    clipped = clip_share(RowUpdate(update.rows, update.values, update.packed_gram, 0, parts),
                         plan.privacy)  # fmt: skip
    assert clipped.norm() <= plan.privacy.clip * (1 + 1e-12)
    shapes = more_parts(plan.method, common.size)
    return decode_share(
        encode_share(clipped, uniform(uniform_count(clipped)), shapes), common.dim, shapes
    )


@pytest.mark.spec("10.1", "10.3", "10.5")
async def test_what_is_released_follows_from_what_devices_sent(tmp_path: Path) -> None:
    settings, path = _settings(), str(tmp_path / "c.sqlite")
    plan = settings.plan()
    async with serve(settings, path) as served:
        store = SqlStore(f"sqlite:///{path}")
        devices = await _devices(served, tmp_path)
        for step in range(3):
            before, current = await _released(served), served.app[COORDINATOR].round
            assert current is not None
            state = await store.learner(step + 1)
            assert state is not None
            shapes = more_parts(plan.method, before.size)
            total = Accumulator(before.size, before.dim, plan.privacy.clip, parts=shapes)
            for device in devices:
                assert (await device.run_round_async()).joined
            for device in devices:
                total.add(_sent(device, current.id, plan, before))
            parts = [
                RowPart(one.rows, one.values / PART.scale)
                for one in total.total(0.0, bytes(32), step + 1).parts
            ]
            learner = learn_sequence(
                unpack_learner(state), parts, 3, settings.sequence, settings.learning,
                Learner(np.zeros((before.size, before.dim))),
            )  # fmt: skip
            after = await _released(served)
            assert after.version == step + 2
            expected, found = to_rows(learner.items), after.sequence
            assert found is not None
            assert np.array_equal(found.outputs.values, expected.outputs.values)
            assert np.array_equal(found.outputs.scales, expected.outputs.scales)
            assert np.array_equal(found.offsets.values, expected.offsets.values)
            assert np.array_equal(found.bias, expected.bias)
            assert np.array_equal(found.kernels, expected.kernels)
            assert await store.learner(step + 2) == pack_learner(learner)
        # A device that followed by deltas has what one that fetches the whole has.
        await devices[0].sync_async()
        fresh = await served.device(tmp_path / "late", ITEMS[:5], floor=FREE)
        await fresh.sync_async()
        assert fresh.recommend(5) == devices[0].recommend(5)
        for one in devices[0].recommend(6, explain=True):
            assert one.score == one.shared + one.personal + (one.sequence + one.popularity)
            for part in ("shared", "personal", "sequence"):
                split = sum(getattr(reason, part) for reason in one.reasons)
                assert split == pytest.approx(getattr(one, part), abs=1e-9)
        assert any(one.sequence for one in devices[0].recommend(6))
        opened, served_list = devices[0]._state.contents().model, devices[0].recommend(5)
        await store.close()
    devices[0].close()
    with FedRap.open(tmp_path / "0") as again:  # from the store, without a server
        kept = again._state.contents().model
        assert opened is not None
        assert kept is not None
        assert kept.common.sequence is not None
        assert opened.common.sequence is not None
        assert np.array_equal(kept.common.sequence.bias, opened.common.sequence.bias)
        assert again.recommend(5) == served_list


@pytest.mark.spec("10.4")
async def test_noise_goes_to_every_row_of_every_part(tmp_path: Path) -> None:
    async with serve(_settings(noise=0.5), str(tmp_path / "c.sqlite")) as served:
        first = await _released(served)
        for device in await _devices(served, tmp_path, "onnx"):
            assert (await device.run_round_async()).joined
        after = (await _released(served)).sequence
        assert first.sequence is not None
        assert after is not None
        for rows in (after.outputs, after.offsets):
            assert np.all(rows.scales > 0)  # items that nobody has move as well
        assert np.all(after.bias != 0)


@pytest.mark.spec("10.2")
async def test_a_share_without_the_plans_parts_is_refused_and_so_is_one_with_more(
    tmp_path: Path,
) -> None:
    for part in (PART, None):
        async with serve(_settings(part), str(tmp_path / f"{part is None}.sqlite")) as served:
            player = await served.player()
            offer = await player.offer()
            method = SolveMethod(dim=DIM, sequence=PART)
            one = RowUpdate(
                np.array([0]), np.ones((1, DIM)), np.zeros(10), parts=empty_parts(method)
            )
            half = np.full(uniform_count(one), 0.5)
            plain = RowUpdate(one.rows, one.values, one.packed_gram)
            wrong = encode_share(plain, half) if part else encode_share(
                one, half, more_parts(method, 12)
            )  # fmt: skip
            answer = await player.post(offer.round, encode(player.update(offer, wrong)))
            assert answer.problem == "wrong-shape"
            right = encode_share(one, half, more_parts(method, 12)) if part else encode_share(
                plain, half
            )  # fmt: skip
            answer = await player.post(offer.round, encode(player.update(offer, right)))
            assert answer.status == 200


async def test_the_part_is_switched_on_and_off_between_rounds(tmp_path: Path) -> None:
    path = str(tmp_path / "c.sqlite")
    keyring = fresh_keyring()
    async with serve(_settings(None), path, keyring) as served:
        assert (await _released(served)).sequence is None
        for device in await _devices(served, tmp_path / "off"):
            assert (await device.run_round_async()).joined
    async with serve(_settings(), path, keyring) as served:
        devices = await _devices(served, tmp_path / "on")
        for device in devices:  # this round goes without it, and its release has the first rows
            assert (await device.run_round_async()).joined
        first = await _released(served)
        assert first.sequence is not None
        assert not np.any(first.sequence.bias)
        for device in devices:
            assert (await device.run_round_async()).joined
        then = (await _released(served)).sequence
        assert then is not None
        assert np.any(then.bias)
    async with serve(_settings(None), path, keyring) as served:
        for device in await _devices(served, tmp_path / "again"):
            assert (await device.run_round_async()).joined
        assert (await _released(served)).sequence is None


@pytest.mark.parametrize("found", ["torch", "a provider that does not start", "nothing"])
async def test_a_device_takes_the_accelerator_that_is_there_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    class Pretended:
        def providers(self) -> list[str]:
            return ["CUDAExecutionProvider"] if found.startswith("a provider") else []

        def torch_device(self) -> str | None:
            return "cuda" if found == "torch" else None  # the numbers come from the CPU

    monkeypatch.setattr(select, "ThisMachine", Pretended)
    for module in (select, runner):  # as if the catalogue were large
        monkeypatch.setattr(module, "WORTH_AN_ACCELERATOR", 1)
    async with serve(_settings(), str(tmp_path / "c.sqlite")) as served:
        device = await served.device(tmp_path / "d", HISTORIES[0], floor=FREE)
        assert device.status().trainer is None
        assert (await device.run_round_async()).joined
        said = device.status()
        assert said.trainer == ("torch" if found == "torch" else "onnx")
        assert said.trainer_reason is not None
        words = {"torch": "torch has cuda", "nothing": "there is none"}
        assert words.get(found, "CUDAExecutionProvider cannot be started") in said.trainer_reason


@pytest.mark.spec("10.7")
async def test_a_rollback_brings_the_state_of_the_learner_back(tmp_path: Path) -> None:
    store, keyring, settings = MemoryStore(), fresh_keyring(), _settings()
    settings = msgspec.structs.replace(settings, releases=Releases(keep_states=2))
    admin = AdminActions(store, settings, SYSTEM, "test", keyring=keyring)
    async with serve(settings, store, keyring) as served:
        devices = await _devices(served, tmp_path)
        for _ in range(3):
            for device in devices:
                assert (await device.run_round_async()).joined
        assert [await store.learner(version) is not None for version in (1, 2, 3, 4)] == [
            False, False, True, True,
        ]  # fmt: skip
        kept = await store.learner(3)
        await CatalogueActions(admin).roll_back(3)
        assert await store.learner(5) == kept
        old, back = await store.release(3), await store.release(5)
        assert old is not None
        assert back is not None
        then, now = load_model(old).common.sequence, load_model(back).common.sequence
        assert then is not None
        assert now is not None
        assert np.array_equal(then.outputs.values, now.outputs.values)
        assert np.array_equal(then.bias, now.bias)
        # Of release 2 the state is gone: its rows begin from int8, and moments anew.
        await CatalogueActions(admin).roll_back(2)
        state = unpack_learner(await store.learner(6) or b"")
        rows = load_model(await store.release(2) or old).common.sequence
        assert rows is not None
        assert np.array_equal(state.items.bias, rows.bias)
        assert not state.outputs.square.any()
        assert (state.steps, state.since) == (1, 1)
        await served.app[COORDINATOR].add_items(["new item"])
        await served.app[COORDINATOR].advance()
        new = (await _released(served)).sequence  # it needs no round
        assert new is not None
        assert new.size == 13
        assert not new.outputs.values[12].any()  # like no other: nothing is known of it
        for device in devices:
            assert (await device.run_round_async()).joined
        after = await _released(served)
        assert after.sequence is not None
        assert after.sequence.size == 13


async def test_the_widest_plan_of_init_takes_devices_with_more_items_than_its_window(
    tmp_path: Path,
) -> None:
    """Where there is much to learn 400 newest items are targets; body limits are the defaults."""
    items = [f"film-{row}" for row in range(2_500)]
    made = derive(Expected(100_000, len(items), None, 200.0)).settings
    part = sequence_of(made.method)
    assert part is not None
    assert (part.targets, part.longest) == (400, 400)
    settings = msgspec.structs.replace(
        small_settings(max_body_bytes=Serve().max_body_bytes),
        method=made.method,
        privacy=msgspec.structs.replace(made.privacy, spread_days=0.0),
        learning=msgspec.structs.replace(made.learning, min_support=0.0),
        sequence=made.sequence,
        scoring=made.scoring,
    )
    floor = Floor.without_privacy(min_updates=2)
    histories = [items[:430], items[300:302]]
    async with serve(settings, MemoryStore(), items=items) as served:
        devices = [
            await served.device(tmp_path / str(number), mine, floor=floor)
            for number, mine in enumerate(histories)
        ]
        for device in devices:
            assert (await device.run_round_async()).joined
        after = await _released(served)
        assert after.version == 2
        found = after.sequence
        assert found is not None
        moved = np.flatnonzero(found.offsets.values.any(axis=1))
        # As inputs: the newest 400 of the one but for its last, the older of the other.
        assert set(moved) <= {*range(30, 429), 300}
        assert len(moved) > 390
        await devices[0].sync_async()
        assert len(devices[0].recommend(10)) == 10
