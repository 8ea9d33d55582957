"""Both parts over the real coordinator with real devices, beside the engine of the science.

    python benchmarks/sequence_over_http.py [--json PATH] [--data DIRECTORY] [--rounds 30]

Every user of ml-100k is a device of the SDK with a store of its own and ONNX Runtime; the
coordinator is on a socket with SQLite, with what `init --no-privacy` writes. The engine runs as
many rounds of the same settings from other random numbers. NDCG@10 and HR@10 in full ranking on the
test items; some four minutes on two cores.
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

from fedrap import Floor
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.privacy.recipe import Expected, derive
from fedrap_coordinator.settings import Enrolment, Releases, Serve, Settings
from fedrap_core.model import CommonItems
from fedrap_core.plan import Scoring, SequenceMethod, SolveMethod, sequence_of, sequence_scoring
from fedrap_core.sequence.model import SequenceItems, from_rows
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Release
from fedrap_core.wire.releases import MAX_RELEASE_BYTES, unpack_release
from fedrap_simulation.engine.sequence_rounds import derive_queries, run_sequence_rounds
from fedrap_simulation.engine.solve_rounds import Schedule, cohorts, run_rounds
from fedrap_simulation.engine.solve_scoring import derive_users, once
from fedrap_simulation.evaluation.metrics import gains, hits, measure
from fedrap_simulation.evaluation.runner import Evaluation, Request
from fedrap_simulation.evaluation.task import Task
from testkit.harness import NO_LIMITS, serve

SEED = 0


class Scored:
    """Scores of every user under one release of both parts."""

    def __init__(self, task: Task, common: Any, items: SequenceItems, settings: Settings) -> None:
        scoring = settings.released_scoring()
        part, mix = sequence_of(settings.method), sequence_scoring(scoring)
        assert isinstance(scoring, Scoring)
        assert part is not None
        assert mix is not None
        self._mix, self._items = mix, items
        self._users = derive_users(common, task.train, scoring)
        self._queries = derive_queries(items, task.train, part)

    def scores(self, users: Any) -> Any:
        """(len(users), m) as a device adds them up."""
        mix, items = self._mix, self._items
        solved = self._users.shared(users)
        solved += self._users.personal(users, solved)
        matched = self._queries[users] @ items.outputs.astype(np.float32).T
        matched += np.float32(mix.kappa) * items.bias.astype(np.float32)
        return np.float32(mix.solve) * solved + np.float32(mix.sequence) * matched


def quality(task: Task, common: Any, items: SequenceItems, settings: Settings) -> dict[str, float]:
    """On the questions of a task."""
    ranks = measure(Scored(task, common, items, settings), task, top=0).full
    return {"ndcg10": float(gains(ranks).mean()), "hr10": float(hits(ranks).mean())}


def settings_for(task: Task, rounds: int) -> Settings:
    """What `init --no-privacy` writes, with as many rounds, and no waiting for nights."""
    mean = float(once(task.train, task.items)[0].lengths.mean())
    made = derive(Expected(task.users, task.items, None, mean)).settings
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
    names, sent = [f"item-{row}" for row in range(task.items)], []
    floor = Floor.without_privacy(min_updates=2)
    devices: dict[int, Any] = {}
    async with serve(settings, str(folder / "c.sqlite"), items=names) as served:
        cohort = settings.round.max_updates
        for step, users in enumerate(_cohorts(task, settings)):
            for user in users[:cohort].tolist():
                if user not in devices:
                    own = task.train.items[task.train.starts[user] : task.train.starts[user + 1]]
                    devices[user] = await served.device(
                        folder / str(user), [names[row] for row in own.tolist()], floor=floor
                    )
                report = await devices[user].run_round_async()
                assert report.joined, report
                assert report.step == step + 1, report
                sent.append(report.sent_bytes)
            print(f"round {step + 1} of {settings.round.total}", file=sys.stderr, flush=True)
        raw = (await served.app[COORDINATOR].release(None)).body
    return unpack_release(decode(Release, raw, MAX_RELEASE_BYTES)), float(np.mean(sent))


def _cohorts(task: Task, settings: Settings) -> Iterator[Any]:
    schedule = Schedule(rounds=settings.round.total)
    return cohorts(task.users, schedule, np.random.default_rng(SEED))


def in_engine(task: Task, settings: Settings) -> tuple[Any, SequenceItems]:
    """The same rounds by the engine."""
    part, rule = sequence_of(settings.method), settings.privacy
    assert part is not None
    assert isinstance(settings.method, SolveMethod)
    bound = rule.row_clip or rule.clip
    schedule = Schedule(rounds=settings.round.total, clip=rule.clip, row_clip=bound)
    method = msgspec.structs.replace(settings.method)
    train, _ = once(task.train, task.items)
    common = None
    for released in run_rounds(train, task.items, method, settings.learning, schedule, SEED):
        common = released.common
    schedule = replace(schedule, clip=rule.clip / part.scale, row_clip=bound / part.scale)
    items = None
    for each in run_sequence_rounds(
        task.train, task.items, part, settings.sequence, schedule, SEED
    ):
        items = each.items
    assert items is not None
    return common, items


def main(argv: list[str] | None = None) -> int:
    """Print or write both as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--data", type=Path, help="where ml-100k lies")
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args(argv)
    request = Request("ml-100k", ("fedrap-sequence",), data_dir=given.data)
    task = Evaluation(request).split(SEED).test
    settings = settings_for(task, given.rounds)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="fedrap-sequence-") as folder:
        common, sent = asyncio.run(over_http(task, settings, Path(folder)))
    taken = time.perf_counter() - start
    assert common.sequence is not None
    matrix = common.items.to_float().astype(np.float64)
    result = {
        "devices": task.users,
        "items": task.items,
        "rounds": given.rounds,
        "over_http": quality(task, matrix, from_rows(common.sequence), settings)
        | {"seconds": round(taken, 1), "update_bytes": round(sent)},
        "engine": quality(task, *in_engine(task, settings), settings),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
