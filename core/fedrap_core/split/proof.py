"""What a report holds is small, shown to two servers of which none sees it.

A fully linear proof (Boneh, Boyle, Corrigan-Gibbs, Gilboa and Ishai 2019) as in Prio3 of the VDAF
draft. The n numbers x of a report, all rows and what else is summed, lie on L wires in N calls,
number i on wire i mod L in call i div L. One more wire has the digits of the slack and the clipping
number. Claimed is, with R = 31:

    (1) every number on every wire is one of -R … R:   P(x) = x·prod_{j=1..R} (x² - j²) = 0
    (2) sum x² + slack = Q, with slack = sum_j 63^j·(digit_j + R)

so sum x² <= Q. Wire l is a polynomial w_l of degree N through a random number at 0 and its calls at
1 … N. The proof is those random numbers and the values at 0 … 63N and 0 … 2N of

    p_1 = sum_l r^l·P(w_l)     p_2 = sum_{l<L} w_l²

A server gets shares of numbers and proof. All it computes is linear, so shares of the results add
up; both servers' together tell whether the claim holds:

    v = sum_c ρ^c·p_1(c) + τ·(sum_c p_2(c) + slack - Q)     is 0, for calls c
    w_l(t), p_1(t), p_2(t) at a random t                    fit each other

r, ρ and τ follow from what the device has sent (`joint`), so it can't choose its numbers by them; t
from a key that only the servers have. With a field of 31 bits one proof may be cheated with 2^-20
or so; hence there are two, with other random numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fedrap_core.split.field import (
    BITS,
    PRIME,
    P,
    Words,
    fold,
    from_signed,
    lagrange,
    mul,
    powers,
    product,
    reduce,
    total,
)
from fedrap_core.split.xof import field_numbers, kdf16

R = 31  # the largest number
BASE = 2 * R + 1  # of the digits, and the degree of P
PROOFS = 2
_EVALUATED = 3  # v, p_1(t) and p_2(t) of a verifier's words


@dataclass(frozen=True)
class Circuit:
    """Sizes of the proof for `numbers` numbers with sum of squares `limit` at most."""

    numbers: int  # n
    limit: int  # Q

    @property
    def digits(self) -> int:
        """Digits that a slack up to Q takes."""
        count, largest = 1, BASE
        while largest <= self.limit:
            count, largest = count + 1, largest * BASE
        return count

    @property
    def calls(self) -> int:
        """N, about sqrt(n/65), which makes a proof the shortest; the last wire needs some."""
        return max(self.digits + 1, round(math.sqrt(self.numbers / (BASE + 2))))

    @property
    def wires(self) -> int:
        """L, without the last wire."""
        return -(-self.numbers // self.calls)

    @property
    def proof_words(self) -> int:
        """Of one proof: a random number for each wire, p_1, p_2."""
        return self.wires + 1 + (BASE * self.calls + 1) + (2 * self.calls + 1)

    @property
    def verifier_words(self) -> int:
        """Of one proof: v, p_1(t), p_2(t) and every wire at t."""
        return _EVALUATED + self.wires + 1

    @property
    def extra(self) -> int:
        """Numbers on the last wire: digits, then the clipping number."""
        return self.digits + 1


def slack_digits(circuit: Circuit, squares: int) -> npt.NDArray[np.int64]:
    """Q - squares in base 63, the lowest digit first, each less R: (digits,)."""
    slack, digits = circuit.limit - squares, []
    for _ in range(circuit.digits):
        slack, digit = divmod(slack, BASE)
        digits.append(digit - R)
    return np.array(digits, dtype=np.int64)


def prove(circuit: Circuit, numbers: Words, extra: Words, joint: bytes, seed: bytes) -> Words:
    """Both proofs: (2·proof_words,), in [0, p).

    Args:
        numbers: (n,) in [0, p).
        extra: (digits + 1,) in [0, p), for the last wire.
        joint: 16 bytes that follow from what was sent.
        seed: 16 secret random bytes.
    """
    inside = _calls(circuit, numbers, extra)  # (N, L+1)
    proofs = []
    for number in range(PROOFS):
        first = field_numbers(kdf16(b"wires", seed, bytes([number])), circuit.wires + 1)
        r, _, _ = _joint_numbers(joint, number)
        p1, p2 = _sums_at_all(circuit, np.concatenate([first[None], inside]), r)
        proofs += [first, p1, p2]
    return np.concatenate(proofs)


def query(
    circuit: Circuit,
    leads: bool,
    numbers: Words,
    extra: Words,
    proofs: Words,
    joint: bytes,
    secret: bytes,
) -> Words:
    """One server's share of what `decide` looks at: (2·verifier_words,), in [0, p).

    Args:
        leads: constants are in the leader's share alone.
        numbers, extra, proofs: this server's shares of what `prove` has.
        secret: 16 bytes for this report, from a key that only the servers have.
    """
    inside = _calls(circuit, numbers, extra)
    calls, wires = circuit.calls, circuit.wires
    each = proofs.reshape(PROOFS, circuit.proof_words)
    first, p1, p2 = np.split(each, [wires + 1, wires + 2 + BASE * calls], axis=1)
    slack = total(mul(extra[:-1], powers(BASE, circuit.digits)))
    if leads:
        known = R * sum(BASE**j for j in range(circuit.digits)) - circuit.limit
        slack = fold(slack + from_signed(known))
    points = [_query_point(circuit, secret, number) for number in range(PROOFS)]
    at = lagrange(calls + 1, points)
    wires_at = fold(product(at[:, 1:], inside) + mul(at[:, :1], first))
    p1_at = total(mul(p1, lagrange(p1.shape[1], points)), axis=1)
    p2_at = total(mul(p2, lagrange(p2.shape[1], points)), axis=1)
    answers = []
    for number in range(PROOFS):
        _, rho, tau = _joint_numbers(joint, number)
        squares = total(np.append(p2[number, 1 : calls + 1], slack))
        weighted = mul(p1[number, 1 : calls + 1], powers(rho, calls + 1)[1:])
        v = total(np.append(weighted, mul(squares, np.asarray(tau, np.uint64))))
        answers += [np.stack([v, p1_at[number], p2_at[number]]), reduce(wires_at[number])]
    return np.concatenate(answers)


def decide(circuit: Circuit, leader: Words, helper: Words, joint: bytes) -> bool:
    """Does the claim hold? From both servers' shares of the query."""
    both = reduce(leader + helper)
    for number in range(PROOFS):
        mine = both[number * circuit.verifier_words :][: circuit.verifier_words]
        v, p1, p2, wires = mine[0], mine[1], mine[2], mine[_EVALUATED:]
        r, _, _ = _joint_numbers(joint, number)
        squares = mul(wires, wires)
        expected = total(mul(_range_polynomial(wires, squares), powers(r, len(wires))))
        if v or p1 != expected or p2 != total(squares[:-1]):
            return False
    return True


