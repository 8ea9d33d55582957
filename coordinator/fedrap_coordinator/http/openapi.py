"""The OpenAPI document of both APIs: the devices' (msgpack) and the admins' (JSON).

The operations of admins and the schemas of their answers come from `admin/table.py`.

A test compares it with the routes, and another calls every address with what it allows and with
what it does not. `spec/openapi.json` is this document, written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fedrap_coordinator.admin.permissions import PERMISSIONS
from fedrap_coordinator.admin.table import SERVED, Action, CatalogueFile
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
    permission: str = ""  # of the admin API
    statuses: tuple[int, ...] = ()  # good ones beside 200


def _asked(name: str, schema: Schema, about: str, where: str = "query") -> Schema:
    return {
        "name": name, "in": where, "required": where == "path", "schema": schema,
        "description": about,
    }  # fmt: skip


def _object(**fields: Schema) -> Schema:
    return {"type": "object", "required": sorted(fields), "properties": fields}


VERSION = _asked("version", {**COUNT, "maximum": 2**31}, "of C", "path")
HAVE = _asked("have", {**COUNT, "maximum": 2**31}, "the version that the device holds")
SINCE = _asked("since", {**COUNT, "maximum": 2**31}, "the version of the last entry that is known")
START = _asked("start", {**COUNT, "maximum": 999_999_999}, "the first row that is wanted")
ALL_KINDS = _asked("all", {"const": "1"}, "those of staged releases and of lists too")
HEX16: Schema = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
HEX32: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}

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
        "post", "/v1/offers", "A slot in the open round.", BYTES, MSGPACK, body={MSGPACK: BYTES},
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
    Address(
        "get", "/v1/log", "Signed entries of releases beyond a version, and the last.", BYTES,
        MSGPACK, (SINCE,),
    ),
    Address("get", "/v1/catalogue", "Items from a row on.", BYTES, MSGPACK, (START,)),
    Address(
        "get", "/v1/attributes", "Which pages the items' public attributes are in, signed.", BYTES,
        MSGPACK,
    ),
    Address(
        "get", "/v1/attributes/{page}", "One of these pages; it never changes.", BYTES, MSGPACK,
        (_asked("page", HEX32, "SHA-256 of the page", "path"),),
    ),
    Address(
        "get", "/v1/questions", "Open questions about quality, signed.", BYTES, MSGPACK,
        (ALL_KINDS,),
    ),
    Address(
        "post", "/v1/questions/{question}/answers", "A sealed answer, for a signed receipt.",
        BYTES, MSGPACK, (_asked("question", HEX16, "its id", "path"),), {MSGPACK: BYTES},
        signed=True,
    ),
    Address("get", "/v1/privacy", "The privacy guarantee, and on what it rests.", OBJECT),
)  # fmt: skip

_ROLES = "Roles: {}."
_FILE: Mapping[str, Schema] = {
    "text/plain": {"type": "string"},
    "text/csv": {"type": "string"},
    JSON: {"type": "array", "items": {"type": "string"}},
}
_REFERENCE = "#/components/schemas/{name}"
_, _ANSWERS = msgspec.json.schema_components(
    [action.answer for action in SERVED], ref_template=_REFERENCE
)


def _address(action: Action[Any, Any]) -> Address:
    """How an action of the table is called over HTTP, and what it answers."""
    (made,), defined = msgspec.json.schema_components([action.arguments])
    schema = defined.get(action.arguments.__name__, made)
    fields: dict[str, Schema] = dict(schema["properties"])
    in_path = [name for name in fields if f"{{{name}}}" in action.path]
    rest = {name: one for name, one in fields.items() if name not in in_path}
    parameters = [_asked(name, *_described(fields[name]), "path") for name in in_path]
    body: Mapping[str, Schema] = {}
    if action.arguments is CatalogueFile:
        body = _FILE
    elif action.method == "get":
        parameters += [_asked(name, *_described(one)) for name, one in rest.items()]
    elif rest:
        body = {JSON: {key: value for key, value in schema.items() if key != "title"}}
    answer = {"$ref": _REFERENCE.format(name=action.answer.__name__)}
    return Address(
        action.method, action.path, action.about, answer, JSON, tuple(parameters), body,
        permission=action.permission,
    )  # fmt: skip


def _described(schema: Schema) -> tuple[Schema, str]:
    """A parameter's schema, and its description apart."""
    bare = {key: value for key, value in schema.items() if key not in ("description", "default")}
    return bare, str(schema.get("description", ""))


ADMINS = (
    *(_address(action) for action in SERVED),
    Address(
        "get", "/metrics", "For Prometheus.", {"type": "string"}, "text/plain", permission="metrics"
    ),
)


def document() -> Schema:
    """All of it, OpenAPI 3.1."""
    paths: dict[str, Schema] = {}
    for api, addresses in (("devices", DEVICES), ("admin", ADMINS)):
        for one in addresses:
            paths.setdefault(one.path, {})[one.method] = _operation(one, api)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "FedRAP coordinator",
            "version": "1",
            "description": (
                "Devices speak msgpack as spec/PROTOCOL.md says; admins speak JSON on "
                "a port of their own. Every error is a problem document (RFC 9457)."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [
            {"name": "devices", "description": "port of [serve]"},
            {"name": "admin", "description": "port of [admin]; bearer token, or cookie to look"},
        ],
        "paths": paths,
        "components": {
            "schemas": {**_ANSWERS, "Problem": _problem()},
            "securitySchemes": _schemes(),
        },
    }


def _operation(one: Address, api: str) -> Schema:
    about = one.about
    if one.permission:
        about += " " + _ROLES.format(", ".join(sorted(PERMISSIONS[one.permission])))
    content = {one.kind: {"schema": one.answer}}
    answers: Schema = {"200": {"description": "good", "content": content}}
    for status in one.statuses:
        answers[str(status)] = {"description": "not modified" if status == 304 else "not yet"}
    answers["default"] = {
        "description": "what went wrong, and what to do",
        "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    made: Schema = {"tags": [api], "summary": about, "responses": answers}
    if one.parameters:
        made["parameters"] = list(one.parameters)
    if one.body:
        made["requestBody"] = {
            "required": True,
            "content": {kind: {"schema": schema} for kind, schema in one.body.items()},
        }
    if one.signed:
        made["security"] = [{"device": [], "nonce": [], "signature": []}]
    elif one.permission:
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
