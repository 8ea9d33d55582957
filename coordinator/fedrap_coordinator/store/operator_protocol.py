"""What operators see and change in the store: releases, items, refusals, quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fedrap_coordinator.store.identity_protocol import AuditEntry


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


@dataclass(frozen=True)
class ReleaseRow:
    """A release of the history; its body may have been dropped."""

    version: int
    step: int
    devices: int
    restores: int | None
    facts: Facts
    kept: bool


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


@dataclass(frozen=True)
class Quality:
    """A number that somebody measured of a release, elsewhere."""

    version: int
    metric: str
    value: float
    at: float
    note: str = ""


Attribute = tuple[int, str, str]  # row, name, value


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
