"""Messages <-> bytes: whatever the bytes are, a valid message or one of three errors."""

from __future__ import annotations

import math
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.errors import MalformedMessage, TooLarge, UnsupportedVersion
from fedrap_core.plan import Plan, Scoring
from fedrap_core.wire.codec import (
    MAX_BYTES,
    VERSION,
    decode,
    decode_one_of,
    decode_value,
    encode,
    encode_value,
)
from fedrap_core.wire.messages import (
    Accepted,
    Enrol,
    Enrolled,
    Message,
    OfferRequest,
    Release,
    Update,
)
from tests.core.made import quick
from tests.core.messages_made import ALL_MESSAGES, ALL_VALUES, any_of

DOCUMENTED = (TooLarge, UnsupportedVersion, MalformedMessage)
REQUEST: dict[str, Any] = {"v": 1, "type": "offer-request", "release": 3}
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)  # fmt: skip


def _packed(fields: Any) -> bytes:
    return bytes(msgpack.packb(fields, use_bin_type=True))


@pytest.mark.parametrize("kind", ALL_MESSAGES, ids=lambda kind: kind.__name__)
def test_every_message_comes_back_as_it_was(kind: type[Message]) -> None:
    @quick
    @given(any_of(kind))
    def comes_back(message: Message) -> None:
        raw = encode(message)
        assert decode(kind, raw) == message
        assert encode(decode(kind, raw)) == raw

    comes_back()


@pytest.mark.parametrize("kind", ALL_VALUES, ids=lambda kind: kind.__name__)
def test_every_value_inside_a_message_comes_back_as_it_was(kind: type[msgspec.Struct]) -> None:
    @quick
    @given(any_of(kind))
    def comes_back(value: msgspec.Struct) -> None:
        assert decode_value(kind, encode_value(value)) == value

    comes_back()


@pytest.mark.spec("1.1")
def test_a_message_is_a_map_that_starts_with_version_and_type() -> None:
    raw = encode(OfferRequest(release=3))
    start = "84a17601a474797065ad6f666665722d72657175657374a772656c6561736503"
    assert raw == bytes.fromhex(start + "a477616974cb0000000000000000")
    assert list(msgpack.unpackb(raw)) == ["v", "type", "release", "wait"]
    assert VERSION == 1


@quick
@given(st.sampled_from(ALL_MESSAGES), st.binary(max_size=200))
def test_arbitrary_bytes_raise_only_the_three_documented_errors(
    kind: type[Message], raw: bytes
) -> None:
    with pytest.raises(DOCUMENTED):
        decode(kind, raw, max_bytes=150)


@quick
@given(st.sampled_from(ALL_MESSAGES), st.data())
def test_a_message_with_any_field_replaced_is_valid_or_refused(
    kind: type[Message], data: st.DataObject
) -> None:
    fields = msgpack.unpackb(encode(data.draw(any_of(kind))))
    fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(anything)
    try:
        message = decode(kind, _packed(fields))
    except DOCUMENTED:
        return
    assert decode(kind, encode(message)) == message


@quick
@given(st.sampled_from(ALL_MESSAGES), st.data())
def test_a_message_cut_short_is_malformed(kind: type[Message], data: st.DataObject) -> None:
    raw = encode(data.draw(any_of(kind)))
    with pytest.raises(MalformedMessage):
        decode(kind, raw[: data.draw(st.integers(0, len(raw) - 1))])
    with pytest.raises(MalformedMessage):
        decode(kind, raw + b"\0")


@pytest.mark.parametrize("value", ["A" * 22 + "==", "A" * 24, "0" * 16, [0] * 16, 7, None])
@pytest.mark.spec("1.5")
def test_only_bytes_pass_for_bytes(value: Any) -> None:
    """A string must not pass as base64."""
    with pytest.raises(MalformedMessage):
        decode(Enrolled, _packed({"v": 1, "type": "enrolled", "device": value, "task": bytes(16)}))


@pytest.mark.spec("1.3")
def test_an_unknown_field_is_ignored() -> None:
    newer = _packed({**REQUEST, "colour": {"any": ["thing", 1.5, None]}})
    assert decode(OfferRequest, newer) == OfferRequest(release=3)


def test_a_missing_field_is_malformed() -> None:
    with pytest.raises(MalformedMessage, match="release"):
        decode(OfferRequest, _packed({"v": 1, "type": "offer-request"}))


@pytest.mark.parametrize("version", [0, 2, -1, "1", None, True, 1.0, [1], 2**64 - 1])
@pytest.mark.spec("1.2")
def test_another_major_version_is_refused(version: Any) -> None:
    with pytest.raises(UnsupportedVersion):
        decode(OfferRequest, _packed({**REQUEST, "v": version}))


