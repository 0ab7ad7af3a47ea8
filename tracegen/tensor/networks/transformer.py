"""Transformers: BERT (Devlin et al., NAACL 2019), GPT-2 (Radford et al., 2019) and ViT (Dosovitskiy et al., ICLR 2021).

All blocks of one network are alike: they give the same tensor programs, each as often as there are blocks.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn

from tracegen.tensor.networks import Network


class Attention(nn.Module):
    """Multi-head self-attention, written out: its products and softmax are programs of their own."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        query, key, value = (
            layer(x).reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        scores = torch.matmul(query, key.transpose(2, 3)) / math.sqrt(width // self.heads)
        if self.causal:
            scores = scores + torch.full((length, length), -1e9).triu(1)
        mixed = torch.matmul(torch.softmax(scores, -1), value)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a dense network, normalised before (GPT-2, ViT) or after (BERT)."""

    def __init__(self, width: int, heads: int, causal: bool, norm_first: bool) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attention = Attention(width, heads, causal)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norm_attention, self.norm_dense = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        if self.norm_first:
            x = x + self.attention(self.norm_attention(x))
            return x + self.dense(self.norm_dense(x))
        x = self.norm_attention(x + self.attention(x))
        return self.norm_dense(x + self.dense(x))


class Language(nn.Module):
    """Token and position embeddings, blocks; with a `vocabulary` head it predicts the next token (GPT-2)."""

    def __init__(self, width: int, heads: int, vocabulary: int, causal: bool, *, size: int, blocks: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(1, size, width))
        self.blocks = nn.Sequential(*(Block(width, heads, causal, causal) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False) if causal else nn.Identity()

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions
        if not isinstance(self.head, nn.Linear):
            return self.blocks(self.norm(x))
        return self.head(self.norm(self.blocks(x))[:, -1])


class Vision(nn.Module):
    """Patches as tokens; the mean of what the blocks make of them is classified."""

    def __init__(self, width: int, heads: int, *, size: int, blocks: int, patch: int = 16) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, patch, patch)
        self.positions = nn.Parameter(torch.zeros(1, (size // patch) ** 2, width))
        self.blocks = nn.Sequential(*(Block(width, heads, False, True) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.norm(self.blocks(x)).mean(1))


NETWORKS = {
    "bert_tiny": Network(partial(Language, 128, 2, 30522, False), 128, tokens=True, sized=True, layers=2),
    "bert_base": Network(partial(Language, 768, 12, 30522, False), 128, tokens=True, sized=True, layers=12),
    "bert_large": Network(partial(Language, 1024, 16, 30522, False), 128, tokens=True, sized=True, layers=24),
    "gpt2": Network(partial(Language, 768, 12, 50257, True), 64, tokens=True, sized=True, layers=12),
    "gpt2_large": Network(partial(Language, 1280, 20, 50257, True), 64, tokens=True, sized=True, layers=36),
    "vit_small": Network(partial(Vision, 384, 6), 224, sized=True, layers=12),
}
