"""Sealing what devices send to the aggregator: HPKE (RFC 9180), one suite that every Android has.

DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode, single shot. There is no public
aad in the library, so everything outside the ciphertext is bound through `info`.
"""

from __future__ import annotations

import hashlib
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from fedrap_core.errors import MalformedMessage
from fedrap_core.wire.keys import public_from_point, public_point
from fedrap_core.wire.messages import Answer, Offer, Question, Update

_SUITE = Suite(KEM.P256, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


def seal_id(public: ec.EllipticCurvePublicKey) -> bytes:
    """The name of a sealing key: the first 8 bytes of the SHA-256 of its point."""
    return hashlib.sha256(public_point(public)).digest()[:8]


def seal_context(
    task: bytes,
    round_id: bytes,
    step: int,
    model: bytes,
    plan: bytes,
    device: bytes,
    key: bytes,
) -> bytes:
    """`info` of one update: each field with its length, so that no two contexts are equal."""
    fields = (task, round_id, struct.pack(">I", step), model, plan, device, key)
    return b"fedrap/1 update" + b"".join(struct.pack(">H", len(f)) + f for f in fields)


def seal_update(offer: Offer, device: bytes, plaintext: bytes) -> Update:
    """The update that only the holder of the offer's sealing key can read."""
    plan = hashlib.sha256(offer.plan).digest()
    info = seal_context(
        offer.task, offer.round, offer.step, offer.model, plan, device, offer.seal_id
    )
    return Update(
        task=offer.task,
        round=offer.round,
        step=offer.step,
        model=offer.model,
        plan=plan,
        device=device,
        seal_id=offer.seal_id,
        sealed=seal(plaintext, offer.seal_key, info),
    )


def open_update(update: Update, private: ec.EllipticCurvePrivateKey) -> bytes:
    """The plaintext of an update.

    Raises:
        MalformedMessage: sealed to another key, for another context, or damaged.
    """
    info = seal_context(
        update.task, update.round, update.step, update.model, update.plan, update.device,
        update.seal_id,
    )  # fmt: skip
    return open_sealed(update.sealed, private, info)


def seal(plaintext: bytes, point: bytes, info: bytes) -> bytes:
    """Sealed to a public key; encapsulated point (65), ciphertext, tag (16)."""
    return _SUITE.encrypt(plaintext, public_from_point(point), info=info)


def open_sealed(sealed: bytes, private: ec.EllipticCurvePrivateKey, info: bytes) -> bytes:
    """What `seal` sealed with the same info; raises MalformedMessage like `open_update`."""
    try:
        return _SUITE.decrypt(sealed, private, info=info)
    except (InvalidTag, ValueError) as error:
        raise MalformedMessage("the sealed part does not open") from error


def answer_context(task: bytes, question: bytes, device: bytes, key: bytes) -> bytes:
    """`info` of one answer."""
    fields = (task, question, device, key)
    return b"fedrap/1 answer" + b"".join(struct.pack(">H", len(f)) + f for f in fields)


def seal_answer(question: Question, device: bytes, plaintext: bytes) -> Answer:
    """The answer that only the holder of the question's sealing key can read."""
    info = answer_context(question.task, question.question, device, question.seal_id)
    return Answer(
        task=question.task,
        question=question.question,
        device=device,
        seal_id=question.seal_id,
        sealed=_SUITE.encrypt(plaintext, public_from_point(question.seal_key), info=info),
    )


def open_answer(answer: Answer, private: ec.EllipticCurvePrivateKey) -> bytes:
    """The plaintext of an answer.

    Raises:
        MalformedMessage: sealed to another key, for another context, or damaged.
    """
    info = answer_context(answer.task, answer.question, answer.device, answer.seal_id)
    return open_sealed(answer.sealed, private, info)
