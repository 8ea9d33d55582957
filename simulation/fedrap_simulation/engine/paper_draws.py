"""Draws of `paper` for many devices: negatives, working sets and the order of samples.

Every device of every round has a stream of its own, which only (seed, round, device) decide, so
what is drawn does not depend on how many threads there are or who came first. Negatives come
from the items that are not in `barred` and from nothing else: what a protocol may know is decided
by whoever made the task.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedrap_simulation.engine.compiled import compiled

Rows = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Stream = npt.NDArray[np.uint64]

# SplitMix64 (Steele, Lea, Flood 2014). Typed, or a signed number in the sum would make it float.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


@compiled()
def next_bits(stream: Stream) -> np.uint64:
    """The next 64 random bits; `stream` (1,) moves on."""
    stream[0] += _STEP
    bits: np.uint64 = stream[0]
    bits = (bits ^ (bits >> _S30)) * _FIRST
    bits = (bits ^ (bits >> _S27)) * _SECOND
    return bits ^ (bits >> _S31)


@compiled()
def next_below(stream: Stream, bound: int) -> np.int64:
    """A number in [0, bound), for any bound up to 2^31: uneven by less than bound/2^32."""
    return np.int64(((next_bits(stream) >> _S32) * np.uint64(bound)) >> _S32)


@compiled()
def start_stream(stream: Stream, seed: int, step: int, device: int) -> None:
    """Put `stream` (1,) where the draws of this device in this round begin."""
    stream[0] = np.uint64(seed)
    stream[0] = next_bits(stream) ^ np.uint64(step)
    stream[0] = next_bits(stream) ^ np.uint64(device)
    stream[0] = next_bits(stream)


@compiled()
def draw_working_set(
    liked: Rows,
    barred: Rows,
    negatives: int,
    stream: Stream,
    place: Counts,
    blocked: Flags,
    rows: Rows,
    positive: Counts,
    negative: Counts,
) -> tuple[int, int]:
    """One device's items and the negatives of its round: how many rows, and how many samples.

    The rows go to `rows`, the interacted ones first, each once, and how often they came as which
    to `positive` and `negative`. `place` (m,) must hold -1 and `blocked` (m,) False, and do so
    again afterwards: clearing what was touched is much less than clearing everything.
    """
    items = len(place)
    found = 0
    for item in liked:  # an item counts once, however often it was used
        if place[item] < 0:
            place[item] = found
            rows[found], positive[found], negative[found] = item, 1, 0
            found += 1
    free = items
    for item in barred:
        free -= not blocked[item]
        blocked[item] = True
    wanted = negatives * found if free > 0 else 0
    samples = found + wanted
    for _ in range(wanted):
        item = next_below(stream, items)
        while blocked[item]:
            item = next_below(stream, items)
        if place[item] < 0:
            place[item] = found
            rows[found], positive[found], negative[found] = item, 0, 0
            found += 1
        negative[place[item]] += 1
    for item in barred:
        blocked[item] = False
    for each in range(found):
        place[rows[each]] = -1
    return found, samples


@compiled()
def list_samples(count: int, positive: Counts, negative: Counts, samples: Rows) -> None:
    """Every sample of `count` rows: 2·row, plus one where it is a positive."""
    end = 0
    for row in range(count):
        for _ in range(positive[row]):
            samples[end] = 2 * row + 1
            end += 1
        for _ in range(negative[row]):
            samples[end] = 2 * row
            end += 1


@compiled()
def shuffle(samples: Rows, stream: Stream) -> None:
    """Fisher and Yates, in place."""
    for last in range(len(samples) - 1, 0, -1):
        other = next_below(stream, last + 1)
        samples[last], samples[other] = samples[other], samples[last]


@compiled()
def gather_batch(samples: Rows, place: Counts, rows: Rows, weights: Floats, liked: Floats) -> int:
    """The distinct rows of a batch, with w_j and l_j of objective.py; gives their number.

    `place` has room for every row, must hold -1 and does so again afterwards.
    """
    found = 0
    share = np.float32(1.0 / len(samples))
    for sample in samples:
        row = sample >> 1
        if place[row] < 0:
            place[row] = found
            rows[found], weights[found], liked[found] = row, 0.0, 0.0
            found += 1
        weights[place[row]] += share
        liked[place[row]] += share * np.float32(sample & 1)
    for each in range(found):
        place[rows[each]] = -1
    return found
