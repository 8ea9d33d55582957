"""Load for a real coordinator: cheap devices over raw sockets, their bytes made beforehand.

A cheap device signs and seals as the SDK does, with the same code of the core, and trains nothing.
It touches the one row of C that is its own, so that a sum shows who was counted, and how often.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from dataclasses import dataclass, field, replace

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from fedrap_core.parts import empty_parts, more_parts
from fedrap_core.plan import OFF, Plan
from fedrap_core.sparse import RowUpdate, packed_size
from fedrap_core.split import numbers
from fedrap_core.split.numbers import Terms
from fedrap_core.split.report import make_report
from fedrap_core.wire.codec import decode, decode_value, encode
from fedrap_core.wire.keys import new_private_key, public_point
from fedrap_core.wire.messages import Enrol, Enrolled, Offer, OfferRequest, Signed
from fedrap_core.wire.seal import seal_update
from fedrap_core.wire.share import encode_share, uniform_count
from fedrap_core.wire.shares import seal_report
from fedrap_core.wire.signing import (
    DEVICE_HEADER,
    NONCE_HEADER,
    SIGNATURE_HEADER,
    sign,
    signed_bytes,
)


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    body: bytes

    @property
    def problem(self) -> str:
        """The code of a problem document."""
        return str(json.loads(self.body)["type"]).rpartition(":")[2]

    @property
    def retry_after(self) -> float:
        """Seconds that the coordinator asks for."""
        return float(json.loads(self.body).get("retry_after") or 0.0)


class Connection:
    """One connection that is kept open; a request is bytes that were made beforehand."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, request: bytes) -> Reply:
        """Raises OSError or EOFError when nobody answers; the next call connects anew."""
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection(self._host, self._port)
            reader, writer = self._streams
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            start = head.index(b"content-length:") + 15
            length = int(head[start : head.index(b"\r", start)])
            return Reply(int(head[9:12]), await reader.readexactly(length))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@dataclass
class CheapDevice:
    """A device that can sign and seal. `number` is the row of C that it touches."""

    number: int
    key: ec.EllipticCurvePrivateKey = field(default_factory=new_private_key)
    id: bytes = b""
    nonce: int = 0

    @property
    def point(self) -> bytes:
        """Its public key."""
        return public_point(self.key.public_key())

    async def enrol(self, connection: Connection, token: str) -> None:
        """Become a device of the task."""
        body = encode(Enrol(token=token, public_key=self.point))
        reply = await connection.send(http_bytes("/v1/enrol", body, ""))
        if reply.status != 200:
            raise RuntimeError(f"not enrolled: {reply.problem}")
        self.id = decode(Enrolled, reply.body).device

    def asks(self, release: int, wait: float = 0.0) -> bytes:
        """A request for a place."""
        return self._request("/v1/offers", encode(OfferRequest(release=release, wait=wait)))

    @staticmethod
    def offer_in(raw: bytes) -> Offer:
        """The offer in an answer; a cheap device does not look at who signed it."""
        return decode(Offer, decode(Signed, raw).body)

    def sealed(self, offer: Offer, rows: RowUpdate) -> bytes:
        """The bytes of an update; it has nothing to say in the plan's other parts."""
        method = decode_value(Plan, offer.plan).method
        rows = replace(rows, parts=empty_parts(method))
        share = encode_share(rows, np.full(uniform_count(rows), 0.5), more_parts(method, 0))
        return encode(seal_update(offer, self.id, share))

    def sends(self, round_id: bytes, body: bytes) -> bytes:
        """A request with an update's bytes, signed anew each time."""
        return self._request(f"/v1/rounds/{round_id.hex()}/updates", body)

    def _request(self, path: str, body: bytes) -> bytes:
        self.nonce += 1
        signature = sign(self.key, signed_bytes("POST", path, body, self.id, self.nonce))
        headers = (
            f"{DEVICE_HEADER}: {self.id.hex()}\r\n{NONCE_HEADER}: {self.nonce}\r\n"
            f"{SIGNATURE_HEADER}: {base64.b64encode(signature).decode()}\r\n"
        )
        return http_bytes(path, body, headers)


@dataclass
class PairDevice(CheapDevice):
    """The same for rounds of two servers; it does not look at who signed the helper's key."""

    items: int = 0  # of the catalogue

    def sealed(self, offer: Offer, rows: RowUpdate) -> bytes:
        """The bytes of a report."""
        plan = decode_value(Plan, offer.plan)
        assert offer.helper is not OFF
        terms = Terms(offer.round, plan, self.items)
        rows = replace(rows, parts=empty_parts(plan.method))
        chance = np.full(numbers.uniform_count(terms), 0.5)
        report = make_report(terms, numbers.to_numbers(rows, terms, chance), os.urandom(32))
        return encode(seal_report(offer, offer.helper, self.id, report))


def http_bytes(path: str, body: bytes, headers: str, method: str = "POST") -> bytes:
    """A whole request."""
    head = f"{method} {path} HTTP/1.1\r\nHost: load\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode("ascii") + body


def one_row(number: int, dim: int) -> RowUpdate:
    """A share that has 1 in the first number of row `number`, and nothing else."""
    values = np.zeros((1, dim))
    values[0, 0] = 1.0
    return RowUpdate(np.array([number], dtype=np.int64), values, np.zeros(packed_size(dim)))


def some_rows(rng: np.random.Generator, size: int, dim: int, count: int) -> RowUpdate:
    """A share of the usual size: `count` rows of small numbers."""
    rows = np.sort(rng.choice(size, count, replace=False)).astype(np.int64)
    triangle = rng.normal(0, 0.1, packed_size(dim))
    return RowUpdate(rows, rng.normal(0, 0.1, (count, dim)), triangle)
