"""Every route is in the OpenAPI document, and every address keeps it: schemathesis, bounded."""

from __future__ import annotations

import re
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgpack
import msgspec
import pytest
from aiohttp import web
from hypothesis import HealthCheck, Phase, given, settings

from fedrap_coordinator.admin.actions import AdminActions
from fedrap_coordinator.admin.permissions import Role
from fedrap_coordinator.app import ADMIN_RUNNER, create_app
from fedrap_coordinator.http.admin_api import create_admin_app
from fedrap_coordinator.http.dashboard import MONITOR
from fedrap_coordinator.http.metrics import Metrics
from fedrap_coordinator.http.openapi import ADMINS, DEVICES, MSGPACK, Address, document
from fedrap_coordinator.keyring import fresh_keyring
from fedrap_coordinator.settings import AdminApi
from fedrap_coordinator.sources import SYSTEM
from fedrap_coordinator.store.memory import MemoryStore
from spec.make_openapi import PATH, text
from testkit.harness import in_a_thread, serve, small_settings

EXAMPLES = 8  # of each operation, good and bad ones
PAGE_ONLY = {"/", "/session", "/events"}  # and the page's files: no interface for programs


def routes(app: web.Application) -> set[tuple[str, str]]:
    found = set()
    for route in app.router.routes():
        assert route.resource is not None
        if route.method != "HEAD":
            found.add((route.method.lower(), route.resource.canonical))
    return found


def test_every_route_is_in_the_document_and_nothing_else() -> None:
    app = create_app(small_settings(), MemoryStore(), fresh_keyring())
    assert routes(app) == {(one.method, one.path) for one in DEVICES}
    admin = create_admin_app(
        small_settings(), MemoryStore(), fresh_keyring(), SYSTEM, app[MONITOR], Metrics()
    )
    programs = {
        one for one in routes(admin) if one[1] not in PAGE_ONLY and not re.search(r"\.\w+$", one[1])
    }
    both = {("get", "/healthz"), ("get", "/readyz")}
    assert programs - both == {(one.method, one.path) for one in ADMINS}


def test_what_is_committed_is_what_is_served() -> None:
    assert PATH.read_text(encoding="utf-8") == text(), "run `make vectors`"


@dataclass(frozen=True)
class Running:
    devices: str
    admin: str
    tokens: dict[str, str]


@pytest.fixture(scope="module")
def there() -> Iterator[Running]:
    """A coordinator in a thread; the tests call it as another machine would."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Running]:
        chosen = msgspec.structs.replace(small_settings(), admin=AdminApi(port=0))
        store = MemoryStore()
        async with serve(chosen, store) as served:
            admin = AdminActions(store, chosen, SYSTEM, "test")
            tokens = {role.value: (await admin.add_admin(role.value, role)).token for role in Role}
            port = served.app[ADMIN_RUNNER].addresses[0][1]
            yield Running(served.url, f"http://127.0.0.1:{port}", tokens)

    with in_a_thread(opened()) as running:
        yield running


def _as_bytes(context: Any, value: Any) -> bytes:
    """Bodies of devices are bytes; half of what is sent is msgpack, with anything in it."""
    raw = value.data if hasattr(value, "data") else value
    if isinstance(raw, bytes):
        return raw if len(raw) % 2 else bytes(msgpack.packb({"v": 1, "type": "enrol", "x": raw}))
    return bytes(msgpack.packb(str(raw)))


@dataclass(frozen=True)
class Schema:
    """The document as schemathesis reads it, and what it holds every answer against."""

    operations: Any
    checks: list[Any]


@pytest.fixture(scope="module")
def schema() -> Schema:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import schemathesis  # takes seconds, which only the process that runs these tests needs

    schemathesis.serializer(MSGPACK)(_as_bytes)
    operations = schemathesis.openapi.from_dict(document())  # registers the checks below
    known = schemathesis.checks.CHECKS
    names = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")
    checks = [schemathesis.checks.not_a_server_error, *map(known.get_one, names)]
    return Schema(operations, checks)


@pytest.mark.parametrize("one", [*DEVICES, *ADMINS], ids=lambda one: f"{one.method} {one.path}")
def test_every_address_keeps_the_document(there: Running, schema: Schema, one: Address) -> None:
    operation = schema.operations[one.path][one.method.upper()]
    role = "operator" if one.permission in ("devices", "revoke", "tokens") else "privacy"
    if one.permission in ("import-items", "retire-items", "roll-back", "note-quality"):
        role = "operator"
    headers = {"Authorization": f"Bearer {there.tokens[role]}"} if one.permission else {}
    url = there.admin if one.permission else there.devices

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy())
    def call(case: Any) -> None:
        answer = case.call(base_url=url, headers=headers)
        if one.path != "/readyz" or answer.status_code != 503:
            assert answer.status_code < 500, answer.text
        case.validate_response(answer, checks=schema.checks)

    call()
