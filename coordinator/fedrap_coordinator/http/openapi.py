"""The OpenAPI document of both faces: devices' (msgpack) and the admin's (JSON).

A test compares it with the routes, and another calls every address with what it allows and with
what it does not. `spec/openapi.json` is this document, written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedrap_coordinator.admin.permissions import PERMISSIONS
from fedrap_core.wire import problems

Schema = dict[str, Any]
MSGPACK = "application/vnd.fedrap+msgpack"
JSON = "application/json"
BYTES: Schema = {"type": "string", "format": "binary"}
OBJECT: Schema = {"type": "object"}
COUNT: Schema = {"type": "integer", "minimum": 0}


@dataclass(frozen=True)
class Address:
    """One operation."""

    method: str
    path: str
    about: str
    answer: Schema
    kind: str = JSON
    parameters: tuple[Schema, ...] = ()
    body: Mapping[str, Schema] = field(default_factory=dict)
    signed: bool = False
    right: str = ""  # of the admin API
    statuses: tuple[int, ...] = ()  # good ones beside 200


def _asked(name: str, schema: Schema, about: str, where: str = "query") -> Schema:
    return {
        "name": name, "in": where, "required": where == "path", "schema": schema,
        "description": about,
    }  # fmt: skip


def _object(**fields: Schema) -> Schema:
    return {"type": "object", "required": sorted(fields), "properties": fields}


def _wanted(**fields: Schema) -> Mapping[str, Schema]:
    return {JSON: {**_object(**fields), "additionalProperties": False}}


def _list(name: str) -> Schema:
    return _object(**{name: {"type": "array", "items": OBJECT}})


VERSION = _asked("version", {**COUNT, "maximum": 2**31}, "of C", "path")
HAVE = _asked("have", {**COUNT, "maximum": 2**31}, "the version that the device holds")
START = _asked("start", {**COUNT, "maximum": 999_999_999}, "the first row that is wanted")
LIMIT = _asked("limit", {"type": "integer", "minimum": 1, "maximum": 1000}, "rows of the answer")
HEX16: Schema = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
WORD: Schema = {"type": "string", "minLength": 1, "maxLength": 40}

DEVICES = (
    Address("get", "/healthz", "Alive.", _object(status={"const": "ok"})),
    Address("get", "/readyz", "Can devices be served?", OBJECT, statuses=(503,)),
    Address("get", "/v1/openapi.json", "This document.", OBJECT),
    Address("post", "/v1/enrol", "A token for a device id.", BYTES, MSGPACK, body={MSGPACK: BYTES}),
    Address(
        "post", "/v1/renew", "A new certificate.", BYTES, MSGPACK, body={MSGPACK: BYTES},
        signed=True,
    ),
    Address(
        "post", "/v1/offers", "A place in the open round.", BYTES, MSGPACK, body={MSGPACK: BYTES},
        signed=True,
    ),
    Address(
        "post", "/v1/rounds/{round}/updates", "A sealed update.", BYTES, MSGPACK,
        (_asked("round", HEX16, "of the offer", "path"),), {MSGPACK: BYTES}, signed=True,
    ),
    Address(
        "post", "/v1/forget", "A device that is no more.", BYTES, MSGPACK, body={MSGPACK: BYTES},
        signed=True,
    ),
    Address(
        "get", "/v1/releases/latest", "The newest C: whole, as a delta, or 304.", BYTES, MSGPACK,
        (HAVE,), statuses=(304,),
    ),
    Address(
        "get", "/v1/releases/{version}", "One version of C; it never changes.", BYTES, MSGPACK,
        (VERSION,), statuses=(304,),
    ),
    Address("get", "/v1/catalogue", "Items from a row on.", BYTES, MSGPACK, (START,)),
    Address("get", "/v1/privacy", "What is promised, and on what it rests.", OBJECT),
)  # fmt: skip

_ROLES = "Roles: {}."
ADMINS = (
    Address("get", "/admin/v1/status", "Counts and the open round.", OBJECT, right="status"),
    Address("get", "/admin/v1/overview", "What the page shows.", OBJECT, right="overview"),
    Address("get", "/admin/v1/rounds", "The last rounds.", _list("rounds"), JSON, (LIMIT,),
            right="rounds"),
    Address("get", "/admin/v1/devices", "Devices by id.", _list("devices"), JSON,
            (LIMIT, _asked("after", {"type": "string", "pattern": "^([0-9a-f]{2})*$"}, "an id")),
            right="devices"),
    Address("post", "/admin/v1/devices/{device}/revoke", "Shut a device out.", OBJECT, JSON,
            (_asked("device", HEX16, "its id", "path"),), right="revoke"),
    Address("post", "/admin/v1/tokens", "Enrolment tokens.", OBJECT, JSON, (),
            _wanted(count={"type": "integer", "minimum": 1, "maximum": 1_000_000}),
            right="tokens"),
    Address("get", "/admin/v1/privacy/ledger", "What was charged, checked.", OBJECT,
            right="ledger"),
    Address("get", "/admin/v1/privacy/charges", "Every place; devices as numbers.", OBJECT,
            right="charges"),
    Address("get", "/admin/v1/issuers", "Backends that sign tokens.", _list("issuers"),
            right="issuers"),
    Address("post", "/admin/v1/issuers", "Register a backend.", OBJECT, JSON, (),
            _wanted(name=WORD, public_key={"type": "string", "pattern": "^04[0-9a-f]{128}$"}),
            right="issuers"),
    Address("delete", "/admin/v1/issuers/{name}", "Refuse its tokens.", OBJECT, JSON,
            (_asked("name", WORD, "of the issuer", "path"),), right="issuers"),
    Address("get", "/admin/v1/keys", "Sealing keys without secrets.", _list("keys"), right="keys"),
    Address("post", "/admin/v1/keys/rotate", "The next key becomes active.", OBJECT,
            right="rotate-keys"),
    Address("get", "/admin/v1/audit", "What people with rights did.", OBJECT, right="audit"),
    Address("get", "/admin/v1/releases", "Versions of C.", _list("releases"), JSON, (LIMIT,),
            right="releases"),
    Address("post", "/admin/v1/releases/rollback", "An earlier C as a new version.", OBJECT, JSON,
            (), _wanted(version={**COUNT, "maximum": 2**31}), right="roll-back"),
    Address("get", "/admin/v1/items", "Items by row.", _list("items"), JSON,
            (START, LIMIT, _asked("search", {"type": "string", "maxLength": 200}, "in words")),
            right="items"),
    Address("post", "/admin/v1/items", "Import a catalogue file.", OBJECT, JSON, (),
            {"text/plain": {"type": "string"}, "text/csv": {"type": "string"},
             JSON: {"type": "array", "items": {"type": "string"}}}, right="import-items"),
    Address("post", "/admin/v1/items/retire", "Show them no more.", OBJECT, JSON, (),
            _wanted(items={"type": "array", "items": {"type": "string"}}), right="retire-items"),
    Address("get", "/admin/v1/quality", "What was measured elsewhere.", _list("quality"),
            right="quality"),
    Address("post", "/admin/v1/quality", "Note a number of a release.", OBJECT, JSON, (),
            _wanted(version={**COUNT, "maximum": 2**31}, metric=WORD, value={"type": "number"}),
            right="note-quality"),
    Address("get", "/metrics", "For Prometheus.", {"type": "string"}, "text/plain",
            right="metrics"),
)  # fmt: skip


def document() -> Schema:
    """All of it, OpenAPI 3.1."""
    paths: dict[str, Schema] = {}
    for face, addresses in (("devices", DEVICES), ("admin", ADMINS)):
        for one in addresses:
            paths.setdefault(one.path, {})[one.method] = _operation(one, face)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "FedRAP coordinator",
            "version": "1",
            "description": (
                "Devices speak msgpack as spec/PROTOCOL.md says; people with rights speak JSON on "
                "a port of their own. Every error is a problem document (RFC 9457)."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [
            {"name": "devices", "description": "port of [serve]"},
            {"name": "admin", "description": "port of [admin]; bearer token, or cookie to look"},
        ],
        "paths": paths,
        "components": {"schemas": {"Problem": _problem()}, "securitySchemes": _schemes()},
    }


def _operation(one: Address, face: str) -> Schema:
    about = one.about
    if one.right:
        about += " " + _ROLES.format(", ".join(sorted(PERMISSIONS[one.right])))
    content = {one.kind: {"schema": one.answer}}
    answers: Schema = {"200": {"description": "good", "content": content}}
    for status in one.statuses:
        answers[str(status)] = {"description": "not modified" if status == 304 else "not yet"}
    answers["default"] = {
        "description": "what went wrong, and what to do",
        "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    made: Schema = {"tags": [face], "summary": about, "responses": answers}
    if one.parameters:
        made["parameters"] = list(one.parameters)
    if one.body:
        made["requestBody"] = {
            "required": True,
            "content": {kind: {"schema": schema} for kind, schema in one.body.items()},
        }
    if one.signed:
        made["security"] = [{"device": [], "nonce": [], "signature": []}]
    elif one.right:
        made["security"] = [{"bearer": []}]
    return made


def _schemes() -> Schema:
    def header(name: str) -> Schema:
        return {"type": "apiKey", "in": "header", "name": name}

    return {
        "bearer": {"type": "http", "scheme": "bearer"},
        "device": header("Fedrap-Device"),
        "nonce": header("Fedrap-Nonce"),
        "signature": header("Fedrap-Signature"),
    }


def _problem() -> Schema:
    return {
        "type": "object",
        "required": ["type", "title", "status", "detail", "family"],
        "properties": {
            "type": {"enum": sorted(one.uri for one in problems.ALL.values())},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "family": {"enum": [one.value for one in problems.Family]},
            "retry_after": {"type": "number", "minimum": 0},
        },
    }
