"""What the paper reports, to stand beside what we measure.

Source: Z. Li, G. Long, T. Zhou, "Federated Recommendation with Additive Personalization",
ICLR 2024, arXiv:2301.09109. Tables of HR@10 and NDCG@10 in the appendix ("Comparison Analysis"),
here as shares instead of percentages; of differential privacy in section 4.4 and the appendix,
with the swapped column heads "w/ DP" and "w/o DP" put right; of sparsity levels in the appendix.

All of them were measured with a sampler of negatives that knows the held-out items, and at the
round that did best on the test: they are leaky, every one.
"""

from __future__ import annotations

from typing import NamedTuple

CITATION = (
    "Li, Long, Zhou: Federated Recommendation with Additive Personalization, ICLR 2024, "
    "arXiv:2301.09109, appendix"
)


class Quality(NamedTuple):
    """HR@10 and NDCG@10 against 99 negatives, mean of five runs."""

    hr10: float
    ndcg10: float


_SETS = ("tafeng", "ml-100k", "ml-1m", "amazon-video", "lastfm-2k", "qb-article")
_HR = {  # percentages, in the order of _SETS
    "ncf": (98.33, 65.94, 62.52, 39.11, 20.81, 40.94),
    "lightgcn": (99.33, 99.54, 99.43, 51.60, 28.56, 61.09),
    "centrap": (99.87, 99.30, 99.17, 48.54, 24.76, 54.28),
    "fedmf": (97.50, 65.05, 65.95, 39.00, 20.04, 40.54),
    "fedncf": (87.54, 60.89, 61.31, 39.25, 20.14, 40.52),
    "pfedrec": (98.33, 70.03, 68.59, 40.87, 21.61, 46.00),
    "fedrap-paper": (99.43, 97.09, 93.24, 46.53, 23.29, 53.98),
    "fedrap-noise": (95.36, 93.64, 91.80, 41.91, 22.68, 50.20),
}
_NDCG = {
    "ncf": (97.55, 38.76, 35.60, 21.94, 11.36, 19.61),
    "lightgcn": (98.70, 91.52, 90.43, 32.64, 14.32, 31.85),
    "centrap": (99.54, 86.65, 86.89, 28.83, 11.30, 26.09),
    "fedmf": (96.72, 38.40, 38.77, 25.03, 9.87, 17.76),
    "fedncf": (83.42, 32.68, 34.94, 21.72, 9.99, 19.31),
    "pfedrec": (98.03, 41.38, 40.19, 24.04, 10.88, 22.28),
    "fedrap-paper": (99.11, 87.81, 71.87, 28.17, 10.99, 24.75),
    "fedrap-noise": (93.65, 80.15, 70.35, 26.45, 10.89, 24.75),
}

# Of FedRAP's C on ML-100K after training: how many entries are larger (section 4.4).
LARGER_THAN = {
    "fedrap-paper": {"0.1": 0.0419, "0.01": 0.6736},
    "fedrap-l2": {"0.1": 0.0807, "0.01": 0.8894},
}

# ML-100K, without and with noise: HR@10, NDCG@10.
NOISE = {
    "fedmf": (Quality(0.6505, 0.3840), Quality(0.6257, 0.3451)),
    "fedncf": (Quality(0.6089, 0.3268), Quality(0.4348, 0.2386)),
    "pfedrec": (Quality(0.7003, 0.4138), Quality(0.6352, 0.3549)),
    "fedrap-paper": (Quality(0.9709, 0.8781), Quality(0.9364, 0.8015)),
}

# Parts of ML-1M: which part, share of empty cells, quality of FedRAP.
SPARSITY_LEVELS = (
    ("500 users", 0.8133, Quality(1.0000, 0.9446)),
    ("500 users", 0.9549, Quality(1.0000, 0.8227)),
    ("500 users", 0.9862, Quality(0.9020, 0.5686)),
    ("1000 users", 0.8587, Quality(1.0000, 0.9064)),
    ("1000 users", 0.9752, Quality(0.9990, 0.7118)),
    ("1000 users", 0.9897, Quality(0.8260, 0.5207)),
    ("1000 items", 0.8762, Quality(0.9851, 0.8931)),
    ("1000 items", 0.9486, Quality(0.9398, 0.7759)),
    ("1000 items", 0.9685, Quality(0.9186, 0.7003)),
)

NOT_THE_SAME_DATA = {
    "tafeng": "The paper's TaFeng is another set: its 120 users are dates and its items customers.",
    "lastfm-2k": "The paper orders LastFM by place in the file; here the held-out item is random.",
}


def published(data: str, method: str) -> Quality | None:
    """What the paper has for a method on a set; None where it has nothing."""
    if data not in _SETS or method not in _HR:
        return None
    place = _SETS.index(data)
    return Quality(round(_HR[method][place] / 100, 4), round(_NDCG[method][place] / 100, 4))
