"""The store in memory, for simulations and tests. It passes the same contract suite as SQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from fedrap_coordinator.rounds import Phase, Round
from fedrap_coordinator.store.memory_operator import MemoryOperator
from fedrap_coordinator.store.protocol import (
    Added,
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

    async def open_round(self, round_: Round, plan: bytes) -> None:
        self._rounds[round_.id] = (round_, plan)
        self._assigned[round_.id] = set()
        self._updates[round_.id] = {}

    async def current_round(self) -> tuple[Round, bytes] | None:
        for round_, plan in self._rounds.values():
            if round_.phase not in (Phase.RELEASED, Phase.ABANDONED):
                assigned, accepted = len(self._assigned[round_.id]), len(self._updates[round_.id])
                return replace(round_, assigned=assigned, accepted=accepted), plan
        return None

    async def set_phase(self, round_id: bytes, phase: Phase, now: float | None = None) -> None:
        self._close(round_id, phase, now)

    def _close(self, round_id: bytes, phase: Phase, now: float | None) -> None:
        round_, plan = self._rounds[round_id]
        self._rounds[round_id] = (replace(round_, phase=phase), plan)
        if phase in (Phase.ABANDONED, Phase.RELEASED):
            for kept in self._updates[round_id].values():
                kept.body = None
            if now is not None:
                self._closed[round_id] = now

    async def round_phase(self, round_id: bytes) -> Phase | None:
        found = self._rounds.get(round_id)
        return None if found is None else found[0].phase

    async def assign(
        self,
        round_id: bytes,
        device: bytes,
        step: int,
        separation: int,
        cap: int,
        now: float = 0.0,
    ) -> bool | None:
        known = self._devices.get(device)
        if known is None or known.revoked_at is not None or known.valid_until <= now:
            return False
        if known.last_step != step:
            rested = known.last_step is None or step - known.last_step >= separation
            waited = known.not_before <= now and (known.first_step <= step or known.free_at <= now)
            if known.participations >= cap or not rested or not waited:
                return False
            self._devices[device] = replace(
                known, participations=known.participations + 1, last_step=step
            )
        if device in self._assigned[round_id]:
            return None
        self._assigned[round_id].add(device)
        return True

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

    async def add_update(
        self, round_id: bytes, device: bytes, digest: bytes, body: bytes, now: float
    ) -> Added:
        known = self._updates[round_id].get(device)
        if known is not None:
            return Added.DUPLICATE if known.digest == digest else Added.CONFLICT
        self._updates[round_id][device] = _Kept(digest, body)
        return Added.STORED

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
