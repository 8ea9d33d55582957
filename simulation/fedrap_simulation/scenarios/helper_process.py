"""A helper of private aggregation as a process of its own, set up as docs/aggregation.md says."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedrap_aggregator.cli import main as aggregator
from fedrap_aggregator.keys import KeyFolder
from fedrap_coordinator.commands import run as coordinator
from fedrap_coordinator.settings import HelperServer

PATIENCE = 120.0  # seconds until it must be healthy


@dataclass
class HelperProcess:
    """`fedrap-aggregator serve`, over mTLS, from a folder that has the leader's certificate too."""

    folder: Path
    port: int
    monitor: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Until it is healthy."""
        with (self.folder / "helper.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fedrap_aggregator", "serve",
                 "--config", str(self.folder / "helper.toml")],
                stderr=log, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )  # fmt: skip
        end = time.monotonic() + PATIENCE
        while self.health() is None:
            if self.process.poll() is not None or time.monotonic() > end:
                said = (self.folder / "helper.log").read_text("utf-8")[-2000:]
                raise RuntimeError(f"the helper does not start: {said}")
            time.sleep(0.05)

    def health(self) -> dict[str, object] | None:
        """What its monitor says; None where it is away."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.monitor}/healthz") as answer:
                found: dict[str, object] = json.load(answer)
                return found
        except OSError:
            return None

    def metrics(self) -> str:
        """As a scraper reads them."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.monitor}/metrics") as answer:
            return bytes(answer.read()).decode()

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    @property
    def identity(self) -> str:
        """What apps pin."""
        return KeyFolder(self.folder / "helper-keys").pin

    def server(self) -> HelperServer:
        """How the leader reaches it."""
        return HelperServer(
            url=f"https://127.0.0.1:{self.port}",
            identity=self.identity,
            certificate=str(self.folder / "helper.pem"),
            own_certificate=str(self.folder / "leader.pem"),
            own_key=str(self.folder / "keys" / "leader.key"),
        )


@contextlib.contextmanager
def helper_process(folder: Path, least: int = 2) -> Iterator[HelperProcess]:
    """Both sides' certificates made and swapped, the helper served, and ended afterwards.

    Raises:
        RuntimeError: it cannot be set up or does not start.
    """
    port, monitor = _free_port(), _free_port()
    config = folder / "helper.toml"
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        init = ["init", "--config", str(config), "--name", "a partner", "--port", str(port)]
        done = aggregator([*init, "--listen", "127.0.0.1"])
        done += coordinator(["--config", str(folder / "fedrap.toml"), "helper", "certificate"])
    if done:
        raise RuntimeError(f"a helper cannot be set up in {folder}")
    text = config.read_text(encoding="utf-8")
    text = text.replace("monitor_port = 9471", f"monitor_port = {monitor}")
    config.write_text(text.replace("least = 20", f"least = {least}"), encoding="utf-8")
    helper = HelperProcess(folder, port, monitor)
    try:
        helper.start()
        yield helper
    finally:
        if helper.process is not None and helper.process.poll() is None:
            helper.process.terminate()
            helper.process.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
