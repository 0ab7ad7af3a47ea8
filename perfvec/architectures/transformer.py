"""Causal Transformer (Vaswani et al. 2017) whose attention looks back over a context of the last instructions.

Layers normalise first (Xiong et al. 2020). Places enter as a penalty on the logits that grows with the distance (ALiBi,
Press et al. 2022), which needs no absolute position and so no beginning of the stream. The whole reaches
`layers`·(`context` − 1) instructions back.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad, scaled_dot_product_attention

from perfvec.architectures.contract import Architecture, State
from support.errors import InputError


class Transformer(Architecture):
    """State: the last `context` − 1 keys and values of each layer, [context − 1, B, width]; zeros before the stream."""

    NUMBERS: ClassVar[dict[str, int]] = {"heads": 4, "context": 64}

    def __init__(self, inputs: int, width: int, layers: int, *, heads: int = 4, context: int = 64) -> None:
        if width % heads:
            raise InputError(f"a transformer's width must be a multiple of its heads; {width} is not one of {heads}")
        super().__init__()
        self.enter = nn.Linear(inputs, width)
        self.layers = nn.ModuleList(_Layer(width, heads, context) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        r = self.enter(x)
        after: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            r, last = layer(r, None if state is None else state[2 * index : 2 * index + 2])
            after += last
        return self.norm(r), tuple(after)


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.heads, self.context = heads, context
        self.norm_attention, self.norm_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.feed, self.fed = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("bias", _bias(heads, context), persistent=False)
        self.bias: Tensor

    def forward(self, x: Tensor, before: State | None) -> tuple[Tensor, State]:
        steps, batch, width = x.shape
        query, key, value = self.project(self.norm_attention(x)).chunk(3, dim=-1)
        if before is None:
            zeros = key.new_zeros(self.context - 1, batch, width)
            before = (zeros, zeros)
        key, value = (torch.cat([old.to(new.dtype), new]) for old, new in zip(before, (key, value), strict=True))
        x = x + self.attended(self.attend(query, key, value))
        x = x + self.fed(gelu(self.feed(self.norm_feed(x))))
        return x, (key[steps:], value[steps:])

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """[T, B, width] of `query` [T, B, width], `key` and `value` [context − 1 + T, B, width].

        Blocks of `context` queries look at the 2·context − 1 keys that any of them may see, so work grows with T.
        """
        steps, batch, width = query.shape
        context, blocks = self.context, -(-steps // self.context)
        missing = (0, 0, 0, 0, 0, blocks * context - steps)
        q = pad(query, missing).view(blocks, context, batch, self.heads, -1).permute(0, 2, 3, 1, 4)
        k, v = (
            pad(x, missing).unfold(0, 2 * context - 1, context).unflatten(2, (self.heads, -1)).transpose(-1, -2)
            for x in (key, value)
        )  # [blocks, batch, heads, 2·context − 1, width of a head]
        mixed = scaled_dot_product_attention(
            q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), attn_mask=self.bias.to(q.dtype)
        )
        return (
            mixed.view(blocks, batch, self.heads, context, -1).permute(0, 3, 1, 2, 4).reshape(-1, batch, width)[:steps]
        )


def _bias(heads: int, context: int) -> Tensor:
    """[heads, context, 2·context − 1]: query j sees keys j … j + context − 1, the last of its own instruction."""
    distance = torch.arange(context)[:, None] + context - 1 - torch.arange(2 * context - 1)[None, :]
    slope = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
    seen = (distance >= 0) & (distance < context)
    return torch.where(seen, -slope[:, None, None] * distance, -torch.inf)
