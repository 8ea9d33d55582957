"""One table of admin actions: permissions, routes and the command line follow from it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.documents import Answer
from fedrap_coordinator.admin.permissions import PERMISSIONS, Role
from fedrap_coordinator.admin.table import ACTIONS, SERVED, Arguments
from fedrap_coordinator.cli import main
from fedrap_coordinator.http.admin_api import create_admin_app
from fedrap_coordinator.http.dashboard import MONITOR
from fedrap_coordinator.http.metrics import Metrics
from fedrap_coordinator.keyring import open_keyring
from fedrap_coordinator.sources import SYSTEM
from fedrap_coordinator.store.sql import SqlStore
from testkit.harness import serve, small_settings

# A command that prints the answer of an action, and the address that sends it.
SAME = {
    ("status", "--json"): "/admin/v1/status",
    ("rounds", "--json", "--limit", "100"): "/admin/v1/rounds",
    ("items", "list", "--json"): "/admin/v1/items",
    ("releases", "list", "--json", "--limit", "100"): "/admin/v1/releases",
    ("quality", "list", "--json"): "/admin/v1/quality",
    ("devices", "list", "--json"): "/admin/v1/devices",
    ("keys", "list", "--json"): "/admin/v1/keys",
    ("issuers", "list", "--json"): "/admin/v1/issuers",
    ("privacy", "ledger", "--json"): "/admin/v1/privacy/ledger",
    ("privacy", "ledger", "--charges", "--json"): "/admin/v1/privacy/charges",
}


def test_every_action_has_its_own_name_and_a_permission_that_is_known() -> None:
    assert len({action.name for action in ACTIONS}) == len(ACTIONS)
    assert {action.permission for action in SERVED} | {"metrics"} == set(PERMISSIONS)
    assert all(action.permission == action.method == "" for action in set(ACTIONS) - set(SERVED))
    addresses = [(action.method, action.path) for action in SERVED]
    assert len(set(addresses)) == len(addresses)


def test_every_action_takes_and_gives_a_struct() -> None:
    for action in ACTIONS:
        assert issubclass(action.arguments, Arguments)
        assert issubclass(action.answer, Answer)
        assert issubclass(action.answer, msgspec.Struct)


async def test_the_command_line_prints_what_the_api_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fedrap.toml").write_text("seed = 0  # all else as it is by default")
    monkeypatch.setenv("FEDRAP__ROUND__TOTAL", "7")
    monkeypatch.setenv("FEDRAP__PRIVACY__CAP", "10")
    settings, keyring = small_settings(updates=1, total=7), open_keyring(tmp_path / "keys")
    store = SqlStore(f"sqlite:///{tmp_path / 'fedrap.sqlite'}")
    async with serve(settings, store, keyring) as served:
        await (await served.player()).join()
        admin = AdminActions(store, settings, SYSTEM, "test")
        tokens = {role: (await admin.add_admin(role.value, role)).token for role in Role}
        app = create_admin_app(settings, store, keyring, SYSTEM, served.app[MONITOR], Metrics())
        async with TestClient(TestServer(app)) as client:
            for argv, path in SAME.items():
                action = next(one for one in SERVED if (one.method, one.path) == ("get", path))
                role = next(role for role in Role if role in PERMISSIONS[action.permission])
                headers = {"Authorization": f"Bearer {tokens[role]}"}
                async with client.get(path, headers=headers) as answer:
                    sent: Any = await answer.json()
                capsys.readouterr()
                assert await asyncio.to_thread(main, list(argv)) == 0
                assert json.loads(capsys.readouterr().out) == sent, argv
                assert msgspec.convert(sent, action.answer) is not None
