"""What people with rights can do, for the admin API and the command line alike.

Every act and every look at devices, tokens or single charges is in the audit, with who did it, in
the same transaction where the act is one of the database.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from dataclasses import replace

from fedrap_coordinator.admin.permissions import Role
from fedrap_coordinator.domain import privacy_audit
from fedrap_coordinator.domain.records import AdminRecord, AuditEntry, AuditRow, Issuer, broken_link
from fedrap_coordinator.errors import ConfigError, Refusal
from fedrap_coordinator.identity.enrolment import Registry
from fedrap_coordinator.keyring import Keyring
from fedrap_coordinator.settings import Settings
from fedrap_coordinator.store.protocol import Store
from fedrap_core.wire import problems
from fedrap_core.wire.keys import public_from_point

ALL_ROUNDS = 1_000_000
MOST_TOKENS = 1_000_000
CHUNK = 1000


class AdminActions:
    """The acts. `who` is a name of `admin add`, or the command line."""

    def __init__(
        self, store: Store, settings: Settings, clock: Callable[[], float], who: str
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._who = who

    def entry(self, action: str, target: str = "", outcome: str = "done") -> AuditEntry:
        """A row of the audit for an act of this person."""
        return AuditEntry(self._clock(), self._who, action, target[:100], outcome)

    async def status(self) -> dict[str, object]:
        """Counts and the open round."""
        counts, found = await self._store.counts(), await self._store.current_round()
        round_ = None
        if found is not None:
            state = found[0]
            round_ = {
                "step": state.step, "phase": state.phase.value,
                "assigned": state.assigned, "accepted": state.accepted,
            }  # fmt: skip
        return {
            "devices": counts.devices, "unused_tokens": counts.tokens,
            "items": counts.items, "releases": counts.releases, "round": round_,
        }  # fmt: skip

    async def rounds(self, count: int) -> list[dict[str, object]]:
        """The last rounds, the newest first."""
        return [privacy_audit.round_line(row) for row in await self._store.rounds(count)]

    async def devices(self, after: bytes, count: int) -> list[dict[str, object]]:
        """Devices in order of id, beyond `after`."""
        await self._store.write_audit(self.entry("devices"))
        now = self._clock()
        return [
            {
                "device": one.id.hex(), "enrolled_at": one.enrolled_at,
                "charged": one.participations, "last_step": one.last_step,
                "level": one.level, "revoked": one.revoked_at is not None,
                "certificate": "expired" if one.valid_until <= now else "valid",
            }
            for one in await self._store.devices(after, count)
        ]  # fmt: skip

    async def revoke(self, device: bytes) -> None:
        """Shut a device out.

        Raises:
            Refusal: it is not known, or was revoked before.
        """
        entry = self.entry("revoke", device.hex())
        if not await self._store.revoke_device(device, entry.at, entry):
            raise Refusal(problems.NOT_FOUND, "no such device, or it was revoked before")

    async def tokens(self, count: int) -> list[str]:
        """Fresh one-time tokens.

        Raises:
            ConfigError: the count is out of range.
        """
        if not 1 <= count <= MOST_TOKENS:
            raise ConfigError("count must be from 1 to 1,000,000")
        made = [secrets.token_urlsafe(24) for _ in range(count)]
        registry = Registry(self._store, self._clock)
        await registry.add_tokens(made, self.entry("tokens", str(count)))
        return made

    async def ledger(self, with_charges: bool) -> dict[str, object]:
        """The privacy ledger, checked; with every charge when asked for."""
        rows = sorted(await self._store.rounds(ALL_ROUNDS), key=lambda row: row.opened_at)
        audit, charges = privacy_audit.Audit(), []
        for place, row in enumerate(rows):
            async for some in self._store.charges(row.id):
                audit.add(row, some)
                if with_charges:
                    charges += [(place, charge) for charge in some]
        rule = self._settings.privacy
        found = privacy_audit.summary(rows, audit, self._settings.round.total, rule.cap)
        if with_charges:
            await self._store.write_audit(self.entry("charges"))
            number = audit.numbers()
            found["charges"] = [
                {"round": place, "device": number[charge.device], "update": charge.came}
                for place, charge in charges
            ]
        return found

    async def add_issuer(self, name: str, point: bytes) -> None:
        """Let a backend sign enrolment tokens.

        Raises:
            Refusal: there is one of that name.
            MalformedMessage: not a key.
        """
        public_from_point(point)
        entry = self.entry("issuer-add", name)
        if not await self._store.add_issuer(Issuer(name, point, entry.at), entry):
            raise Refusal(problems.EXISTS_ALREADY)

    async def remove_issuer(self, name: str) -> None:
        """Its tokens are refused from now on; raises Refusal when there is none."""
        if not await self._store.remove_issuer(name, self.entry("issuer-remove", name)):
            raise Refusal(problems.NOT_FOUND, f"there is no issuer {name}")

    async def issuers(self) -> list[dict[str, object]]:
        """All of them."""
        return [
            {"name": one.name, "public_key": one.public_key.hex(), "added_at": one.added_at}
            for one in await self._store.issuers()
        ]

    async def add_admin(self, name: str, role: Role) -> str:
        """Rights for somebody; the bearer token is shown once, and only its hash is kept.

        Raises:
            Refusal: there is one of that name.
        """
        token, entry = secrets.token_urlsafe(32), self.entry("admin-add", f"{name} {role.value}")
        record = AdminRecord(name, role.value, entry.at)
        if not await self._store.add_admin(record, token_digest(token), entry):
            raise Refusal(problems.EXISTS_ALREADY)
        return token

    async def remove_admin(self, name: str) -> None:
        """Take the rights back; raises Refusal when there is nobody of that name."""
        if not await self._store.remove_admin(name, self.entry("admin-remove", name)):
            raise Refusal(problems.NOT_FOUND, f"there is no {name} with rights")

    async def admins(self) -> list[dict[str, object]]:
        """All who have rights."""
        return [
            {"name": one.name, "role": one.role, "added_at": one.added_at}
            for one in await self._store.admins()
        ]

    async def audit(self) -> dict[str, object]:
        """Everything that was done, and whether the chain is whole."""
        rows: list[AuditRow] = []
        while some := await self._store.audit_rows(len(rows), CHUNK):
            rows += some
        return {
            "broken_at": broken_link(rows),
            "head": rows[-1].digest.hex() if rows else "",
            "rows": [
                {
                    "number": row.number, "at": row.entry.at, "who": row.entry.who,
                    "action": row.entry.action, "target": row.entry.target,
                    "outcome": row.entry.outcome,
                }
                for row in rows
            ],
        }  # fmt: skip

    async def rotate_keys(self, keyring: Keyring) -> str:
        """Turn the ring of sealing keys; written down before it is done."""
        await self._store.write_audit(self.entry("rotate-keys", outcome="begun"))
        active = await asyncio.to_thread(keyring.rotate, self._clock())
        return active.id.hex()


def key_lines(keyring: Keyring) -> list[dict[str, object]]:
    """The sealing keys without their secrets."""
    return [
        {"id": key.id.hex(), "state": key.state.value, "made_at": key.made_at, "since": key.since}
        for key in keyring.keys
    ]


def token_digest(token: str) -> bytes:
    """What is kept of a bearer token."""
    return hashlib.sha256(token.encode("utf-8")).digest()


def refused(entry: AuditEntry) -> AuditEntry:
    """The row of an act that a role had no right to."""
    return replace(entry, outcome="not-allowed")
