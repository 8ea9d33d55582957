"""Draws of `paper`: negatives, the order of samples, and the first values of u and D.

Every draw comes from a source of uniform numbers that the caller hands in: `rng.random` of a
NumPy generator in a simulation, `private_stream` on a device. Negatives come only from the rows
that the caller says are unseen, so what a protocol may know is decided by whoever splits the
data and never in here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedrap_core.model import Rows

Matrix = npt.NDArray[np.float64]
Uniform = Callable[[int], npt.NDArray[np.float64]]  # n numbers in [0, 1)


def private_stream(key: bytes, info: bytes) -> Uniform:
    """A source that only `key` and `info` decide, the same on every platform.

    A device that lost power in the middle of a round draws the same negatives again.
    """
    derived = HKDF(
        algorithm=SHA256(), length=44, salt=None, info=b"fedrap/1 sampling " + info
    ).derive(key)
    nonce = bytes(4) + derived[32:]  # the block counter starts at 0, or it could overflow
    cipher = Cipher(algorithms.ChaCha20(derived[:32], nonce), mode=None).encryptor()

    def uniform(count: int) -> npt.NDArray[np.float64]:
        words = np.frombuffer(cipher.update(bytes(8 * count)), dtype="<u8")
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53

    return uniform


def draw_negatives(unseen: Rows, count: int, uniform: Uniform) -> Rows:
    """`count` rows out of `unseen`, with replacement: (count,), or (0,) where all was seen."""
    if len(unseen) == 0 or count == 0:
        return np.zeros(0, dtype=np.int64)
    return np.asarray(unseen[(uniform(count) * len(unseen)).astype(np.int64)], dtype=np.int64)


def spread_over_steps(
    positives: npt.NDArray[np.int64],
    negatives: npt.NDArray[np.int64],
    batch: int,
    epochs: int,
    uniform: Uniform,
) -> tuple[Matrix, Matrix]:
    """Weights w_j and liked shares l_j of every step: twice (steps, n).

    `positives` and `negatives` (n,) say how often each row comes as which. When all samples
    fit into one batch each epoch is one step; otherwise each epoch shuffles them into batches of
    almost equal size.
    """
    total = int(positives.sum() + negatives.sum())
    parts = -(-total // batch)
    if parts <= 1:
        weights = np.tile((positives + negatives) / max(total, 1), (epochs, 1))
        return weights, np.tile(positives / max(total, 1), (epochs, 1))
    n = len(positives)
    # A sample is its row, plus n when it is a positive.
    samples = np.repeat(np.arange(2 * n), np.concatenate([negatives, positives]))
    steps = []
    for _ in range(epochs):
        order = np.argsort(uniform(total), kind="stable")
        for part in np.array_split(samples[order], parts):
            steps.append(np.bincount(part, minlength=2 * n).reshape(2, n) / len(part))
    copies = np.stack(steps)  # (steps, 2, n)
    return copies.sum(axis=1), copies[:, 1]


def initial_user(seed: int, dim: int) -> npt.NDArray[np.float64]:
    """u that every device of a task starts from, within 1/sqrt(k) of zero: (k,).

    All devices start alike because C is the mean of what they make of it: users that point in
    unrelated directions would cancel each other out there.
    """
    uniform = private_stream(seed.to_bytes(32, "big"), b"user")
    return np.asarray((2.0 * uniform(dim) - 1.0) / np.sqrt(dim))


def initial_personal(count: int, dim: int, spread: float, uniform: Uniform) -> Matrix:
    """Rows of D for items that are new to this device, N(0, spread^2): (count, k)."""
    radius = np.sqrt(-2.0 * np.log(1.0 - uniform(count * dim)))  # Box and Muller
    angle = 2.0 * np.pi * uniform(count * dim)
    return np.asarray(spread * (radius * np.cos(angle)).reshape(count, dim))