@pytest.mark.parametrize("kind", ["offer", "offer_request", "", None, 7, b"offer-request"])
def test_another_type_is_refused(kind: Any) -> None:
    with pytest.raises(UnsupportedVersion):
        decode(OfferRequest, _packed({**REQUEST, "type": kind}))


@pytest.mark.parametrize("missing", ["v", "type"])
def test_a_message_without_version_or_type_is_refused(missing: str) -> None:
    with pytest.raises(UnsupportedVersion):
        decode(OfferRequest, _packed({k: v for k, v in REQUEST.items() if k != missing}))


@pytest.mark.parametrize("whole", [None, 7, "offer-request", [], [REQUEST], b""])
def test_what_is_not_a_map_is_malformed(whole: Any) -> None:
    with pytest.raises(MalformedMessage):
        decode(OfferRequest, _packed(whole))


@pytest.mark.parametrize(
    "release", [-1, 2**31 + 1, 2**64 - 1, 1.0, True, "3", None, msgpack.Timestamp(1), math.nan]
)
def test_a_number_of_another_kind_or_out_of_range_is_malformed(release: Any) -> None:
    with pytest.raises(MalformedMessage):
        decode(OfferRequest, _packed({**REQUEST, "release": release}))


@pytest.mark.spec("1.4")
def test_a_message_that_is_too_large_is_not_parsed() -> None:
    with pytest.raises(TooLarge):
        decode(OfferRequest, b"\xc1" * (MAX_BYTES + 1))
    with pytest.raises(TooLarge):
        decode(OfferRequest, encode(OfferRequest(release=3)), max_bytes=10)
    with pytest.raises(TooLarge):
        decode_value(Plan, bytes(4097))


def test_maps_nested_without_end_are_malformed() -> None:
    with pytest.raises(MalformedMessage):
        decode(OfferRequest, b"\x91" * 100_000)


def _float_fields(kind: type[msgspec.Struct]) -> list[tuple[str, ...]]:
    """Paths of every float inside a value, nested structs included."""
    found: list[tuple[str, ...]] = []
    for name, value in msgspec.structs.asdict(kind()).items():
        if isinstance(value, float):
            found.append((name,))
        elif isinstance(value, msgspec.Struct):
            found.extend((name, *rest) for rest in _float_fields(type(value)))
    return found


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, 1e7])
@pytest.mark.parametrize(
    ("kind", "path"),
    [(kind, path) for kind in ALL_VALUES for path in _float_fields(kind)],
    ids=lambda part: ".".join(part) if isinstance(part, tuple) else part.__name__,
)
@pytest.mark.spec("1.5")
def test_no_scalar_of_a_plan_or_scoring_may_be_nan_or_out_of_range(
    kind: type[msgspec.Struct], path: tuple[str, ...], bad: float
) -> None:
    fields: dict[str, Any] = msgspec.to_builtins(kind())
    inner = fields
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = bad
    with pytest.raises(MalformedMessage):
        decode_value(kind, _packed(fields))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_no_scalar_of_a_message_may_be_nan_or_out_of_range(bad: float) -> None:
    with pytest.raises(MalformedMessage):
        decode(OfferRequest, encode(OfferRequest(release=1, wait=bad)))
    release = Release(
        task=bytes(16), version=1, step=0, size=0, dim=1, catalogue=0,
        scoring=Scoring(w0=bad), model=bytes(32), scales=b"", bitmap=b"",
            values=b"",
    )  # fmt: skip
    with pytest.raises(MalformedMessage):
        decode(Release, encode(release))


@pytest.mark.spec("5.1")
def test_an_unknown_scalar_of_a_plan_is_refused_since_it_changes_the_computation() -> None:
    fields = {**msgspec.to_builtins(Plan()), "colour": 1.0}
    with pytest.raises(MalformedMessage, match="colour"):
        decode_value(Plan, _packed(fields))


def test_an_answer_may_be_of_one_type_or_another_but_of_no_third() -> None:
    request = encode(OfferRequest(release=3))
    assert decode_one_of((Accepted, OfferRequest), request) == OfferRequest(release=3)
    with pytest.raises(UnsupportedVersion, match="'accepted' or 'enrol'"):
        decode_one_of((Accepted, Enrol), request)


def test_an_update_of_another_id_length_is_malformed() -> None:
    fields = msgspec.to_builtins(
        Update(
            task=bytes(16), round=bytes(16), step=0, model=bytes(32), plan=bytes(32),
            device=bytes(16), seal_id=bytes(8), sealed=b"x",
        ),
        builtin_types=(bytes,),
    )  # fmt: skip
    for name in ("task", "round", "model", "plan", "device", "seal_id"):
        for raw in (fields[name][:-1], fields[name] + b"\0"):
            with pytest.raises(MalformedMessage):
                decode(Update, _packed({"v": 1, **fields, name: raw}))
