"""Who is who for `testing.FakeCoordinator`: tokens, certificates, signatures, revocation."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Collection

from fedrap.fake_rounds import refusal
from fedrap.identity import Signer
from fedrap.transport import NO_PROOF, Proof
from fedrap_core.errors import FedRapError
from fedrap_core.wire import problems
from fedrap_core.wire.certificates import enrol_challenge, renew_challenge, sign_certificate
from fedrap_core.wire.keys import new_private_key, public_from_point, public_point
from fedrap_core.wire.messages import Certificate, Enrolled, Renewed
from fedrap_core.wire.signing import (
    DEVICE_HEADER,
    NONCE_HEADER,
    SIGNATURE_HEADER,
    signed_bytes,
    verify,
)

CERTIFICATE_SECONDS = 30 * 86400.0


class FakeIdentity:
    """The rules of spec/PROTOCOL.md 2 and 3, with everything in memory."""

    def __init__(
        self, task: bytes, tokens: Collection[str] | None, clock: Callable[[], float]
    ) -> None:
        self._task = task
        self._tokens = None if tokens is None else set(tokens)
        self._clock = clock
        self._authority = new_private_key()
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
