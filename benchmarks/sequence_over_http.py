"""Both parts over the real coordinator with real devices, beside the engine of the science.

    python benchmarks/sequence_over_http.py [--json PATH] [--data DIRECTORY] [--users 943]
    python benchmarks/sequence_over_http.py --engine --rounds 100     # the engine alone: a minute

Every user of ml-100k is a device of the SDK with a store of its own and ONNX Runtime; the
coordinator is on a socket with SQLite, with what `init --no-privacy` writes. The engine runs as
many rounds of the same settings, again and again from other random numbers, which says how far
apart two runs are by luck. NDCG@10 and HR@10 in full ranking on the
test items; some six minutes on two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedrap import Floor, Interaction
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.privacy.recipe import Expected, derive
from fedrap_coordinator.rounds.sequence_state import learn_sequence, published
from fedrap_coordinator.settings import Enrolment, Releases, Serve, Settings
from fedrap_core.model import CommonItems
from fedrap_core.plan import Scoring, SequenceMethod, SolveMethod, sequence_of, sequence_scoring
from fedrap_core.quantize import quantize_rows
from fedrap_core.sequence.model import SequenceItems, from_rows
from fedrap_core.sequence.server_step import start_learner
from fedrap_core.solve.server_step import Learner, learn_step
from fedrap_core.sparse import RowPart
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Release
from fedrap_core.wire.releases import MAX_RELEASE_BYTES, unpack_release
from fedrap_simulation.engine.sequence_rounds import (
    derive_queries,
    draw_round,
    sum_sequence,
    windows_of,
)
from fedrap_simulation.engine.solve_rounds import Schedule, cohorts, sum_shares
from fedrap_simulation.engine.solve_scoring import derive_users, once
from fedrap_simulation.evaluation.metrics import gains, hits, measure
from fedrap_simulation.evaluation.runner import Evaluation, Request
from fedrap_simulation.evaluation.task import Task
from testkit.harness import NO_LIMITS, serve

SEED = 0
AT_ONCE = 16  # devices


class Scored:
    """Scores of every user under one release of both parts, mixed by `mix`."""

    def __init__(self, task: Task, common: Any, items: SequenceItems, settings: Settings) -> None:
        scoring = settings.released_scoring()
        part, mix = sequence_of(settings.method), sequence_scoring(scoring)
        assert isinstance(scoring, Scoring)
        assert part is not None
        assert mix is not None
        self.mix, self._items = mix, items
        self._users = derive_users(common, task.train, scoring)
        self._queries = derive_queries(items, task.train, part, mix.adapts)

    def scores(self, users: Any) -> Any:
        """(len(users), m) as a device adds them up."""
        mix, items = self.mix, self._items
        solved = self._users.shared(users)
        solved += self._users.personal(users, solved)
        matched = self._queries[users] @ items.outputs.astype(np.float32).T
        matched += np.float32(mix.kappa) * items.bias.astype(np.float32)
        return np.float32(mix.solve) * solved + np.float32(mix.sequence) * matched


def quality(task: Task, common: Any, items: SequenceItems, settings: Settings) -> dict[str, float]:
    """On the questions of a task: both parts as they are mixed, and each alone."""
    scored, found = Scored(task, common, items, settings), dict[str, float]()
    change, mixed = msgspec.structs.replace, scored.mix
    for name, mix in (
        ("", mixed),
        ("_solve_alone", change(mixed, sequence=0.0)),
        ("_sequence_alone", change(mixed, solve=0.0)),
    ):
        scored.mix = mix
        ranks = measure(scored, task, top=0).full
        found |= {f"ndcg10{name}": float(gains(ranks).mean())}
        found |= {f"hr10{name}": float(hits(ranks).mean())}
    return found


def settings_for(task: Task, rounds: int) -> Settings:
    """What `init --no-privacy` writes, with as many rounds, and no waiting for nights."""
    mean = float(once(task.train, task.items)[0].lengths.mean())
    made = derive(Expected(task.users, task.items, None, mean, 0.0)).settings
    cohort = task.users // 10
    assert isinstance(made.method, SolveMethod)
    part = sequence_of(made.method) or SequenceMethod()
    return msgspec.structs.replace(
        made,
        serve=Serve(retry_seconds=0.01),
        limits=NO_LIMITS,
        round=msgspec.structs.replace(
            made.round, min_updates=cohort, max_updates=cohort, total=rounds, over_selection=1.0,
            min_seconds=0.0,
        ),
        method=msgspec.structs.replace(made.method, sequence=part),
        learning=msgspec.structs.replace(made.learning, settled=rounds),
        sequence=msgspec.structs.replace(made.sequence, rounds=rounds),
        enrolment=Enrolment(wait_steps=0),
        releases=Releases(keep=3),
    )  # fmt: skip


async def over_http(task: Task, settings: Settings, folder: Path) -> tuple[CommonItems, float]:
    """The last release, and the mean bytes of an update."""
    names: list[str] = [f"item-{row}" for row in range(task.items)]
    sent: list[int] = []
    floor, room = Floor.without_privacy(min_updates=2), asyncio.Semaphore(AT_ONCE)
    devices: dict[int, Any] = {}
    async with serve(settings, str(folder / "c.sqlite"), items=names) as served:

        async def take_part(user: int, step: int) -> None:
            async with room:
                if user not in devices:
                    own = task.train.items[task.train.starts[user] : task.train.starts[user + 1]]
                    devices[user] = await served.device(folder / str(user), [], floor=floor)
                    devices[user].record_many(
                        Interaction(names[row], "view", 1.0, float(at))
                        for at, row in enumerate(own.tolist())
                    )
                report = await devices[user].run_round_async()
                assert (report.joined, report.step) == (True, step), report
                sent.append(report.sent_bytes)

        cohort = settings.round.max_updates
        for step, users in enumerate(_cohorts(task, settings), 1):
            await asyncio.gather(*(take_part(user, step) for user in users[:cohort].tolist()))
            print(f"round {step} of {settings.round.total}", file=sys.stderr, flush=True)
        raw = (await served.app[COORDINATOR].release(None)).body
    return unpack_release(decode(Release, raw, MAX_RELEASE_BYTES)), float(np.mean(sent))


def _cohorts(task: Task, settings: Settings) -> Iterator[Any]:
    schedule = Schedule(rounds=settings.round.total)
    return cohorts(task.users, schedule, np.random.default_rng(SEED))


def in_engine(task: Task, settings: Settings, draws: int) -> tuple[Any, SequenceItems]:
    """As many rounds by the engine's sums and the coordinator's two steps."""
    part, rule, method = sequence_of(settings.method), settings.privacy, settings.method
    assert part is not None
    assert isinstance(method, SolveMethod)
    rng, learning = np.random.default_rng([SEED, draws]), settings.learning
    bound = rule.row_clip or rule.clip
    common = _rounded(rng.normal(0.0, learning.spread, (task.items, method.dim)))
    state = Learner(common)
    learner = start_learner(task.items, part, settings.sequence, rng)
    train, _ = once(task.train, task.items)
    windows = windows_of(task.train, task.items, part)
    for step, users in enumerate(_cohorts(task, settings)):
        total = sum_shares(
            train.some(users), state.common, method, clip=rule.clip, row_clip=bound,
            int8_seed=int(rng.integers(2**40)),
        )  # fmt: skip
        learnt = learn_step(state, total, method, learning, step)
        asked, items = windows.some(users), from_rows(published(learner))
        found = sum_sequence(
            asked, items, part, draw_round(asked, part, rng), clip=rule.clip / part.scale,
            row_clip=bound / part.scale, int8_seed=int(rng.integers(2**40)),
        )  # fmt: skip
        kernels = RowPart(np.arange(len(found.kernels)), found.kernels)
        learner = learn_sequence(
            learner, [found.inputs, found.outputs, kernels], len(users), settings.sequence,
            learning, learnt,
        )  # fmt: skip
        state = replace(learnt, common=_rounded(learnt.common))
    return state.common, from_rows(published(learner))


def _rounded(rows: Any) -> Any:
    return quantize_rows(rows).to_float().astype(np.float64)


def main(argv: list[str] | None = None) -> int:
    """Print or write both as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--data", type=Path, help="where ml-100k lies")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--users", type=int, default=943, help="the first so many")
    parser.add_argument("--repeats", type=int, default=5, help="of the engine, with other draws")
    parser.add_argument("--engine", action="store_true", help="without the devices over HTTP")
    given = parser.parse_args(argv)
    request = Request("ml-100k", ("fedrap-sequence",), data_dir=given.data)
    task = Evaluation(request).split(SEED).test
    task = task.some(np.arange(min(given.users, task.users)))
    settings = settings_for(task, given.rounds)
    result: dict[str, Any] = {
        "devices": task.users, "items": task.items, "rounds": given.rounds, "seed": SEED,
        "settings": msgspec.to_builtins(settings),
    }  # fmt: skip
    if not given.engine:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="fedrap-sequence-") as folder:
            common, sent = asyncio.run(over_http(task, settings, Path(folder)))
        taken = time.perf_counter() - start
        assert common.sequence is not None
        matrix = common.items.to_float().astype(np.float64)
        result["over_http"] = quality(task, matrix, from_rows(common.sequence), settings) | {
            "seconds": round(taken, 1),
            "update_bytes": round(sent),
        }
    result["engine"] = [
        quality(task, *in_engine(task, settings, draws), settings) for draws in range(given.repeats)
    ]
    text = json.dumps(result, indent=2)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
