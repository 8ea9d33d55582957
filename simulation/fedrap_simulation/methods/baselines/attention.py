"""The network of SASRec: item embeddings, places, and blocks of causal self-attention.

Rows are padded on the right. What comes later is never attended to, so padding needs no mask.
Dropout draws from a generator of its own, since torch's is shared by the whole process.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, eq=False)
class Block:
    """One layer of attention and one of two dense steps, each added to what went in."""

    norms: Tensor  # (2, 2, d) gain and bias, before attention and before the dense steps
    mix: Tensor  # (3 d, d) questions, keys and values at once
    out: Tensor  # (d, d)
    up: Tensor  # (h, d)
    up_bias: Tensor  # (h,)
    down: Tensor  # (d, h)
    down_bias: Tensor  # (d,)

    def parameters(self) -> list[Tensor]:
        """All that is learnt."""
        return [
            self.norms, self.mix, self.out, self.up, self.up_bias, self.down, self.down_bias,
        ]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Attention:
    """Embeddings and blocks."""

    items: int
    heads: int
    longest: int
    dropout: float
    item: Tensor  # (m, d)
    place: Tensor  # (longest, d)
    bias: Tensor  # (m,)
    norm: Tensor  # (2, d)
    blocks: list[Block]

    @classmethod
    def start(
        cls,
        items: int,
        width: int,
        blocks: int,
        heads: int,
        longest: int,
        dropout: float,
        draw: torch.Generator,
    ) -> Attention:
        """A network that has learnt nothing."""

        def normal(*shape: int, spread: float) -> Tensor:
            return (torch.randn(shape, generator=draw) * spread).requires_grad_()

        def norms(*shape: int) -> Tensor:
            return torch.stack(
                [torch.ones(*shape, width), torch.zeros(*shape, width)], dim=-2
            ).requires_grad_()

        dense = width**-0.5
        hidden = width  # as published
        made = [
            Block(
                norms(2),
                normal(3 * width, width, spread=dense),
                normal(width, width, spread=dense),
                normal(hidden, width, spread=dense),
                torch.zeros(hidden, requires_grad=True),
                normal(width, hidden, spread=hidden**-0.5),
                torch.zeros(width, requires_grad=True),
            )
            for _ in range(blocks)
        ]
        return cls(
            items,
            heads,
            longest,
            dropout,
            normal(items, width, spread=0.02),
            normal(longest, width, spread=0.02),
            torch.zeros(items, requires_grad=True),
            norms(),
            made,
        )

    def parameters(self) -> list[Tensor]:
        """All that is learnt."""
        own = [self.item, self.place, self.bias, self.norm]
        return own + [one for block in self.blocks for one in block.parameters()]

    def hidden(self, rows: Tensor, draw: torch.Generator | None) -> Tensor:
        """What is known at each place of the rows (b, l): (b, l, d). Without `draw` no dropout."""
        length = rows.shape[1]
        x = functional.embedding(rows, self.item) * self.item.shape[1] ** 0.5 + self.place[:length]
        x = self._drop(x, draw)
        for block in self.blocks:
            x = x + self._drop(self._attend(block, x), draw)
            y = _normed(x, block.norms[1])
            y = functional.gelu(functional.linear(y, block.up, block.up_bias))  # (b, l, h)
            x = x + self._drop(functional.linear(y, block.down, block.down_bias), draw)
        return _normed(x, self.norm)

    def _attend(self, block: Block, x: Tensor) -> Tensor:
        b, length, width = x.shape
        mixed = functional.linear(_normed(x, block.norms[0]), block.mix)  # (b, l, 3 d)
        split = mixed.view(b, length, 3, self.heads, width // self.heads)
        question, key, value = split.permute(2, 0, 3, 1, 4)  # each (b, heads, l, d / heads)
        seen = functional.scaled_dot_product_attention(question, key, value, is_causal=True)
        return functional.linear(seen.transpose(1, 2).reshape(b, length, width), block.out)

    def _drop(self, x: Tensor, draw: torch.Generator | None) -> Tensor:
        if draw is None or self.dropout == 0.0:
            return x
        keep = torch.rand(x.shape, generator=draw) >= self.dropout
        return x * keep / (1.0 - self.dropout)


def _normed(x: Tensor, gain_and_bias: Tensor) -> Tensor:
    return functional.layer_norm(x, (x.shape[-1],), gain_and_bias[0], gain_and_bias[1])
