"""A coordinator in memory, for the tests of an app: no socket, no server, no waiting.

    fake = FakeCoordinator(["tea", "mug", "book", "lamp"], alike=[["tea", "mug"]])
    with FedRap.open(tmp_path, transport=fake, token="any") as device:
        ...
    assert fake.updates[0].items == ("tea",)

It is a real implementation of the SDK's `Transport`: it enrols, checks signatures and nonces,
gives slots by the rules of a plan, opens what it is sent, and passes the suite that HTTP with a
real coordinator passes. What it does not do is learn: C changes when a test says so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from random import Random

import msgspec
import numpy as np
import numpy.typing as npt

from fedrap._fake_coordinator import (
    FakeIdentity,
    FakeQuestions,
    FakeRounds,
    SentAnswer,
    SentUpdate,
    refusal,
)
from fedrap.errors import CoordinatorUnreachable, UpdateRefused
from fedrap.transport import NO_PROOF, Proof
from fedrap.transport.credentials import Signer
from fedrap_core.errors import FedRapError
from fedrap_core.items import join_ids
from fedrap_core.model import CommonItems
from fedrap_core.plan import (
    AnyScoring,
    Plan,
    Privacy,
    Scoring,
    SequenceScoring,
    SolveMethod,
    sequence_of,
)
from fedrap_core.quantize import quantize_rows
from fedrap_core.questions.gains import Metric
from fedrap_core.sequence.model import to_rows
from fedrap_core.sequence.server_step import SequenceLearning, start_learner
from fedrap_core.wire import problems
from fedrap_core.wire.attributes import Pages, make_pages, sign_attributes
from fedrap_core.wire.authority import entry_digest, sign_release
from fedrap_core.wire.codec import encode
from fedrap_core.wire.keys import new_private_key, public_point
from fedrap_core.wire.messages import (
    MOST_ENTRIES,
    Attributes,
    Catalogue,
    Delta,
    Enrol,
    Enrolled,
    Forget,
    Log,
    OfferRequest,
    Question,
    Questions,
    Release,
    Renew,
    Renewed,
    Signed,
)
from fedrap_core.wire.releases import pack_delta, pack_release

__all__ = ["Call", "FakeCoordinator", "SentAnswer", "SentUpdate", "planted_items"]

Matrix = npt.NDArray[np.float64]
MOST_DIRECTIONS = 64  # groups beyond this share the directions of C at random


@dataclass(frozen=True)
class Call:
    """One thing a device asked for."""

    verb: str  # a method of Transport: enrol, renew, release, log, catalogue, offer, ...
    size_bytes: int  # of the message that the device sent; 0 where it only asks


@dataclass
class _Fault:
    """An answer that a test ordered."""

    error: FedRapError
    verb: str | None
    left: int


PROTECTING = Plan(privacy=Privacy(noise=2.0), min_updates=20)  # epsilon 9 for 10 rounds


class FakeCoordinator:
    """Passes for a coordinator wherever the SDK takes a `transport`.

    Args:
        items: the catalogue; row 0 first.
        alike: groups of items that people like together. Who likes one item of a group is
            recommended the others, in the order given. By default each five items in a row.
        common: C itself, (items, k), instead of a planted one.
        tokens: enrolment tokens, one device each; by default any token does, any time.
        plan: what rounds ask for; its `dim` is set to that of C. By default one that the default
            `Floor` agrees to. With a sequence part releases have one too, of random rows that
            hardly count in a list.
        clock: seconds since 1970, for the ends of certificates.
        random_bytes: for the ids of the task and of rounds.
    """

    def __init__(
        self,
        items: Sequence[str],
        *,
        alike: Sequence[Sequence[str]] = (),
        common: npt.ArrayLike | None = None,
        tokens: Collection[str] | None = None,
        plan: Plan | None = None,
        clock: Callable[[], float] = time.time,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        matrix = planted_items(items, alike) if common is None else common
        self.items: list[str] = list(items)
        self.attributes_of: dict[str, dict[str, str]] = {}  # of items; a test fills it
        self.retired: list[int] = []
        self.calls: list[Call] = []
        self.updates: list[SentUpdate] = []
        self.unreachable = False
        self._task = random_bytes(16)
        self._authority = new_private_key()
        self._identity = FakeIdentity(self._task, tokens, self._authority, clock)
        self._faults: list[_Fault] = []
        self._versions: list[CommonItems] = []
        self._log: list[bytes] = []  # the signed entry of each version
        wanted = plan or PROTECTING
        self._part = sequence_of(wanted.method)
        self._latest = self._released(matrix)
        if isinstance(wanted.method, SolveMethod):
            method = msgspec.structs.replace(wanted.method, dim=self._latest.dim)
            wanted = msgspec.structs.replace(wanted, method=method)
        self._rounds = FakeRounds(wanted, self._task, self._authority, random_bytes, clock)
        self._questions = FakeQuestions(self._task, self._authority, clock, random_bytes)

    def refuse(
        self,
        code: str,
        *,
        retry_after: float | None = None,
        times: int = 1,
        verb: str | None = None,
    ) -> None:
        """Answer the next calls (of that verb) with a problem, such as `too-soon`.

        Raises:
            ValueError: there is no such problem code.
        """
        if code not in problems.ALL:
            raise ValueError(f"no problem {code!r}; there are {', '.join(sorted(problems.ALL))}")
        self._faults.append(_Fault(refusal(problems.ALL[code], retry_after), verb, times))

    def publish(self, common: npt.ArrayLike | None = None, *, new_items: Sequence[str] = ()) -> int:
        """End the round with a release, of the same C unless told otherwise; gives its version.

        New items get rows of zeros at the end, as from a real coordinator.
        """
        self.items += new_items
        old = self._versions[-1].items.to_float()
        matrix = np.zeros((len(self.items), old.shape[1]))
        matrix[: len(old)] = old
        self._latest = self._released(matrix if common is None else common)
        self._rounds.open_next()
        return self._latest.version

    @property
    def sent_bytes(self) -> int:
        """All that left devices, in messages; signatures and HTTP come on top."""
        return sum(call.size_bytes for call in self.calls)

    @property
    def devices(self) -> int:
        """How many are enrolled."""
        return len(self._identity.keys)

    @property
    def authority(self) -> bytes:
        """The public key that signs for this task; what an app would pin."""
        return public_point(self._authority.public_key())

    @property
    def proofs(self) -> list[tuple[Proof, bytes]]:
        """The attestations that devices sent, each with the challenge it must be made for."""
        return self._identity.proofs

    def expire_certificates(self) -> None:
        """All certificates end now; devices renew them by themselves."""
        self._identity.valid_until = dict.fromkeys(self._identity.valid_until, 0.0)

    def revoke(self, device: bytes) -> None:
        """Shut a device out for good."""
        self._identity.revoked.add(device)

    async def enrol(self, token: str, public_key: bytes, proof: Proof = NO_PROOF) -> Enrolled:
        self._called("enrol", len(encode(Enrol(token=token, public_key=public_key))))
        return self._identity.enrol(token, public_key, proof)

    async def renew(self, signer: Signer, proof: Proof = NO_PROOF, nonce: int = 0) -> Renewed:
        body = encode(Renew(nonce=nonce, attestation_kind=proof.kind, attestation=proof.blob))
        self._called("renew", len(body))
        return self._identity.renew(signer, body, proof, nonce)

    async def release(self, have: int | None) -> Release | Delta | None:
        self._called("release", 0)
        if have == self._latest.version:
            return None
        if have is None or not 0 < have < self._latest.version:
            return self._latest
        delta = pack_delta(self._versions[have - 1], self._versions[-1], self._latest)
        return self._latest if delta is None else delta

    async def release_of(self, version: int) -> Release:
        self._called("release_of", 0)
        if version != self._latest.version:
            raise UpdateRefused(problems.NOT_FOUND, "only the latest release is kept here", None)
        return self._latest

    async def log(self, since: int) -> Log:
        self._called("log", 0)
        return Log(entries=self._log[max(0, since) :][:MOST_ENTRIES], head=self._log[-1])

    async def catalogue(self, start: int) -> Catalogue:
        self._called("catalogue", 0)
        items = self.items[start:]
        return Catalogue(
            version=self._latest.catalogue,
            start=start,
            count=len(items),
            items=join_ids(items),
            retired=np.array(sorted(self.retired), dtype="<u4").tobytes(),
        )

    async def attributes(self) -> Attributes:
        self._called("attributes", 0)
        return sign_attributes(
            self._authority, self._task, self._latest.version, len(self.calls), self._pages()
        )

    async def attribute_page(self, digest: bytes) -> bytes:
        self._called("attribute_page", 0)
        pages = self._pages()
        if digest not in pages.bodies:
            raise refusal(problems.NOT_FOUND)
        return pages.bodies[digest]

    def _pages(self) -> Pages:
        names = sorted({name for one in self.attributes_of.values() for name in one})
        return make_pages(names, [self.attributes_of.get(item, {}) for item in self.items])

    def ask(
        self,
        *,
        metric: Metric = "ndcg10",
        releases: Sequence[int] | None = None,
        variants: Sequence[AnyScoring] = (),
        noise: float = 10.0,
        least: int = 20,
        budget: int = 10,
        light: int = 0,
        seconds: float = 0.0,
    ) -> Question:
        """Ask all devices about quality: of the latest release, unless told otherwise.

        Devices answer within so many seconds, each at its own moment; 0 is at once. What they say
        comes to `answers`.
        """
        return self._questions.ask(
            metric,
            [self._latest.version] if releases is None else releases,
            variants,
            noise=noise,
            least=least,
            budget=budget,
            light=light,
            seconds=seconds,
        )

    async def questions(self) -> Questions:
        self._called("questions", 0)
        return self._questions.signed()

    async def send_answer(self, signer: Signer, question: bytes, body: bytes) -> Signed:
        self._called("send_answer", len(body))
        device = self._signed(signer, "send_answer", body)
        return self._questions.accept(device, question, body)

    @property
    def answers(self) -> list[SentAnswer]:
        """The answers to questions that devices sent."""
        return self._questions.answers

    async def offer(self, signer: Signer, release: int, wait: float = 0.0) -> Signed:
        body = encode(OfferRequest(release=release))
        self._called("offer", len(body))
        return self._rounds.offer(self._signed(signer, "offer", body), release, self._latest)

    async def send_update(self, signer: Signer, round_id: bytes, body: bytes) -> Signed:
        self._called("send_update", len(body))
        device = self._signed(signer, "send_update", body)
        common = self._versions[-1]
        receipt, share = self._rounds.accept(device, round_id, body, self._latest, common)
        if share is not None:
            names = tuple(self.items[row] for row in share.rows)
            step = self._latest.step + 1
            self.updates.append(SentUpdate(device, step, len(body), names, share))
        return receipt

    async def forget(self, signer: Signer) -> None:
        body = encode(Forget())
        self._called("forget", len(body))
        self._identity.forget(self._signed(signer, "forget", body))

    async def close(self) -> None:
        """Nothing was opened; a device may come again."""

    def _called(self, verb: str, size_bytes: int) -> None:
        if self.unreachable:
            raise CoordinatorUnreachable("no answer: the fake coordinator is told to be away")
        self.calls.append(Call(verb, size_bytes))
        for fault in self._faults:
            if fault.left and fault.verb in (None, verb):
                fault.left -= 1
                raise fault.error

    def _signed(self, signer: Signer, verb: str, body: bytes) -> bytes:
        return self._identity.signed(signer, verb, body)

    def _released(self, matrix: npt.ArrayLike) -> Release:
        version = len(self._versions) + 1
        common = CommonItems(version, quantize_rows(np.asarray(matrix, dtype=np.float64)))
        if common.size != len(self.items):
            raise ValueError(f"C has {common.size} rows for {len(self.items)} items")
        scoring = Scoring(ridge=1.0)
        if (part := self._part) is not None:
            rng = np.random.default_rng(0)
            begun = start_learner(common.size, part, SequenceLearning(), rng)
            common = replace(common, sequence=to_rows(begun.items))
            mix = SequenceScoring(
                solve=1.0, sequence=0.01, longest=part.longest, ordered=part.ordered,
                taus=part.taus, adapt=0.25,
            )  # fmt: skip
            scoring = msgspec.structs.replace(scoring, sequence=mix)
        self._versions.append(common)
        # Step 0 would say that nobody taught C anything. Every release names a catalogue of its
        # own, so that devices fetch items that are new.
        release = pack_release(self._task, version, common, version, scoring)
        before = entry_digest(self._log[-1] if self._log else b"")
        signed = sign_release(self._authority, release, before)
        self._log.append(signed.entry)
        return signed


def planted_items(items: Sequence[str], alike: Sequence[Sequence[str]] = ()) -> Matrix:
    """A C in which each group has a direction of its own, its first items the longest rows.

    Raises:
        ValueError: a group names an item that is not there, or that another group has.
    """
    rows = {item: row for row, item in enumerate(items)}
    groups = [list(group) for group in alike]
    named = [item for group in groups for item in group]
    if len(named) != len(set(named)) or not set(named) <= set(rows):
        raise ValueError("each item of `alike` must be one of the items, and in one group only")
    if not groups:
        groups = [list(items[start : start + 5]) for start in range(0, len(items), 5)]
    taken = {item for group in groups for item in group}
    groups += [[item] for item in items if item not in taken]
    dim = max(1, min(len(groups), MOST_DIRECTIONS))
    directions = np.eye(dim)
    if len(groups) > dim:
        chance = Random(0)  # numpy.random is 3 MB, which no device needs
        drawn = [chance.gauss(0.0, dim**-0.5) for _ in range(len(groups) * dim)]
        directions = np.reshape(drawn, (len(groups), dim))
    matrix = np.zeros((len(items), dim))
    for group, direction in zip(groups, directions, strict=True):
        for rank, item in enumerate(group):
            matrix[rows[item]] = direction * (1.0 - 0.5 * rank / len(group))
    return matrix
