"""Eq. 3 and its gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from fedrap_core.paper.objective import (
    LocalModel,
    Samples,
    cross_entropy,
    gradients,
    loss,
    mean_difference,
    mean_size,
    sigmoid,
)
from tests.core.made import quick, seeds
from tests.core.paper.made import model_of, samples_of

BLOCKS = ("user", "personal", "own", "other")
APART = 0.3


def _loss(model: LocalModel, samples: Samples) -> float:
    return loss(model, samples, APART, 0.0, "none")


@quick
@given(seed=seeds)
def test_gradients_equal_finite_differences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, samples, tiny = model_of(rng), samples_of(rng), 1e-6
    analytic = gradients(model, samples, APART)
    for block in BLOCKS:
        values = getattr(model, block)
        for place in np.ndindex(values.shape):
            up, down = values.copy(), values.copy()
            up[place] += tiny
            down[place] -= tiny
            slope = _loss(replace(model, **{block: up}), samples)
            slope -= _loss(replace(model, **{block: down}), samples)
            assert slope / (2 * tiny) == pytest.approx(
                getattr(analytic, block)[place], rel=1e-5, abs=1e-8
            )
    slope = _loss(replace(model, bias=model.bias + tiny), samples)
    slope -= _loss(replace(model, bias=model.bias - tiny), samples)
    assert slope / (2 * tiny) == pytest.approx(analytic.bias, rel=1e-5, abs=1e-8)


@quick
@given(seed=seeds)
def test_unique_rows_with_weights_equal_a_sum_over_samples(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = model_of(rng, own=2, other=1)
    # Row 0 twice liked and once not, row 1 once liked, row 2 three times not.
    samples = Samples(
        np.array([3, 1]) / 7, np.array([2, 1]) / 7, np.array([3]) / 7, np.array([0.0])
    )
    rows = np.concatenate([model.personal + model.own, model.other])
    z = rows @ model.user + model.bias
    losses = [np.log1p(np.exp(-z[j])) for j in (0, 0, 1)]
    losses += [np.log1p(np.exp(z[j])) for j in (0, 2, 2, 2)]
    assert loss(model, samples, 0.0, 0.0, "l1") == pytest.approx(np.mean(losses))


def test_the_lambda_term_pushes_personal_and_common_items_apart() -> None:
    # Erratum 1: the paper's appendix has the other sign and would pull them together.
    model = LocalModel(np.zeros(1), 0.0, np.array([[1.0]]), np.array([[0.0]]), np.zeros((0, 1)))
    samples = Samples(np.ones(1), np.full(1, 0.5), np.zeros(0), np.zeros(0))
    found = gradients(model, samples, 1.0)
    assert found.personal[0, 0] == -2.0  # a descent step raises D further above C
    assert found.own[0, 0] == 2.0


def test_terms_are_means_over_samples_and_entries() -> None:
    rows, weights = np.array([[1.0, -3.0], [2.0, 2.0]]), np.array([0.25, 0.75])
    assert mean_size(rows, weights, "l1") == 0.25 * 2 + 0.75 * 2
    assert mean_size(rows, weights, "l2") == 0.25 * 5 + 0.75 * 4
    assert mean_size(rows, weights, "none") == 0.0
    assert mean_difference(rows, np.zeros((2, 2)), weights) == 0.25 * 5 + 0.75 * 4


def test_huge_logits_stay_finite() -> None:
    z = np.array([-1e6, 1e6])
    assert sigmoid(z).tolist() == [0.0, 1.0]
    assert cross_entropy(z, np.full(2, 0.5), np.array([0.5, 0.0])) == 1e6
