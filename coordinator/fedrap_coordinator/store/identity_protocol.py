"""The seam to the database for who may enrol, who may administer, and what was done.

Part of `store/protocol.py`; each method is one transaction there too.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True)
class DeviceRecord:
    """What the coordinator knows of a device: its key and what it has been charged for."""

    id: bytes
    public_key: bytes
    participations: int
    last_step: int | None
    counted_step: int | None = None  # of the last release with an update of this device
    first_step: int = 0  # a new key gets no place in an earlier step, until `free_at`
    not_before: float = 0.0  # nor before this time
    free_at: float = 0.0
    valid_until: float = math.inf  # of its certificate
    level: str = "none"  # of its attestation
    revoked_at: float | None = None
    enrolled_at: float = field(default=0.0, compare=False)
    last_nonce: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Terms:
    """On what terms a device is enrolled: how long a new key waits, how long it is good."""

    wait_steps: int = 0
    wait_seconds: float = 0.0
    wait_most_seconds: float = math.inf  # then steps are not waited for any longer
    valid_until: float = math.inf
    level: str = "none"

    def first_step(self, released: int) -> int:
        """The first step for a key that is enrolled when `released` is the last released step.

        Somebody who takes part in the open round, `released` + 1, and enrols again with a new key
        must rest from there. Before the first release there is nobody to wait for.
        """
        return released + 1 + self.wait_steps if released and self.wait_steps else 0

    def not_before(self, now: float) -> float:
        """No place before this time."""
        return now + self.wait_seconds if self.wait_seconds else 0.0

    def free_at(self, now: float) -> float:
        """When waiting for steps ends in any case."""
        return now + self.wait_most_seconds if self.wait_steps else 0.0


AT_ONCE = Terms()  # no waiting, good for ever


@dataclass(frozen=True)
class Ticket:
    """A signed enrolment token that was verified."""

    digest: bytes  # of issuer and one-time id
    expires_at: float
    account: bytes | None  # digest of issuer and pseudonymous account
    most_devices: int  # of that account


class Enrolment(StrEnum):
    """What became of a signed token."""

    DONE = "done"
    USED = "used"
    TOO_MANY = "too-many"  # devices of this account; the token is not used up


@dataclass(frozen=True)
class Issuer:
    """An app's backend that signs enrolment tokens."""

    name: str
    public_key: bytes
    added_at: float


@dataclass(frozen=True)
class AdminRecord:
    """Somebody with rights, and a bearer token that only they know."""

    name: str
    role: str
    added_at: float


@dataclass(frozen=True)
class AuditEntry:
    """One thing that somebody with rights did, or was refused."""

    at: float
    who: str
    action: str
    target: str = ""
    outcome: str = "done"

    def digest(self, before: bytes) -> bytes:
        """Chains this entry to the one before, so that none can be taken out or changed."""
        fields = (repr(float(self.at)), self.who, self.action, self.target, self.outcome)
        chained = hashlib.sha256(b"fedrap/1 audit" + before)
        for text in fields:
            raw = text.encode("utf-8")
            chained.update(len(raw).to_bytes(4, "big") + raw)
        return chained.digest()


@dataclass(frozen=True)
class AuditRow:
    """An entry with its place in the chain."""

    number: int
    entry: AuditEntry
    digest: bytes


def broken_link(rows: Sequence[AuditRow], before: bytes = bytes(32), first: int = 1) -> int | None:
    """The number of the first row that does not follow from the one before it, or None."""
    for number, row in enumerate(rows, first):
        if row.number != number or row.entry.digest(before) != row.digest:
            return number
        before = row.digest
    return None


class IdentityStore(Protocol):
    """Devices, issuers, people with rights, and the audit.

    Where a method takes an `audit`, that entry is written in the same transaction, its outcome
    "refused" when the answer is False.
    """

    async def add_tokens(
        self, digests: Sequence[bytes], now: float, audit: AuditEntry | None = None
    ) -> None:
        """Keep the SHA-256 of some one-time enrolment tokens.

        Raises:
            ValueError: one was added before; none was added now.
        """
        ...

    async def enrol(
        self, token: bytes, device: bytes, public_key: bytes, now: float, terms: Terms = AT_ONCE
    ) -> bool:
        """Use up a token and add the device; False when the token is unknown or used.

        Raises:
            ValueError: there is a device of that id; the token is not used up.
        """
        ...

    async def enrol_signed(
        self, ticket: Ticket, device: bytes, public_key: bytes, now: float, terms: Terms = AT_ONCE
    ) -> Enrolment:
        """Use up a signed token's one-time id, count it for its account, and add the device.

        Raises:
            ValueError: there is a device of that id; nothing is used up or counted.
        """
        ...

    async def device(self, device: bytes) -> DeviceRecord | None:
        """A device's record."""
        ...

    async def devices(self, after: bytes, count: int) -> Sequence[DeviceRecord]:
        """Up to `count` devices beyond the id `after`, in order of id."""
        ...

    async def renew_device(self, device: bytes, valid_until: float, level: str) -> None:
        """Keep the end of a device's new certificate."""
        ...

    async def revoke_device(
        self, device: bytes, now: float, audit: AuditEntry | None = None
    ) -> bool:
        """No place for this device any more; False when it is not known or was revoked before."""
        ...

    async def device_keys(self, devices: Sequence[bytes]) -> Sequence[bytes | None]:
        """The public keys of these devices; None for those that are not known."""
        ...

    async def use_nonce(self, device: bytes, nonce: int) -> bool:
        """Remember a nonce; False when it is not larger than all before."""
        ...

    async def forget_device(self, device: bytes) -> None:
        """Drop a device's key, nonce and record. Its id stays in rounds it took part in."""
        ...

    async def add_issuer(self, issuer: Issuer, audit: AuditEntry | None = None) -> bool:
        """Let a backend sign tokens; False when there is one of that name."""
        ...

    async def remove_issuer(self, name: str, audit: AuditEntry | None = None) -> bool:
        """Its tokens are refused from now on; False when there is none."""
        ...

    async def issuers(self) -> Sequence[Issuer]:
        """All of them, in order of name."""
        ...

    async def add_admin(
        self, admin: AdminRecord, digest: bytes, audit: AuditEntry | None = None
    ) -> bool:
        """Give somebody rights; False when there is one of that name."""
        ...

    async def remove_admin(self, name: str, audit: AuditEntry | None = None) -> bool:
        """Take the rights back; False when there is none."""
        ...

    async def admins(self) -> Sequence[AdminRecord]:
        """All of them, in order of name."""
        ...

    async def admin_of(self, digest: bytes) -> AdminRecord | None:
        """Whose bearer token has this SHA-256?"""
        ...

    async def write_audit(self, entry: AuditEntry) -> None:
        """Append to the audit."""
        ...

    async def audit_rows(self, after: int, count: int) -> Sequence[AuditRow]:
        """Up to `count` rows beyond number `after`, in order."""
        ...
