"""What bounds and blurs one device's influence: the clip, and the noise of a release.

The noise of a release comes from a stream cipher keyed by the task's noise key and the step, so
that a crash between summing and releasing re-creates the same noise instead of a second draw
(two draws over one sum could be averaged). NumPy's generators are not made for secrets.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedrap_core.sparse import RowUpdate

NOISE_KEY_BYTES = 32


def clip_to_norm(update: RowUpdate, limit: float) -> RowUpdate:
    """The whole update, rows and triangle together, scaled down to norm `limit` at most."""
    norm = update.norm()
    if norm <= limit:
        return update
    factor = limit / norm
    return RowUpdate(update.rows, update.values * factor, update.triangle * factor)


def release_noise(key: bytes, step: int, size: int, stddev: float) -> npt.NDArray[np.float64]:
    """`size` independent N(0, stddev^2) numbers that only `key` and `step` decide: (size,)."""
    if len(key) != NOISE_KEY_BYTES:
        raise ValueError(f"a noise key has {NOISE_KEY_BYTES} bytes")
    derived = HKDF(
        algorithm=SHA256(), length=44, salt=None, info=b"fedrap/1 noise %d" % step
    ).derive(key)
    pairs = (size + 1) // 2
    nonce = bytes(4) + derived[32:]  # the block counter starts at 0, or it could overflow
    cipher = Cipher(algorithms.ChaCha20(derived[:32], nonce), mode=None).encryptor()
    stream = cipher.update(bytes(16 * pairs))
    whole = np.frombuffer(stream, dtype="<u8") >> np.uint64(12)  # 52 random bits
    uniform = (whole.astype(np.float64) + 0.5) * 2.0**-52  # exact, strictly inside (0, 1)
    radius = np.sqrt(-2.0 * np.log(uniform[:pairs]))  # Box and Muller
    angle = 2.0 * np.pi * uniform[pairs:]
    normal = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    return normal[:size] * stddev
