"""Chance that repeats: for a run on the virtual clock, and never anywhere near people."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


@contextmanager
def seeded_random(seed: int) -> Iterator[None]:
    """Ids of devices and rounds, and jitter, follow from the seed while this lasts.

    Keys that protect somebody are made elsewhere, by the cryptography library, and stay random.
    """
    rng = np.random.default_rng([seed, 0xCA5])
    real, state = os.urandom, random.getstate()

    def urandom(size: int, /) -> bytes:
        return rng.bytes(size)

    os.urandom = urandom
    random.seed(seed)
    try:
        yield
    finally:
        os.urandom = real
        random.setstate(state)
