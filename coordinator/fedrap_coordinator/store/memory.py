"""The store in memory, for simulations and tests. It passes the same contract suite as SQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from fedrap_coordinator.rounds import OVER, Phase, Round
from fedrap_coordinator.store import batches
from fedrap_coordinator.store.batches import Added, Ask, Place, Rule, Sent, Tally
from fedrap_coordinator.store.memory_operator import MemoryOperator
from fedrap_coordinator.store.protocol import (
    CatalogueView,
    Charge,
    Counts,
    Extent,
    RoundRow,
    StoredRelease,
)

CHUNK = 64
MANY = 4096  # rows without a body


@dataclass
class _Kept:
    """One update: the digest stays, the sealed body goes with the end of the round."""

    digest: bytes
    body: bytes | None


@dataclass
class MemoryStore(MemoryOperator):
    """Everything in dictionaries; no method awaits, so each is one transaction."""

    _task: bytes | None = None
    _assigned: dict[bytes, set[bytes]] = field(default_factory=dict)
    _updates: dict[bytes, dict[bytes, _Kept]] = field(default_factory=dict)

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def task_id(self, fresh: bytes) -> bytes:
        self._task = self._task or fresh
        return self._task

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[bool]:
        yield True

    async def open_round(self, round_: Round, plan: bytes) -> bool:
        for known, _ in self._rounds.values():
            if known.phase not in OVER and known.step >= round_.step:
                return False
        if any(release.step >= round_.step for release in self._releases.values()):
            return False
        self._rounds[round_.id] = (round_, plan)
        self._assigned[round_.id] = set()
        self._updates[round_.id] = {}
        return True

    async def current_round(self) -> tuple[Round, bytes] | None:
        for round_, plan in self._rounds.values():
            if round_.phase not in OVER:
                assigned, accepted = len(self._assigned[round_.id]), len(self._updates[round_.id])
                return replace(round_, assigned=assigned, accepted=accepted), plan
        return None

    async def set_phase(
        self, round_id: bytes, phase: Phase, was: Phase | None = None, now: float | None = None
    ) -> bool:
        if was is not None and self._rounds[round_id][0].phase is not was:
            return False
        self._close(round_id, phase, now)
        return True

    def _close(self, round_id: bytes, phase: Phase, now: float | None) -> None:
        round_, plan = self._rounds[round_id]
        self._rounds[round_id] = (replace(round_, phase=phase), plan)
        if phase in OVER:
            for kept in self._updates[round_id].values():
                kept.body = None
            if now is not None:
                self._closed[round_id] = now

    async def round_phase(self, round_id: bytes) -> Phase | None:
        found = self._rounds.get(round_id)
        return None if found is None else found[0].phase

    async def give_places(
        self, round_id: bytes, asks: Sequence[Ask], rule: Rule, now: float
    ) -> tuple[Sequence[Place], Tally]:
        places = self._assigned.get(round_id, set())
        batch = batches.give_places(asks, self._tally(round_id), self._devices, places, rule, now)
        self._devices.update(batch.devices)
        places.update(batch.assigned)
        return batch.answers, self._tally(round_id)

    def _tally(self, round_id: bytes) -> Tally:
        if round_id not in self._rounds:
            return Tally(None)
        phase = self._rounds[round_id][0].phase
        return Tally(phase, len(self._assigned[round_id]), len(self._updates[round_id]))

    async def rounds(self, count: int) -> Sequence[RoundRow]:
        found = []
        for round_, plan in self._rounds.values():
            counts = len(self._assigned[round_.id]), len(self._updates[round_.id])
            phase, opened = round_.phase, round_.opened_at
            closed = self._closed.get(round_.id)
            row = RoundRow(
                round_.id, round_.step, round_.release, phase, plan, opened, *counts, closed
            )
            found.append(row)
        return sorted(found, key=lambda row: (row.opened_at, row.id), reverse=True)[:count]

    async def charges(self, round_id: bytes) -> AsyncIterator[Sequence[Charge]]:
        came, places = self._updates.get(round_id, {}), self._assigned.get(round_id, set())
        rows = [Charge(device, device in came) for device in sorted(places)]
        for start in range(0, len(rows), MANY):
            yield rows[start : start + MANY]

    async def is_assigned(self, round_id: bytes, device: bytes) -> bool:
        return device in self._assigned.get(round_id, ())

    async def add_updates(
        self, round_id: bytes, sent: Sequence[Sent], most: int, now: float
    ) -> tuple[Sequence[Added], Tally]:
        kept = self._updates.get(round_id, {})
        digests = {device: known.digest for device, known in kept.items()}
        places = frozenset(self._assigned.get(round_id, ()))
        batch = batches.add_updates(
            sent, self._tally(round_id), self._devices, places, digests, most, now
        )
        self._devices.update(batch.devices)
        kept.update({one.device: _Kept(one.digest, one.body) for one in batch.stored})
        return batch.answers, self._tally(round_id)

    async def update_digest(self, round_id: bytes, device: bytes) -> bytes | None:
        known = self._updates.get(round_id, {}).get(device)
        return None if known is None else known.digest

    async def sealed_updates(self, round_id: bytes) -> AsyncIterator[Sequence[bytes]]:
        kept = self._updates[round_id]
        bodies = [body for name in sorted(kept) if (body := kept[name].body) is not None]
        for start in range(0, len(bodies), CHUNK):
            yield bodies[start : start + CHUNK]

    async def add_release(self, release: StoredRelease, round_id: bytes | None) -> None:
        self._insert_release(release)
        if round_id is not None:
            self._close(round_id, Phase.RELEASED, release.facts.made_at or None)
            self._settle(round_id)

    def _settle(self, round_id: bytes) -> None:
        step, came = self._rounds[round_id][0].step, self._updates[round_id]
        for device in self._assigned[round_id] | set(came):
            known = self._devices.get(device)
            if known is not None and device in came:
                self._devices[device] = replace(known, counted_step=step)
            elif known is not None:
                self._devices[device] = replace(known, last_step=known.counted_step)

    def _last_released(self) -> int:
        return max((release.step for release in self._history.values()), default=0)

    async def release(self, version: int | None) -> StoredRelease | None:
        if version is None:
            version = max(self._releases, default=-1)
        return self._releases.get(version)

    async def latest_version(self) -> int | None:
        return max(self._releases, default=None)

    async def add_items(self, items: Sequence[str]) -> int:
        before = len(self._items)
        back = [name for name in items if self._items.get(name)]
        for name in items:
            self._items[name] = False
        if back or len(self._items) > before:
            self._catalogue_version += 1
        return len(self._items) - before

    async def retire_items(self, items: Sequence[str]) -> int:
        shown = [name for name in dict.fromkeys(items) if self._items.get(name) is False]
        self._items.update(dict.fromkeys(shown, True))
        self._catalogue_version += bool(shown)
        return len(shown)

    async def catalogue(self, start: int) -> CatalogueView:
        retired = [row for row, gone in enumerate(self._items.values()) if gone]
        return CatalogueView(self._catalogue_version, list(self._items)[start:], retired)

    async def extent(self) -> Extent:
        return Extent(len(self._items), self._catalogue_version)

    async def counts(self) -> Counts:
        unused = sum(not used for used in self._tokens.values())
        return Counts(len(self._devices), unused, len(self._items), len(self._history))
