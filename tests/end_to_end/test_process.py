"""The real command in a process of its own: SIGTERM ends it well, kill -9 loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from fedrap import FedRap, Floor
from testkit.harness import PATIENCE, until

CONFIG = """
[serve]
port = {port}
retry_seconds = 0.01
[round]
min_updates = 4
max_updates = 4
min_seconds = 0.0
total = 100
[method]
name = "solve"
dim = 4
[privacy]
clip = 30.0
noise = 0.0
coefficients = [1.0]
cap = 10
separation = 2
[enrolment]
wait_steps = 0
"""


BROKEN = [  # what is no HTTP, and who hangs up in the middle of a body
    b"\x16\x03\x01\x02\x00",
    b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 9000 + b"\r\n\r\n",
    b"POST /v1/enrol HTTP/1.1\r\nHost: f\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/enrol HTTP/1.1\r\nHost: f\r\nContent-Length: 50\r\n\r\nx",
]


def _send(port: int, raw: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as peer:
        peer.sendall(raw)
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(4096):
            pass


def _free_port() -> int:
    """Below the ports that a machine hands out, so that no other test gets it before we listen."""
    while True:
        port = random.randrange(10_000, 30_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fedrap_coordinator", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )


@contextlib.contextmanager
def _serving(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log.jsonl").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "fedrap_coordinator", "serve"], cwd=folder, stderr=log
        )
    try:
        until(lambda: _answers(folder, port, process))
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=PATIENCE)


def _answers(folder: Path, port: int, process: subprocess.Popen[bytes]) -> bool:
    try:
        urlopen(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE).close()
        return True
    except (URLError, OSError):
        assert process.poll() is None, (folder / "log.jsonl").read_text()
        return False


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], str]:
    """A folder with twelve items, and tokens of devices and of an admin, by the commands."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "fedrap.toml").write_text(CONFIG.format(port=_free_port()))
    (folder / "items.txt").write_text("\n".join(f"item-{row}" for row in range(12)))
    _command(folder, "items", "add", "items.txt")
    tokens = _command(folder, "tokens", "4").stdout.split()
    ann = _command(folder, "admin", "add", "ann", "--role", "viewer").stdout.strip()
    return folder, tokens, ann


@pytest.fixture
def site(made: tuple[Path, list[str], str], tmp_path: Path) -> tuple[Path, int, list[str]]:
    """A copy of it, with a port of its own."""
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    port = _free_port()
    (tmp_path / "fedrap.toml").write_text(CONFIG.format(port=port))
    return tmp_path, port, made[1]


def _with_admin_port(folder: Path) -> int:
    own = _free_port()
    with (folder / "fedrap.toml").open("a") as config:
        config.write(f"[admin]\nport = {own}\n")
    return own


def _join(folder: Path, port: int, number: int, token: str) -> bool:
    with FedRap.open(
        folder / f"device-{number}",
        server=f"http://127.0.0.1:{port}",
        token=token,
        floor=Floor.without_privacy(min_updates=2),
    ) as device:
        device.consent(train=True, policy="test")
        for row in range(number, number + 4):
            device.record(f"item-{row}")
        return device.run_round().joined


def _events(log: Path) -> list[dict[str, object]]:
    """Whole lines of a log that somebody is writing."""
    text = log.read_text().rpartition("\n")[0]
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _status_with(folder: Path, text: str) -> str:
    """What `status` prints, once it says that."""

    def found() -> str | None:
        status = _command(folder, "status", "--json").stdout
        return status if text in status else None

    return until(found)


def test_sigterm_ends_the_process_with_0(site: tuple[Path, int, list[str]]) -> None:
    folder, port, tokens = site
    with _serving(folder, port) as process:
        assert _join(folder, port, 0, tokens[0])
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == 0
    assert '"accepted": 1' in _command(folder, "status", "--json").stdout


