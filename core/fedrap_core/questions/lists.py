"""How devices' lists are as a whole: how much of them is popular, and how varied they are.

A device looks at the first ten items of its list. Beside the share of them that is popular it says
which of B buckets they fall into, by a hash that is another one for each question, as shares h of a
whole: their squares add up to 1 at most, so one device moves the sum by that.

With q the mean of h over n devices and p_i the share of item i in all lists, over the hashes

    E sum_b (q_b - 1/B)^2 = (1 - 1/B)·sum_i p_i^2

so the sum of squares of the p_i is known from B numbers without any item's own. Its inverse is the
number of items that lists would consist of if all were as frequent (inverse Simpson): ten where
everybody has the same list, the whole catalogue where all is shown alike.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from fedrap_core.questions.answers import Layout, Vector
from fedrap_core.questions.estimates import Z95, Estimate

BUCKETS = 128
POPULAR = 0.1  # of the items that may be shown, in the catalogue's order, are the popular ones
LONGEST = 10  # items of a list that are looked at


def shares_of(items: Sequence[str], question: bytes, buckets: int) -> Vector:
    """Which share of a list falls into each bucket: (buckets,)."""
    places = [
        int.from_bytes(hashlib.sha256(question + item.encode("utf-8")).digest()[:8], "little")
        for item in items
    ]
    counts = np.bincount([place % buckets for place in places], minlength=buckets)
    return np.asarray(counts / max(1, len(items)))


def variety(total: Vector, layout: Layout, stddev: float, devices: float) -> Estimate:
    """The mean sum of squares of shares, of the noised sum of answers of so many devices.

    Bias by noise and by sampling is taken off. The error has noise, and the luck of the hashes.
    """
    buckets = layout.buckets
    apart = total[layout.width - buckets :] / devices - 1.0 / buckets  # (B,)
    noise = stddev / devices
    sampled = (1.0 / LONGEST + (1.0 - 1.0 / LONGEST) / buckets - 1.0 / buckets) / devices
    found = float(apart @ apart) - buckets * noise**2 - sampled
    value = max(0.0, found) / (1.0 - 1.0 / buckets)
    by_noise = math.hypot(2.0 * noise * math.sqrt(value), math.sqrt(2.0 * buckets) * noise**2)
    by_hashes = value * math.sqrt(2.0 / (buckets - 1))
    return Estimate(value, math.hypot(by_noise, by_hashes), by_noise)


def items_of(found: Estimate, most: int) -> tuple[float, float, float]:
    """Items that lists consist of, and the ends of a 95 % interval; at most all there are."""
    low = max(found.value - Z95 * found.error, 0.0)
    inverse = [1.0 / one if one * most > 1.0 else float(most) for one in (found.value, low)]
    return inverse[0], min(float(most), 1.0 / (found.value + Z95 * found.error)), inverse[1]
