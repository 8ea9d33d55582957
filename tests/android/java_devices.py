"""Devices in Java for tests: built once, several in one process, driven over its stdin.

Where there is no JDK or no Maven the tests are skipped, and say what to install.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
BRIDGE = ROOT / "android_bridge"
NEEDED = "needs a JDK and Maven: apt install default-jdk-headless maven"
MISSING = [tool for tool in ("javac", "mvn") if shutil.which(tool) is None]
needs_java = pytest.mark.skipif(bool(MISSING), reason=NEEDED)


def build() -> Path:
    """The folder with the classes of `core` and of its tests; built when sources are newer."""
    target = BRIDGE / "core" / "target"
    made = target / "test-classes" / "io" / "fedrap" / "core" / "DevicesOnStdin.class"
    target.mkdir(exist_ok=True)
    with (target / ".build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # pytest may run in several processes
        if not made.exists() or made.stat().st_mtime < _newest():
            _maven("-pl", "core", "-DskipTests", "package")
            made.touch()
    return target


def _newest() -> float:
    sources = [*BRIDGE.glob("*/src/**/*.java"), *BRIDGE.glob("**/pom.xml")]
    return max(one.stat().st_mtime for one in sources)


def _maven(*goals: str) -> None:
    """Offline first: a machine that has built it once needs no network."""
    command = ["mvn", "-q", "-B", *goals]
    for offline in (["-o"], []):
        done = subprocess.run(
            [*command, *offline], cwd=BRIDGE, capture_output=True, text=True, timeout=600
        )
        if done.returncode == 0:
            return
    raise AssertionError(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")


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
        """Taps at times of long ago, in this order."""
        taps = [[item, weight, 1_000_000 + place] for place, item in enumerate(items)]
        await self.do(name, "record", items=taps)

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
def java_devices() -> Iterator[JavaDevices]:
    """A process without devices yet."""
    target = build()
    path = f"{target / 'classes'}:{target / 'test-classes'}:{junit()}"
    process = subprocess.Popen(
        ["java", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", path, MAIN],
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


MAIN = "io.fedrap.core.DevicesOnStdin"


def junit() -> str:
    """The jars that the test classes name; Maven has fetched them."""
    home = Path.home() / ".m2" / "repository"
    wanted = ("org/junit/jupiter/junit-jupiter-api", "org/opentest4j/opentest4j")
    return ":".join(str(jar) for place in wanted for jar in (home / place).glob("*/*.jar"))
