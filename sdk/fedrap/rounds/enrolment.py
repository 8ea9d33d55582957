"""Becoming and staying a device of a task: enrolment, attestation, certificates that end.

The authority of a task signs certificates, offers, receipts and releases. An app pins its key, or
the device keeps the one that it enrolled with, and takes nothing from any other. A certificate is
renewed when two thirds of its time are over, or when the coordinator says that it has ended: the
device's clock may be wrong.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from functools import partial

import msgspec

from fedrap.errors import AnotherAuthority, CoordinatorUnreachable
from fedrap.rounds.state import RoundSnapshot, RoundState
from fedrap.transport import NO_PROOF, Proof, Transport
from fedrap.transport.consented import ConsentWithdrawn, call_app
from fedrap.transport.credentials import Credentials, Signer
from fedrap_core.errors import FedRapError, SignatureInvalid
from fedrap_core.wire.certificates import enrol_challenge, read_certificate, renew_challenge
from fedrap_core.wire.keys import (
    private_from_bytes,
    private_to_bytes,
    public_from_point,
    public_point,
)
from fedrap_core.wire.messages import Certificate

Attest = Callable[[bytes], Proof]
RENEW_AFTER = 2 / 3  # of a certificate's time


class Membership:
    """Enrols once and renews when due. `attest` is the app's own, and may block."""

    def __init__(
        self,
        state: RoundState,
        transport: Transport,
        token: str | None,
        attest: Attest | None,
        clock: Callable[[], float] = time.time,
        pinned: bytes | None = None,
    ) -> None:
        self._state = state
        self._pinned = pinned
        self._transport = transport
        self._token = token
        self._attest = attest
        self._clock = clock

    async def credentials(self, device: RoundSnapshot) -> Credentials | None:
        """Who this device is, with a certificate that will last; None without a token."""
        known = device.credentials
        if known is None:
            return await self._enrol()
        if known.renew_at <= self._clock():
            return await self.renew(known)
        return known

    async def _enrol(self) -> Credentials | None:
        if self._token is None:
            return None
        private = private_from_bytes(self._state.enrolling_key())
        point = public_point(private.public_key())
        proof = await self._proof(enrol_challenge(point, self._token))
        answer = await self._transport.enrol(self._token, point, proof)
        secret = private_to_bytes(private)
        fresh = Credentials(answer.device, answer.task, secret, authority=answer.authority)
        authority_of(fresh, self._pinned)
        if answer.certificate:
            fresh = certified(fresh, answer.certificate, answer.authority, self._clock())
        self._state.keep_credentials(fresh)
        return fresh

    async def renew(self, known: Credentials) -> Credentials:
        """A new certificate for the same key; the ledger goes on as before."""
        nonce = self._state.next_nonce()
        proof = await self._proof(renew_challenge(_own_point(known), nonce))
        signer = Signer(known, self._state.next_nonce)
        answer = await self._transport.renew(signer, proof, nonce)
        # Where enrolment gave none, there is no authority to check it with: keep what we have.
        fresh = known
        if known.authority:
            fresh = certified(known, answer.certificate, known.authority, self._clock())
        self._state.keep_credentials(fresh)
        return fresh

    async def _proof(self, challenge: bytes) -> Proof:
        if self._attest is None:
            return NO_PROOF
        try:
            attest = partial(self._attest, challenge)
            return await asyncio.to_thread(call_app, self._state.consented, attest)
        except ConsentWithdrawn:
            raise
        except Exception as error:  # the platform's service may be out of reach; try again later
            raise CoordinatorUnreachable(f"no attestation: {type(error).__name__}") from error


def authority_of(known: Credentials | None, pinned: bytes | None) -> bytes | None:
    """Whose signatures this device takes; None before it is enrolled, where the app pins none.

    Raises:
        AnotherAuthority: the app pins another one than this device enrolled with.
        SignatureInvalid: this device was enrolled when there was no authority, and none is pinned.
    """
    if known is None:
        return pinned
    if pinned is not None and known.authority not in (b"", pinned):
        raise AnotherAuthority(
            "the coordinator's authority is not the one that the app pins; if its key was changed "
            "on purpose, update the app and enrol this device anew"
        )
    if not known.authority and pinned is None:
        raise SignatureInvalid(
            "the coordinator names no authority that could sign offers; pin one with `authority`, "
            "or erase this device and enrol it anew"
        )
    return known.authority or pinned


def certified(known: Credentials, signed: bytes, authority: bytes, now: float) -> Credentials:
    """The same device with a new certificate.

    Raises:
        CoordinatorUnreachable: it is not for this device, or not signed by this authority.
    """
    certificate = _read(known, signed, authority)
    lifetime = certificate.expires_at - certificate.issued_at
    return msgspec.structs.replace(
        known,
        certificate=signed,
        authority=authority,
        renew_at=now + RENEW_AFTER * lifetime if lifetime > 0 else math.inf,
    )


def _read(known: Credentials, signed: bytes, authority: bytes) -> Certificate:
    try:
        certificate = read_certificate(public_from_point(authority), signed)
    except FedRapError as error:
        raise CoordinatorUnreachable(f"not a certificate of our authority: {error}") from error
    same = certificate.device == known.device and certificate.task == known.task
    if not same or certificate.public_key != _own_point(known):
        raise CoordinatorUnreachable("a certificate of another device")
    return certificate


def _own_point(known: Credentials) -> bytes:
    return public_point(private_from_bytes(known.private_key).public_key())
