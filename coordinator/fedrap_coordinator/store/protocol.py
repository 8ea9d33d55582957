"""The seam between the coordinator and its database, in domain verbs.

Each method is one transaction: it happens whole or not at all, also across a kill -9. A body may
run more than once, so none has effects elsewhere. tests/contracts runs one suite over all stores.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from fedrap_coordinator.domain.decisions import (
    RoundCounts,
    Rule,
    SlotRequest,
    SlotResult,
    Submission,
    SubmissionResult,
)
from fedrap_coordinator.domain.records import (
    AT_ONCE,
    AdminRecord,
    Attribute,
    AuditEntry,
    AuditRow,
    CataloguePage,
    Charge,
    Counts,
    DeviceRecord,
    DeviceStates,
    EnrolmentOutcome,
    Extent,
    Imported,
    Issuer,
    ItemRow,
    NewItem,
    Quality,
    ReleaseRow,
    RoundRow,
    StoredRelease,
    Terms,
    Ticket,
)
from fedrap_coordinator.domain.rounds import Phase, Round


class OperatorStore(Protocol):
    """Each method is one transaction, as in `Store`."""

    async def roll_back(self, release: StoredRelease, audit: AuditEntry | None = None) -> None:
        """Publish an earlier C again: the open round is abandoned and the release added, at once.

        Raises:
            ValueError: there is a release of that version already; nothing was changed.
        """
        ...

    async def prune_releases(self, keep: int) -> int:
        """Drop the bodies of all but the last `keep` releases; returns how many were dropped."""
        ...

    async def release_history(self, count: int) -> Sequence[ReleaseRow]:
        """The last `count` releases, the newest first; also those whose bodies were dropped."""
        ...

    async def import_items(
        self, items: Sequence[NewItem], audit: AuditEntry | None = None
    ) -> Imported:
        """Give each new item the next row; known ones keep theirs and get these attributes."""
        ...

    async def alike(self, start: int) -> Sequence[Attribute]:
        """Attributes of the items from row `start` on, and of all that share one with them."""
        ...

    async def items(self, start: int, count: int, search: str = "") -> Sequence[ItemRow]:
        """Up to `count` items from row `start` on whose id or an attribute contains `search`."""
        ...

    async def categories(self, count: int) -> Sequence[tuple[str, int]]:
        """The values of the attribute `category` that most shown items have."""
        ...

    async def add_refusals(self, round_id: bytes, counts: Mapping[str, int]) -> None:
        """Add to what was refused while a round was open, by problem."""
        ...

    async def refusals(self, rounds: int) -> Mapping[bytes, Mapping[str, int]]:
        """What was refused in the last rounds."""
        ...

    async def device_states(self, step: int, separation: int, cap: int, now: float) -> DeviceStates:
        """Devices by what keeps them from a place in `step`."""
        ...

    async def add_quality(self, quality: Quality, audit: AuditEntry | None = None) -> None:
        """Note a number; the same metric of the same version is replaced."""
        ...

    async def quality(self, count: int) -> Sequence[Quality]:
        """The last numbers, the newest version first."""
        ...

    async def secret(self, name: str, fresh: bytes) -> bytes:
        """A value that all processes share; `fresh` is kept if there was none."""
        ...


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
    ) -> EnrolmentOutcome:
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


class Store(IdentityStore, OperatorStore, Protocol):
    """All durable state of a coordinator."""

    async def open(self) -> None:
        """Ready for use; refuses a database of another schema with StoreUnavailable."""
        ...

    async def close(self) -> None:
        """Give everything back."""
        ...

    async def task_id(self, fresh: bytes) -> bytes:
        """The task's id; `fresh` is kept if there was none."""
        ...

    def alone(self) -> AbstractAsyncContextManager[bool]:
        """Held by one process at a time, and freed when it dies; False when another has it.

        What is done under it is conditional all the same: a database that went away and came back
        may have given it to somebody else meanwhile.
        """
        ...

    async def open_round(self, round_: Round, plan: bytes) -> bool:
        """Keep a new round; False when its step is open, released, or behind us."""
        ...

    async def current_round(self) -> tuple[Round, bytes] | None:
        """The round that is neither released nor abandoned, with its counts and its plan."""
        ...

    async def set_phase(
        self, round_id: bytes, phase: Phase, was: Phase | None = None, now: float | None = None
    ) -> bool:
        """Keep a round's new phase, with the time where that is its end.

        False when it is not in the phase `was` any more.

        An abandoned round's sealed bodies are destroyed.
        """
        ...

    async def round_phase(self, round_id: bytes) -> Phase | None:
        """The phase of any round ever opened."""
        ...

    async def assign_slots(
        self, round_id: bytes, asks: Sequence[SlotRequest], rule: Rule, now: float
    ) -> tuple[Sequence[SlotResult], RoundCounts]:
        """Count the nonces of these requests, give places and charge for them."""
        ...

    async def rounds(self, count: int) -> Sequence[RoundRow]:
        """The last `count` rounds, the newest first."""
        ...

    def charges(self, round_id: bytes) -> AsyncIterator[Sequence[Charge]]:
        """Who had a place in a round, in order of device, in bounded chunks."""
        ...

    async def is_assigned(self, round_id: bytes, device: bytes) -> bool:
        """Does the device have a place in that round?"""
        ...

    async def add_updates(
        self, round_id: bytes, sent: Sequence[Submission], most: int, now: float
    ) -> tuple[Sequence[SubmissionResult], RoundCounts]:
        """Count the nonces of these requests and keep their sealed updates, `most` in all."""
        ...

    async def update_digest(self, round_id: bytes, device: bytes) -> bytes | None:
        """Digest of the update that this device has in that round, also after its release."""
        ...

    def sealed_updates(self, round_id: bytes) -> AsyncIterator[Sequence[bytes]]:
        """The sealed bodies of a round in order of device, in bounded chunks."""
        ...

    async def add_release(self, release: StoredRelease, round_id: bytes | None) -> None:
        """Keep a version of C; its round is released and the sealed bodies are destroyed.

        Raises:
            ValueError: its step or version was released before; nothing was changed.
        """
        ...

    async def release(self, version: int | None) -> StoredRelease | None:
        """A version of C, or the latest."""
        ...

    async def latest_version(self) -> int | None:
        """The number of the latest release; None before the first."""
        ...

    async def add_items(self, items: Sequence[str]) -> int:
        """Give each new item the next row; known ones keep theirs, retired ones come back.

        Returns how many rows were added.
        """
        ...

    async def retire_items(self, items: Sequence[str]) -> int:
        """Take items out of recommendations; their rows stay theirs. Returns how many."""
        ...

    async def catalogue(self, start: int) -> CataloguePage:
        """The items of row `start` and beyond."""
        ...

    async def extent(self) -> Extent:
        """Size and version of the catalogue."""
        ...

    async def counts(self) -> Counts:
        """Totals."""
        ...
