"""The seam between the coordinator and its database, in domain verbs.

Each method is one transaction: it happens whole or not at all, also across a kill -9. A body may
run more than once, so none has effects elsewhere. tests/contracts runs one suite over all stores.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from fedrap_coordinator.rounds import Phase, Round
from fedrap_coordinator.store.batches import Added as Added
from fedrap_coordinator.store.batches import Ask, Place, Rule, Sent, Tally
from fedrap_coordinator.store.identity_protocol import DeviceRecord as DeviceRecord
from fedrap_coordinator.store.identity_protocol import IdentityStore
from fedrap_coordinator.store.operator_protocol import OperatorStore
from fedrap_coordinator.store.operator_protocol import StoredRelease as StoredRelease


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


@dataclass(frozen=True)
class RoundRow:
    """A round of the history, with its places and the updates that came."""

    id: bytes
    step: int
    release: int
    phase: Phase
    plan: bytes
    opened_at: float
    assigned: int
    accepted: int
    closed_at: float | None = None


@dataclass(frozen=True)
class Charge:
    """A place that was given in a round, and whether an update came of it."""

    device: bytes
    came: bool


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

    async def give_places(
        self, round_id: bytes, asks: Sequence[Ask], rule: Rule, now: float
    ) -> tuple[Sequence[Place], Tally]:
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
        self, round_id: bytes, sent: Sequence[Sent], most: int, now: float
    ) -> tuple[Sequence[Added], Tally]:
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

    async def catalogue(self, start: int) -> CatalogueView:
        """The items of row `start` and beyond."""
        ...

    async def extent(self) -> Extent:
        """Size and version of the catalogue."""
        ...

    async def counts(self) -> Counts:
        """Totals."""
        ...
