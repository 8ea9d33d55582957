"""The methods of `MemoryStore` for operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fedrap_coordinator.rounds import Phase, Round
from fedrap_coordinator.store.identity_protocol import AuditEntry, DeviceRecord
from fedrap_coordinator.store.memory_identity import MemoryIdentity
from fedrap_coordinator.store.operator_protocol import (
    Attribute,
    DeviceStates,
    Imported,
    ItemRow,
    NewItem,
    Quality,
    ReleaseRow,
    StoredRelease,
)


@dataclass
class MemoryOperator(MemoryIdentity):
    """Everything in dictionaries; no method awaits others, so each is one transaction."""

    _rounds: dict[bytes, tuple[Round, bytes]] = field(default_factory=dict)
    _closed: dict[bytes, float] = field(default_factory=dict)
    _releases: dict[int, StoredRelease] = field(default_factory=dict)
    _history: dict[int, ReleaseRow] = field(default_factory=dict)
    _items: dict[str, bool] = field(default_factory=dict)  # in order of row -> retired
    _catalogue_version: int = 0
    _attributes: dict[str, dict[str, str]] = field(default_factory=dict)
    _refusals: dict[bytes, Counter[str]] = field(default_factory=dict)
    _quality: dict[tuple[int, str], Quality] = field(default_factory=dict)
    _secrets: dict[str, bytes] = field(default_factory=dict)

    def _close(self, round_id: bytes, phase: Phase, now: float | None) -> None:
        raise NotImplementedError

    def _insert_release(self, release: StoredRelease) -> None:
        made = [one.step for one in self._history.values() if one.restores is None]
        if release.restores is None and release.step in made:
            raise ValueError(f"step {release.step} was released before")
        if release.version in self._history:
            raise ValueError(f"version {release.version} was released before")
        self._releases[release.version] = release
        self._history[release.version] = ReleaseRow(
            release.version, release.step, release.devices, release.restores, release.facts, True
        )

    async def roll_back(self, release: StoredRelease, audit: AuditEntry | None = None) -> None:
        self._insert_release(release)
        for round_, _ in list(self._rounds.values()):
            if round_.phase not in (Phase.RELEASED, Phase.ABANDONED):
                self._close(round_.id, Phase.ABANDONED, release.facts.made_at)
        self._written(audit, True)

    async def prune_releases(self, keep: int) -> int:
        dropped = sorted(self._releases)[: -max(1, keep)]
        for version in dropped:
            del self._releases[version]
        return len(dropped)

    async def release_history(self, count: int) -> Sequence[ReleaseRow]:
        rows = sorted(self._history.values(), key=lambda row: row.version, reverse=True)[:count]
        return [replace(row, kept=row.version in self._releases) for row in rows]

    async def import_items(
        self, items: Sequence[NewItem], audit: AuditEntry | None = None
    ) -> Imported:
        wanted = {item.id: item for item in items}
        known = set(self._items)
        returned = sum(bool(self._items.get(name)) for name in wanted)
        changed = [
            item
            for item in wanted.values()
            if item.attributes and dict(item.attributes) != self._attributes.get(item.id, {})
        ]
        self._items.update(dict.fromkeys(wanted, False))
        self._attributes.update({item.id: dict(item.attributes) for item in changed})
        self._catalogue_version += bool(returned or set(wanted) - known)
        self._written(audit, True)
        return Imported(len(set(wanted) - known), returned, sum(c.id in known for c in changed))

    async def alike(self, start: int) -> Sequence[Attribute]:
        found = [
            (row, name, value)
            for row, item in enumerate(self._items)
            for name, value in self._attributes.get(item, {}).items()
        ]
        new = {(name, value) for row, name, value in found if row >= start}
        return [one for one in found if one[1:] in new]

    async def items(self, start: int, count: int, search: str = "") -> Sequence[ItemRow]:
        rows = [
            ItemRow(row, item, retired, dict(sorted(self._attributes.get(item, {}).items())))
            for row, (item, retired) in enumerate(self._items.items())
        ]
        like = search.lower()
        fits = [
            one
            for one in rows
            if like in one.id.lower() or any(like in v.lower() for v in one.attributes.values())
        ]
        return [one for one in fits if one.row >= start][:count]

    async def categories(self, count: int) -> Sequence[tuple[str, int]]:
        found = Counter(
            self._attributes[item]["category"]
            for item, retired in self._items.items()
            if not retired and "category" in self._attributes.get(item, {})
        )
        return sorted(found.items(), key=lambda one: (-one[1], one[0]))[:count]

    async def add_refusals(self, round_id: bytes, counts: Mapping[str, int]) -> None:
        self._refusals.setdefault(round_id, Counter()).update(counts)

    async def refusals(self, rounds: int) -> Mapping[bytes, Mapping[str, int]]:
        order = sorted(
            (round_ for round_, _ in self._rounds.values()),
            key=lambda one: (one.opened_at, one.id),
            reverse=True,
        )[:rounds]
        return {one.id: dict(self._refusals[one.id]) for one in order if one.id in self._refusals}

    async def device_states(self, step: int, separation: int, cap: int, now: float) -> DeviceStates:
        known = self._devices.values()
        sums = Counter(_state(one, step, separation, cap, now) for one in known)
        charged = Counter(one.participations for one in known)
        return DeviceStates(**sums, charged=dict(sorted(charged.items())))

    async def add_quality(self, quality: Quality, audit: AuditEntry | None = None) -> None:
        self._quality[quality.version, quality.metric] = quality
        self._written(audit, True)

    async def quality(self, count: int) -> Sequence[Quality]:
        order = sorted(self._quality.values(), key=lambda one: (-one.version, one.metric))
        return order[:count]

    async def secret(self, name: str, fresh: bytes) -> bytes:
        return self._secrets.setdefault(name, fresh)


def _state(one: DeviceRecord, step: int, separation: int, cap: int, now: float) -> str:
    if one.revoked_at is not None:
        return "revoked"
    if one.valid_until <= now:
        return "expired"
    if one.last_step == step:
        return "resting"
    if one.participations >= cap:
        return "spent"
    if one.last_step is not None and one.last_step > step - separation:
        return "resting"
    if one.not_before > now or (one.first_step > step and one.free_at > now):
        return "waiting"
    return "ready"
