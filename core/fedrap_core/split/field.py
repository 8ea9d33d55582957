"""Numbers modulo p = 2^31 - 1, as arrays of uint64 or uint32.

p is a Mersenne prime: x = (x & p) + (x >> 31) keeps a number modulo p. A product of two numbers up
to p needs that twice until it is p at most. `p` itself stands for 0 until `reduce` was called.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

P = (1 << 31) - 1
BITS = np.uint64(31)
PRIME = np.uint64(P)
Words = npt.NDArray[np.uint64]  # of the field
Words32 = npt.NDArray[np.uint32]


def fold(values: Words) -> Words:
    """The same numbers, p at most, where they were below 2^62."""
    once = (values & PRIME) + (values >> BITS)
    return np.asarray((once & PRIME) + (once >> BITS))


def reduce(values: Words) -> Words:
    """The same numbers in [0, p), where they were below 2^62."""
    folded = fold(values)
    return np.where(folded == PRIME, np.uint64(0), folded)


def mul(left: Words, right: Words) -> Words:
    """Products, p at most; both up to p."""
    return fold(left * right)


def negate(values: Words) -> Words:
    """-x; x up to p."""
    return PRIME - values


def sub(left: Words, right: Words) -> Words:
    """Differences, p at most; both up to p."""
    return fold(left + (PRIME - right))


def total(values: Words, axis: int | None = None) -> Words:
    """Sums in [0, p), of fewer than 2^31 numbers up to p."""
    return reduce(np.asarray(np.sum(values, axis=axis, dtype=np.uint64)))


def product(left: Words, right: Words) -> Words:
    """The matrix product, p at most: (a, b) by (b, c); column after column, so that none overflows.

    A sum of b folded products stays below b·2^31.
    """
    result = np.zeros((left.shape[0], right.shape[1]), dtype=np.uint64)
    for column, row in zip(left.T, right, strict=True):
        once = column[:, None] * row[None, :]
        result += (once & PRIME) + (once >> BITS)  # below 2^32: 2^30 of them fit
    return fold(result)


def from_signed(values: npt.ArrayLike) -> Words:
    """Whole numbers of either sign as numbers of the field, in [0, p)."""
    return np.asarray(np.mod(np.asarray(values, dtype=np.int64), P), dtype=np.uint64)


def to_signed(values: npt.NDArray[np.unsignedinteger]) -> npt.NDArray[np.int64]:
    """Numbers in [0, p] as the nearest to 0 that they may stand for."""
    wide = values.astype(np.int64)
    return np.where(wide > P // 2, wide - P, wide)


def powers(base: int, count: int) -> Words:
    """base^0 … base^(count - 1), in [0, p)."""
    result = np.empty(count, dtype=np.uint64)
    result[:1] = 1
    done = 1
    while done < count:  # twice as many each time
        step = np.asarray(pow(base, done, P), dtype=np.uint64)
        more = min(done, count - done)
        result[done : done + more] = mul(result[:more], step)
        done += more
    return reduce(result)


def inverse(value: int) -> int:
    """1/x; x is not 0."""
    if value % P == 0:
        raise ZeroDivisionError("0 has no inverse")
    return pow(value, P - 2, P)


def inverses(values: Sequence[int]) -> list[int]:
    """1/x of each, by one inversion (Montgomery's trick)."""
    before, running = [], 1
    for value in values:
        before.append(running)
        running = running * value % P
    left, result = inverse(running), [0] * len(values)
    for at in range(len(values) - 1, -1, -1):
        result[at] = left * before[at] % P
        left = left * values[at] % P
    return result


def lagrange(count: int, point: int) -> Words:
    """Weights w with f(point) = sum_i w_i·f(i), for f of degree < count: (count,).

    w_i = prod_{j != i} (point - j)/(i - j), by prefix and suffix products and factorials.
    """
    ahead, behind = [1] * (count + 1), [1] * (count + 1)
    for i in range(count):
        ahead[i + 1] = ahead[i] * ((point - i) % P) % P
    for i in range(count - 1, -1, -1):
        behind[i] = behind[i + 1] * ((point - i) % P) % P
    down = _inverse_factorials(count)
    weights = []
    for i in range(count):
        sign = P - 1 if (count - 1 - i) % 2 else 1
        below = down[i] * down[count - 1 - i] % P * sign % P
        weights.append(ahead[i] * behind[i + 1] % P * below % P)
    return np.array(weights, dtype=np.uint64)


@lru_cache(maxsize=64)
def _inverse_factorials(count: int) -> list[int]:
    """1/0! … 1/(count - 1)!"""
    last = 1
    for i in range(2, count):
        last = last * i % P
    result = [1] * count
    result[-1] = inverse(last)
    for i in range(count - 1, 0, -1):
        result[i - 1] = result[i] * i % P
    return result
