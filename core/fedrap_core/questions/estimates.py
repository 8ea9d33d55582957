"""What a noised sum of answers says, with intervals from sampling and noise together.

With n devices in a block, sigma = z·S the noise of each number, and m the mean of the first line:

    m = G/n,  n = P/p,      se^2 = v/n + (sigma/n)^2·(1 + (m/p)^2)

The first term is sampling: v is the variance between devices, from the squares, taken one standard
error too large because those are noised as well, and never above m·(1 - m), the most that numbers
in [0, 1] can have. The second is the noise of G and, through the ratio, of P. Differences alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from fedrap_core.questions.answers import ROUGH, Layout, Vector

Z95 = 1.959963984540054
LEAD = 0.3  # see `pick`
NOISE_LEAD = 1.5  # standard deviations of noise that a lead must lie above
Z99 = 2.3263478740408408  # one-sided: a staged release as good as the old is halted 1 time in 100


@dataclass(frozen=True)
class Estimate:
    """A mean of gains, or of differences of gains, with its 95 % interval."""

    value: float
    error: float  # standard error: sampling and noise
    noise: float = 0.0  # standard error of the noise alone

    @property
    def low(self) -> float:
        """The lower end."""
        return self.value - Z95 * self.error

    @property
    def high(self) -> float:
        """The upper end."""
        return self.value + Z95 * self.error


@dataclass(frozen=True)
class BlockEstimate:
    """One block of a question in one group, or in all of them together."""

    devices: float  # that had something to say; noised
    first: Estimate
    differences: tuple[Estimate, ...]  # of the compared lines, each minus the first


def estimate_block(
    total: Vector, layout: Layout, stddev: float, least: int
) -> BlockEstimate | None:
    """From the noised sum of one block (width,); None where fewer than `least` spoke of it."""
    devices = float(total[0]) / ROUGH
    if devices < max(1, least):
        return None
    first = _mean(total[1], total[2], devices, stddev, signed=layout.signed)
    differences = tuple(
        _mean(total[at], total[at + 1], devices, stddev, signed=True)
        for at in range(3, layout.width - layout.buckets, 2)
    )
    return BlockEstimate(devices, first, differences)


def _mean(total: float, squares: float, devices: float, stddev: float, *, signed: bool) -> Estimate:
    mean = float(total) / devices
    largest = 1.0 - mean**2 if signed else max(0.0, mean * (1.0 - mean))
    seen = float(squares) / (ROUGH * devices) - mean**2
    unsure = stddev / (ROUGH * devices)
    variance = min(max(0.0, seen + unsure), max(0.0, largest)) if stddev else max(0.0, seen)
    noise = stddev / devices * math.hypot(1.0, mean / ROUGH)
    return Estimate(mean, math.sqrt(variance / devices + noise**2), noise)


def estimates(
    total: Vector, layout: Layout, stddev: float, least: int
) -> list[list[BlockEstimate | None]]:
    """For each block: all groups together first, then each group, where there is more than one."""
    sums = np.asarray(total, dtype=np.float64).reshape(layout.blocks, layout.groups, layout.width)
    found = []
    for block in sums:  # (groups, width)
        every = math.sqrt(layout.groups) * stddev  # noise of a sum over groups
        lines = [estimate_block(block.sum(axis=0), layout, every, least)]
        if layout.groups > 1:
            lines += [estimate_block(group, layout, stddev, least) for group in block]
        found.append(lines)
    return found


def pick(totals: Sequence[float], voters: float, noise: float = 0.0) -> int:
    """The candidate with the largest sum of gains, if it clearly beats the first one; else that.

    The first is in force. Clearly means by more than LEAD/sqrt(voters) of its sum, one and a half
    standard errors of such a difference on ml-100k and lastfm-2k, and by as many of the noise
    (`noise` is the standard deviation of a difference of two totals): the best of several close
    candidates is mostly the luckiest one.
    """
    best = int(np.argmax(totals))
    needed = math.hypot(totals[0] * LEAD / math.sqrt(max(voters, 1.0)), NOISE_LEAD * noise)
    return best if totals[best] > totals[0] + needed else 0


class Verdict(StrEnum):
    """What the mean lead of a staged release says of it."""

    WORSE = "worse"  # beyond its interval
    SAFE = "safe"  # its interval excludes a harm beyond the tolerance
    UNCLEAR = "unclear"  # no evidence of harm, and none of its absence


def judge(lead: Estimate, tolerance: float) -> Verdict:
    """A staged release by its mean lead; both ends are one-sided, at 99 %."""
    if lead.value + Z99 * lead.error < 0:
        return Verdict.WORSE
    return Verdict.SAFE if lead.value - Z99 * lead.error > -tolerance else Verdict.UNCLEAR
