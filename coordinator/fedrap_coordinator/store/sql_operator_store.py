"""The methods of `SqlStore` for operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store import sql_catalogue, sql_releases, sql_watch
from fedrap_coordinator.store.identity_protocol import AuditEntry
from fedrap_coordinator.store.insert_once import insert_once
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
from fedrap_coordinator.store.sql_identity_store import SqlIdentity


class SqlOperator(SqlIdentity):
    """One transaction each; `_run` is the store's."""

    async def roll_back(self, release: StoredRelease, audit: AuditEntry | None = None) -> None:
        await self._audited(audit, sql_releases.roll_back, release)

    async def prune_releases(self, keep: int) -> int:
        return await self._run(sql_releases.prune, keep)

    async def release_history(self, count: int) -> Sequence[ReleaseRow]:
        return await self._look(sql_releases.history, count)

    async def import_items(
        self, items: Sequence[NewItem], audit: AuditEntry | None = None
    ) -> Imported:
        return await self._audited(audit, sql_catalogue.import_items, items)

    async def alike(self, start: int) -> Sequence[Attribute]:
        return await self._look(sql_catalogue.alike, start)

    async def items(self, start: int, count: int, search: str = "") -> Sequence[ItemRow]:
        return await self._look(sql_catalogue.find, start, count, search)

    async def categories(self, count: int) -> Sequence[tuple[str, int]]:
        return await self._look(sql_catalogue.categories, count)

    async def add_refusals(self, round_id: bytes, counts: Mapping[str, int]) -> None:
        await self._run(sql_watch.add_refusals, round_id, counts)

    async def refusals(self, rounds: int) -> Mapping[bytes, Mapping[str, int]]:
        return await self._look(sql_watch.refusals, rounds)

    async def device_states(self, step: int, separation: int, cap: int, now: float) -> DeviceStates:
        return await self._look(sql_watch.device_states, step, separation, cap, now)

    async def add_quality(self, quality: Quality, audit: AuditEntry | None = None) -> None:
        await self._audited(audit, sql_releases.add_quality, quality)

    async def quality(self, count: int) -> Sequence[Quality]:
        return await self._look(sql_releases.find_quality, count)

    async def secret(self, name: str, fresh: bytes) -> bytes:
        return await self._run(_secret, name, fresh)


def _secret(db: sa.Connection, name: str, fresh: bytes) -> bytes:
    insert_once(db, t.meta, name=name, value=fresh)
    kept = db.scalar(sa.select(t.meta.c.value).where(t.meta.c.name == name))
    return bytes(kept or fresh)
