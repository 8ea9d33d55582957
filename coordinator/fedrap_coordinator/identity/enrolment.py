"""Who the devices are: enrolment with a token, certificates, and signatures of their requests."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum

from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_coordinator.domain.records import AuditEntry, DeviceRecord, EnrolmentOutcome, Ticket
from fedrap_coordinator.errors import DeviceExists, Refusal
from fedrap_coordinator.identity.attestation import NONE, Attestation
from fedrap_coordinator.identity.authentication import SignedRequest, verify_request
from fedrap_coordinator.settings import Enrolment as EnrolmentSettings
from fedrap_coordinator.store.protocol import Store
from fedrap_core.wire import problems
from fedrap_core.wire.certificates import enrol_challenge, renew_challenge, sign_certificate
from fedrap_core.wire.keys import new_private_key, public_from_point, public_point
from fedrap_core.wire.messages import Certificate, Enrol, Enrolled, Renew, Renewed
from fedrap_core.wire.tokens import is_signed_token, read_token


class Purpose(StrEnum):
    """What a device signs for, beside rounds. Anybody may leave."""

    RENEW = "renew"
    FORGET = "forget"


class Registry:
    """Enrols devices and checks what they sign. `clock` gives seconds of wall time."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float],
        settings: EnrolmentSettings | None = None,
        authority: ec.EllipticCurvePrivateKey | None = None,
    ) -> None:
        """
        Raises:
            ConfigError: the settings name a verifier that cannot be loaded.
        """
        self._store = store
        self._clock = clock
        self._settings = settings or EnrolmentSettings()
        self._attestation = Attestation(self._settings)
        self._authority = authority or new_private_key()

    async def add_tokens(self, tokens: Sequence[str], audit: AuditEntry | None = None) -> None:
        """One-time enrolment tokens; only their hashes are kept."""
        await self._store.add_tokens([_digest(token) for token in tokens], self._clock(), audit)

    async def enrol(self, message: Enrol, task: bytes) -> Enrolled:
        """A token becomes a device with a key, an id and a certificate.

        A key that is enrolled gets the same answer again and uses up no token: the answer to
        its first request may have been lost.

        Raises:
            Refusal, TokenInvalid: the token is unknown, used or not good, or the device is not what
                it should be.
            MalformedMessage: the key is not a point of the curve.
        """
        public_from_point(message.public_key)
        now, ticket = self._clock(), None
        if is_signed_token(message.token):  # before the attestation, which may cost more
            ticket = await self._ticket(message.token, now)
        device = device_of(task, message.public_key)
        known = await self._store.device(device)
        if known is None:
            known = await self._enrol(message, ticket, device, now)
        if known.revoked_at is not None:
            raise Refusal(problems.REVOKED)
        return Enrolled(
            device=device,
            task=task,
            certificate=await self._certificate(task, known, now),
            authority=public_point(self._authority.public_key()),
        )

    async def _enrol(
        self, message: Enrol, ticket: Ticket | None, device: bytes, now: float
    ) -> DeviceRecord:
        challenge = enrol_challenge(message.public_key, message.token)
        level = await asyncio.to_thread(
            self._attestation.level, message.attestation_kind, message.attestation, challenge
        )
        terms, key = self._settings.terms(now, level), message.public_key
        became = EnrolmentOutcome.DONE
        with suppress(DeviceExists):  # the same device was faster, with another token
            if ticket is None:
                await self._store.enrol(_digest(message.token), device, key, now, terms)
            else:
                became = await self._store.enrol_signed(ticket, device, key, now, terms)
        if became is EnrolmentOutcome.TOO_MANY:
            raise Refusal(problems.TOO_MANY_DEVICES)
        known = await self._store.device(device)
        if known is None:  # unknown or used; else this very request came twice
            raise Refusal(problems.TOKEN_REFUSED)
        return known

    async def _ticket(self, token: str, now: float) -> Ticket:
        points = {one.name: one.public_key for one in await self._store.issuers()}
        known = {name: public_from_point(point) for name, point in points.items()}
        claims = await asyncio.to_thread(read_token, token, known, self._settings.audience, now)
        issuer = points[claims.iss].hex()  # its key: another name is no other issuer
        account = None if claims.acc is None else _digest(f"account\n{issuer}\n{claims.acc}")
        used = _digest(f"token\n{issuer}\n{claims.jti}")
        return Ticket(used, claims.exp, account, self._settings.account_devices)

    async def renew(self, known: DeviceRecord, message: Renew, task: bytes) -> Renewed:
        """A new certificate for a device that signed for it; judged again, charged as before.

        Args:
            known: the device as it was before this request used its nonce.

        Raises:
            Refusal: the device is not what it should be, or its proof was made for another time.
        """
        if message.attestation_kind != NONE and message.nonce <= known.last_nonce:
            raise Refusal(problems.REPLAYED, "prove anew, for a larger nonce")
        challenge = renew_challenge(known.public_key, message.nonce)
        level = await asyncio.to_thread(
            self._attestation.level, message.attestation_kind, message.attestation, challenge
        )
        now = self._clock()
        terms = self._settings.terms(now, level)
        await self._store.renew_device(known.id, terms.valid_until, level)
        renewed = replace(known, valid_until=terms.valid_until, level=level)
        return Renewed(certificate=await self._certificate(task, renewed, now))

    async def _certificate(self, task: bytes, known: DeviceRecord, now: float) -> bytes:
        certificate = Certificate(
            task=task,
            device=known.id,
            public_key=known.public_key,
            level=known.level,
            issued_at=now,
            expires_at=known.valid_until,
        )
        return await asyncio.to_thread(sign_certificate, self._authority, certificate)

    async def authenticate(self, signed: SignedRequest, purpose: Purpose) -> DeviceRecord:
        """The device, when the request comes from it and was never seen before.

        Raises:
            Refusal, SignatureInvalid: it does not, or it was.
        """
        known = await self._store.device(signed.device)
        if known is None or not known.public_key:  # never here, or revoked and gone
            raise Refusal(problems.NOT_ENROLLED)
        key = public_from_point(known.public_key)
        await asyncio.to_thread(verify_request, key, signed)
        # After the signature, so that nobody else can use up a device's nonces.
        if not await self._store.use_nonce(signed.device, signed.nonce):
            raise Refusal(problems.REPLAYED)
        if known.revoked_at is not None and purpose is not Purpose.FORGET:
            raise Refusal(problems.REVOKED)
        return known

    async def forget(self, device: bytes) -> None:
        """Drop a device's key and record; what it sent into open or past rounds stays counted."""
        await self._store.forget_device(device)


def device_of(task: bytes, public_key: bytes) -> bytes:
    """The id of the device with this key. The key is random, so the id says nothing else."""
    return hashlib.sha256(b"fedrap/1 device" + task + public_key).digest()[:16]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8")).digest()
