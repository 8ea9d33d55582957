"""The answer of a device to a question: one vector of fixed length, so its size tells nothing.

A question has blocks (the releases it asks about; one for candidates of a release) and groups of
devices (all, or light and heavy users). A device fills the blocks that it has gains for, in its own
group; all else is zero. With g in [0, 1] its mean gain under the first line of a block (its own
list, or the scalars in force) and g_i that of the lines compared with it, a block is

    p·[1]   g   p·g^2   then for each i:   d_i = g_i - g   p·d_i^2          p = 1/4

Of a staged release there is one block with g the mean lead over the release that it is beside, in
[-1, 1], and nothing compared with it. The first number counts devices. Squares are there for the
sampling error of the means, and weigh little because they need not be exact. All of it has norm S
at most, whatever the gains are:

    S^2 = blocks·(p^2 + 1 + p^2 + compared·(1 + p^2))

so clipping to S moves no honest answer, and a lying one moves a sum by S. Noise z·S on the sum is
charged as mu = 1/z, like a round's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedrap_core.errors import NotFinite, WrongShape

ROUGH = 0.25  # p
Vector = npt.NDArray[np.float64]
# Of the first line, then of those compared with it, in [0, 1]; then the shares of the buckets.
Gains = Sequence[float]


@dataclass(frozen=True)
class Layout:
    """How an answer is laid out; both sides have it from the question."""

    blocks: int  # what a device may speak of at once
    groups: int  # of which it is in one
    compared: int  # lines beside the first
    signed: bool = False  # the first is a difference itself, in [-1, 1]
    buckets: int = 0  # shares after each block, which add up to 1; see lists.py

    @property
    def width(self) -> int:
        """Numbers of one block in one group."""
        return 3 + 2 * self.compared + self.buckets

    @property
    def size(self) -> int:
        """Numbers of an answer."""
        return self.blocks * self.groups * self.width

    @property
    def clip(self) -> float:
        """S, the largest norm that gains can give an answer."""
        squares = 1.0 + 2.0 * ROUGH**2 + self.compared * (1.0 + ROUGH**2) + (self.buckets > 0)
        return math.sqrt(self.blocks * squares)

    def vector(self, gains: Sequence[Gains | None], group: int) -> Vector:
        """The answer of a device with these gains, one entry for each block: (size,)."""
        if len(gains) != self.blocks or not 0 <= group < self.groups:
            raise ValueError("gains for each block and a group are expected")
        answer = np.zeros((self.blocks, self.groups, self.width))
        for block, lines in enumerate(gains):
            if lines is not None:
                answer[block, group] = self._block(lines)
        return answer.ravel()

    def _block(self, lines: Gains) -> Vector:
        if len(lines) != 1 + self.compared + self.buckets:
            raise ValueError("a gain for each line is expected")
        lines, shares = lines[: 1 + self.compared], lines[1 + self.compared :]
        lowest = -1.0 if self.signed else 0.0
        first, *others = np.clip(np.asarray(lines, dtype=np.float64), lowest, 1.0)
        block = [ROUGH, first, ROUGH * first**2]
        for other in others:
            block += [other - first, ROUGH * (other - first) ** 2]
        return np.array([*block, *shares])

    def clipped(self, answer: Vector) -> Vector:
        """An answer of any device, scaled down to norm S where it lies above."""
        norm = float(np.linalg.norm(answer))
        return answer if norm <= self.clip else answer * (self.clip / norm)


def pack(answer: Vector) -> bytes:
    """float32, little-endian."""
    return answer.astype("<f4").tobytes()


def unpack(raw: bytes, layout: Layout) -> Vector:
    """The numbers of an answer, clipped.

    Raises:
        WrongShape, NotFinite: they are not those of such an answer.
    """
    if len(raw) != 4 * layout.size:
        raise WrongShape(f"an answer has {layout.size} numbers, this one {len(raw) / 4:g}")
    answer = np.frombuffer(raw, dtype="<f4").astype(np.float64)
    if not np.all(np.isfinite(answer)):
        raise NotFinite("an answer has numbers only")
    return layout.clipped(answer)
