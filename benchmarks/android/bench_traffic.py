"""What a Java device sends and fetches in its rounds, headers included, request by request.

    python benchmarks/android/bench_traffic.py [--json PATH] [--items 1682] [--history 100]

Needs a JDK of 11 or newer and Maven. A real coordinator, four devices of the command line
(`java -jar fedrap-cli.jar join`), and a relay between them that counts bytes of TCP. Without TLS,
which adds some 5 kB to each new connection. C is what the coordinator starts with and learns in two
rounds of two devices, of which few entries are zero: bench_release.py has sizes by share of zeros.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from socket import create_server, socket
from typing import Any

from bench_android import BRIDGE, CannotMeasure, _tool, maven

SEED, DIM = 0, 32
CONFIG = """
database = "sqlite:///fedrap.db"
[serve]
port = {port}
[round]
min_updates = 2
max_updates = 2
min_seconds = 0.0
over_selection = 1.0
[method]
name = "solve"
dim = 32
[privacy]
clip = 30.0
noise = 0.0
separation = 2
cap = 10
"""
REQUEST = re.compile(rb"(?:GET|POST) (/v1/[a-z]+)")


class Relay:
    """Counts bytes both ways, by what was asked for last on the connection."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.counted: dict[str, list[int]] = defaultdict(lambda: [0, 0])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a device."""
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        asked = [""]

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: int) -> None:
            while chunk := await source.read(65536):
                if way == 0 and (found := REQUEST.match(chunk)):
                    asked[0] = found[1].decode()
                self.counted[asked[0]][way] += len(chunk)
                sink.write(chunk)
                await sink.drain()
            sink.close()

        await asyncio.gather(copy(reader, back, 0), copy(there, writer, 1), return_exceptions=True)

    def take(self) -> dict[str, Any]:
        """What was counted since the last time."""
        found = {
            path: {"up": up, "down": down} for path, (up, down) in sorted(self.counted.items())
        }
        self.counted.clear()
        ways = ("up", "down")
        total = {way: sum(one[way] for one in found.values()) for way in ways}
        return {**total, "requests": found}


def free_port() -> int:
    """One that nobody listens on."""
    with closing(socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Site:
    """A coordinator in a folder, and devices beside it."""

    def __init__(self, folder: Path, items: int, history: int) -> None:
        self.folder, self.history = folder, history
        self.rng = random.Random(SEED)
        self.names = [f"item-{row}" for row in range(items)]
        self.port = free_port()
        (folder / "fedrap.toml").write_text(CONFIG.format(port=self.port))
        (folder / "items.txt").write_text("\n".join(self.names))
        self.coordinator("items", "add", "items.txt")
        self.tokens = self.coordinator("tokens", "4").split()

    def coordinator(self, *words: str) -> str:
        """A command of the operator."""
        done = subprocess.run(
            [sys.executable, "-m", "fedrap_coordinator", *words],
            cwd=self.folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    async def join(self, device: int, url: str) -> str:
        """A round of this device; what it prints."""
        words = ["join", url, "--agree", "--store", f"device-{device}", "--wait", "20"]
        if not (self.folder / f"device-{device}").exists():
            history = self.folder / f"history-{device}.csv"
            tapped = self.rng.sample(self.names, self.history)
            history.write_text("\n".join(["item", *tapped]))
            words += ["--token", self.tokens[device], "--history", history.name]
        process = await asyncio.create_subprocess_exec(
            _tool("java"), "-jar", str(BRIDGE / "cli/target/fedrap-cli.jar"), *words,
            cwd=self.folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await process.communicate()
        if process.returncode:
            raise CannotMeasure(f"device {device} did not join: {said.decode()}")
        return said.decode()


async def measure(folder: Path, items: int, history: int) -> dict[str, Any]:
    """The first round of a device, and its next one two steps later."""
    site = Site(folder, items, history)
    serving = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "fedrap_coordinator", "serve",
        cwd=folder, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await _answers(site.port)
        relay = Relay(site.port)
        listener = create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        direct = f"http://127.0.0.1:{site.port}"
        server = await asyncio.start_server(relay.serve, sock=listener)
        async with server:
            await site.join(0, url)
            first = relay.take()
            await site.join(1, direct)
            for device in (2, 3):
                await site.join(device, direct)
            await site.join(0, url)
            return {"first_round": first, "next_round": relay.take()}
    finally:
        serving.terminate()
        await serving.wait()


async def _answers(port: int) -> None:
    for _ in range(600):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
            continue
        writer.close()
        return
    raise CannotMeasure("the coordinator did not start")


def main(argv: list[str] | None = None) -> int:
    """Print or write everything as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path, help="write the result here instead of printing it")
    parser.add_argument("--items", type=int, default=1682)
    parser.add_argument("--history", type=int, default=100)
    given = parser.parse_args(argv)
    try:
        maven("package", "-DskipTests", "-pl", "core,cli")
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(measure(Path(folder), given.items, given.history))
    except CannotMeasure as error:
        print(f"traffic was not measured: {error}", file=sys.stderr)
        return 2
    settings = {"items": given.items, "k": DIM, "history": given.history, "seed": SEED}
    result = {"benchmark": "android-traffic", "settings": settings, **found}
    text = json.dumps(result, indent=2) + "\n"
    if given.json:
        given.json.write_text(text)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