def _calls(circuit: Circuit, numbers: Words, extra: Words) -> Words:
    """Numbers by call and wire, zeros at the end, the last wire with `extra`: (N, L+1)."""
    inside = np.zeros((circuit.calls, circuit.wires + 1), dtype=np.uint64)
    padded = np.zeros(circuit.calls * circuit.wires, dtype=np.uint64)
    padded[: len(numbers)] = numbers
    inside[:, :-1] = padded.reshape(circuit.calls, circuit.wires)
    inside[: len(extra), -1] = extra
    return inside


def _sums_at_all(circuit: Circuit, points: Words, r: int) -> tuple[Words, Words]:
    """p_1 at 0 … 63N and p_2 at 0 … 2N, from the wires at 0 … N; some points at a time."""
    weights, scale = _weights(circuit.calls), powers(r, points.shape[1])
    p1 = np.empty(len(weights), dtype=np.uint64)
    p2 = np.empty(2 * circuit.calls + 1, dtype=np.uint64)
    some = max(1, _SOME // points.shape[1])
    for first in range(0, len(weights), some):
        here = slice(first, first + some)
        values = product(weights[here], points)
        squares = mul(values, values)
        p1[here] = total(mul(_range_polynomial(values, squares), scale), axis=1)
        if first < len(p2):
            p2[here] = total(squares[: len(p2) - first, :-1], axis=1)
    return p1, p2


_SOME = 1 << 14  # numbers at a time: they stay in the cache


@lru_cache(maxsize=16)
def _weights(calls: int) -> Words:
    """Lagrange weights that carry values at 0 … N to 0 … 63N: (63N+1, N+1)."""
    return lagrange(calls + 1, np.arange(BASE * calls + 1))


def _range_polynomial(values: Words, squares: Words) -> Words:
    """P of each, p at most; with y = x², P(x) = x·G(y) (Paterson and Stockmeyer 1973).

    G has degree 31: eight times four coefficients, put together by powers of y⁴. A step adds up
    four products below 2^62, and what two folds leave of that is p + 4 at most.
    """
    second = mul(squares, squares)
    third, fourth = mul(second, squares), mul(second, second)
    result = np.zeros_like(values)
    more = np.empty_like(values)
    for c0, c1, c2, c3 in _coefficients():
        result *= fourth
        for coefficient, power in ((c1, squares), (c2, second), (c3, third)):
            np.multiply(power, coefficient, out=more)
            result += more
        result += c0
        for _ in range(2):
            np.right_shift(result, BITS, out=more)
            result &= PRIME
            result += more
    result = fold(result)
    result *= values
    return fold(result)


@lru_cache(maxsize=1)
def _coefficients() -> Words:
    """Of G(y) = prod_{j=1..R} (y - j²), four at a time, the highest four first: (8, 4)."""
    found = [1]
    for j in range(1, R + 1):
        found = [
            (low - j * j * high) % P for low, high in zip([0, *found], [*found, 0], strict=True)
        ]
    return np.array(found, dtype=np.uint64).reshape(-1, 4)[::-1]


def _joint_numbers(joint: bytes, number: int) -> tuple[int, int, int]:
    """r, ρ and τ of one of the proofs."""
    r, rho, tau = field_numbers(kdf16(b"joint numbers", joint, bytes([number])), 3)
    return int(r), int(rho), int(tau)


def _query_point(circuit: Circuit, secret: bytes, number: int) -> int:
    """t, none of the points whose values are in the proof: there a wire would tell a number."""
    most = BASE * circuit.calls
    for point in field_numbers(kdf16(b"query", secret, bytes([number])), 16):
        if point > most:
            return int(point)
    return int(P - 1)  # sixteen draws below most: never
