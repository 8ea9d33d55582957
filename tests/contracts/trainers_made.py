"""Every trainer, and how near it must come to the float64 reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import settings

from fedrap.trainers import Trainer, make_trainer
from fedrap_core.paper.problem import PaperProblem, PaperResult
from fedrap_core.paper.training import train_local
from fedrap_core.solve.device_share import LocalShare, ShareProblem, compute_share

TRAINERS: dict[str, Trainer] = {name: make_trainer(name) for name in ("numpy", "onnx", "torch")}
every_trainer = pytest.mark.parametrize("trainer", TRAINERS.values(), ids=TRAINERS.keys())
some = settings(max_examples=25)


Numbers = npt.NDArray[np.float64] | Sequence[Any] | float


def assert_close(found: Numbers, truth: Numbers, what: str) -> None:
    np.testing.assert_allclose(
        np.asarray(found), np.asarray(truth), rtol=1e-5, atol=2e-6, err_msg=what
    )


def assert_shares(found: LocalShare, truth: LocalShare) -> None:
    assert_close(found.user, truth.user, "user")
    assert_close(found.update.values, truth.update.values, "gradients")
    assert_close(found.update.packed_gram, truth.update.packed_gram, "triangle")
    assert_close(found.loss, truth.loss, "loss")
    assert found.update.rows.tolist() == truth.update.rows.tolist()
    assert found.update.values.dtype == np.float64


def assert_results(found: PaperResult, truth: PaperResult) -> None:
    assert_close(found.user, truth.user, "user")
    assert_close(found.bias, truth.bias, "bias")
    assert_close(found.personal, truth.personal, "personal")
    assert_close(found.update.values, truth.update.values, "delta")
    assert_close(found.losses, truth.losses, "losses")
    assert found.update.rows.tolist() == truth.update.rows.tolist()
    assert not found.update.packed_gram.any()


def share_of(
    seed: int, count: int, dim: int = 16, size: int = 4000, weight: float = 5.0
) -> ShareProblem:
    """A device with `count` items of a catalogue whose G is that of a trained release."""
    rng = np.random.default_rng(seed)
    common = rng.normal(0, 0.15, size=(size, dim)) * np.geomspace(3, 0.3, dim)
    rows = np.sort(rng.choice(size, size=count, replace=False)).astype(np.int64)
    base = common.T @ common + 10 * np.eye(dim)
    return ShareProblem(rows, common[rows], np.full(count, weight), base)


def check_solve(trainer: Trainer, problems: Sequence[ShareProblem]) -> None:
    for found, problem in zip(trainer.solve(problems), problems, strict=True):
        assert_shares(found, compute_share(problem))


def check_train(trainer: Trainer, problems: Sequence[PaperProblem]) -> None:
    for found, problem in zip(trainer.train(problems), problems, strict=True):
        assert_results(found, train_local(problem))
