"""The methods of `MemoryStore` for devices, issuers, people with rights and the audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

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


@dataclass
class MemoryIdentity:
    """Everything in dictionaries; no method awaits, so each is one transaction."""

    _tokens: dict[bytes, bool] = field(default_factory=dict)  # digest -> used
    _signed: dict[bytes, float] = field(default_factory=dict)  # digest -> when its token ends
    _accounts: dict[bytes, int] = field(default_factory=dict)
    _devices: dict[bytes, DeviceRecord] = field(default_factory=dict)
    _issuers: dict[str, Issuer] = field(default_factory=dict)
    _admins: dict[str, tuple[AdminRecord, bytes]] = field(default_factory=dict)
    _audit: list[AuditRow] = field(default_factory=list)

    def _last_released(self) -> int:
        raise NotImplementedError

    async def add_tokens(
        self, digests: Sequence[bytes], now: float, audit: AuditEntry | None = None
    ) -> None:
        if len(set(digests)) < len(digests) or any(one in self._tokens for one in digests):
            raise ValueError("a token was added before")
        self._tokens.update(dict.fromkeys(digests, False))
        self._written(audit, True)

    async def enrol(
        self, token: bytes, device: bytes, public_key: bytes, now: float, terms: Terms = AT_ONCE
    ) -> bool:
        if self._tokens.get(token, True):
            return False
        self._refuse_known(device)
        self._tokens[token] = True
        self._add(device, public_key, now, terms)
        return True

    async def enrol_signed(
        self, ticket: Ticket, device: bytes, public_key: bytes, now: float, terms: Terms = AT_ONCE
    ) -> Enrolment:
        self._signed = {one: ends for one, ends in self._signed.items() if ends >= now}
        if ticket.digest in self._signed:
            return Enrolment.USED
        self._refuse_known(device)
        if ticket.account is not None:
            count = self._accounts.get(ticket.account, 0)
            if count >= ticket.most_devices:
                return Enrolment.TOO_MANY
            self._accounts[ticket.account] = count + 1
        self._signed[ticket.digest] = ticket.expires_at
        self._add(device, public_key, now, terms)
        return Enrolment.DONE

    def _refuse_known(self, device: bytes) -> None:
        if device in self._devices:
            raise ValueError("the device is enrolled")

    def _add(self, device: bytes, public_key: bytes, now: float, terms: Terms) -> None:
        self._devices[device] = DeviceRecord(
            device,
            public_key,
            0,
            None,
            first_step=terms.first_step(self._last_released()),
            not_before=terms.not_before(now),
            free_at=terms.free_at(now),
            valid_until=terms.valid_until,
            level=terms.level,
            enrolled_at=now,
        )

    async def device(self, device: bytes) -> DeviceRecord | None:
        return self._devices.get(device)

    async def devices(self, after: bytes, count: int) -> Sequence[DeviceRecord]:
        beyond = sorted(name for name in self._devices if name > after)
        return [self._devices[name] for name in beyond[:count]]

    async def renew_device(self, device: bytes, valid_until: float, level: str) -> None:
        if device in self._devices:
            self._devices[device] = replace(
                self._devices[device], valid_until=valid_until, level=level
            )

    async def revoke_device(
        self, device: bytes, now: float, audit: AuditEntry | None = None
    ) -> bool:
        known = self._devices.get(device)
        if known is None or known.revoked_at is not None:
            return self._written(audit, False)
        self._devices[device] = replace(known, revoked_at=now)
        return self._written(audit, True)

    async def device_keys(self, devices: Sequence[bytes]) -> Sequence[bytes | None]:
        found = [self._devices.get(device) for device in devices]
        return [None if known is None else known.public_key for known in found]

    async def use_nonce(self, device: bytes, nonce: int) -> bool:
        known = self._devices.get(device)
        if known is None or nonce <= known.last_nonce:
            return False
        self._devices[device] = replace(known, last_nonce=nonce)
        return True

    async def forget_device(self, device: bytes) -> None:
        self._devices.pop(device, None)

    async def add_issuer(self, issuer: Issuer, audit: AuditEntry | None = None) -> bool:
        fresh = issuer.name not in self._issuers
        self._issuers.setdefault(issuer.name, issuer)
        return self._written(audit, fresh)

    async def remove_issuer(self, name: str, audit: AuditEntry | None = None) -> bool:
        return self._written(audit, self._issuers.pop(name, None) is not None)

    async def issuers(self) -> Sequence[Issuer]:
        return [self._issuers[name] for name in sorted(self._issuers)]

    async def add_admin(
        self, admin: AdminRecord, digest: bytes, audit: AuditEntry | None = None
    ) -> bool:
        taken = any(known == digest for _, known in self._admins.values())
        fresh = admin.name not in self._admins and not taken
        if fresh:
            self._admins[admin.name] = (admin, digest)
        return self._written(audit, fresh)

    async def remove_admin(self, name: str, audit: AuditEntry | None = None) -> bool:
        return self._written(audit, self._admins.pop(name, None) is not None)

    async def admins(self) -> Sequence[AdminRecord]:
        return [self._admins[name][0] for name in sorted(self._admins)]

    async def admin_of(self, digest: bytes) -> AdminRecord | None:
        return next((one for one, known in self._admins.values() if known == digest), None)

    async def write_audit(self, entry: AuditEntry) -> None:
        self._written(entry, True)

    async def audit_rows(self, after: int, count: int) -> Sequence[AuditRow]:
        return self._audit[after : after + count]

    def _written(self, entry: AuditEntry | None, answer: bool) -> bool:
        if entry is not None:
            kept = entry if answer else replace(entry, outcome="refused")
            before = self._audit[-1].digest if self._audit else bytes(32)
            self._audit.append(AuditRow(len(self._audit) + 1, kept, kept.digest(before)))
        return answer
