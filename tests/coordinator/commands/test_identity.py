"""`fedrap-coordinator keys, devices, issuers, admin, audit, privacy` as an operator types them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fedrap.backend import make_issuer_key
from fedrap_coordinator.cli import main
from fedrap_coordinator.domain.records import StoredRelease
from fedrap_coordinator.domain.rounds import Phase, Round
from fedrap_coordinator.store.sql import SqlStore
from fedrap_core.plan import Plan, Privacy
from fedrap_core.wire.codec import encode_value
from tests.contracts.one_by_one import add_update, assign

DEVICE = bytes(range(16))


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fedrap.toml").write_text("seed = 0  # all else as it is by default")


def out(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert main(list(argv)) == code
    return json.loads(capsys.readouterr().out)


def in_store(act: Callable[[SqlStore], Awaitable[None]]) -> None:
    async def run() -> None:
        store = SqlStore("sqlite:///fedrap.sqlite")
        await store.open()
        try:
            await act(store)
        finally:
            await store.close()

    asyncio.run(run())


def test_keys_are_listed_and_turned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = out(capsys, "keys", "list")["keys"]
    assert [key["state"] for key in first] == ["active", "next"]
    assert main(["keys", "rotate"]) == 0
    assert first[1]["id"] in capsys.readouterr().err
    assert [key["state"] for key in out(capsys, "keys", "list")["keys"]] == [
        "retired",
        "active",
        "next",
    ]
    secrets = [path.read_text().strip() for path in (tmp_path / "keys").glob("*.key")]
    assert not any(secret in json.dumps(first) for secret in secrets)


def test_devices_are_listed_and_revoked(capsys: pytest.CaptureFixture[str]) -> None:
    async def enrol(store: SqlStore) -> None:
        await store.add_tokens([b"token"], 1.0)
        await store.enrol(b"token", DEVICE, b"key", 1.0)

    in_store(enrol)
    (shown,) = out(capsys, "devices", "list", "--json")["devices"]
    assert (shown["device"], shown["revoked"]) == (DEVICE.hex(), False)
    assert main(["devices", "revoke", DEVICE.hex()]) == 0
    assert out(capsys, "devices", "list", "--json")["devices"][0]["revoked"]
    assert out(capsys, "devices", "list", "--json", "--after", DEVICE.hex()) == {"devices": []}
    assert main(["devices", "revoke", DEVICE.hex()]) == 2
    assert "revoked before" in capsys.readouterr().err


def test_issuers_come_from_pem_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    private, public = make_issuer_key()
    (tmp_path / "public.pem").write_bytes(public)
    (tmp_path / "private.pem").write_bytes(private)
    assert main(["issuers", "add", "shop", "public.pem"]) == 0
    assert [one["name"] for one in out(capsys, "issuers", "list")["issuers"]] == ["shop"]
    for argv, says in (
        (["issuers", "add", "shop", "public.pem"], "one of that name"),
        (["issuers", "add", "other", "private.pem"], "not a public key"),
        (["issuers", "add", "other", "none.pem"], "none.pem"),
        (["issuers", "add", "x" * 41, "public.pem"], "1 to 40"),
        (["issuers", "remove", "nobody"], "no issuer"),
        (["devices", "revoke", "xyz"], "not the hex"),
    ):
        capsys.readouterr()
        assert main(argv) == 2
        assert says in capsys.readouterr().err
    assert main(["issuers", "remove", "shop"]) == 0
    assert out(capsys, "issuers", "list") == {"issuers": []}


def test_a_bearer_token_is_shown_once_and_kept_as_a_hash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["admin", "add", "ann", "--role", "operator"]) == 0
    token = capsys.readouterr().out.strip()
    assert len(token) >= 40
    assert main(["admin", "add", "ann", "--role", "viewer"]) == 2
    (ann,) = out(capsys, "admin", "list")["admins"]
    assert (ann["name"], ann["role"]) == ("ann", "operator")
    assert not any(token.encode() in path.read_bytes() for path in tmp_path.glob("fedrap.sqlite*"))
    assert main(["admin", "remove", "ann"]) == 0
    assert out(capsys, "admin", "list") == {"admins": []}
    found = out(capsys, "audit")
    assert found["broken_at"] is None
    assert [(row["action"], row["outcome"]) for row in found["rows"]] == [
        ("admin-add", "done"),
        ("admin-add", "refused"),
        ("admin-remove", "done"),
    ]
    assert all(row["who"].startswith("command line") for row in found["rows"])
    assert token not in json.dumps(found)


def test_the_ledger_is_checked_and_a_violation_is_exit_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = encode_value(Plan(privacy=Privacy(separation=2, cap=2, noise=1.5)))

    async def release(store: SqlStore, step: int) -> None:
        round_ = Round(step.to_bytes(16, "big"), step, step, float(step))
        await store.open_round(round_, plan)
        assert await assign(store, round_.id, DEVICE, step, 1, 9, 5.0)  # a careless rule
        await add_update(store, round_.id, DEVICE, b"d", b"sealed", 5.0)
        await store.add_release(StoredRelease(step + 1, step, 1, b"body", None), round_.id)

    async def well(store: SqlStore) -> None:
        await store.add_tokens([b"token"], 1.0)
        await store.enrol(b"token", DEVICE, b"key", 1.0)
        await release(store, 1)
        await release(store, 3)

    async def badly(store: SqlStore) -> None:
        await release(store, 4)

    in_store(well)
    ledger = out(capsys, "privacy", "ledger", "--json")
    assert (ledger["rounds_released"], ledger["violations"]) == (2, [])
    assert [line["noise"] for line in ledger["rounds"]] == [1.5, 1.5]
    assert all(line["phase"] == Phase.RELEASED for line in ledger["rounds"])
    in_store(badly)
    ledger = out(capsys, "privacy", "ledger", "--charges", code=1)
    assert ledger["violations"] == [
        "step 4: a device is charged for 3 steps, K 2",
        "step 4: a device counted 1 steps apart, b 2",
    ]
    assert [one["device"] for one in ledger["charges"]] == [1, 1, 1]
    assert DEVICE.hex() not in json.dumps(ledger)
    assert main(["privacy", "ledger"]) == 1
    assert "rounds_left: 3" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv", [["keys"], ["devices"], ["admin", "add", "x"], ["admin", "add", "x", "--role", "king"]]
)
def test_a_wrong_command_line_exits_with_2(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == 2
    assert "usage:" in capsys.readouterr().err
