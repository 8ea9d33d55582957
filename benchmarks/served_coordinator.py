"""A real coordinator in a process of its own, with items and enrolled devices, to be measured."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedrap_coordinator.store import schema as t
from fedrap_coordinator.store.engine import open_engine
from testkit.load_client import CheapDevice

ITEMS, DIM = 1682, 32
CONFIG = """
database = "{url}"
[serve]
port = {port}
retry_seconds = 0.01
[ingest]
batch = 64
[limits]
device = {{ burst = 1000.0, per_minute = 1000.0 }}
[round]
min_updates = {updates}
max_updates = {updates}
min_seconds = 0.0
over_selection = 1.0
total = 100
[method]
name = "solve"
dim = 32
[privacy]
clip = 30.0
noise = 0.0
coefficients = [1.0]
cap = 1000
separation = 1
[enrolment]
wait_steps = 0
"""


@dataclass
class Site:
    """A server process, its database, and devices that are enrolled there."""

    port: int
    process: subprocess.Popen[bytes]

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mb(self, line: str = "VmRSS") -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.split(f"{line}:")[1].split()[0]) / 1024


@contextmanager
def serving(url: str, folder: Path, updates: int, devices: list[CheapDevice]) -> Iterator[Site]:
    """`fedrap-coordinator serve` in a process of its own, with items and devices."""
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    (folder / "fedrap.toml").write_text(CONFIG.format(url=url, updates=updates, port=port))
    (folder / "items.txt").write_text("\n".join(f"item-{row}" for row in range(ITEMS)))
    command = [sys.executable, "-m", "fedrap_coordinator"]
    subprocess.run([*command, "items", "add", "items.txt"], cwd=folder, check=True, stderr=-3)
    engine = open_engine(url)
    with engine.begin() as db:
        rows = [{"id": one.id, "public_key": one.point, "enrolled_at": 0.0} for one in devices]
        db.execute(t.device.insert(), rows)
    engine.dispose()
    log = (folder / "log").open("wb")
    process = subprocess.Popen([*command, "serve"], cwd=folder, stderr=log)
    try:
        _wait(port, process)
        yield Site(port, process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        log.close()


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until somebody answers."""
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            raise RuntimeError("the coordinator did not start")
        time.sleep(0.05)
