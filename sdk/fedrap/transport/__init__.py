"""The seam to the coordinator, in domain verbs; addresses exist only in http.py.

`Transport` is what a device needs of a coordinator. `http.HttpTransport` speaks to a real one,
`fedrap.testing.FakeCoordinator` is one in memory, and an app may bring its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fedrap.transport.credentials import Signer
from fedrap_core.wire.messages import (
    Attributes,
    Catalogue,
    Delta,
    Enrolled,
    Log,
    Questions,
    Release,
    Renewed,
    Signed,
)


@dataclass(frozen=True)
class Proof:
    """An attestation of the platform: a word for its kind, and bytes made for a challenge."""

    kind: str
    blob: bytes


NO_PROOF = Proof("none", b"")


class Transport(Protocol):
    """Every call raises CoordinatorUnreachable or UpdateRefused, and nothing else for the peer."""

    async def enrol(self, token: str, public_key: bytes, proof: Proof = NO_PROOF) -> Enrolled:
        """Become a device of the task."""
        ...

    async def renew(self, signer: Signer, proof: Proof = NO_PROOF, nonce: int = 0) -> Renewed:
        """A new certificate for the same key; a proof is made for a nonce never used before."""
        ...

    async def release(self, have: int | None) -> Release | Delta | None:
        """The latest release, or what makes it out of version `have`; None when that is it."""
        ...

    async def log(self, since: int) -> Log:
        """The signed entries of the releases beyond version `since`."""
        ...

    async def release_of(self, version: int) -> Release:
        """One version of C, whole; also one that is staged."""
        ...

    async def catalogue(self, start: int) -> Catalogue:
        """The items from row `start` on."""
        ...

    async def attributes(self) -> Attributes:
        """Which pages the items' public attributes are in, as signed."""
        ...

    async def attribute_page(self, digest: bytes) -> bytes:
        """The bytes of one of these pages; the device itself checks their digest."""
        ...

    async def questions(self) -> Questions:
        """The questions that are open, each as signed; asked without a device id."""
        ...

    async def send_answer(self, signer: Signer, question: bytes, body: bytes) -> Signed:
        """Hand in a sealed answer for a signed receipt; the same bytes may be sent again."""
        ...

    async def offer(self, signer: Signer, release: int, wait: float = 0.0) -> Signed:
        """Ask for a slot in a round, with that release in use; `wait` seconds for the answer.

        The signed offer, as it came: the device itself checks who signed it.
        """
        ...

    async def send_update(self, signer: Signer, round_id: bytes, body: bytes) -> Signed:
        """Hand in a sealed update for a signed receipt; the same bytes may be sent again."""
        ...

    async def forget(self, signer: Signer) -> None:
        """This device is no more; the coordinator drops its key."""
        ...

    async def close(self) -> None:
        """Give back what was opened."""
        ...
