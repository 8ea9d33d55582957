"""What turns keys into blocks and numbers: SHA-256, fixed-key AES, AES-CTR.

`Blocks` is the fixed-key construction of the VDAF draft (XofFixedKeyAes128; Guo, Katz, Wang and Yu
2020): block(s, i) = AES_K(σ(s⊕i)) ⊕ σ(s⊕i) with σ(lo‖hi) = hi‖(hi⊕lo). One key for a whole report
makes it as fast as AES is. Seeds are 16 bytes, here two uint64, little-endian.
"""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from fedrap_core.split.field import P, Words

SEED_BYTES = 16
Seeds = npt.NDArray[np.uint64]  # (..., 2)


def kdf16(label: bytes, *parts: bytes) -> bytes:
    """16 bytes that label and parts decide; each part with its length, so that none runs over."""
    fields = b"".join(struct.pack(">H", len(part)) + part for part in parts)
    return hashlib.sha256(b"fedrap/2 " + label + fields).digest()[:SEED_BYTES]


class Blocks:
    """block(s, i) of one key."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self._cipher = Cipher(algorithms.AES128(key), modes.ECB())

    def encrypt(self, plain: Seeds) -> Seeds:
        """AES of each block, in an array of the same shape."""
        made = self._cipher.encryptor().update(np.ascontiguousarray(plain).data.cast("B"))
        return np.frombuffer(made, dtype="<u8").reshape(plain.shape)

    def expand(self, seeds: Seeds, count: int) -> Seeds:
        """block(s, 0) … block(s, count - 1) of each seed: (n, count, 2)."""
        shuffled = shuffle(seeds, count)
        return self.encrypt(shuffled) ^ shuffled


def shuffle(seeds: Seeds, count: int) -> Seeds:
    """σ(s⊕i) for i below count: (n, count, 2)."""
    low = seeds[:, 0, None] ^ np.arange(count, dtype=np.uint64)  # (n, count)
    high = seeds[:, 1, None]
    result = np.empty((len(seeds), count, 2), dtype=np.uint64)
    result[:, :, 0] = high
    np.bitwise_xor(low, high, out=result[:, :, 1])
    return result


def stream(key: bytes, size_bytes: int) -> bytes:
    """AES-128 in counter mode from 0 on."""
    return (
        Cipher(algorithms.AES128(key), modes.CTR(bytes(16))).encryptor().update(bytes(size_bytes))
    )


def field_numbers(key: bytes, count: int) -> Words:
    """Uniform numbers of the field: the stream's words & p, where p itself is skipped: (count,)."""
    asked = count + 8
    while True:
        words = np.frombuffer(stream(key, 4 * asked), dtype="<u4") & np.uint32(P)
        kept = words[words != P]
        if len(kept) >= count:
            return np.asarray(kept[:count], dtype=np.uint64)
        asked *= 2
