"""Roll-outs: what is staged, what they ask at each stage, and the release that they end with.

The driver publishes; this has what it publishes, and asks. Where a roll-out stands is in the store:
every step looks at what is there and does what is left to do, and a second process that is at it as
well asks the same question under the same id, or finds that the roll-out moved on.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from fedrap_coordinator.domain.questions import ENDED, QuestionRow, QuestionState
from fedrap_coordinator.domain.records import AuditEntry
from fedrap_coordinator.domain.rollouts import (
    NEXT,
    SCALARS,
    VERSION,
    Rollout,
    RolloutState,
    arm_of,
    decide,
)
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.rounds.asking import Wanted, make_question, read_question
from fedrap_coordinator.rounds.releases import (
    Model,
    load_model,
    rescored_model,
    restored_model,
    successor_model,
    with_state,
)
from fedrap_coordinator.rounds.tuning import noised_estimates
from fedrap_coordinator.settings import Adopted, Settings
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.protocol import Store
from fedrap_core.errors import BrokenModel
from fedrap_core.plan import AnyScoring, Scoring
from fedrap_core.questions.estimates import BlockEstimate
from fedrap_core.questions.tuning import changed
from fedrap_core.wire.messages import Trial

log = logging.getLogger(__name__)
ROLLOUT = "rollout "  # how the purpose of its questions begins


@dataclass(frozen=True, eq=False)
class ToPublish:
    """A release that a roll-out begins or ends with."""

    made: Model  # nobody signed it yet
    before: Model  # the last entry of the log
    rollout: Rollout  # as it is with that release
    entry: AuditEntry


def is_due(row: Rollout, idle: bool, dim: int) -> bool:
    """Is a release to be published for it? One that waits for a round, or for its end, is not.

    A successor is begun by a process that has its settings: `dim` is the k of these.
    """
    if row.state is RolloutState.WAITING:
        return row.source != NEXT and idle and row.successor_dim in (None, dim)
    return row.state not in (RolloutState.RUNNING, RolloutState.LEARNING)


async def due_release(
    store: Store, row: Rollout, latest: Model, settings: Settings, now: float
) -> ToPublish | None:
    """What is published for a roll-out that is due, beside or after the latest full release.

    None where what was to be staged cannot be made any more: it is over then. Scalars that are
    promoted stand for those of the settings, and a successor has their shape.

    Raises:
        BrokenModel: a release that a roll-out has to end with cannot be made.
    """
    if row.state is RolloutState.WAITING:
        try:
            return await _first(store, row, latest, settings, now)
        except BrokenModel as error:
            over, entry = row.halted(str(error), now), _entry(now, "halting", str(error))
            await store.move_rollout(over, row, entry)
            return None
    return await _last(store, row, latest, settings.released_scoring(), now)


def _entry(now: float, action: str, said: str) -> AuditEntry:
    return AuditEntry(now, "coordinator", action, said[:100], "done")


async def _first(
    store: Store, row: Rollout, latest: Model, settings: Settings, now: float
) -> ToPublish:
    """An earlier version, other scalars, or a successor, beside the latest release."""
    latest = with_state(latest, await store.learner(latest.stored.version))
    if row.successor_dim is not None:
        made = await asyncio.to_thread(successor_model, latest, settings)
    elif row.source.startswith(VERSION):
        made = await _again(store, int(row.source.removeprefix(VERSION)), latest)
    else:
        made = await asyncio.to_thread(rescored_model, latest, _scoring_of(row, latest))
    begun = row.begun(latest.stored.version, made.stored.version)
    return ToPublish(made, latest, begun, _entry(now, "publish-staged", row.source))


def _scoring_of(row: Rollout, latest: Model) -> Scoring:
    """The scalars that a roll-out of scalars stages; raises BrokenModel where there are none."""
    scoring = latest.message.scoring
    try:
        if not isinstance(scoring, Scoring):
            raise ValueError("this method has no scalars to choose from")
        return changed(scoring, json.loads(row.source.removeprefix(SCALARS)))
    except ValueError as error:
        raise BrokenModel(str(error)) from error


async def _last(
    store: Store, row: Rollout, latest: Model, own: AnyScoring, now: float
) -> ToPublish:
    """For everybody: its own release, or the one before again."""
    assert row.version is not None
    stored = await store.release(row.version)
    if stored is None:
        raise BrokenModel(f"release {row.version}, which is staged, is not kept any more")
    staged = await asyncio.to_thread(load_model, stored)
    if row.state is RolloutState.PROMOTING:
        made, scoring = await _again(store, row.version, staged), staged.message.scoring
        if row.source.startswith(SCALARS) and isinstance(scoring, Scoring):
            assert isinstance(own, Scoring)
            await store.adopt(msgspec.json.encode(Adopted(instead_of=own, scoring=scoring)))
    else:  # taken back, or judged beside it: its scalars go with it
        message = msgspec.structs.replace(staged.message, scoring=latest.message.scoring)
        made = await _again(store, latest.stored.version, replace(staged, message=message))
    ended = row.judged() if row.state is RolloutState.JUDGING else row.ended(now)
    return ToPublish(made, staged, ended, _entry(now, f"publish-{ended.state.value}", row.reason))


async def _again(store: Store, version: int, before: Model) -> Model:
    """The C of a version under the one after `before`."""
    old = await store.release(version)
    if old is None:
        raise BrokenModel(f"release {version} is not kept any more")
    old = replace(old, learner=await store.learner(version))
    size = (await asyncio.to_thread(load_model, old)).common.size
    attributes = await store.shared_attributes(size)
    return await asyncio.to_thread(restored_model, before, old, attributes)


class Rollouts:
    """Asks what a stage asks, and moves a roll-out on when it is answered."""

    def __init__(
        self,
        store: Store,
        keyring: Keyring,
        settings: Callable[[], Settings],
        sources: Sources,
        task: Callable[[], bytes],
    ) -> None:
        self._store = store
        self._keyring = keyring
        self._settings = settings
        self._sources = sources
        self._task = task

    async def advance(self) -> None:
        """Whatever is to be done by now."""
        row = await self._store.rollout()
        if row is None or row.state is not RolloutState.RUNNING:
            return
        asked = await self._store.question(row.question())
        if asked is None:
            await self._ask(row)
        elif asked.state in ENDED:
            await self._follow(row, asked)

    async def _ask(self, row: Rollout) -> None:
        assert row.version is not None
        assert row.base is not None
        wanted = Wanted(
            [row.version],
            trial=Trial(rollout=row.id, share=row.share, base=row.base),
            purpose=f"{ROLLOUT}{row.id.hex()} stage {row.stage + 1}",
            id=row.question(),
        )
        made = await asyncio.to_thread(
            make_question, wanted, self._task(), self._settings(), self._keyring, self._sources
        )
        said = f"release {row.version} to {row.share:.3g} of the devices"
        entry = AuditEntry(self._sources.clock(), "coordinator", "stage", said, "done")
        if await self._store.add_question(made, entry):
            log.info("release staged", extra={"version": row.version, "share": row.share})

    async def _follow(self, row: Rollout, asked: QuestionRow) -> None:
        now, found = self._sources.clock(), trial_estimate(asked)
        answered = asked.state is QuestionState.ANSWERED
        moved = decide(row, answered, None if found is None else found.first, now)
        action = "roll-out" if moved.state is row.state else moved.state.value
        said = f"{row.version}: {moved.reason}"[:100]
        entry = AuditEntry(now, "coordinator", action, said, "done")
        if await self._store.move_rollout(moved, row, entry):
            outcome = {"state": moved.state.value, "reason": moved.reason}
            log.warning("roll-out moved on", extra={"version": row.version, **outcome})


def trial_estimate(asked: QuestionRow) -> BlockEstimate | None:
    """The mean lead of a staged release, where enough devices of its share had a say."""
    question = read_question(asked)
    found = noised_estimates(asked, question, arm_of(question.least))
    return found[0][0] if found else None
