"""The same formulas in torch, batched over devices: the engine of simulations and of GPUs.

No autograd and no index operations, whose sums on a GPU come in a new order every time. float64, as
in the graphs; where an accelerator has none (Apple's), `solve` runs on the CPU and `paper` in
float32, which the suite of the trainers does not cover. The sequence part has float32 on all of
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch

from fedrap.trainers.batching import (
    MOST_ROWS,
    Array,
    PaperBatch,
    chunks,
    pack_paper,
    pack_shares,
    paper_size,
    share_size,
    unpack_paper,
    unpack_shares,
)
from fedrap_core.model import SequenceRows
from fedrap_core.paper.problem import PaperProblem, PaperResult
from fedrap_core.paper.training import train_local
from fedrap_core.sequence.device_share import BLOCK, GROUP, Expected, Questions, expect
from fedrap_core.solve.device_share import LocalShare, ShareProblem

Tensor = torch.Tensor
TOGETHER_CPU = 16  # devices in one batch: what fits a CPU's cache
TOGETHER_GPU = 512
BLOCK_GPU = 16 * BLOCK  # items: each block is copied there and back
_ONLY_FLOAT32 = ("mps",)
_TINY = 1e-30  # makes the loss of a device without weights 1, as in the reference


def find_accelerator() -> torch.device | None:
    """CUDA, ROCm, XPU or MPS, whichever torch has here."""
    found = getattr(torch, "accelerator", None)  # torch 2.6 and later
    if found is not None and found.is_available():
        return torch.device(found.current_accelerator())
    return None


class TorchTrainer:
    """torch on an accelerator when there is one, else on the CPU."""

    name = "torch"

    def __init__(self, device: str | None = None) -> None:
        self._device = torch.device(device) if device else find_accelerator() or _CPU
        cpu = self._device.type == "cpu"
        self._together = (TOGETHER_CPU, MOST_ROWS) if cpu else (TOGETHER_GPU, 32 * MOST_ROWS)

    @property
    def device(self) -> str:
        """Where it runs, such as `cpu` or `cuda`."""
        return str(self._device)

    def solve(self, problems: Sequence[ShareProblem]) -> list[LocalShare]:
        """Each device's share of a round of `solve`; raises like `Trainer.solve`."""
        device = _CPU if self._device.type in _ONLY_FLOAT32 else self._device
        shares: dict[int, LocalShare] = {}
        for places in chunks(problems, share_size, *self._together):
            found = _solve([problems[place] for place in places], device)
            shares.update(zip(places, found, strict=True))
        return [shares[place] for place in range(len(problems))]

    def train(self, problems: Sequence[PaperProblem]) -> list[PaperResult]:
        """Each device's local round of `paper`; raises like `Trainer.train`."""
        results: dict[int, PaperResult] = {}
        for places in chunks(problems, paper_size, *self._together):
            found = _train([problems[place] for place in places], self._device)
            results.update(zip(places, found, strict=True))
        return [results[place] for place in range(len(problems))]

    def expect(self, asked: Questions, items: SequenceRows) -> Expected:
        """The softmax of the sequence part over all items."""
        block = BLOCK if self._device.type == "cpu" else BLOCK_GPU
        return expect(asked, items, partial(_look, self._device), block)


_CPU = torch.device("cpu")


def _look(
    device: torch.device, queries: Array, values: Array, scales: Array, bias: Array
) -> tuple[Array, Array, Array]:
    """A block of the sequence part; `device_share.look_exactly` of the core has the formulas."""
    # A GPU has few units for float64, and a softmax does not need them: see the ONNX graph.
    kind = torch.float64 if device.type == "cpu" else torch.float32
    with _exact():
        asked = torch.from_numpy(queries).to(device, kind)  # (T, k)
        rows = torch.from_numpy(np.ascontiguousarray(values)).to(device).to(kind)  # (B, k)
        rows = rows * torch.from_numpy(np.ascontiguousarray(scales)).to(device, kind)[:, None]
        scores = asked @ rows.mT + torch.from_numpy(np.ascontiguousarray(bias)).to(device, kind)
        peak = scores.amax(dim=1)  # (T,)
        chances = torch.exp(scores - peak[:, None])  # (T, B)
        groups = chances.reshape(len(queries), -1, GROUP).sum(dim=2)  # (T, B/GROUP)
        pulled = chances @ rows  # (T, k)
        return peak.cpu().numpy(), groups.cpu().numpy(), pulled.cpu().numpy()


@contextmanager
def _exact() -> Iterator[None]:
    """Full float32 products, no TF32, whatever the app has set; and no autograd."""
    before = torch.get_float32_matmul_precision()
    if before != "highest":
        torch.set_float32_matmul_precision("highest")
    try:
        with torch.inference_mode():
            yield
    finally:
        if before != "highest":
            torch.set_float32_matmul_precision(before)


