"""A way to the coordinator that ends when the user takes the consent back.

It is asked before every request, also before one that is only sent again, so that a withdrawal in
any thread stops a round or a sync before its next request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fedrap.transport import NO_PROOF, Proof, Transport
from fedrap.transport.credentials import Signer
from fedrap_core.errors import FedRapError
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


class ConsentWithdrawn(FedRapError):
    """The user took the consent back; nothing more was asked of anybody."""


T = TypeVar("T")


def call_app(consented: Callable[[], bool], call: Callable[[], T]) -> T:
    """What a callable of the app's gives, which may itself ask somebody over the network.

    Raises:
        ConsentWithdrawn: it was not called, or what came of it, good or bad, is not used.
        RuntimeError: it raised StopIteration, as the `__next__` of an iterator that ended does. No
            future can hold that, so whoever awaits this in a thread would wait for ever.
    """
    check_consent(consented)
    try:
        return call()
    except StopIteration as ended:
        raise RuntimeError("the app's callable has nothing more to give (StopIteration)") from ended
    finally:
        check_consent(consented)


def check_consent(consented: Callable[[], bool]) -> None:
    """Raises ConsentWithdrawn unless there is consent now."""
    if not consented():
        raise ConsentWithdrawn("the user took the consent back")


class ConsentedTransport:
    """`inner` for as long as `consented` says yes. Who wants to be forgotten needs none."""

    def __init__(self, inner: Transport, consented: Callable[[], bool]) -> None:
        self._inner = inner
        self._consented = consented

    def _check(self) -> None:
        check_consent(self._consented)

    async def enrol(self, token: str, public_key: bytes, proof: Proof = NO_PROOF) -> Enrolled:
        self._check()
        return await self._inner.enrol(token, public_key, proof)

    async def renew(self, signer: Signer, proof: Proof = NO_PROOF, nonce: int = 0) -> Renewed:
        self._check()
        return await self._inner.renew(signer.only_while(self._check), proof, nonce)

    async def release(self, have: int | None) -> Release | Delta | None:
        self._check()
        return await self._inner.release(have)

    async def release_of(self, version: int) -> Release:
        self._check()
        return await self._inner.release_of(version)

    async def log(self, since: int) -> Log:
        self._check()
        return await self._inner.log(since)

    async def catalogue(self, start: int) -> Catalogue:
        self._check()
        return await self._inner.catalogue(start)

    async def attributes(self) -> Attributes:
        self._check()
        return await self._inner.attributes()

    async def attribute_page(self, digest: bytes) -> bytes:
        self._check()
        return await self._inner.attribute_page(digest)

    async def questions(self) -> Questions:
        self._check()
        return await self._inner.questions()

    async def send_answer(self, signer: Signer, question: bytes, body: bytes) -> Signed:
        self._check()
        return await self._inner.send_answer(signer.only_while(self._check), question, body)

    async def offer(self, signer: Signer, release: int, wait: float = 0.0) -> Signed:
        self._check()
        return await self._inner.offer(signer.only_while(self._check), release, wait)

    async def send_update(self, signer: Signer, round_id: bytes, body: bytes) -> Signed:
        self._check()
        return await self._inner.send_update(signer.only_while(self._check), round_id, body)

    async def forget(self, signer: Signer) -> None:
        await self._inner.forget(signer)

    async def close(self) -> None:
        await self._inner.close()
