"""Devices in Java for tests: several in one process, driven over its stdin."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.android.java_build import BRIDGE, build_java

MAIN = "io.fedrap.core.DevicesOnStdin"


@dataclass
class JavaDevices:
    """A process that holds devices by name."""

    process: subprocess.Popen[str]

    def ask(self, device: str, verb: str, **what: Any) -> Any:
        """What the device answers.

        Raises:
            Died: the process ended instead.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"device": device, "do": verb, **what}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise Died(self.process.wait(20))
        return json.loads(line)

    async def do(self, device: str, verb: str, **what: Any) -> Any:
        """`ask` beside a coordinator that runs in this loop; an error of the device fails."""
        answer = await asyncio.to_thread(self.ask, device, verb, **what)
        assert not isinstance(answer, dict) or "error" not in answer, answer
        return answer

    async def device(
        self, name: str, folder: Path, server: str, token: str | None, items: list[str], **more: Any
    ) -> None:
        """A consenting device with this history, oldest first."""
        await self.do(name, "open", folder=str(folder), server=server, token=token, **more)
        await self.do(name, "consent", train=True)
        await self.record(name, items)

    async def record(self, name: str, items: list[str], weight: float = 1.0) -> None:
        """Interactions at times of long ago, in this order."""
        recorded = [[item, weight, 1_000_000 + place] for place, item in enumerate(items)]
        await self.do(name, "record", items=recorded)

    async def run(self, name: str, wait: float = 0.0) -> dict[str, Any]:
        """A round; its report."""
        report: dict[str, Any] = await self.do(name, "run", wait=wait)
        return report

    async def status(self, name: str) -> dict[str, Any]:
        """Where the device stands."""
        status: dict[str, Any] = await self.do(name, "status")
        return status


class Died(Exception):
    """The process of the devices ended; `code` is how."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


@contextmanager
def java_devices(short_lived: bool = True) -> Iterator[JavaDevices]:
    """A process without devices yet; one that lives for long is worth compiling well."""
    java = build_java()
    assert java.status == 0, java.said[-6000:]
    folders = [
        "core/target/classes",
        "core/target/test-classes",
        "measure/target/classes",
        "split/target/classes",
    ]
    path = ":".join(str(BRIDGE / folder) for folder in folders)
    process = subprocess.Popen(
        ["java", *(["-XX:TieredStopAtLevel=1"] if short_lived else []), "-cp", path, MAIN],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield JavaDevices(process)
    finally:
        process.kill()
        process.wait(20)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
