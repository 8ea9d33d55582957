"""Messages <-> bytes: size first, then bounds, then msgpack, then version, type and every field.

Beyond `decode` nothing is a dict. Whatever the bytes are, it returns a valid message or raises
one of three errors. A few bytes of msgpack can state thousands of values, each of which costs
fifty bytes and more once it is an object; so values and depth are counted over the bytes, before
any object is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgpack
import msgspec

from fedrap_core.errors import MalformedMessage, TooLarge, UnsupportedVersion
from fedrap_core.wire.messages import Message

VERSION = 1
MAX_VALUES = 1024  # of one message, keys included; the largest of ours has some two hundred
MAX_DEPTH = 8  # of maps and arrays in each other; a release has 2
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
    check_bounds(raw)
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


def check_bounds(raw: bytes, max_values: int = MAX_VALUES, max_depth: int = MAX_DEPTH) -> None:
    """Returns when `raw` is one msgpack value of few values, not deep; it makes none of them.

    Raises:
        MalformedMessage: too many values, too deep, cut off, followed by more, or an extension.
    """
    place, values, end = 0, 0, len(raw)
    waiting = 1  # values still to come at this depth
    around: list[int] = []  # and at each one around it
    while True:
        if not waiting:
            if not around:
                break
            waiting = around.pop()
            continue
        waiting -= 1
        values += 1
        if values > max_values:
            raise MalformedMessage(f"more than {max_values} values in one message")
        if place >= end:
            raise MalformedMessage("a message that is cut off")
        fixed, counted, inside = _KINDS[raw[place]]
        if counted:  # what follows says how many bytes or values come
            count = int.from_bytes(raw[place + 1 : place + 1 + counted], "big")
            fixed, inside = (fixed, inside * count) if inside else (fixed + count, 0)
        elif not fixed:
            raise MalformedMessage("not a msgpack map")
        place += fixed
        if place > end:
            raise MalformedMessage("a message that is cut off")
        if inside:
            if len(around) >= max_depth:
                raise MalformedMessage(f"deeper than {max_depth} in one message")
            around.append(waiting)
            waiting = inside
    if place != end:
        raise MalformedMessage("bytes after the end of a message")


def _kind(first: int) -> tuple[int, int, int]:
    """Of a value's first byte: its bytes, those of its length, the values inside (of each counted).

    No bytes at all: extensions, and a code that msgpack never uses.
    """
    if first <= 0x7F or first >= 0xE0:  # small integers
        return 1, 0, 0
    if first <= 0x8F:
        return 1, 0, 2 * (first & 0x0F)
    if first <= 0x9F:
        return 1, 0, first & 0x0F
    if first <= 0xBF:
        return 1 + (first & 0x1F), 0, 0
    if first in _FIXED:
        return 1 + _FIXED[first], 0, 0
    size, inside = _LENGTHS.get(first, (-1, 0))
    return 1 + size, max(0, size), inside


# nil, false, true; float 32 and 64; unsigned and signed integers of 8 to 64 bits
_FIXED = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8} | {
    0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8,
}  # fmt: skip
# bytes of the length, and values per counted one: bin, str (0: bytes), array (1), map (2)
_LENGTHS = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0)} | {
    0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2),
}  # fmt: skip
_KINDS = tuple(_kind(first) for first in range(256))  # this runs over every message that comes
