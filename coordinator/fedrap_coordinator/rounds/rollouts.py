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
    with_state,
)
from fedrap_coordinator.rounds.tuning import noised_estimates
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.protocol import Store
from fedrap_core.errors import BrokenModel
from fedrap_core.plan import Scoring
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
    scoring: Scoring | None = None  # that is in force from now on


async def staged_release(store: Store, row: Rollout, latest: Model) -> ToPublish:
    """What a roll-out of an earlier version or of other scalars stages beside the latest release.

    Raises:
        BrokenModel: that cannot be made any more.
    """
    latest = with_state(latest, await store.learner(latest.stored.version))
    if row.source.startswith(VERSION):
        made = await _again(store, int(row.source.removeprefix(VERSION)), latest)
    else:
        made = await asyncio.to_thread(rescored_model, latest, scoring_of(row, latest))
    return ToPublish(made, latest, row.begun(latest.stored.version, made.stored.version))


def scoring_of(row: Rollout, latest: Model) -> Scoring:
    """The scalars that a roll-out of scalars stages; raises BrokenModel where there are none."""
    scoring = latest.message.scoring
    try:
        if not isinstance(scoring, Scoring):
            raise ValueError("this method has no scalars to choose from")
        return changed(scoring, json.loads(row.source.removeprefix(SCALARS)))
    except ValueError as error:
        raise BrokenModel(str(error)) from error


async def last_release(store: Store, row: Rollout, latest: Model, now: float) -> ToPublish:
    """What a roll-out ends with, for everybody: its own release, or the one before again.

    Raises:
        BrokenModel: that cannot be made any more.
    """
    assert row.version is not None
    stored = await store.release(row.version)
    if stored is None:
        raise BrokenModel(f"release {row.version}, which is staged, is not kept any more")
    staged = await asyncio.to_thread(load_model, stored)
    scoring = None
    if row.state is RolloutState.PROMOTING:
        made = await _again(store, row.version, staged)
        if row.source.startswith(SCALARS) and isinstance(staged.message.scoring, Scoring):
            scoring = staged.message.scoring
    else:  # its scalars go with it
        message = msgspec.structs.replace(staged.message, scoring=latest.message.scoring)
        made = await _again(store, latest.stored.version, replace(staged, message=message))
    return ToPublish(made, staged, row.ended(now), scoring)


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
