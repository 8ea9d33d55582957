"""The seam between the coordinator and its database, in domain verbs.

Each method is one transaction: it happens whole or not at all, also across a kill -9. A body may
run more than once, so none has effects elsewhere. tests/contracts runs one suite over all stores.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from fedrap_coordinator.rounds import Phase, Round


@dataclass(frozen=True)
class DeviceRecord:
    """What the coordinator knows of a device: its key and what it has been charged for."""

    id: bytes
    public_key: bytes
    participations: int
    last_step: int | None


@dataclass(frozen=True)
class StoredRelease:
    """A version of C as served, and the running Gram matrix that belongs to it."""

    version: int
    step: int
    devices: int  # updates in the sum that made it
    body: bytes  # the encoded Release message
    gram: bytes | None  # (k, k) float64 little-endian


@dataclass(frozen=True)
class CatalogueView:
    """The items from one row on, and all retired rows."""

    version: int
    items: Sequence[str]
    retired: Sequence[int]


@dataclass(frozen=True)
class Extent:
    """How large the catalogue is, and which version of it."""

    items: int
    catalogue: int


@dataclass(frozen=True)
class Counts:
    """Totals for the operator."""

    devices: int
    tokens: int  # not yet used
    items: int
    releases: int


class Added(StrEnum):
    """What became of an update."""

    STORED = "stored"
    DUPLICATE = "duplicate"  # the same bytes were stored before
    CONFLICT = "conflict"  # other bytes of this device are already in the round


class Store(Protocol):
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

    async def add_tokens(self, digests: Sequence[bytes], now: float) -> None:
        """Keep the SHA-256 of some one-time enrolment tokens.

        Raises:
            ValueError: one was added before; none was added now.
        """
        ...

    async def enrol(self, token: bytes, device: bytes, public_key: bytes, now: float) -> bool:
        """Use up a token and add the device; False when the token is unknown or used."""
        ...

    async def device(self, device: bytes) -> DeviceRecord | None:
        """A device's record."""
        ...

    async def use_nonce(self, device: bytes, nonce: int) -> bool:
        """Remember a nonce; False when it is not larger than all before."""
        ...

    async def forget_device(self, device: bytes) -> None:
        """Drop a device's key, nonce and record. Its random id stays in rounds it took part in."""
        ...

    async def open_round(self, round_: Round, plan: bytes) -> None:
        """Keep a new round."""
        ...

    async def current_round(self) -> tuple[Round, bytes] | None:
        """The round that is neither released nor abandoned, with its counts and its plan."""
        ...

    async def set_phase(self, round_id: bytes, phase: Phase) -> None:
        """Keep a round's new phase. An abandoned round's sealed bodies are destroyed."""
        ...

    async def round_phase(self, round_id: bytes) -> Phase | None:
        """The phase of any round ever opened."""
        ...

    async def assign(
        self, round_id: bytes, device: bytes, step: int, separation: int, cap: int
    ) -> bool | None:
        """Give a device its place and charge it, in one statement.

        True: it has a new place. None: it had one already, nothing was charged. False: the rule
        forbids it.
        """
        ...

    async def is_assigned(self, round_id: bytes, device: bytes) -> bool:
        """Does the device have a place in that round?"""
        ...

    async def add_update(
        self, round_id: bytes, device: bytes, digest: bytes, body: bytes, now: float
    ) -> Added:
        """Keep a sealed update."""
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

    async def add_items(self, items: Sequence[str]) -> int:
        """Give each new item the next row; known ones keep theirs, retired ones come back.

        Returns how many rows were added.
        """
        ...

    async def retire_items(self, items: Sequence[str]) -> int:
        """Take items out of recommendations; their rows stay theirs. Returns how many."""
        ...

    async def catalogue(self, start: int) -> CatalogueView:
        """The items of row `start` and beyond."""
        ...

    async def extent(self) -> Extent:
        """Size and version of the catalogue."""
        ...

    async def counts(self) -> Counts:
        """Totals."""
        ...
