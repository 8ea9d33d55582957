"""The values that the store keeps and gives back. Frozen and pure.

The verbs are in `store.protocol`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fedrap_coordinator.domain.rounds import Phase


@dataclass(frozen=True)
class DeviceRecord:
    """What the coordinator knows of a device: its key and what it has been charged for."""

    id: bytes
    public_key: bytes
    participations: int
    last_step: int | None
    counted_step: int | None = None  # of the last release with an update of this device
    first_step: int = 0  # a new key gets no slot in an earlier step, until `free_at`
    not_before: float = 0.0  # nor before this time
    free_at: float = 0.0
    valid_until: float = math.inf  # of its certificate
    level: str = "none"  # of its attestation
    revoked_at: float | None = None
    spent: float = 0.0  # mu^2 of all it was charged for, each step by the rule it was made under
    last_cost: float = 0.0  # of `last_step`, the dearest rule that it was tried under
    charges: str = ""  # when it was charged and what for, see charges.py
    dearest: float = 0.0  # mu^2 of the dearest charge in the window, when it was last charged
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
        """No slot before this time."""
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


class EnrolmentOutcome(StrEnum):
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
    """An admin with a role, and a bearer token that only they know."""

    name: str
    role: str
    added_at: float


@dataclass(frozen=True)
class AuditEntry:
    """One thing that an admin did, or was refused."""

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
    """An entry with its number in the chain."""

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


@dataclass(frozen=True)
class Facts:
    """What is worth knowing of a release after its body was dropped."""

    made_at: float = 0.0
    items: int = 0
    zeros: float = 0.0  # share of C
    whole_bytes: int = 0  # compressed, as a device without any version fetches it
    delta_bytes: int | None = None  # compressed, for a device with the version before


@dataclass(frozen=True)
class StoredRelease:
    """A version of C as served, and the running Gram matrix that belongs to it."""

    version: int
    step: int
    devices: int  # updates in the sum that made it
    body: bytes  # the encoded Release message
    gram: bytes | None  # (k, k) float64 little-endian
    restores: int | None = None  # the version whose C this one publishes again
    facts: Facts = Facts()
    support: bytes | None = None  # (m,) float64 little-endian: devices behind each row, at least
    entry: bytes = b""  # of the log, as in the body; empty: made before releases were signed
    # State of the sequence part: written with the release, and read by `Store.learner` alone.
    learner: bytes | None = None
    updates: bytes = b""  # digest of those that were summed; empty: none were, or 0.1 made it
    staged: bytes = b""  # the roll-out that it is staged by; empty: it is for every device


@dataclass(frozen=True)
class ReleaseRow:
    """A release of the history; its body may have been dropped."""

    version: int
    step: int
    devices: int
    restores: int | None
    facts: Facts
    kept: bool
    staged: bytes = b""  # as in StoredRelease


@dataclass(frozen=True)
class NewItem:
    """An item of a catalogue file."""

    id: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Imported:
    """What became of a catalogue file."""

    added: int
    returned: int  # were retired, are shown again
    changed: int  # other attributes than before


@dataclass(frozen=True)
class ItemRow:
    """An item as the catalogue has it."""

    row: int
    id: str
    retired: bool
    attributes: Mapping[str, str]


@dataclass(frozen=True)
class DeviceStates:
    """How many devices could take part in a step, and why the others could not."""

    ready: int = 0
    resting: int = 0
    waiting: int = 0
    spent: int = 0
    expired: int = 0
    revoked: int = 0
    charged: Mapping[int, int] = field(default_factory=dict)  # participations -> devices
    first_free: int = 0  # the step from which the first of those that wait may take part
    most_spent: float = 0.0  # mu^2 of the device that was charged most
    # And of the one that will be, if all take part as often as they may: in a window, if K is for
    # one, otherwise in all of its life.
    most_promised: float = 0.0


@dataclass(frozen=True)
class Quality:
    """A number that somebody measured of a release, elsewhere."""

    version: int
    metric: str
    value: float
    at: float
    note: str = ""


Attribute = tuple[int, str, str]  # row, name, value


@dataclass(frozen=True)
class CataloguePage:
    """The items from one row on, and all retired rows."""

    version: int
    items: Sequence[str]
    retired: Sequence[int]


@dataclass(frozen=True)
class Extent:
    """How large the catalogue is, and which version of it."""

    items: int
    catalogue: int
    attributes: int = 0  # grows with each change of an attribute


@dataclass(frozen=True)
class Counts:
    """Totals for the operator."""

    devices: int
    tokens: int  # not yet used
    items: int
    releases: int


@dataclass(frozen=True)
class RoundRow:
    """A round of the history, with its slots and the updates that came."""

    id: bytes
    step: int
    release: int
    phase: Phase
    plan: bytes
    opened_at: float
    assigned: int
    accepted: int
    closed_at: float | None = None
    summed_at: float | None = None  # when collecting ended; not known of old rounds
    body_bytes: int = 0  # of its sealed updates


@dataclass(frozen=True)
class Charge:
    """A slot that was given in a round, and whether an update came of it."""

    device: bytes
    came: bool
