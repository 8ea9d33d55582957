"""Vectors of the trend: a device's part, releases that carry one, lists that add it up."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import msgspec
import numpy as np

from fedrap_core.model import CommonItems, History
from fedrap_core.plan import Scoring, TrendMethod
from fedrap_core.quantize import QuantizedRows
from fedrap_core.ranking import explain, rank
from fedrap_core.solve.user import derive_user
from fedrap_core.trend import touched_lately
from fedrap_core.wire import messages
from fedrap_core.wire.codec import encode
from fedrap_core.wire.releases import apply_delta, pack_delta, pack_release, unpack_release
from spec.vector_format import (
    TOLERANCE,
    Case,
    File,
    builtins,
    common_items,
    error_name,
    history,
    model,
    rounded,
)

_TASK = bytes(range(16))
_NOW, _DAY = 1_700_000_000.0, 86_400.0
_TREND = {"scale": 0.03125, "values": [0, 127, 3, 0, 64]}  # a scale that float32 has exactly


def trends() -> File:
    """trend.json: shares, releases and lists, by `of`."""
    about = (
        "of share: `lately` of an update at `now`, newest interaction first, before the clips. "
        'of release: model = SHA-256 of "fedrap/1 trend" | the hash without it | f32 scale | i8 '
        "values; `bytes` is a release, or a delta where there is an `old`; refused cases decode, "
        "but must not be used. of ranking: the best of all rows but the hidden ones, and what the "
        "trend gives the first of them. A float is right within absolute + relative*|expected|."
    )
    cases = [*_shares(), *_releases(), *_rankings()]
    return {"about": about, "tolerance": TOLERANCE, "cases": cases}


def _shares() -> list[Case]:
    week = TrendMethod(half_days=7.0, scale=0.5)
    given: list[tuple[str, TrendMethod, list[tuple[int, float, float]]]] = [
        ("just now, a week ago, two weeks ago", week, [(3, 1.0, 0), (1, 1.0, 7), (8, 2.0, 14)]),
        ("the newest touch of an item counts", week, [(3, 1.0, 1), (5, 1.0, 2), (3, 1.0, 30)]),
        ("five half-lives ago is too long ago", week, [(2, 1.0, 34.9), (4, 1.0, 35.0)]),
        ("a clock that was set back", week, [(2, 1.0, -3)]),
        ("what speaks against an item is left out", week, [(2, -1.0, 1), (6, 1.0, 1)]),
        ("half a day", TrendMethod(half_days=0.5), [(2, 1.0, 0.25), (6, 1.0, 2)]),
        ("nothing at all", week, []),
    ]
    cases = []
    for comment, method, past in given:
        stored = {
            "rows": [row for row, _, _ in past],
            "weights": [weight for _, weight, _ in past],
            "times": [_NOW - _DAY * days for _, _, days in past],
        }
        part = touched_lately(_timed(stored), _NOW, method)
        cases.append(
            {
                "comment": comment, "valid": True, "of": "share", "now": _NOW,
                "method": {"dim": 2, "trend": builtins(method)}, "history": stored,
                "rows": part.rows.tolist(), "values": rounded(part.values[:, 0]),
            }
        )  # fmt: skip
    return cases


def _timed(stored: Case) -> History:
    past = history(stored)
    return replace(past, times=np.array(stored["times"], dtype=np.float64))


def _with(version: int, shared: Case, trend: Case | None) -> CommonItems:
    items = common_items(shared).items
    if trend is None:
        return CommonItems(version, items)
    values = np.array([trend["values"]], dtype=np.int8)
    scales = np.array([trend["scale"]], dtype=np.float32)
    return CommonItems(version, items, None, QuantizedRows(values, scales))


def _releases() -> list[Case]:
    shared = model("with a trend", 5, 2)
    scoring = Scoring(trend=0.5)
    old = _with(1, shared, _TREND)
    good = pack_release(_TASK, 5, old, 2, scoring)
    cases: list[Case] = [_found("a whole release", shared, _TREND, good)]
    assert isinstance(good.trend, bytes)
    for comment, raw in (
        ("a number missing", good.trend[:-1]),
        ("a number too many", good.trend + b"\0"),
        ("another number", good.trend[:-1] + b"\1"),
        ("a scale that is none", b"\x00\x00\xc0\x7f" + good.trend[4:]),
        ("nothing where the hash has something", b""),
    ):
        bad = msgspec.structs.replace(good, trend=raw)
        cases.append(_refused(comment, bad, error_name(partial(unpack_release, bad))))
    grown = dict(shared)
    for name in ("scales", "values"):
        grown[name] = shared[name] + model("a new item", 1, 2)[name]
    more = {"scale": 0.5, "values": [0, 1, 2, 3, 4, 127]}
    new = _with(2, grown, more)
    delta = pack_delta(old, new, pack_release(_TASK, 5, new, 2, scoring))
    assert delta is not None
    held = {"items": shared, "trend": _TREND}
    cases.append({**_found("a delta, with a new item", grown, more, delta), "old": held})
    bad_delta = msgspec.structs.replace(delta, trend=good.trend)
    error = error_name(partial(apply_delta, old, bad_delta))
    cases.append({**_refused("a delta with the old one", bad_delta, error), "old": held})
    return cases


def _found(
    comment: str, shared: Case, trend: Case, message: messages.Release | messages.Delta
) -> Case:
    return {
        "comment": comment, "valid": True, "of": "release", "hash": message.model.hex(),
        "items": shared, "trend": trend, "bytes": encode(message).hex(),
    }  # fmt: skip


def _refused(comment: str, message: messages.Release | messages.Delta, error: str | None) -> Case:
    return {
        "comment": comment, "valid": False, "of": "release", "bytes": encode(message).hex(),
        "error": error,
    }  # fmt: skip


def _rankings() -> list[Case]:
    shared = model("a list with a trend", 12, 4)
    trend = {"scale": 0.03125, "values": [0, 0, 40, 0, 127, 0, 0, 9, 0, 0, 0, 0]}
    given = [
        ("added to what the history says", [3, 7, 1], Scoring(ridge=2.0, trend=0.25)),
        ("nobody's history: what was touched lately", [], Scoring(trend=1.0)),
        ("it has no say", [3, 7, 1], Scoring(ridge=2.0)),
    ]
    cases = []
    for comment, rows, scoring in given:
        stored = {"rows": rows, "weights": [1.0] * len(rows)}
        common, past = _with(1, shared, trend), history(stored)
        taste = derive_user(common, common.gram(), past, scoring)
        allowed = np.ones(common.size, dtype=np.bool_)
        allowed[rows] = False
        found = rank(common, taste, scoring, 4, allowed)
        parts = np.zeros(len(found.rows)) if found.trend is None else found.trend
        why = explain(common, taste, scoring, int(found.rows[0]))
        cases.append(
            {
                "comment": comment, "valid": True, "of": "ranking", "model": shared,
                "trend": trend, "history": stored, "scoring": builtins(scoring), "n": 4,
                "hidden": sorted(set(rows)), "rows": found.rows.tolist(),
                "shared": rounded(found.shared), "personal": rounded(found.personal),
                "trend_parts": rounded(parts), "reason_trend": float(why.trend),
            }
        )  # fmt: skip
    return cases