def test_kill_9_loses_no_accepted_update_and_the_round_goes_on(
    site: tuple[Path, int, list[str]],
) -> None:
    folder, port, tokens = site
    for number, token in enumerate(tokens):
        with _serving(folder, port) as process:
            assert _join(folder, port, number, token)
            os.kill(process.pid, signal.SIGKILL)
            process.wait(timeout=PATIENCE)
    with _serving(folder, port):
        status = _status_with(folder, '"releases": 2')
    assert '"step": 2' in status


def test_no_log_line_names_a_device_a_key_or_a_token(site: tuple[Path, int, list[str]]) -> None:
    folder, port, tokens = site
    with _serving(folder, port):
        for number, token in enumerate(tokens):
            assert _join(folder, port, number, token)
        for broken in BROKEN:
            _send(port, broken)
        _status_with(folder, '"releases": 2')
    log = (folder / "log.jsonl").read_text()
    lines = [line for line in log.splitlines() if not line.startswith("coordinator on ")]
    events = [json.loads(line)["event"] for line in lines]  # and nothing else
    assert "released" in events
    assert not any("internal" in event for event in events)
    assert "127.0.0.1" not in log.replace(f"127.0.0.1:{port}", "")  # where it listens, no more
    secrets = [path.read_text().strip() for path in (folder / "keys").glob("*.key")]
    assert len(secrets) == 4  # noise, authority, and two sealing keys
    for secret in [*tokens, *secrets]:
        assert secret not in log
    assert "device" not in log.replace("devices", "")


def test_the_admin_api_listens_on_its_own_port_for_those_with_a_token(
    site: tuple[Path, int, list[str]], made: tuple[Path, list[str], str]
) -> None:
    folder, port, _ = site
    own, token = _with_admin_port(folder), made[2]
    with _serving(folder, port) as process:
        url = f"http://127.0.0.1:{own}/admin/v1/status"
        request = Request(url, headers={"Authorization": f"Bearer {token}"})
        with urlopen(request, timeout=PATIENCE) as answer:
            assert b'"items":12' in answer.read()
        with pytest.raises(HTTPError) as refused:
            urlopen(url, timeout=PATIENCE)
        assert refused.value.code == 401
        refused.value.close()
        _command(folder, "keys", "rotate")  # beside the running coordinator
        config = (folder / "fedrap.toml").read_text()
        changed = config.replace("retry_seconds = 0.01", "retry_seconds = 5.0")
        (folder / "fedrap.toml").write_text(changed.replace("cap = 10", "cap = 20"))
        process.send_signal(signal.SIGHUP)
        log = folder / "log.jsonl"
        told = until(lambda: [one for one in _events(log) if one["event"] == "settings reloaded"])
        assert told[0]["taken"] == ["serve.retry_seconds"]
        assert told[0]["after_a_restart"] == ["privacy.cap"]
        (folder / "fedrap.toml").write_text("[serve]\nport = true")
        process.send_signal(signal.SIGHUP)
        until(lambda: any(one["event"] == "settings not reloaded" for one in _events(log)))
        (folder / "fedrap.toml").write_text(config)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == 0
    assert token not in (folder / "log.jsonl").read_text()
    assert '"rotate-keys"' in _command(folder, "audit").stdout


async def test_the_sync_form_of_run_round_is_for_code_without_a_loop(tmp_path: Path) -> None:
    with FedRap.open(tmp_path, server="http://127.0.0.1:9") as device:
        report = await asyncio.to_thread(device.run_round)
        assert report.blocked_by == "no-consent"


def test_sigterm_ends_an_open_page_too(
    site: tuple[Path, int, list[str]], made: tuple[Path, list[str], str]
) -> None:
    """A stream has no end of its own; it must not keep the process."""
    folder, port, _ = site
    own, token = _with_admin_port(folder), made[2]
    with _serving(folder, port) as process:
        address = f"http://127.0.0.1:{own}/events"
        request = Request(address, headers={"Authorization": f"Bearer {token}"})
        with urlopen(request, timeout=PATIENCE) as stream:
            assert stream.readline().startswith(b'data: {"at"')
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=PATIENCE) == 0
