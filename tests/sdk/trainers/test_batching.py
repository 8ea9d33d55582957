"""Devices of different sizes in one set of arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedrap.trainers import make_trainer
from fedrap.trainers.batching import chunks, pack_paper, pack_shares
from fedrap.trainers.onnx_trainer import OnnxTrainer
from fedrap_core.plan import PaperMethod
from fedrap_core.solve.device_share import ShareProblem
from tests.core.paper.made import round_of


@given(sizes=st.lists(st.integers(0, 9), max_size=30), most=st.integers(1, 8))
def test_chunks_hold_every_place_once_and_alike_ones_together(sizes: list[int], most: int) -> None:
    found = list(chunks(sizes, lambda size: (size,), most))
    assert sorted(place for chunk in found for place in chunk) == list(range(len(sizes)))
    assert all(len(chunk) <= most for chunk in found)
    order = [sizes[place] for chunk in found for place in chunk]
    assert order == sorted(order)


def test_shares_are_filled_up_with_rows_of_weight_zero() -> None:
    short = ShareProblem(np.arange(1), np.ones((1, 2)), np.array([4.0]), np.eye(2))
    long = ShareProblem(np.arange(2), np.ones((2, 2)), np.array([9.0, 1.0]), np.eye(2))
    scaled, roots = pack_shares([short, long])
    assert roots.tolist() == [[[2.0, 0.0]], [[3.0, 1.0]]]
    assert scaled[0].tolist() == [[2.0, 2.0], [0.0, 0.0]]


def test_every_block_of_a_batch_has_a_row() -> None:
    method = PaperMethod(dim=2)
    batch = pack_paper([round_of(np.random.default_rng(0), method, seen=0)], np.float64)
    assert batch.steps == 0
    assert batch.arrays["own"].shape == (1, 1, 2)
    assert batch.arrays["other"].shape == (1, 1, 2)


def test_a_release_is_inverted_once_and_few_are_kept() -> None:
    trainer = make_trainer("onnx")
    assert isinstance(trainer, OnnxTrainer)
    own, weights = np.ones((2, 3)), np.ones(2)
    for scale in range(1, 10):
        base = scale * np.eye(3)
        trainer.solve([ShareProblem(np.arange(2), own, weights, base)])
        kept = trainer._releases
        trainer.solve([ShareProblem(np.arange(2), own, weights, base.copy())])
        assert trainer._releases is kept
    assert len(kept) == 4
