"""The methods of `SqlStore` for devices, issuers, people with rights and the audit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import sqlalchemy as sa

from fedrap_coordinator.store import sql_devices, sql_identity
from fedrap_coordinator.store.identity_protocol import (
    AT_ONCE,
    AdminRecord,
    AuditEntry,
    AuditRow,
    DeviceRecord,
    Enrolment,
    Issuer,
    Terms,
    Ticket,
)

T = TypeVar("T")


class SqlIdentity:
    """One transaction each; `_run` is the store's."""

    async def _run(self, body: Callable[..., T], *arguments: object) -> T:
        raise NotImplementedError

    async def _look(self, body: Callable[..., T], *arguments: object) -> T:
        raise NotImplementedError

    async def _audited(
        self, audit: AuditEntry | None, body: Callable[..., T], *arguments: object
    ) -> T:
        """`body` and the audit's row in one transaction."""

        def both(db: sa.Connection) -> T:
            answer = body(db, *arguments)
            if audit is not None:
                outcome = "refused" if answer is False else audit.outcome
                sql_identity.write_audit(db, replace(audit, outcome=outcome))
            return answer

        return await self._run(both)

    async def add_tokens(
        self, digests: Sequence[bytes], now: float, audit: AuditEntry | None = None
    ) -> None:
        await self._audited(audit, sql_devices.add_tokens, digests, now)

    async def enrol(
        self, token: bytes, device: bytes, public_key: bytes, now: float, terms: Terms = AT_ONCE
    ) -> bool:
        return await self._run(sql_devices.enrol, token, device, public_key, now, terms)

    async def enrol_signed(
        self, ticket: Ticket, device: bytes, public_key: bytes, now: float, terms: Terms = AT_ONCE
    ) -> Enrolment:
        return await self._run(sql_devices.enrol_signed, ticket, device, public_key, now, terms)

    async def device(self, device: bytes) -> DeviceRecord | None:
        return await self._look(sql_devices.find, device)

    async def devices(self, after: bytes, count: int) -> Sequence[DeviceRecord]:
        return await self._look(sql_devices.after, after, count)

    async def renew_device(self, device: bytes, valid_until: float, level: str) -> None:
        await self._run(sql_devices.renew, device, valid_until, level)

    async def revoke_device(
        self, device: bytes, now: float, audit: AuditEntry | None = None
    ) -> bool:
        return await self._audited(audit, sql_devices.revoke, device, now)

    async def device_keys(self, devices: Sequence[bytes]) -> Sequence[bytes | None]:
        return await self._look(sql_devices.keys, devices)

    async def use_nonce(self, device: bytes, nonce: int) -> bool:
        return await self._run(sql_devices.use_nonce, device, nonce)

    async def forget_device(self, device: bytes) -> None:
        await self._run(sql_devices.forget, device)

    async def add_issuer(self, issuer: Issuer, audit: AuditEntry | None = None) -> bool:
        return await self._audited(audit, sql_identity.add_issuer, issuer)

    async def remove_issuer(self, name: str, audit: AuditEntry | None = None) -> bool:
        return await self._audited(audit, sql_identity.remove_issuer, name)

    async def issuers(self) -> Sequence[Issuer]:
        return await self._look(sql_identity.issuers)

    async def add_admin(
        self, admin: AdminRecord, digest: bytes, audit: AuditEntry | None = None
    ) -> bool:
        return await self._audited(audit, sql_identity.add_admin, admin, digest)

    async def remove_admin(self, name: str, audit: AuditEntry | None = None) -> bool:
        return await self._audited(audit, sql_identity.remove_admin, name)

    async def admins(self) -> Sequence[AdminRecord]:
        return await self._look(sql_identity.admins)

    async def admin_of(self, digest: bytes) -> AdminRecord | None:
        return await self._look(sql_identity.admin_of, digest)

    async def write_audit(self, entry: AuditEntry) -> None:
        await self._run(sql_identity.write_audit, entry)

    async def audit_rows(self, after: int, count: int) -> Sequence[AuditRow]:
        return await self._look(sql_identity.audit_rows, after, count)
