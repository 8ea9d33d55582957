"""A coordinator in memory behind the SDK's own seam, and devices that talk to it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedrap import FedRap, FedRapError, Floor, UpdateRefused
from fedrap.transport import NO_PROOF, Proof
from fedrap.transport.credentials import Signer
from fedrap_core.items import join_ids
from fedrap_core.plan import Plan, Privacy, Scoring, SolveMethod
from fedrap_core.sparse import RowUpdate
from fedrap_core.wire.attributes import make_pages, sign_attributes
from fedrap_core.wire.authority import entry_digest, sign_message, sign_release
from fedrap_core.wire.codec import decode, encode_value
from fedrap_core.wire.keys import new_private_key, private_from_bytes, public_point
from fedrap_core.wire.messages import (
    Accepted,
    Attributes,
    Catalogue,
    Enrolled,
    Log,
    Offer,
    Questions,
    Release,
    Renewed,
    Signed,
    Update,
)
from fedrap_core.wire.problems import Problem
from fedrap_core.wire.releases import pack_release
from fedrap_core.wire.seal import open_update, seal_id
from fedrap_core.wire.share import decode_share
from tests.core.made import items_of

DIM = 4
ITEMS = [f"item-{row}" for row in range(12)]
TASK = b"t" * 16
DEVICE = b"d" * 16
AUTHORITY = private_from_bytes(b"a" * 32)  # the same in every process of a test
PLAN = Plan(
    method=SolveMethod(dim=DIM), privacy=Privacy(separation=2, cap=5, noise=2.0), min_updates=20
)


def a_release(
    version: int = 1, size: int = len(ITEMS), seed: int = 0, catalogue: int | None = None
) -> Release:
    """A made-up C of `size` rows, for a catalogue of the same version unless told otherwise.

    The first version is of step 0: what rounds start from.
    """
    matrix = np.random.default_rng(seed).normal(0.0, 0.5, (size, DIM))
    known = version if catalogue is None else catalogue
    return pack_release(TASK, version - 1, items_of(matrix, version), known, Scoring(ridge=1.0))


def refused(problem: Problem, retry_after: float | None = None) -> UpdateRefused:
    """What a transport raises for a problem document."""
    return UpdateRefused(problem, problem.title, retry_after)


@dataclass
class Clock:
    """Time that a test sets."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class MadeCoordinator:
    """Passes for a Transport. `fails[verb]` are raised one after the other before it answers."""

    latest: Release = field(default_factory=a_release)
    items: list[str] = field(default_factory=lambda: list(ITEMS))
    retired: list[int] = field(default_factory=list)
    plan: bytes = field(default_factory=lambda: encode_value(PLAN))
    task: bytes = TASK
    step: int = 1
    fails: dict[str, list[FedRapError]] = field(default_factory=dict)
    on_offer: Callable[[], None] = lambda: None
    on_send: Callable[[], None] = lambda: None
    calls: list[str] = field(default_factory=list)
    sent: list[tuple[bytes, bytes]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.authority = AUTHORITY
        self._served: dict[int, tuple[Release, Release]] = {}  # as made, and as signed
        self.seal_private = new_private_key()
        self.seal_key = public_point(self.seal_private.public_key())
        self.receipt: bytes | None = None
        self.catalogue_start: int | None = None
        self.attributes_version = 1
        self.pages = make_pages([], [])  # of public attributes

    @property
    def round(self) -> bytes:
        """The id of the round that makes the step after the latest release, or `step`."""
        return b"round" + self._offered_step.to_bytes(11, "big")

    @property
    def _offered_step(self) -> int:
        return max(self.step, self.latest.step + 1)

    def _called(self, verb: str) -> None:
        self.calls.append(verb)
        if self.fails.get(verb):
            raise self.fails[verb].pop(0)

    async def enrol(self, token: str, public_key: bytes, proof: Proof = NO_PROOF) -> Enrolled:
        self._called("enrol")
        self.tokens.append(token)
        point = public_point(self.authority.public_key())
        return Enrolled(device=DEVICE, task=TASK, authority=point)

    async def renew(self, signer: Signer, proof: Proof = NO_PROOF, nonce: int = 0) -> Renewed:
        self._called("renew")
        return Renewed(certificate=b"")

    async def release(self, have: int | None) -> Release | None:
        self._called("release")
        return None if have == self.latest.version else self.signed_latest()

    def signed_latest(self) -> Release:
        """The latest release as the authority signs it, after those that were served before."""
        known = self._served.get(self.latest.version)
        if known is None or known[0] is not self.latest:
            earlier = [version for version in self._served if version < self.latest.version]
            before = entry_digest(self._served[max(earlier)][1].entry if earlier else b"")
            known = (self.latest, sign_release(self.authority, self.latest, before))
            self._served[self.latest.version] = known
        return known[1]

    async def log(self, since: int) -> Log:
        self._called("log")
        entries = [self._served[one][1].entry for one in sorted(self._served) if one > since]
        return Log(entries=entries)

    async def catalogue(self, start: int) -> Catalogue:
        self._called("catalogue")
        first = start if self.catalogue_start is None else self.catalogue_start
        items = self.items[first:]
        version = self.latest.catalogue
        return Catalogue(
            version=version,
            start=first,
            count=len(items),
            items=join_ids(items),
            retired=np.array(self.retired, dtype="<u4").tobytes(),
        )

    async def attributes(self) -> Attributes:
        self._called("attributes")
        return sign_attributes(
            self.authority, TASK, self.latest.version, self.attributes_version, self.pages
        )

    async def release_of(self, version: int) -> Release:
        raise AssertionError("no staged release here")

    async def attribute_page(self, digest: bytes) -> bytes:
        self._called("attribute_page")
        return self.pages.bodies[digest]

    async def questions(self) -> Questions:
        self._called("questions")
        return Questions(questions=[])

    async def send_answer(self, signer: Signer, question: bytes, body: bytes) -> Signed:
        raise AssertionError("nothing was asked")

    async def forget(self, signer: Signer) -> None:
        self._called("forget")

    async def offer(self, signer: Signer, release: int, wait: float = 0.0) -> Signed:
        self.on_offer()
        self._called("offer")
        offer = Offer(
            task=self.task,
            round=self.round,
            step=self._offered_step,
            plan=self.plan,
            release=self.latest.version,
            model=self.latest.model,
            seal_key=self.seal_key,
            seal_id=seal_id(self.seal_private.public_key()),
        )
        return sign_message(self.authority, offer)

    async def send_update(self, signer: Signer, round_id: bytes, body: bytes) -> Signed:
        self.on_send()
        self.sent.append((round_id, body))
        self._called("send_update")
        digest = hashlib.sha256(body).digest() if self.receipt is None else self.receipt
        return sign_message(self.authority, Accepted(round=round_id, digest=digest))

    async def close(self) -> None:
        self.calls.append("close")

    def opened(self, body: bytes) -> tuple[Update, RowUpdate]:
        """What an aggregator reads in an update."""
        update = decode(Update, body)
        return update, decode_share(open_update(update, self.seal_private), DIM)


def a_device(
    folder: Path,
    coordinator: MadeCoordinator | None,
    *,
    items: tuple[str, ...] = ("item-1", "item-5", "item-2"),
    clock: Clock | None = None,
    floor: Floor | None = None,
) -> FedRap:
    """A consenting device with this history, oldest first."""
    device = FedRap.open(
        folder, transport=coordinator, token="token", clock=clock or Clock(), floor=floor
    )
    device.consent(train=True, policy="test")
    for item in items:
        device.record(item)
    return device
