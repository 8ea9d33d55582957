"""A coordinator's address without TLS: who stands in between reads and changes everything.

Version 0.1 took `http://` silently, whoever it led to.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrap import FedRap
from fedrap.cli import main
from fedrap.transport.http import HttpTransport

REFUSED = [
    "http://fed.example.org",
    "HTTP://fed.example.org:8080/",
    "http://10.0.0.7:8080",
    "http://127.0.0.1.example.org",
    "http://localhost.example.org",
    "http://127.0.0.1@fed.example.org",
    "http://fed.example.org\\@127.0.0.1",
    "http://fed.example.org#@127.0.0.1",
    "http://[2001:db8::1]:8080",
    "http://0.0.0.0:8080",
]
LOOPBACK = [
    "http://localhost:8080",
    "http://127.0.0.1",
    "http://127.9.8.7:1",
    "http://[::1]:8080/",
]


@pytest.mark.parametrize("server", REFUSED)
def test_http_leads_to_this_machine_or_nowhere(tmp_path: Path, server: str) -> None:
    with pytest.raises(ValueError, match=r"allow_http=True|address"):
        FedRap.open(tmp_path / "store", server=server)
    assert not (tmp_path / "store").exists()
    with pytest.raises(ValueError, match=r"allow_http=True|address"):
        HttpTransport(server)


@pytest.mark.parametrize(
    "server", [*LOOPBACK, "https://fed.example.org", "HTTPS://fed.example.org"]
)
def test_tls_and_loopback_need_nothing(tmp_path: Path, server: str) -> None:
    FedRap.open(tmp_path, server=server).close()
    HttpTransport(server)


def test_who_asks_for_it_by_name_gets_it(tmp_path: Path) -> None:
    FedRap.open(tmp_path, server=REFUSED[0], allow_http=True).close()
    HttpTransport(REFUSED[0], allow_http=True)


@pytest.mark.parametrize(
    "server", ["fed.example.org", "ftp://127.0.0.1", "//127.0.0.1", "http://", ""]
)
def test_an_address_that_is_none_is_refused_either_way(tmp_path: Path, server: str) -> None:
    for allow_http in (False, True):
        with pytest.raises(ValueError, match="address"):
            FedRap.open(tmp_path, server=server, allow_http=allow_http)


def test_the_command_line_says_how(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = ["--store", str(tmp_path), "--server", REFUSED[0]]
    assert main([*start, "init"]) == 2
    assert "allow" in capsys.readouterr().err
    assert main([*start, "--allow-http", "init"]) == 0
