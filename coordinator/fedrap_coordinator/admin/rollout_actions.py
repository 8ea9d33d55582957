"""Roll-outs by an admin: begin one, look at it, end it either way by hand.

What is decided here is carried out by the coordinator that serves, at its next look.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fedrap_coordinator.admin import documents
from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.quality import rollout_line
from fedrap_coordinator.admin.question_actions import candidates
from fedrap_coordinator.domain.policy import read_policy
from fedrap_coordinator.domain.records import AuditEntry
from fedrap_coordinator.domain.rollouts import (
    NEXT,
    SCALARS,
    SUCCESSOR,
    VERSION,
    Rollout,
    RolloutState,
)
from fedrap_coordinator.errors import ConfigError, Refusal
from fedrap_core.plan import Scoring, SolveMethod
from fedrap_core.wire import problems
from fedrap_core.wire.codec import decode
from fedrap_core.wire.messages import Release
from fedrap_core.wire.releases import MAX_RELEASE_BYTES

MOST_STAGES = 8


class RolloutActions:
    """What an admin does about roll-outs."""

    def __init__(self, admin: AdminActions) -> None:
        self._admin = admin
        self._store = admin.store

    async def start(
        self,
        version: int | None = None,
        change: Mapping[str, float] | None = None,
        shares: Sequence[float] = (),
        tolerance: float | None = None,
    ) -> documents.RolloutLine:
        """Stage the release that the next round makes, or an earlier version, or other scalars.

        Raises:
            ConfigError: there is nothing like that to stage, or the shares are none.
            Refusal: another roll-out goes on.
        """
        usual = self._admin.settings.rollouts
        stages = tuple(shares) or usual.shares
        if len(stages) > MOST_STAGES or list(stages) != sorted(set(stages)):
            raise ConfigError(f"shares are up to {MOST_STAGES} numbers that grow, such as 0.01 0.1")
        if not all(0 < share <= 1 for share in stages):
            raise ConfigError("a share is more than 0 and at most 1")
        source, now = await self._source(version, change or {}), self._admin.sources.clock()
        row = Rollout(
            self._admin.sources.token_bytes(16), source, stages,
            usual.tolerance if tolerance is None else tolerance, now,
        )  # fmt: skip
        if not await self._store.add_rollout(row, self._admin.entry("rollout-start", source)):
            raise Refusal(
                problems.EXISTS_ALREADY, "a roll-out goes on; `rollout halt` or `promote` ends it"
            )
        return await rollout_line(self._store, row)

    async def _source(self, version: int | None, change: Mapping[str, float]) -> str:
        stored = await self._store.release(None)
        if stored is None or stored.step == 0:
            raise ConfigError("nothing was learnt yet: a first release has nothing to stand beside")
        if version is not None and change:
            raise ConfigError("a version or other scalars can be staged, not both at once")
        if change:
            latest = decode(Release, stored.body, MAX_RELEASE_BYTES)
            candidates(latest.scoring, [change])
            return SCALARS + json.dumps(dict(sorted(change.items())))
        if version is None:
            return NEXT
        if version == stored.version or await self._store.release(version) is None:
            raise ConfigError(f"release {version} is the latest, or not kept; see `releases list`")
        return f"{VERSION}{version}"

    async def begin_successor(self) -> documents.RolloutLine:
        """Learn a successor, in the shape that the settings have, beside the latest release.

        Raises:
            ConfigError: nothing was learnt yet, no rounds are left, or there is no such shape.
            Refusal: a roll-out goes on.
        """
        stored, settings = await self._store.release(None), self._admin.settings
        if stored is None or stored.step == 0:
            raise ConfigError("nothing was learnt yet: change the settings, no successor is needed")
        latest = decode(Release, stored.body, MAX_RELEASE_BYTES)
        if not isinstance(latest.scoring, Scoring) or not isinstance(settings.method, SolveMethod):
            raise ConfigError("only `solve` has successors; `paper` needs a new database")
        raw = await self._store.policy()
        total = settings.round.total if raw is None else read_policy(raw).total
        if stored.step >= total:
            raise ConfigError(
                f"all {total} rounds of the task were made, and a successor is learnt in rounds; "
                "raise round.total with `fedrap-coordinator policy change` first"
            )
        source, usual = f"{SUCCESSOR}{settings.method.dim}", settings.rollouts
        row = Rollout(
            self._admin.sources.token_bytes(16), source, usual.shares, usual.tolerance,
            self._admin.sources.clock(),
        )  # fmt: skip
        if not await self._store.add_rollout(row, self._admin.entry("task-next", source)):
            raise Refusal(
                problems.EXISTS_ALREADY, "a roll-out goes on; `rollout halt` or `promote` ends it"
            )
        return await rollout_line(self._store, row)

    async def judge_successor(self) -> documents.RolloutLine:
        """Stage the successor to some devices, and let their answers decide.

        Raises:
            Refusal: no successor is learnt.
        """
        row = await self._going()
        if not row.is_learnt:
            raise Refusal(problems.NOT_FOUND, "no successor is learnt; `task next` begins one")
        judged = replace(row, state=RolloutState.JUDGING)
        return await self._moved(row, judged, self._admin.entry("task-judge"))

    async def rollouts(self, count: int) -> documents.RolloutList:
        """The last ones, the newest first."""
        rows = await self._store.rollouts(count)
        return documents.RolloutList(
            rollouts=[await rollout_line(self._store, row) for row in rows]
        )

    async def halt(self) -> documents.RolloutLine:
        """Take the staged release back.

        Raises:
            Refusal: nothing is rolled out.
        """
        row, entry = await self._going(), self._admin.entry("rollout-halt")
        return await self._moved(row, row.halted(f"by {entry.who}", entry.at), entry)

    async def promote(self) -> documents.RolloutLine:
        """Give the staged release to everybody, whatever was seen of it.

        Raises:
            Refusal: nothing is staged.
        """
        row, entry = await self._going(), self._admin.entry("rollout-promote")
        if row.state is not RolloutState.RUNNING and not row.is_learnt:
            raise Refusal(problems.NOT_FOUND, f"nothing is staged: the roll-out is {row.state}")
        return await self._moved(row, row.promoted(f"by {entry.who}"), entry)

    async def _going(self) -> Rollout:
        row = await self._store.rollout()
        if row is None:
            raise Refusal(problems.NOT_FOUND, "no roll-out goes on")
        return row

    async def _moved(self, was: Rollout, row: Rollout, entry: AuditEntry) -> documents.RolloutLine:
        if not await self._store.move_rollout(row, was, entry):
            raise Refusal(problems.UNAVAILABLE, "it moved on at this moment; look again", 1.0)
        return await rollout_line(self._store, row)
