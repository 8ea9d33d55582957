"""What bounds and blurs one device's influence: the clip, and the noise of a release.

The noise of a release comes from a stream cipher keyed by the task's noise key, the step and the
set of updates that was summed. A crash between summing and releasing re-creates the same noise
instead of a second draw (two draws over one sum could be averaged); a step that is made again from
other updates, because database and keys came back from an old backup together, has another noise
(one draw over two sums would cancel out in their difference). NumPy's generators are not made for
secrets.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedrap_core.plan import Adapt, Privacy
from fedrap_core.privacy.banded import INDEPENDENT, inverse_series
from fedrap_core.sparse import RowPart, RowUpdate

NOISE_KEY_BYTES = 32
CLIP_RANGE = (1e-6, 1e6)  # where an adapted clip stays
UpdateSets = Mapping[int, bytes]  # by step: the digest of the updates that it was made from


NO_SETS: UpdateSets = MappingProxyType({})


def clip_to_norm(update: RowUpdate, limit: float) -> RowUpdate:
    """The whole update, all its parts together, scaled down to norm `limit` at most."""
    norm = update.norm()
    return update if norm <= limit else update.scaled(limit / norm)


def clip_rows(update: RowUpdate, limit: float | None) -> RowUpdate:
    """Each row scaled down to norm `limit` at most; no item gets more of one device than that."""
    if limit is None:
        return update
    parts = tuple(RowPart(part.rows, _clipped(part.values, limit)) for part in update.parts)
    return replace(update, values=_clipped(update.values, limit), parts=parts)


def _clipped(rows: npt.NDArray[np.float64], limit: float) -> npt.NDArray[np.float64]:
    norms = np.sqrt(np.sum(rows**2, axis=1))  # (n,)
    if np.all(norms <= limit):
        return rows
    return np.asarray(rows * np.minimum(1.0, limit / np.maximum(norms, limit))[:, None])


def clip_share(update: RowUpdate, privacy: Privacy) -> RowUpdate:
    """What a device sends: rows clipped, then the whole, with its bit where the clip adapts."""
    update = clip_rows(update, privacy.row_clip)
    fits = 0 if privacy.adapt is None else 1 if update.norm() <= privacy.clip else -1
    return replace(clip_to_norm(update, privacy.clip), fits=fits)


def adapted_clip(clip: float, adapt: Adapt, fitting: float, devices: int) -> float:
    """S of the next round: S·exp(-rate·(share that fitted - quantile)) (Andrew et al., Eq. 4).

    `fitting` is the noised sum of +1/2 for an update that fitted and -1/2 for one that did not.
    """
    share = min(1.0, max(0.0, fitting / devices + 0.5))
    smallest, largest = CLIP_RANGE
    moved = clip * math.exp(-adapt.rate * (share - adapt.quantile))
    # Three digits: all bits of a double would tell more of the sum than the step is worth.
    return float(f"{min(largest, max(smallest, moved)):.3g}")


def task_noise_key(key: bytes, task: bytes) -> bytes:
    """A key for one task's noise: two tasks under one key must not draw the same numbers."""
    if len(key) != NOISE_KEY_BYTES:
        raise ValueError(f"a noise key has {NOISE_KEY_BYTES} bytes")
    return HKDF(
        algorithm=SHA256(), length=NOISE_KEY_BYTES, salt=None, info=b"fedrap/1 noise of " + task
    ).derive(key)


def release_noise(
    key: bytes,
    step: int,
    size: int,
    stddev: float,
    coefficients: Sequence[float] = INDEPENDENT,
    sets: UpdateSets = NO_SETS,
) -> npt.NDArray[np.float64]:
    """The noise of a release, that only key, steps, their updates and coefficients decide: (size,).

    N_t = Z_t - sum_j c_j·N_{t-j}, each Z_t independent N(0, stddev^2), made from Z_1 … Z_t without
    any memory: N_t = sum_s h_s·Z_{t-s} with h the inverse of c as a power series. A smaller size
    gives the beginning of the same numbers, so that rows which come later change nothing.
    `stddev` is that of this step alone: with a clip that adapts, each step's sum in units of its
    own clip is the mechanism, and multiplying by that clip, known before, comes after it.
    A step without a set in `sets` draws numbers of its own: with bands, releases after steps whose
    sets were lost are a mechanism apart, charged alike, as no device's steps overlap within bands.
    """
    total = np.zeros(size)
    for back, weight in enumerate(inverse_series(coefficients, max(1, step))):
        if weight:
            made_of = sets.get(step - back, b"")
            total += weight * _standard_normal(key, step - back, size, coefficients, made_of)
    return total * stddev


def _standard_normal(
    key: bytes, step: int, size: int, coefficients: Sequence[float], made_of: bytes
) -> npt.NDArray[np.float64]:
    """Z_t. Other coefficients or updates give another stream: no draw covers two sums."""
    strategy = struct.pack(f"<{len(coefficients)}d", *coefficients)
    info = b"fedrap/1 noise %d " % step + strategy
    if made_of:
        info += b" of " + made_of
    return _normal_of(key, info, size)


def question_noise(
    key: bytes, question: bytes, made_of: bytes, size: int, stddev: float
) -> npt.NDArray[np.float64]:
    """The noise on the sum of answers to a question: (size,).

    Only the key, the question's id and the digest of the answers that were summed decide it, for
    the same reasons as with a release.
    """
    return stddev * _normal_of(key, b"fedrap/1 answers " + question + b" of " + made_of, size)


def _normal_of(key: bytes, info: bytes, size: int) -> npt.NDArray[np.float64]:
    """Independent N(0, 1) from a stream that only key and `info` decide."""
    if len(key) != NOISE_KEY_BYTES:
        raise ValueError(f"a noise key has {NOISE_KEY_BYTES} bytes")
    derived = HKDF(algorithm=SHA256(), length=44, salt=None, info=info).derive(key)
    pairs = (size + 1) // 2
    nonce = bytes(4) + derived[32:]  # the block counter starts at 0, or it could overflow
    cipher = Cipher(algorithms.ChaCha20(derived[:32], nonce), mode=None).encryptor()
    stream = cipher.update(bytes(16 * pairs))
    whole = np.frombuffer(stream, dtype="<u8").reshape(pairs, 2) >> np.uint64(12)  # 52 random bits
    uniform = (whole.astype(np.float64) + 0.5) * 2.0**-52  # exact, strictly inside (0, 1)
    radius = np.sqrt(-2.0 * np.log(uniform[:, 0]))  # Box and Muller
    angle = 2.0 * np.pi * uniform[:, 1]
    normal = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return np.asarray(normal.ravel()[:size])
