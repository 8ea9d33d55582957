"""Time and randomness as the coordinator gets them: one value, made at the composition root.

Nothing in this package calls `time`, `random` or `os.urandom` by itself, so that a test or a
simulation hands in its own and replaces no global. Waiting is left to the event loop, whose clock
belongs to whoever runs it.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Clock: TypeAlias = Callable[[], float]  # seconds


@dataclass(frozen=True)
class Sources:
    """The defaults are the machine's."""

    clock: Clock = time.time  # since 1970; may be set back
    monotonic: Clock = time.monotonic  # never goes back
    uniform: Callable[[], float] = random.random  # in [0, 1): spreads devices that come back
    token_bytes: Callable[[int], bytes] = os.urandom  # for ids, keys and tokens: cannot be guessed


SYSTEM = Sources()
