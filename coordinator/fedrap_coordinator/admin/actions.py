"""What admins can do, for the admin API and the command line alike.

Every act and every look at devices, tokens or single charges is in the audit, with who did it, in
the same transaction where the act is one of the database. `table.py` says who may call what, and
how; catalogue and releases have `catalogue_actions.py`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib

import msgspec

from fedrap_coordinator.admin import documents
from fedrap_coordinator.admin.monitor import Monitor
from fedrap_coordinator.admin.permissions import Role
from fedrap_coordinator.domain.privacy_audit import PrivacyAudit
from fedrap_coordinator.domain.records import (
    AdminRecord,
    AuditEntry,
    AuditRow,
    Issuer,
    RoundRow,
    broken_link,
)
from fedrap_coordinator.errors import ConfigError, Refusal
from fedrap_coordinator.identity.enrolment import Registry
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.protocol import Store
from fedrap_core.wire import problems
from fedrap_core.wire.keys import public_from_point

ALL_ROUNDS = 1_000_000
MOST_TOKENS = 1_000_000
CHUNK = 1000


class AdminActions:
    """The acts of one admin. `who` is a name of `admin add`, or the command line."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        sources: Sources,
        who: str,
        *,
        keyring: Keyring | None = None,
        monitor: Monitor | None = None,
    ) -> None:
        """`keyring` is for acts on sealing keys and releases, `monitor` for the dashboard."""
        self.store = store
        self.settings = settings
        self.sources = sources
        self._who = who
        self._keyring = keyring
        self._monitor = monitor

    def entry(self, action: str, target: str = "", outcome: str = "done") -> AuditEntry:
        """A row of the audit for an act of this admin."""
        return AuditEntry(self.sources.clock(), self._who, action, target[:100], outcome)

    async def refuse(self, action: str) -> Refusal:
        """Note that the role of this admin does not allow `action`, and the answer to it."""
        await self.store.write_audit(self.entry(action, outcome="not-allowed"))
        return Refusal(problems.NOT_ALLOWED)

    async def status(self) -> documents.Status:
        """Counts, the latest release and the open round."""
        counts, found = await self.store.counts(), await self.store.current_round()
        history = await self.store.release_history(2)  # the last may be staged
        latest = documents.release_lines([row for row in history if not row.staged])
        round_ = None
        if found is not None:
            state = found[0]
            round_ = documents.OpenRoundCounts(
                step=state.step,
                phase=state.phase.value,
                assigned=state.assigned,
                accepted=state.accepted,
            )
        return documents.Status(
            devices=counts.devices,
            unused_tokens=counts.tokens,
            items=counts.items,
            releases=counts.releases,
            latest=next(iter(latest), None),
            round=round_,
        )

    async def dashboard(self) -> documents.Dashboard:
        """Everything that the dashboard shows."""
        if self._monitor is None:
            raise ConfigError("the dashboard is part of a coordinator that serves")
        return await self._monitor.document()

    async def rounds(self, limit: int) -> documents.RoundList:
        """The last rounds, the newest first."""
        rows, refused = await self.store.rounds(limit), await self.store.refusals(limit)
        return documents.RoundList(rounds=documents.round_lines(rows, refused))

    async def devices(self, after: bytes, limit: int) -> documents.DeviceList:
        """Devices in order of id, beyond `after`."""
        await self.store.write_audit(self.entry("devices"))
        found = await self.store.devices(after, limit)
        return documents.DeviceList(devices=documents.device_lines(found, self.sources.clock()))

    async def revoke(self, device: bytes) -> documents.Revoked:
        """Shut a device out.

        Raises:
            Refusal: it is not known, or was revoked before.
        """
        entry = self.entry("revoke", device.hex())
        if not await self.store.revoke_device(device, entry.at, entry):
            raise Refusal(problems.NOT_FOUND, "no such device, or it was revoked before")
        return documents.Revoked()

    async def tokens(self, count: int) -> documents.TokenList:
        """Fresh one-time tokens.

        Raises:
            ConfigError: the count is out of range.
        """
        if not 1 <= count <= MOST_TOKENS:
            raise ConfigError("count must be from 1 to 1,000,000")
        made = [self._token(24) for _ in range(count)]
        registry = Registry(self.store, self.sources.clock)
        await registry.add_tokens(made, self.entry("tokens", str(count)))
        return documents.TokenList(tokens=made)

    def _token(self, size: int) -> str:
        """A secret of `size` random bytes that fits into a line."""
        raw = base64.urlsafe_b64encode(self.sources.token_bytes(size))
        return raw.rstrip(b"=").decode("ascii")

    async def ledger(self) -> documents.Ledger:
        """The privacy ledger, checked."""
        rows, audit = await self._opened_rounds(), PrivacyAudit()
        for row in rows:
            async for some in self.store.charges(row.id):
                audit.add(row, some)
        return self._summary(rows, audit)

    async def ledger_with_charges(self) -> documents.LedgerWithCharges:
        """With every slot that was given; devices as numbers."""
        await self.store.write_audit(self.entry("charges"))
        rows, audit, charges = await self._opened_rounds(), PrivacyAudit(), []
        for number, row in enumerate(rows):
            async for some in self.store.charges(row.id):
                audit.add(row, some)
                charges += [(number, charge) for charge in some]
        numbers = audit.numbers()
        lines = [
            documents.ChargeLine(round=number, device=numbers[one.device], update=one.came)
            for number, one in charges
        ]
        summary = msgspec.structs.asdict(self._summary(rows, audit))
        return documents.LedgerWithCharges(**summary, charges=lines)

    async def _opened_rounds(self) -> list[RoundRow]:
        """All, in the order in which they were opened."""
        return [*reversed(await self.store.rounds(ALL_ROUNDS))]

    def _summary(self, rows: list[RoundRow], audit: PrivacyAudit) -> documents.Ledger:
        total, cap = self.settings.round.total, self.settings.privacy.cap
        return documents.ledger(rows, audit, total, cap)

    async def add_issuer(self, name: str, point: bytes) -> documents.Added:
        """Let a backend sign enrolment tokens.

        Raises:
            Refusal: there is one of that name.
            MalformedMessage: not a key.
        """
        public_from_point(point)
        entry = self.entry("issuer-add", name)
        if not await self.store.add_issuer(Issuer(name, point, entry.at), entry):
            raise Refusal(problems.EXISTS_ALREADY)
        return documents.Added()

    async def remove_issuer(self, name: str) -> documents.Removed:
        """Its tokens are refused from now on; raises Refusal when there is none."""
        if not await self.store.remove_issuer(name, self.entry("issuer-remove", name)):
            raise Refusal(problems.NOT_FOUND, f"there is no issuer {name}")
        return documents.Removed()

    async def issuers(self) -> documents.IssuerList:
        """All of them."""
        found = await self.store.issuers()
        return documents.IssuerList(
            issuers=[
                documents.IssuerLine(
                    name=one.name, public_key=one.public_key.hex(), added_at=one.added_at
                )
                for one in found
            ]
        )

    async def add_admin(self, name: str, role: Role) -> documents.NewAdmin:
        """A role for somebody.

        Raises:
            Refusal: there is one of that name.
        """
        token, entry = self._token(32), self.entry("admin-add", f"{name} {role.value}")
        record = AdminRecord(name, role.value, entry.at)
        if not await self.store.add_admin(record, token_digest(token), entry):
            raise Refusal(problems.EXISTS_ALREADY)
        return documents.NewAdmin(token=token)

    async def remove_admin(self, name: str) -> documents.Removed:
        """Take the role back; raises Refusal when there is nobody of that name."""
        if not await self.store.remove_admin(name, self.entry("admin-remove", name)):
            raise Refusal(problems.NOT_FOUND, f"there is no admin {name}")
        return documents.Removed()

    async def admins(self) -> documents.AdminList:
        """All of them."""
        found = await self.store.admins()
        return documents.AdminList(
            admins=[
                documents.AdminLine(name=one.name, role=one.role, added_at=one.added_at)
                for one in found
            ]
        )

    async def audit(self) -> documents.AuditLog:
        """Everything that was done, and whether the chain is whole."""
        rows: list[AuditRow] = []
        while some := await self.store.audit_rows(len(rows), CHUNK):
            rows += some
        return documents.AuditLog(
            broken_at=broken_link(rows),
            head=rows[-1].digest.hex() if rows else "",
            rows=documents.audit_lines(rows),
        )

    async def keys(self) -> documents.KeyList:
        """The sealing keys without their secrets."""
        return documents.KeyList(keys=documents.key_lines(self.ring().keys))

    async def rotate_keys(self) -> documents.Rotated:
        """Turn the ring of sealing keys; written down before it is done."""
        keyring = self.ring()
        await self.store.write_audit(self.entry("rotate-keys", outcome="begun"))
        active = await asyncio.to_thread(keyring.rotate, self.sources.clock())
        return documents.Rotated(active=active.id.hex())

    def ring(self) -> Keyring:
        """The coordinator's keys; raises ConfigError where there are none."""
        if self._keyring is None:
            raise ConfigError("there are no keys here")
        return self._keyring


def token_digest(token: str) -> bytes:
    """What is kept of a bearer token."""
    return hashlib.sha256(token.encode("utf-8")).digest()
