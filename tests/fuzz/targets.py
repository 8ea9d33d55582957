"""Every decoder of bytes that strangers send, as a function of bytes: a result or a FedRapError.

hypothesis (`test_decoders.py`) and atheris (`run_atheris.py`) drive the same list.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from fedrap_coordinator.admin.catalogue_files import read_items
from fedrap_coordinator.http.dashboard import read_session
from fedrap_coordinator.rounds.aggregation import read_update
from fedrap_coordinator.rounds.sealed_aggregator import open_share
from fedrap_core.errors import FedRapError
from fedrap_core.items import ItemIds
from fedrap_core.model import CommonItems, SequenceRows
from fedrap_core.parts import more_parts
from fedrap_core.plan import Plan, SequenceMethod, SolveMethod
from fedrap_core.quantize import QuantizedRows
from fedrap_core.wire.authority import check_leads, open_signed, read_authority, read_entry
from fedrap_core.wire.certificates import read_certificate
from fedrap_core.wire.codec import decode, decode_value
from fedrap_core.wire.keys import private_from_bytes, public_from_point, public_point
from fedrap_core.wire.messages import Answer, Delta, Offer, Release, Signed, Update
from fedrap_core.wire.releases import apply_delta, unpack_entries, unpack_release, unpack_trend
from fedrap_core.wire.seal import open_answer, open_sealed, open_update
from fedrap_core.wire.share import decode_share
from fedrap_core.wire.shares import (
    HelperReport,
    SplitAnswer,
    SplitUpdate,
    open_helper,
    open_helper_answer,
    open_leader,
    open_leader_answer,
)
from fedrap_core.wire.signing import verify
from fedrap_core.wire.tokens import read_token
from tests.core.messages_made import ALL_MESSAGES

_KEY = private_from_bytes(bytes(31) + b"\x07")
_PUBLIC = _KEY.public_key()
_ROWS = QuantizedRows(np.ones((3, 4), dtype=np.int8), np.ones(3, dtype=np.float32))
_COMMON = CommonItems(1, _ROWS)
_BOTH = CommonItems(
    1, _ROWS, SequenceRows(_ROWS, _ROWS, np.zeros(3, np.float32), np.ones((2, 4), np.float32))
)
_PARTS = more_parts(SolveMethod(dim=4, sequence=SequenceMethod(dim=4, taus=(1.0, 2.0))), 3)
_LARGEST = 1 << 20


def _pinned(raw: bytes) -> bytes:
    """What an app pins; a text or bytes that are no key are its own mistake."""
    try:
        return read_authority(raw) or read_authority(raw.decode("latin-1"))
    except ValueError as error:
        raise FedRapError(str(error)) from error


def _to_helper(raw: bytes) -> HelperReport:
    return HelperReport(report=bytes(16), public=b"", helper=raw, seen=b"")


TARGETS: dict[str, Callable[[bytes], object]] = {
    **{f"message {kind.__name__}": partial(decode, kind) for kind in ALL_MESSAGES},
    "plan": lambda raw: decode_value(Plan, raw),
    "share": lambda raw: decode_share(raw, 4),
    "share with parts": lambda raw: decode_share(raw, 4, _PARTS),
    "release": lambda raw: unpack_release(decode(Release, raw, _LARGEST)),
    "bitmap": lambda raw: unpack_entries(raw[:3], raw[3:], 3, 7),
    "delta": lambda raw: apply_delta(_COMMON, decode(Delta, raw, _LARGEST)),
    "delta of a sequence": lambda raw: apply_delta(_BOTH, decode(Delta, raw, _LARGEST)),
    "update": lambda raw: read_update(raw, _LARGEST),
    "sealed update": lambda raw: open_update(decode(Update, raw, _LARGEST), _KEY),
    "trend": lambda raw: unpack_trend(raw, max(0, len(raw) - 4)),
    "sealed": lambda raw: open_sealed(raw, _KEY, b"info"),
    "sealed answer": lambda raw: open_answer(decode(Answer, raw, _LARGEST), _KEY),
    "share in an update": lambda raw: open_share(decode(Update, raw, _LARGEST), _KEY, 3, 4),
    "helper's share": lambda raw: open_helper(
        bytes(16), bytes(32), bytes(16), _to_helper(raw), _KEY
    ),
    "helper's share of an answer": lambda raw: open_helper_answer(
        bytes(16), bytes(16), _to_helper(raw), _KEY
    ),
    "report": lambda raw: open_leader(decode(SplitUpdate, raw, _LARGEST), _KEY),
    "answer for two servers": lambda raw: open_leader_answer(
        decode(SplitAnswer, raw, _LARGEST), _KEY
    ),
    "point": public_from_point,
    "authority": lambda raw: _pinned(raw),
    "signed": lambda raw: open_signed(public_point(_PUBLIC), decode(Signed, raw), Offer),
    "entry of the log": lambda raw: check_leads(raw[:300], [raw[300:], raw]),
    "entry": read_entry,
    "certificate": lambda raw: read_certificate(_PUBLIC, raw),
    "signature": lambda raw: verify(_PUBLIC, b"said", raw),
    "token": lambda raw: read_token(raw.decode("latin-1"), {"shop": _PUBLIC}, "fedrap", 1.0),
    "item ids": ItemIds,
    "catalogue csv": lambda raw: read_items("a.csv", raw.decode("utf-8", "replace")),
    "catalogue json": lambda raw: read_items("a.json", raw.decode("utf-8", "replace")),
    "catalogue lines": lambda raw: read_items("a.jsonl", raw.decode("utf-8", "replace")),
    "session": lambda raw: read_session(b"key", raw.decode("latin-1"), 1.0),
}


def feed(name: str, raw: bytes) -> None:
    """Whatever `raw` is, the target answers, or says why not in our own words."""
    said = "a result"
    try:
        TARGETS[name](raw)
    except FedRapError as error:
        said = str(error)
    assert said
