"""The admin API over a socket: bearer tokens, roles, and an audit of everything."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestClient, TestServer

from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.permissions import PERMISSIONS, Role
from fedrap_coordinator.app import create_app
from fedrap_coordinator.http.admin_api import create_admin_app
from fedrap_coordinator.http.dashboard import MONITOR
from fedrap_coordinator.http.device_api import COORDINATOR
from fedrap_coordinator.http.metrics import Metrics
from fedrap_coordinator.keyring import Keyring, fresh_keyring
from fedrap_coordinator.sources import Sources
from fedrap_coordinator.store.memory import MemoryStore
from fedrap_core.wire.keys import new_private_key, public_point
from testkit.harness import LiveServer, serve, small_settings

POINT = public_point(new_private_key().public_key()).hex()
CALLS: dict[str, tuple[str, str, Any]] = {
    "status": ("GET", "/admin/v1/status", None),
    "rounds": ("GET", "/admin/v1/rounds?limit=5", None),
    "keys": ("GET", "/admin/v1/keys", None),
    "ledger": ("GET", "/admin/v1/privacy/ledger", None),
    "devices": ("GET", "/admin/v1/devices", None),
    "revoke": ("POST", "/admin/v1/devices/DEVICE/revoke", None),
    "tokens": ("POST", "/admin/v1/tokens", {"count": 2}),
    "rotate-keys": ("POST", "/admin/v1/keys/rotate", None),
    "policy": ("GET", "/admin/v1/policy", None),
    "change-policy": ("POST", "/admin/v1/policy", {"changes": {"noise": 1.5}, "take": True}),
    "charges": ("GET", "/admin/v1/privacy/charges", None),
    "issuers": ("POST", "/admin/v1/issuers", {"name": "shop", "public_key": POINT}),
    "audit": ("GET", "/admin/v1/audit", None),
    "overview": ("GET", "/admin/v1/overview", None),
    "releases": ("GET", "/admin/v1/releases", None),
    "items": ("GET", "/admin/v1/items?start=2&search=item", None),
    "quality": ("GET", "/admin/v1/quality", None),
    "metrics": ("GET", "/metrics", None),
    "import-items": ("POST", "/admin/v1/items", b"new-1\nnew-2"),
    "retire-items": ("POST", "/admin/v1/items/retire", {"items": ["item-1"]}),
    "roll-back": ("POST", "/admin/v1/releases/rollback", {"version": 1}),
    "ask": ("POST", "/admin/v1/questions", {"metric": "mrr", "days": 2.0}),
    "roll-out": ("POST", "/admin/v1/rollouts", {"shares": [0.1]}),
    "note-quality": ("POST", "/admin/v1/quality", {"version": 1, "metric": "hr", "value": 0.1}),
}


@dataclass
class AdminClient:
    """A running coordinator, its admin API, and a token for each role."""

    served: LiveServer
    keyring: Keyring
    client: TestClient[Any, Any]
    tokens: dict[str, str]

    async def call(
        self, role: str | None, method: str, path: str, body: Any = None
    ) -> tuple[int, dict[str, Any]]:
        headers = {} if role is None else {"Authorization": f"Bearer {self.tokens[role]}"}
        raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        async with self.client.request(method, path, data=raw, headers=headers) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text.startswith("{") else {"text": text}

    async def audit(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.call("privacy", *CALLS["audit"][:2]))[1]["rows"]
        return found


@pytest_asyncio.fixture
async def api() -> AsyncIterator[AdminClient]:
    store, keyring = MemoryStore(), fresh_keyring()
    settings = small_settings(updates=1, separation=1)
    async with serve(settings, store, keyring) as served:
        admin = AdminActions(store, settings, Sources(lambda: 5.0), "test")
        tokens = {role.value: (await admin.add_admin(role.value, role)).token for role in Role}
        tokens |= {"nobody": "not-a-token"}
        app = create_admin_app(
            settings, store, keyring, Sources(lambda: 6.0), served.app[MONITOR], Metrics()
        )
        async with TestClient(TestServer(app)) as client:
            yield AdminClient(served, keyring, client, tokens)


def problem(answer: dict[str, Any]) -> str:
    return str(answer["type"]).removeprefix("urn:fedrap:problem:")


def test_every_right_has_a_call_here() -> None:
    assert set(CALLS) == set(PERMISSIONS)


@pytest.mark.parametrize("role", [*Role, "nobody", None])
@pytest.mark.parametrize("action", sorted(CALLS))
async def test_each_role_does_what_it_may_and_nothing_else(
    api: AdminClient, action: str, role: str | None
) -> None:
    player = await api.served.player()
    await player.join()  # so that there is a version to go back to
    method, path, body = CALLS[action]
    status, answer = await api.call(role, method, path.replace("DEVICE", player.id.hex()), body)
    if role in (None, "nobody"):
        assert (status, problem(answer)) == (401, "unknown-admin")
    elif role in PERMISSIONS[action]:
        assert status == 200, answer
    else:
        assert (status, problem(answer)) == (403, "not-allowed")
        last = (await api.audit())[-1]
        assert (last["who"], last["action"], last["outcome"]) == (role, action, "not-allowed")


async def test_a_revoked_device_is_shut_out_at_once_and_the_audit_says_by_whom(
    api: AdminClient,
) -> None:
    player = await api.served.player()
    assert (await player.ask()).status == 200
    path = f"/admin/v1/devices/{player.id.hex()}/revoke"
    assert (await api.call("operator", "POST", path))[0] == 200
    assert (await player.ask()).problem == "revoked"
    assert problem((await api.call("operator", "POST", path))[1]) == "not-found"
    nonsense = await api.call("operator", "POST", "/admin/v1/devices/zz/revoke")
    assert problem(nonsense[1]) == "malformed"
    kept = [row for row in await api.audit() if row["action"] == "revoke"]
    assert [(row["who"], row["target"], row["outcome"]) for row in kept] == [
        ("operator", player.id.hex(), "done"),
        ("operator", player.id.hex(), "refused"),
    ]
    (shown,) = (await api.call("operator", "GET", "/admin/v1/devices"))[1]["devices"]
    assert (shown["revoked"], shown["charged"]) == (True, 1)


async def test_tokens_enrol_devices_and_stay_out_of_the_audit(api: AdminClient) -> None:
    status, answer = await api.call("operator", "POST", "/admin/v1/tokens", {"count": 2})
    assert (status, len(set(answer["tokens"]))) == (200, 2)
    rows = json.dumps(await api.audit())
    assert not any(token in rows for token in [*answer["tokens"], *api.tokens.values()])


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/admin/v1/tokens", {"count": 0}),
        ("POST", "/admin/v1/tokens", {"count": "2"}),
        ("POST", "/admin/v1/tokens", {}),
        ("POST", "/admin/v1/tokens", b"\xff not json"),
        ("POST", "/admin/v1/tokens", b"[" * 5000),
        ("GET", "/admin/v1/rounds?limit=0", None),
        ("GET", "/admin/v1/rounds?limit=x", None),
        ("GET", "/admin/v1/devices?after=zz", None),
        ("POST", "/admin/v1/items", b"a\x00b"),
    ],
)
async def test_bad_input_is_a_problem_and_never_a_500(
    api: AdminClient, method: str, path: str, body: Any
) -> None:
    status, answer = await api.call("operator", method, path, body)
    assert (status, problem(answer)) == (400, "malformed")


async def test_a_name_with_a_nul_is_refused_before_a_database_sees_it(api: AdminClient) -> None:
    removed = await api.call("privacy", "DELETE", "/admin/v1/issuers/a%00b")
    assert (removed[0], problem(removed[1])) == (400, "malformed")
    added = {"name": "a\x00b", "public_key": POINT}
    assert (await api.call("privacy", "POST", "/admin/v1/issuers", added))[0] == 400
    retired = await api.call("operator", "POST", "/admin/v1/items/retire", {"items": ["a\x00"]})
    assert retired == (200, {"retired": 0})


async def test_issuers_are_added_once_listed_and_removed(api: AdminClient) -> None:
    call = ("privacy", "POST", "/admin/v1/issuers")
    assert (await api.call(*call, {"name": "shop", "public_key": POINT}))[0] == 200
    again = await api.call(*call, {"name": "shop", "public_key": POINT})
    assert (again[0], problem(again[1])) == (409, "exists-already")
    for bad in ({"name": "x", "public_key": "04" + "00" * 64}, {"name": "", "public_key": POINT}):
        assert (await api.call(*call, bad))[0] == 400
    (shown,) = (await api.call("privacy", "GET", "/admin/v1/issuers"))[1]["issuers"]
    assert (shown["name"], shown["public_key"]) == ("shop", POINT)
    assert (await api.call("privacy", "DELETE", "/admin/v1/issuers/shop"))[0] == 200
    assert (await api.call("privacy", "DELETE", "/admin/v1/issuers/shop"))[0] == 404


@pytest.mark.spec("7.5", "7.6")
async def test_the_ledger_counts_what_happened_and_names_no_device(api: AdminClient) -> None:
    players = [await api.served.player() for _ in range(3)]
    for player in (players[0], players[1], players[0]):
        await player.join()
    await players[2].offer()  # a place, no update yet
    books = (await api.call("viewer", "GET", "/admin/v1/privacy/ledger"))[1]
    assert (books["rounds_released"], books["rounds_left"], books["violations"]) == (3, 97, [])
    assert (books["devices_charged"], books["devices_by_charges"]) == (3, {"1": 2, "2": 1})
    assert [line["charged"] for line in books["rounds"]] == [1, 1, 1, 1]
    whole = (await api.call("privacy", "GET", "/admin/v1/privacy/charges"))[1]
    assert [one["update"] for one in whole["charges"]] == [True, True, True, False]
    assert whole["charges"][0]["device"] == whole["charges"][2]["device"]
    text = json.dumps([books, whole])
    assert not any(player.id.hex() in text for player in players)


async def test_keys_are_listed_without_secrets_and_turned(api: AdminClient) -> None:
    before = (await api.call("viewer", "GET", "/admin/v1/keys"))[1]["keys"]
    turned = (await api.call("operator", "POST", "/admin/v1/keys/rotate"))[1]["active"]
    after = (await api.call("viewer", "GET", "/admin/v1/keys"))[1]["keys"]
    assert [key["state"] for key in before] == ["active", "next"]
    assert [key["state"] for key in after] == ["retired", "active", "next"]
    assert after[1]["id"] == turned == api.keyring.seal_id.hex()
    assert set(after[0]) == {"id", "state", "made_at", "since"}


async def test_devices_cannot_reach_the_admin_api_nor_admins_the_rounds(api: AdminClient) -> None:
    async with api.served.session.get(api.served.url + "/admin/v1/status") as answer:
        assert answer.status == 404
    assert (await api.call("operator", "POST", "/v1/offers"))[0] == 404


async def test_without_a_port_there_is_no_admin_api() -> None:
    settings = small_settings()
    assert settings.admin.port is None
    app = create_app(settings, MemoryStore(), fresh_keyring())
    assert len(app.cleanup_ctx) == 1
    assert COORDINATOR in app
