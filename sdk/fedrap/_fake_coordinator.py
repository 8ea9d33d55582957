"""The parts of `testing.FakeCoordinator`, with everything in memory.

`FakeIdentity` knows who is who, by spec/PROTOCOL.md 2 and 3: tokens, certificates, signatures and
revocation. `FakeRounds` decides who gets a slot and which update counts, by 5 and 7, for one open
round at a time. `FakeQuestions` asks about quality, by 12, and opens the answers.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric import ec

from fedrap.errors import UpdateRefused
from fedrap.transport import NO_PROOF, Proof
from fedrap.transport.credentials import Signer
from fedrap_core import participation
from fedrap_core.errors import (
    FedRapError,
    MalformedMessage,
    NotFinite,
    UnsupportedVersion,
    WrongShape,
)
from fedrap_core.model import CommonItems
from fedrap_core.parts import more_parts
from fedrap_core.plan import OFF, AnyScoring, Plan
from fedrap_core.questions.answers import Vector, unpack
from fedrap_core.questions.gains import Metric
from fedrap_core.sparse import RowUpdate
from fedrap_core.wire import problems
from fedrap_core.wire.authority import sign_message
from fedrap_core.wire.certificates import enrol_challenge, renew_challenge, sign_certificate
from fedrap_core.wire.codec import decode, encode_value
from fedrap_core.wire.keys import new_private_key, public_from_point, public_point
from fedrap_core.wire.messages import (
    Accepted,
    Answer,
    Certificate,
    Enrolled,
    Offer,
    Question,
    Questions,
    Release,
    Renewed,
    Signed,
    Update,
)
from fedrap_core.wire.question_layout import layout_of
from fedrap_core.wire.seal import open_answer, open_update, seal_id
from fedrap_core.wire.share import decode_share
from fedrap_core.wire.signing import (
    DEVICE_HEADER,
    NONCE_HEADER,
    SIGNATURE_HEADER,
    signed_bytes,
    verify,
)

RETRY_SECONDS = 30.0


def refusal(problem: problems.Problem, retry_after: float | None = None) -> UpdateRefused:
    """What a transport raises when a coordinator says no."""
    return UpdateRefused(problem, problem.title, retry_after)


@dataclass(frozen=True, eq=False)
class SentUpdate:
    """One update that left a device, opened: the fake owns the key that it was sealed to."""

    device: bytes
    step: int
    size_bytes: int  # of the whole message, as it would cross the network
    items: tuple[str, ...]  # whose rows of C the share has
    share: RowUpdate  # those rows and the packed Gram matrix, clipped and rounded


@dataclass
class _Record:
    """What a coordinator remembers of a device."""

    steps: dict[int, float] = field(default_factory=dict)  # charged, and when
    counted: int | None = None  # the last step with an update of this device


@dataclass(frozen=True, eq=False)
class SentAnswer:
    """One answer to a question that left a device, opened."""

    device: bytes
    question: bytes
    size_bytes: int
    numbers: Vector  # as laid out for that question


class FakeQuestions:
    """Asks, and takes one answer of each device."""

    def __init__(
        self,
        task: bytes,
        authority: ec.EllipticCurvePrivateKey,
        clock: Callable[[], float],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self.answers: list[SentAnswer] = []
        self._open: dict[bytes, Question] = {}
        self._task = task
        self._authority = authority
        self._clock = clock
        self._random_bytes = random_bytes
        self._seal = new_private_key()

    def ask(
        self,
        metric: Metric,
        releases: Sequence[int],
        variants: Sequence[AnyScoring],
        *,
        noise: float,
        least: int,
        budget: int,
        light: int,
        seconds: float,
    ) -> Question:
        """Another question that is open."""
        now, public = self._clock(), self._seal.public_key()
        question = Question(
            task=self._task,
            question=self._random_bytes(16),
            metric=metric,
            releases=list(releases),
            variants=list(variants) or OFF,
            light=light,
            noise=noise,
            delta=1e-5,
            least=least,
            most=1_000_000,
            budget=budget,
            # Without a time it is as if it had been open for long: it is every device's moment.
            asked_at=now if seconds else now - 1e6,
            ends_at=now + (seconds or 86_400.0),
            seal_key=public_point(public),
            seal_id=seal_id(public),
        )
        self._open[question.question] = question
        return question

    def signed(self) -> Questions:
        """What is open, as anybody gets it."""
        return Questions(
            questions=[sign_message(self._authority, one) for one in self._open.values()]
        )

    def accept(self, device: bytes, question: bytes, body: bytes) -> Signed:
        """A receipt; the second answer of a device counts for nothing."""
        asked = self._open.get(question)
        if asked is None:
            raise refusal(problems.NOT_FOUND)
        try:
            answer = decode(Answer, body)
            if (answer.task, answer.question, answer.device) != (self._task, question, device):
                raise MalformedMessage("an answer to another question")
            numbers = unpack(open_answer(answer, self._seal), layout_of(asked))
        except FedRapError as error:
            raise refusal(problems.MALFORMED) from error
        if all((one.question, one.device) != (question, device) for one in self.answers):
            self.answers.append(SentAnswer(device, question, len(body), numbers))
        digest = hashlib.sha256(body).digest()
        return sign_message(self._authority, Accepted(round=question, digest=digest))


class FakeRounds:
    """One open round after the other. `plan` is offered as it is."""

    def __init__(
        self,
        plan: Plan,
        task: bytes,
        authority: ec.EllipticCurvePrivateKey,
        random_bytes: Callable[[int], bytes],
        clock: Callable[[], float],
    ) -> None:
        self._random_bytes = random_bytes
        self._clock = clock
        self._authority = authority
        self._plan = encode_value(plan)
        self._method = plan.method
        self._privacy = plan.privacy
        self._task = task
        self._seal = new_private_key()
        self._seal_id = seal_id(self._seal.public_key())
        self._round = random_bytes(16)
        self._over: set[bytes] = set()
        self._slots: set[bytes] = set()
        self._digests: dict[tuple[bytes, bytes], bytes] = {}
        self._records: dict[bytes, _Record] = {}

    def open_next(self) -> None:
        """End the open round and open another one."""
        self._over.add(self._round)
        self._round, self._slots = self._random_bytes(16), set()

    def offer(self, device: bytes, holds: int, release: Release) -> Signed:
        """A slot in the open round; asking twice costs once."""
        if holds != release.version:
            raise refusal(problems.STALE_MODEL, 0.0)
        step = release.step + 1
        if device not in self._slots:
            self._charge(self._records.setdefault(device, _Record()), step)
            self._slots.add(device)
        offer = Offer(
            task=self._task,
            round=self._round,
            step=step,
            plan=self._plan,
            release=release.version,
            model=release.model,
            seal_key=public_point(self._seal.public_key()),
            seal_id=self._seal_id,
        )
        return sign_message(self._authority, offer)

    def _charge(self, record: _Record, step: int) -> None:
        now = self._clock()
        others = [at for taken, at in record.steps.items() if taken != step]  # 7.6: charged once
        taken = participation.in_window(others, now, self._privacy)
        idle = now - max(others) if others else math.inf
        problem = participation.why_not(record.counted, taken, step, self._privacy, idle)
        if problem is not None:
            wait = RETRY_SECONDS if problem.family is problems.Family.RETRY else None
            if problem is problems.TOO_SOON:
                wait = max(RETRY_SECONDS, participation.until_rested(idle, self._privacy))
            raise refusal(problem, wait)
        record.steps.setdefault(step, now)

    def accept(
        self, device: bytes, round_id: bytes, body: bytes, release: Release, common: CommonItems
    ) -> tuple[Signed, RowUpdate | None]:
        """A signed receipt, and the share unless the same bytes were counted before."""
        digest = hashlib.sha256(body).digest()
        receipt = sign_message(self._authority, Accepted(round=round_id, digest=digest))
        known = self._digests.get((round_id, device))
        if known == digest:
            return receipt, None
        update = _read(body)
        if round_id != self._round:
            known_round = round_id in self._over
            raise refusal(
                problems.ROUND_CLOSED if known_round else problems.NOT_FOUND,
                RETRY_SECONDS if known_round else None,
            )
        self._check_envelope(update, device, release)
        if device not in self._slots:
            raise refusal(problems.NOT_ASSIGNED)
        share = self._open(update, common)
        if known is not None:
            raise refusal(problems.CONFLICTING_UPDATE)
        self._digests[round_id, device] = digest
        self._records[device].counted = release.step + 1
        return receipt, share

    def _check_envelope(self, update: Update, device: bytes, release: Release) -> None:
        if update.device != device:
            raise refusal(problems.BAD_SIGNATURE)
        same = (
            update.task == self._task
            and update.round == self._round
            and update.step == release.step + 1
            and update.model == release.model
            and update.plan == hashlib.sha256(self._plan).digest()
            and update.seal_id == self._seal_id
        )
        if not same:
            raise refusal(problems.STALE_MODEL)

    def _open(self, update: Update, common: CommonItems) -> RowUpdate:
        try:
            parts = more_parts(self._method, common.size)
            share = decode_share(open_update(update, self._seal), common.dim, parts)
            share.check(common.size, common.dim, parts)
        except WrongShape as error:
            raise refusal(problems.WRONG_SHAPE) from error
        except NotFinite as error:
            raise refusal(problems.NOT_FINITE) from error
        except FedRapError as error:
            raise refusal(problems.MALFORMED) from error
        return share


def _read(body: bytes) -> Update:
    try:
        return decode(Update, body)
    except UnsupportedVersion as error:
        raise refusal(problems.UNSUPPORTED_VERSION) from error
    except FedRapError as error:
        raise refusal(problems.MALFORMED) from error


CERTIFICATE_SECONDS = 30 * 86400.0


class FakeIdentity:
    """The rules of spec/PROTOCOL.md 2 and 3, with everything in memory."""

    def __init__(
        self,
        task: bytes,
        tokens: Collection[str] | None,
        authority: ec.EllipticCurvePrivateKey,
        clock: Callable[[], float],
    ) -> None:
        self._task = task
        self._tokens = None if tokens is None else set(tokens)
        self._clock = clock
        self._authority = authority
        self.keys: dict[bytes, bytes] = {}
        self.valid_until: dict[bytes, float] = {}
        self.revoked: set[bytes] = set()
        self.proofs: list[tuple[Proof, bytes]] = []  # with the challenge each must be made for
        self._nonces: dict[bytes, int] = {}

    def enrol(self, token: str, public_key: bytes, proof: Proof) -> Enrolled:
        """A token becomes a device."""
        try:
            public_from_point(public_key)
        except FedRapError as error:
            raise refusal(problems.MALFORMED) from error
        device = hashlib.sha256(self._task + public_key).digest()[:16]
        if device not in self.keys:
            self._use(token)
            self.keys[device] = public_key
            self.proofs.append((proof, enrol_challenge(public_key, token)))
        return Enrolled(
            device=device,
            task=self._task,
            certificate=self._certificate(device),
            authority=public_point(self._authority.public_key()),
        )

    def _use(self, token: str) -> None:
        if self._tokens is not None:
            if token not in self._tokens:
                raise refusal(problems.TOKEN_REFUSED)
            self._tokens.remove(token)

    def renew(self, signer: Signer, body: bytes, proof: Proof, nonce: int) -> Renewed:
        """A new certificate for the same key; a proof must be for a nonce never used before."""
        before = dict(self._nonces)
        device = self.signed(signer, "renew", body)
        if proof != NO_PROOF and nonce <= before.get(device, -1):
            raise refusal(problems.REPLAYED)
        self.proofs.append((proof, renew_challenge(self.keys[device], nonce)))
        return Renewed(certificate=self._certificate(device))

    def _certificate(self, device: bytes) -> bytes:
        now = self._clock()
        self.valid_until[device] = now + CERTIFICATE_SECONDS
        certificate = Certificate(
            task=self._task,
            device=device,
            public_key=self.keys[device],
            level="none",
            issued_at=now,
            expires_at=self.valid_until[device],
        )
        return sign_certificate(self._authority, certificate)

    def forget(self, device: bytes) -> None:
        """A device that is no more."""
        del self.keys[device], self.valid_until[device]

    def signed(self, signer: Signer, verb: str, body: bytes) -> bytes:
        """Who signed this; a nonce that was used is tried once more, as over HTTP."""
        for _ in range(2):
            headers = signer.headers("POST", f"/{verb}", body)
            device, nonce = bytes.fromhex(headers[DEVICE_HEADER]), int(headers[NONCE_HEADER])
            if device not in self.keys:
                raise refusal(problems.NOT_ENROLLED)
            signature = base64.b64decode(headers[SIGNATURE_HEADER])
            message = signed_bytes("POST", f"/{verb}", body, device, nonce)
            try:
                verify(public_from_point(self.keys[device]), message, signature)
            except FedRapError as error:
                raise refusal(problems.BAD_SIGNATURE) from error
            if nonce > self._nonces.get(device, -1):
                self._nonces[device] = nonce
                self._check_standing(device, verb)
                return device
        raise refusal(problems.REPLAYED)

    def _check_standing(self, device: bytes, verb: str) -> None:
        if device in self.revoked and verb != "forget":
            raise refusal(problems.REVOKED)
        if self.valid_until[device] <= self._clock() and verb not in ("forget", "renew"):
            raise refusal(problems.CERTIFICATE_EXPIRED, 0.0)
