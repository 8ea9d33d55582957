"""Tuning by votes through the real coordinator and SDK, beside the simulation's own tuning.

    python benchmarks/bench_tuning.py --data ml-100k [--voters 943] [--epsilon 1] [--json FILE]

C is learnt once by the simulation, from what the validation of a set lets it know. The coordinator
publishes it with the scalars that `init` writes, and is told to tune. For each question devices of
the real SDK, a voter each, enrol over HTTP, fetch the release, record what the user touched next
(the item of the validation) and answer; the coordinator adopts what won and asks on. The simulation
climbs the same ladder by itself, from the same scalars and from its own. All of them are then asked
about the test, with C learnt again from all that precedes it.

`--epsilon` is that of all answers of a device, ten as by default; without it there is no noise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedrap import FedRap, Floor, Interaction
from fedrap.transport.http import HttpTransport
from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.question_actions import QuestionActions
from fedrap_coordinator.domain.records import StoredRelease
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.privacy.recipe import Expected, derive
from fedrap_coordinator.rounds.releases import Model, encode_release, publish
from fedrap_coordinator.settings import Questions, Settings
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.model import CommonItems
from fedrap_core.plan import OFF, Scoring, SolveMethod
from fedrap_core.quantize import quantize_rows
from fedrap_core.wire.codec import encode
from fedrap_core.wire.releases import pack_release
from fedrap_simulation.evaluation.metrics import gains, measure
from fedrap_simulation.evaluation.runner import Evaluation, Request
from fedrap_simulation.evaluation.task import Task
from fedrap_simulation.methods.protocol import no_progress
from fedrap_simulation.methods.registry import make_method
from fedrap_simulation.methods.solve import Solve, voters
from testkit.harness import LiveServer, serve, small_settings

DAY = 86_400.0
NO_PRIVACY = Floor.without_privacy(separation=1, min_updates=1)


class Clock:
    """Seconds since 1970 that move when they are told to."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def settings_of(scoring: Scoring, dim: int, epsilon: float | None) -> Settings:
    """A coordinator whose rounds are over: there is nothing to do but to ask."""
    small = small_settings(separation=1, total=1, max_body_bytes=1 << 20)
    asking = (
        Questions(least=20, days=1.0) if epsilon else Questions(least=20, days=1.0, epsilon=1e6)
    )
    if epsilon:
        asking = msgspec.structs.replace(asking, epsilon=epsilon)
    return msgspec.structs.replace(
        small, method=SolveMethod(dim=dim), scoring=scoring, questions=asking
    )


async def tune_for_real(
    task: Task, common: np.ndarray[Any, Any], scoring: Scoring, epsilon: float | None, folder: Path
) -> tuple[Scoring, list[str], int]:
    """The scalars in force at the end of the ladder, what each question led to, and answers."""
    clock, store, keyring = Clock(), MemoryStore(), fresh_keyring()
    names = [f"i{row}" for row in range(task.items)]
    settings = settings_of(scoring, common.shape[1], epsilon)
    await store.add_items(names)
    task_id, extent = await store.task_id(bytes(range(16))), await store.extent()
    items = CommonItems(1, quantize_rows(common))
    message = pack_release(task_id, 1, items, extent.catalogue, settings.released_scoring())
    stored = StoredRelease(1, 1, task.users, encode(message), None)
    made = publish(
        Model(stored, items, message, encode_release(stored)), None, keyring.authority, clock.now
    )
    await store.add_release(made.stored, None)
    keyring.keep_entries(task_id, [made.stored.entry])
    answered, words = 0, []
    async with serve(settings, store, keyring, clock, names, monotonic=clock) as served:
        coordinator = served.app[COORDINATOR]
        admin = AdminActions(store, settings, Sources(clock, clock), "bench", keyring=keyring)
        asked = await QuestionActions(admin).tune()
        while True:
            clock.now = asked.asked_at + 1.0
            begun, came = time.perf_counter(), 0
            for user in task.asked_users.tolist():
                came += await vote(served, clock, task, user, folder, asked.asked_at)
                clock.now = asked.asked_at + 1.0
            answered += came
            clock.now = asked.ends_at + 1.0
            assert await coordinator.sum_up() == 1
            (row,) = [one for one in await store.questions(20) if one.id.hex() == asked.id]
            words.append(row.purpose)
            took = time.perf_counter() - begun
            sys.stderr.write(f"{row.purpose}: {came} answers in {took:.0f} s\n")
            still = await store.questions(1, only_open=True)
            if not still:
                model = coordinator.model
                assert model is not None
                assert isinstance(model.message.scoring, Scoring)
                return model.message.scoring, words, answered
            asked = await QuestionActions(admin).question(still[0].id.hex())