def _solve(problems: list[ShareProblem], device: torch.device) -> list[LocalShare]:
    packed, weighing = pack_shares(problems)
    bases = np.stack([problem.base for problem in problems])  # (B, k, k)
    with _exact():
        scaled = torch.from_numpy(packed).to(device)  # (B, n, k)
        roots = torch.from_numpy(weighing).to(device)  # (B, 1, n)
        system = torch.from_numpy(bases).to(device) + torch.bmm(scaled.mT, scaled)
        factor, failed = torch.linalg.cholesky_ex(system)
        users = torch.cholesky_solve(torch.bmm(roots, scaled).mT, factor)  # (B, k, 1)
        wrong = roots.mT * (torch.bmm(scaled, users) - roots.mT)  # (B, n, 1)
        gradients = (wrong * users.mT).cpu().numpy()  # (B, n, k)
        outers = (users * users.mT).cpu().numpy()  # (B, k, k)
        left = (_TINY - wrong.sum(dim=(1, 2))) / ((roots * roots).sum(dim=(1, 2)) + _TINY)
        # Where Cholesky fails the reference decides: it refuses C, or solves it after all.
        good = ((failed == 0) & torch.isfinite(users).all(dim=2).all(dim=1)).tolist()
        found = users[:, :, 0].cpu().numpy()  # (B, k)
    return unpack_shares(problems, found, gradients, outers, left.cpu().numpy(), good)


def _train(problems: list[PaperProblem], device: torch.device) -> list[PaperResult]:
    batch = pack_paper(problems, np.float32 if device.type in _ONLY_FLOAT32 else np.float64)
    if batch.steps == 0:
        return [train_local(problem) for problem in problems]
    with _exact():
        outputs = [tensor.cpu().numpy() for tensor in _steps(batch, device)]
    return list(unpack_paper(problems, *outputs))


def _steps(batch: PaperBatch, device: torch.device) -> tuple[Tensor, ...]:
    """All local steps; training.py of the core has the formulas and their names."""
    given: dict[str, Tensor] = {
        name: torch.from_numpy(array).to(device) for name, array in batch.arrays.items()
    }
    user, bias, personal = given["user"], given["bias"], given["personal"]
    own, other = given["own"], given["other"]
    losses = []
    for step in range(batch.steps):
        now = {name: given[name][step] for name in given if given[name].dim() == 4}
        own_w, other_w = now["own_weights"], now["other_weights"]
        summed = personal + own  # (B, P, k)
        z_own = torch.bmm(summed, user.mT) + bias  # (B, P, 1)
        z_other = torch.bmm(other, user.mT) + bias  # (B, N, 1)
        g_own = own_w * torch.sigmoid(z_own) - now["own_liked"]
        g_other = other_w * torch.sigmoid(z_other) - now["other_liked"]
        apart = personal - own  # (B, P, k)
        square = (apart * apart).sum(dim=2, keepdim=True)  # (B, P, 1)
        losses.append(_loss(now, z_own, z_other, square, own, other))
        room = (given["reach"] / square.sqrt().clamp(min=1e-30) - 1.0).clamp(min=0.0)
        push = torch.minimum(now["push"] * own_w, 0.5 * room) * apart  # (B, P, k)
        d_user = torch.bmm(g_own.mT, summed) + torch.bmm(g_other.mT, other)  # (B, 1, k)
        d_bias = g_own.sum(dim=1, keepdim=True) + g_other.sum(dim=1, keepdim=True)
        personal = personal - (now["personal_rate"] * g_own * user - push)
        own = _shrink(own - (now["common_rate"] * g_own * user + push), own_w, now)
        other = _shrink(other - now["common_rate"] * g_other * user, other_w, now)
        user = user - now["user_rate"] * d_user
        bias = bias - now["user_rate"] * d_bias
    return user, bias, personal, own, other, torch.stack(losses)


def _shrink(rows: Tensor, weights: Tensor, now: dict[str, Tensor]) -> Tensor:
    """S_theta and the division of FedRAP-L2; one of the two does nothing: (B, n, k)."""
    level = now["shrink"] * weights
    inside = torch.maximum(torch.minimum(rows, level), -level)
    return (rows - inside) / (now["fade"] * weights + 1.0)


def _loss(
    now: dict[str, Tensor],
    z_own: Tensor,
    z_other: Tensor,
    square: Tensor,
    own: Tensor,
    other: Tensor,
) -> Tensor:
    """Eq. 3 of every device: (B, 1, 1)."""
    own_w, other_w = now["own_weights"], now["other_weights"]
    fit = _entropy(z_own, own_w, now["own_liked"]) + _entropy(z_other, other_w, now["other_liked"])
    difference = now["apart"] * _total(own_w * square)
    l1, l2 = now["l1"], now["l2"]
    size = _total(own_w * (l1 * own.abs() + l2 * own * own))
    size = size + _total(other_w * (l1 * other.abs() + l2 * other * other))
    return fit - difference + size


def _entropy(z: Tensor, weights: Tensor, liked: Tensor) -> Tensor:
    """sum_j w_j·log(1 + e^z_j) - l_j·z_j: (B, 1, 1)."""
    return _total(weights * torch.logaddexp(z, torch.zeros_like(z)) - liked * z)


def _total(values: Tensor) -> Tensor:
    return values.sum(dim=(1, 2), keepdim=True)
