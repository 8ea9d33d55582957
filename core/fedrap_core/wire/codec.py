"""Messages <-> bytes: size first, then msgpack, then version and type, then every field.

Beyond `decode` nothing is a dict. Whatever the bytes are, it returns a valid message or raises
one of three errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgpack
import msgspec

from fedrap_core.errors import MalformedMessage, TooLarge, UnsupportedVersion
from fedrap_core.wire.messages import Message

VERSION = 1
MAX_BYTES = 8 * 1024 * 1024  # of any message but a release

M = TypeVar("M", bound=Message)
S = TypeVar("S", bound=msgspec.Struct)


def encode(message: Message) -> bytes:
    """The bytes of a message: a msgpack map that starts with `v` and `type`."""
    fields: dict[str, Any] = msgspec.to_builtins(message, builtin_types=(bytes,))
    return _pack({"v": VERSION, **fields})


def decode(kind: type[M], raw: bytes, max_bytes: int = MAX_BYTES) -> M:
    """The message in `raw`, checked field by field.

    Raises:
        TooLarge: more than `max_bytes`; nothing was parsed.
        UnsupportedVersion: another major version or another type.
        MalformedMessage: anything else that is not such a message.
    """
    return decode_one_of((kind,), raw, max_bytes)


def decode_one_of(kinds: Sequence[type[M]], raw: bytes, max_bytes: int = MAX_BYTES) -> M:
    """Like `decode`, where an answer may be of one type or another."""
    fields = _unpack(raw, max_bytes)
    version = fields.get("v")
    if type(version) is not int or version != VERSION:  # True and 1.0 equal 1, but are not
        raise UnsupportedVersion(f"this side speaks version {VERSION} of the protocol")
    for kind in kinds:
        if fields.get("type") == kind.__struct_config__.tag:
            return _convert(kind, fields)
    expected = " or ".join(repr(kind.__struct_config__.tag) for kind in kinds)
    raise UnsupportedVersion(f"expected a message of type {expected}")


def encode_value(value: msgspec.Struct) -> bytes:
    """The bytes of a value that travels inside a message, such as a plan."""
    return _pack(msgspec.to_builtins(value, builtin_types=(bytes,)))


def decode_value(kind: type[S], raw: bytes, max_bytes: int = 4096) -> S:
    """The value in `raw`, checked field by field; raises like `decode`."""
    return _convert(kind, _unpack(raw, max_bytes))


def _pack(fields: Any) -> bytes:
    return bytes(msgpack.packb(fields, use_bin_type=True))


def _unpack(raw: bytes, max_bytes: int) -> dict[str, Any]:
    if len(raw) > max_bytes:
        raise TooLarge(f"{len(raw)} bytes where {max_bytes} are allowed")
    try:
        fields = msgpack.unpackb(raw, raw=False, strict_map_key=True)
    except Exception as error:  # msgpack has a dozen ways to say no; all mean the same to us
        raise MalformedMessage("not a msgpack map") from error
    if not isinstance(fields, dict):
        raise MalformedMessage("not a msgpack map")
    return fields


def _convert(kind: type[S], fields: dict[str, Any]) -> S:
    try:
        # builtin_types: without it a string would pass for bytes, as base64.
        return msgspec.convert(fields, kind, builtin_types=(bytes,))
    except msgspec.ValidationError as error:
        raise MalformedMessage(str(error)) from error