async def vote(
    served: LiveServer, clock: Clock, task: Task, user: int, folder: Path, asked_at: float
) -> int:
    """One user's device, from its first day to its answer; 1 if it answered."""
    home = folder / "device"
    transport = HttpTransport(served.url, served.session)
    token = await served.token()
    device = FedRap.open(home, transport=transport, token=token, floor=NO_PRIVACY, clock=clock)
    try:
        device.consent(policy="bench", train=True, measure=True)
        history = task.train.of(user)
        device.record_many(
            Interaction(f"i{item}", "view", 1.0, asked_at - len(history) + place)
            for place, item in enumerate(history.tolist())
        )
        await device.run_round_async()  # enrols and fetches; rounds are over
        clock.now += 1.0
        device.record(f"i{task.targets[user]}")
        clock.now = asked_at + 0.95 * DAY
        return await device.answer_questions_async()
    finally:
        device.close()
        shutil.rmtree(home)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--data", default="ml-100k", help="a set that fedrap-sim knows by name")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--voters", type=int, default=100)
    parser.add_argument("--epsilon", type=float)
    given = parser.parse_args()
    split = Evaluation(Request(given.data, ("fedrap",), data_dir=given.data_dir)).split(0)
    task, test = split.validation, split.test
    method = make_method("fedrap", {})
    assert isinstance(method, Solve)
    history = float(task.train.lengths.mean())
    expected = Expected(task.users, task.items, None, history)
    begins = msgspec.structs.replace(derive(expected).settings.scoring, sequence=OFF, trend=OFF)
    common = method._learn(task, 0, no_progress).model
    who = voters(task, 0)
    asked = who[np.sort(np.random.default_rng(0).permutation(len(who))[: given.voters])]
    with tempfile.TemporaryDirectory() as folder:
        real, words, answers = asyncio.run(
            tune_for_real(task.some(asked), common, begins, given.epsilon, Path(folder))
        )
    from_init = replace(method, scoring=begins)
    some = task.some(who)
    scorings = {
        "init": begins,
        "real": real,
        "simulation, the same voters": from_init.tune_scoring(
            task.some(asked), common, no_progress
        ).scoring,
        "simulation from init": from_init.tune_scoring(some, common, no_progress).scoring,
        "simulation": method.tune_scoring(some, common, no_progress).scoring,
    }
    learnt = method._learn(test, 0, no_progress).model
    found = {}
    for name, scoring in scorings.items():
        fitted = replace(method, scoring=scoring).view(test, learnt)
        found[name] = float(gains(measure(fitted, test, top=0).full).mean())
    result = {
        "data": given.data, "users": task.users, "items": task.items, "voters": len(asked),
        "epsilon": given.epsilon, "answers": answers, "questions": words,
        "scalars": {name: msgspec.to_builtins(one) for name, one in scorings.items()},
        "test_ndcg10": {name: round(one, 4) for name, one in found.items()},
        "real_over_simulation": round(found["real"] / found["simulation"], 4),
        "real_over_simulation_from_init": round(found["real"] / found["simulation from init"], 4),
    }  # fmt: skip
    text = json.dumps(result, indent=1)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
