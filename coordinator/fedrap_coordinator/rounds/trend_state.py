"""What the coordinator remembers of the trend, as bytes.

"FTR2" · u32 m · f64 variance, at, contrast · f64 T of each item · f64 W of each item

Before there was a W: "FTR1" · u32 m · f64 variance, at · f64 T of each item, which is still read,
for what comes after it is the state of the other parts.
"""

from __future__ import annotations

import logging
import math
import struct

import numpy as np

from fedrap_core.quantize import QuantizedRows, quantize_rows
from fedrap_core.trend import TrendState, trend_of_items

log = logging.getLogger(__name__)

_MAGIC = b"FTR2"
_HEAD = struct.Struct("<4sIddd")
_OLD_MAGIC = b"FTR1"
_OLD_HEAD = struct.Struct("<4sIdd")


def pack_trend(trend: TrendState | None) -> bytes:
    """The trend as bytes; none without one."""
    if trend is None:
        return b""
    head = _HEAD.pack(_MAGIC, len(trend.touches), trend.variance, trend.at, trend.contrast)
    usual = np.zeros(len(trend.touches)) if trend.usual is None else trend.usual
    return head + b"".join(part.astype("<f8").tobytes() for part in (trend.touches, usual))


def read_trend(raw: bytes) -> tuple[TrendState | None, bytes]:
    """The trend at the beginning of these bytes, if any, and what comes after it.

    Where it is damaged there is none; what rounds say from now on makes a new one.
    """
    if raw[:4] == _OLD_MAGIC:
        raw = _as_now(raw)
    if raw[:4] != _MAGIC:
        return None, raw
    size, variance, at, contrast = 0, np.nan, np.nan, np.nan
    if len(raw) >= _HEAD.size:
        _, size, variance, at, contrast = _HEAD.unpack_from(raw)
    end = _HEAD.size + 16 * size
    if not (len(raw) >= end and variance >= 0 and np.isfinite(at) and 0 <= contrast <= 1):
        log.warning("the state of the trend is damaged; it starts anew")
        return None, b""
    sums = np.frombuffer(raw, dtype="<f8", offset=_HEAD.size, count=2 * size).astype(np.float64)
    if not np.all(np.isfinite(sums)):
        log.warning("the state of the trend is not finite; it starts anew")
        return None, raw[end:]
    return TrendState(sums[:size], variance, at, sums[size:], contrast), raw[end:]


def _as_now(raw: bytes) -> bytes:
    """Bytes of the older layout in that of now; damaged ones stay damaged."""
    if len(raw) < _OLD_HEAD.size:
        return _MAGIC
    _, size, variance, at = _OLD_HEAD.unpack_from(raw)
    end = _OLD_HEAD.size + 8 * size
    if len(raw) < end:
        return _MAGIC
    head = _HEAD.pack(_MAGIC, size, variance, at, 0.0)
    return head + raw[_OLD_HEAD.size : end] + bytes(8 * size) + raw[end:]


def published_trend(state: TrendState | None, size: int) -> QuantizedRows | None:
    """t of the release that this state makes: (1, size); None where noise leaves nothing of it."""
    found = None if state is None else trend_of_items(state)
    if found is None:
        if state is not None and state.variance > 0:
            noise = round(math.sqrt(state.variance), 1)  # in touches
            log.info("no trend in this release: noise is louder", extra={"noise": noise})
        return None
    whole = np.zeros((1, size))  # items that came since were not touched yet
    whole[0, : len(found)] = found
    return quantize_rows(whole)
