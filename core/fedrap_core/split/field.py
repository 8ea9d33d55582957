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
_HALF_BITS, _HALF = np.uint64(16), np.uint64((1 << 16) - 1)
_EXACT = 64  # products of 47 bits that a float64 adds up exactly


def fold(values: Words) -> Words:
    """The same numbers, p at most, where they were below 2^62."""
    low, high = np.asarray(values & PRIME), np.asarray(values >> BITS)
    low += high
    np.right_shift(low, BITS, out=high)
    low &= PRIME
    low += high
    return low


def reduce(values: Words) -> Words:
    """The same numbers in [0, p), where they were below 2^62."""
    folded = fold(values)
    folded[folded == PRIME] = 0
    return folded


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
    """The matrix product, p at most: (a, b) by (b, c), both up to p.

    By float64, exact here: the left in halves of 16 bits, sums of 64 products of 47 bits.
    """
    result = np.zeros((left.shape[0], right.shape[1]), dtype=np.uint64)
    for at in range(0, right.shape[0], _EXACT):
        mine = left[:, at : at + _EXACT]
        halves = np.concatenate([mine & _HALF, mine >> _HALF_BITS]).astype(np.float64)
        sums = (halves @ right[at : at + _EXACT].astype(np.float64)).astype(np.int64)
        low, high = sums.view(np.uint64).reshape(2, *result.shape)
        result += low  # below 2^54
        result += ((high & PRIME) + (high >> BITS)) << _HALF_BITS  # below 2^49
        result = fold(result)
    return result


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


def running_products(values: Words) -> Words:
    """x_0, x_0·x_1, x_0·x_1·x_2 … along the last axis, p at most; twice as far each time."""
    result, step = values.copy(), 1
    while step < values.shape[-1]:
        result[..., step:] = mul(result[..., step:], result[..., :-step])
        step *= 2
    return result


def lagrange(count: int, points: npt.ArrayLike) -> Words:
    """Weights w with f(t) = sum_i w_i·f(i), for f of degree < count, at each t: (t, count).

    w_i = prod_{j != i} (t - j)/(i - j), by products of those before and behind, and factorials.
    """
    apart = sub(np.asarray(points, np.uint64)[:, None], np.arange(count, dtype=np.uint64))
    made = running_products(np.stack([apart, apart[:, ::-1]]))
    weights = np.empty_like(apart)
    weights[:] = _lagrange_constants(count)
    weights[:, 1:] = mul(weights[:, 1:], made[0, :, :-1])
    weights[:, :-1] = mul(weights[:, :-1], made[1, :, -2::-1])
    return reduce(weights)


@lru_cache(maxsize=64)
def _lagrange_constants(count: int) -> Words:
    """1/prod_{j != i} (i - j) of each i: (count,)."""
    down = _inverse_factorials(count)
    signs = [P - 1 if (count - 1 - i) % 2 else 1 for i in range(count)]
    return np.array(
        [down[i] * down[count - 1 - i] % P * signs[i] % P for i in range(count)], dtype=np.uint64
    )


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
