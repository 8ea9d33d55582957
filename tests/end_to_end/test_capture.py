"""What leaves a device, byte by byte: a real device, a real coordinator, a proxy in between.

What should happen: nothing before consent; then the requests of docs/embedding.md in this order.
What should not happen: an item id, a weight or a time of an interaction in any byte, or a length
that tells one user's items from another's.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fedrap import FedRap, Floor
from fedrap_coordinator.store.memory import MemoryStore
from testkit.harness import LiveServer, serve, small_settings

ROOT = Path(__file__).parent.parent.parent
ITEMS = [f"zq{row:02d}-{word}" for row, word in enumerate(["kettle", "novel", "spade"] * 10)]
WEIGHT, WHEN = 7.3125, 1_234_567_890.625
HEX = re.compile(r"[0-9a-f]{32}")


@dataclass
class Capture:
    """Every byte that a device sent, connection by connection."""

    port: int = 0
    connections: list[bytearray] = field(default_factory=list)

    @property
    def sent(self) -> bytes:
        return b"|".join(bytes(one) for one in self.connections)

    def requests(self) -> list[Request]:
        return [request for one in self.connections for request in _requests(bytes(one))]


@dataclass(frozen=True)
class Request:
    """One request as it crossed the network."""

    line: str  # ids of rounds as {round}
    headers: dict[str, str]
    body: bytes


def _requests(raw: bytes) -> list[Request]:
    found = []
    while raw:
        head, _, rest = raw.partition(b"\r\n\r\n")
        line, *headers = head.decode("ascii").split("\r\n")
        named = {name.lower(): value for name, _, value in (one.partition(": ") for one in headers)}
        assert "transfer-encoding" not in named
        size = int(named.get("content-length", "0"))
        found.append(Request(HEX.sub("{round}", line), named, rest[:size]))
        raw = rest[size:]
    return found


@asynccontextmanager
async def recording(server: str) -> AsyncIterator[Capture]:
    """A proxy on a free port that passes everything on and keeps what devices send."""
    host, _, port = server.removeprefix("http://").partition(":")
    capture = Capture()

    async def pump(
        source: asyncio.StreamReader, sink: asyncio.StreamWriter, kept: bytearray | None
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while part := await source.read(65_536):
                if kept is not None:
                    kept += part
                sink.write(part)
                await sink.drain()
        sink.close()

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        capture.connections.append(bytearray())
        kept = capture.connections[-1]
        upstream, to_upstream = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, to_upstream, kept), pump(upstream, writer, None))

    proxy = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    capture.port = proxy.sockets[0].getsockname()[1]
    try:
        yield capture
    finally:
        proxy.close()
        await proxy.wait_closed()


@asynccontextmanager
async def captured() -> AsyncIterator[tuple[LiveServer, Capture]]:
    """A coordinator behind a recording proxy."""
    async with (
        serve(small_settings(updates=2), MemoryStore(), items=ITEMS) as served,
        recording(served.url) as capture,
    ):
        yield served, capture


async def a_device(served: LiveServer, capture: Capture, folder: Path, items: list[str]) -> FedRap:
    """A device of the product, over real HTTP, with this history and no consent."""
    server = f"http://127.0.0.1:{capture.port}"
    device = FedRap.open(
        folder,
        server=server,
        token=await served.token(),
        floor=Floor.without_privacy(min_updates=2),
    )
    for place, item in enumerate(items):
        device.record(item, kind="wish-listed", weight=WEIGHT, at=WHEN + place)
    return device


def spellings(number: float) -> list[bytes]:
    """How a number could be written: text, floats and integers of both byte orders."""
    codes = ["<d", ">d", "<f", ">f"]
    packed = [struct.pack(code, number) for code in codes]
    packed += [struct.pack(code, int(number)) for code in ("<I", ">I", "<Q", ">Q") if number > 1e6]
    return [*packed, repr(number).encode(), *([str(int(number)).encode()] if number > 1e6 else [])]


async def test_nothing_is_sent_before_consent_and_after_it_is_taken_back(tmp_path: Path) -> None:
    async with captured() as (served, capture):
        with await a_device(served, capture, tmp_path, ITEMS[:3]) as device:
            await device.sync_async()
            assert (await device.run_round_async()).blocked_by == "no-consent"
            device.recommend(5)
            device.status()
            assert capture.connections == []
            device.consent(train=True, policy="test")
            device.consent(train=False, policy="test")
            await device.sync_async()
            await device.run_round_async()
        assert capture.connections == []


async def test_a_round_sends_these_requests_and_no_others(tmp_path: Path) -> None:
    async with captured() as (served, capture):
        with await a_device(served, capture, tmp_path, ITEMS[:3]) as device:
            device.consent(train=True, policy="a policy of the app")
            report = await device.run_round_async()
            assert report.joined
        requests = capture.requests()
    assert [request.line for request in requests] == [
        "POST /v1/enrol HTTP/1.1",
        "GET /v1/releases/latest HTTP/1.1",
        "GET /v1/catalogue?start=0 HTTP/1.1",
        "POST /v1/offers HTTP/1.1",
        "POST /v1/rounds/{round}/updates HTTP/1.1",
    ]
    sizes = [len(request.body) for request in requests]
    assert sizes[1:3] == [0, 0]
    assert max(sizes[0], sizes[3]) < 200
    assert sizes[4] == report.sent_bytes
    known = {
        "host", "accept", "accept-encoding", "user-agent", "content-length", "content-type",
        "fedrap-device", "fedrap-nonce", "fedrap-signature", "if-none-match",
    }  # fmt: skip
    for request in requests:
        assert set(request.headers) <= known, request.headers
        signed = request.line.startswith(("POST /v1/offers", "POST /v1/rounds"))
        assert ("fedrap-device" in request.headers) == signed


async def test_no_item_weight_time_kind_or_policy_is_in_any_byte(tmp_path: Path) -> None:
    async with captured() as (served, capture):
        with await a_device(served, capture, tmp_path, ITEMS[:5]) as device:
            device.consent(train=True, policy="a policy of the app")
            assert (await device.run_round_async()).joined
        sent = capture.sent
    assert len(sent) > 1000
    for item in ITEMS:
        for secret in (item, item.partition("-")[2]):
            assert secret.encode() not in sent
            assert secret.encode().hex().encode() not in sent
    for place in range(5):
        assert not [one for one in spellings(WHEN + place) if one in sent]
    assert not [one for one in spellings(WEIGHT) if one in sent]
    for word in (b"wish-listed", b"a policy of the app", str(tmp_path).encode()):
        assert word not in sent


async def test_the_lengths_of_two_users_with_other_items_are_the_same(tmp_path: Path) -> None:
    async with captured() as (served, capture):
        histories = {"one": ITEMS[:3], "two": ITEMS[10:17]}
        for name, items in histories.items():
            with await a_device(served, capture, tmp_path / name, items) as device:
                device.consent(train=True, policy="test")
                assert (await device.run_round_async()).joined
        updates = [one for one in capture.requests() if "updates" in one.line]
    first, second = updates
    assert len(first.body) == len(second.body)
    assert first.body != second.body
    assert first.headers.keys() == second.headers.keys()


async def test_the_same_round_twice_is_other_bytes_each_time(tmp_path: Path) -> None:
    async with captured() as (served, capture):
        for name in ("one", "two"):
            with await a_device(served, capture, tmp_path / name, ITEMS[:3]) as device:
                device.consent(train=True, policy="test")
                await device.run_round_async()
        first, second = [one.body for one in capture.requests() if "updates" in one.line]
    # Two users with one history: nobody on the way can tell that their items are the same.
    sealed = [body[-400:] for body in (first, second)]
    same = sum(a == b for a, b in zip(*sealed, strict=True))
    assert same < 20


@pytest.mark.parametrize("line", ["POST /v1/enrol", "POST /v1/offers", "GET /v1/catalogue?start="])
def test_the_page_for_developers_names_every_request(line: str) -> None:
    page = (ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")
    assert line in page
