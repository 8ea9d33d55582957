"""Changing the policy of a task: its effect is said first, and what was done is in the audit."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from fedrap_coordinator.admin import documents
from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.domain.policy import Policy, differences, effect, in_words, read_policy
from fedrap_coordinator.errors import Refusal
from fedrap_core.wire import problems

log = logging.getLogger(__name__)


class PolicyActions:
    """What an admin does with the policy in force."""

    def __init__(self, admin: AdminActions) -> None:
        self._admin = admin
        self._store = admin.store

    async def change(self, changes: dict[str, Any], *, take: bool) -> documents.PolicyChange:
        """What other values for some fields do to devices; with `take` they are in force then.

        Raises:
            ConfigError: there is no such field, or it cannot have that value.
            Refusal: somebody else changed it at the same moment.
        """
        raw = await self._store.policy(self._admin.settings.policy().encoded())
        assert raw is not None
        before = read_policy(raw)
        after = before.changed(changes)
        differ = differences(before, after)
        said = await self._effect(before, after) if differ else ()
        if take and differ:
            entry = self._admin.entry("change-policy", in_words(differ))
            if not await self._store.change_policy(after.encoded(), was=raw, audit=entry):
                raise Refusal(problems.EXISTS_ALREADY, "it was changed meanwhile; look again")
            log.warning("the policy was changed", extra={"changes": in_words(differ)})
        return documents.PolicyChange(
            policy=msgspec.to_builtins(before),
            changes={name: list(both) for name, both in differ.items()},
            effect=list(said),
            changed=take and bool(differ),
        )

    async def _effect(self, before: Policy, after: Policy) -> tuple[str, ...]:
        stored, now = await self._store.release(None), self._admin.sources.clock()
        step = 1 if stored is None else stored.step + 1
        states = self._store.device_states
        return effect(
            before,
            after,
            await states(step, before.privacy, now),
            await states(step, after.privacy, now),
        )
