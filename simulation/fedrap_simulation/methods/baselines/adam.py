"""Adam (Kingma & Ba 2015). Torch's own loads a compiler first, which takes seconds for nothing."""

from __future__ import annotations

import torch
from torch import Tensor


class Adam:
    """Steps down the slopes that `backward` left at the tensors."""

    def __init__(
        self,
        tensors: list[Tensor],
        rate: float,
        *,
        decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self._tensors = tensors
        self._rate, self._decay, self._betas, self._eps = rate, decay, betas, eps
        self._mean = [torch.zeros_like(one) for one in tensors]
        self._square = [torch.zeros_like(one) for one in tensors]
        self._steps = 0

    @torch.no_grad()
    def step(self) -> None:
        """Move every tensor that has a slope, and forget the slopes."""
        self._steps += 1
        first, second = self._betas
        grow, widen = 1 - first**self._steps, 1 - second**self._steps
        for one, mean, square in zip(self._tensors, self._mean, self._square, strict=True):
            if one.grad is None:
                continue
            slope = one.grad.add(one, alpha=self._decay) if self._decay else one.grad
            mean.lerp_(slope, 1 - first)
            square.mul_(second).addcmul_(slope, slope, value=1 - second)
            spread = square.div(widen).sqrt_().add_(self._eps)
            one.addcdiv_(mean, spread, value=-self._rate / grow)
            one.grad = None
