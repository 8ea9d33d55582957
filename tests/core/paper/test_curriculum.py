"""The weights of Eq. 3 at given rounds."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrap_core.paper.curriculum import Curriculum, curriculum_share, weights_at
from fedrap_core.plan import PaperMethod

NAMES: tuple[Curriculum, ...] = ("tanh", "fixed", "sin", "square", "frac")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tanh", {1: math.tanh(0.1), 10: math.tanh(1.0), 100: math.tanh(10.0)}),
        ("fixed", {1: 1.0, 50: 1.0}),
        ("sin", {1: math.sin(0.1), 15: math.sin(1.5), 40: 0.0}),
        ("square", {1: 0.0, 9: 0.0, 10: 1.0, 19: 1.0, 20: 0.0, 30: 1.0}),
        ("frac", {1: 0.5, 9: 0.1, 99: 0.01}),
    ],
)
def test_a_curriculum_has_its_weight_at_a_round(
    name: Curriculum, expected: dict[int, float]
) -> None:
    for a, share in expected.items():
        assert curriculum_share(name, a) == pytest.approx(share)


@given(name=st.sampled_from(NAMES), a=st.integers(1, 1000))
def test_a_weight_lies_between_nothing_and_its_largest_value(name: Curriculum, a: int) -> None:
    weights = weights_at(PaperMethod(curriculum=name, apart=0.2, sparse=3.0), a)
    assert 0 <= weights.apart <= 0.2
    assert 0 <= weights.sparse <= 3.0


def test_a_part_that_is_missing_is_not_regularised() -> None:
    fixed = {"curriculum": "fixed", "apart": 1.0, "sparse": 1.0}
    cases = {
        (True, True, "l1"): (1.0, 1.0),
        (False, True, "l1"): (0.0, 0.0),
        (True, False, "l2"): (0.0, 1.0),
        (True, True, "none"): (1.0, 0.0),
    }
    for (common, personal, penalty), expected in cases.items():
        method = msgspec.convert(
            {"name": "paper", **fixed, "common": common, "personal": personal, "penalty": penalty},
            PaperMethod,
        )
        found = weights_at(method, 3)
        assert (found.apart, found.sparse) == expected
