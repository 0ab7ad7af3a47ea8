"""Batches of training: sequences drawn at random, each process's own, read one step ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from perfvec.training.data import SampledShard, Shard, batch
from perfvec.training.ranks import Ranks
from perfvec.training.recipe import Recipe
from tracegen.features import Schema

Batch = tuple[
    int, NDArray[np.float32], NDArray[np.bool_], NDArray[np.uint32], NDArray[np.int64], tuple[NDArray, ...] | None
]


def batches(
    shards: Sequence[Shard],
    schema: Schema,
    recipe: Recipe,
    first: int,
    ranks: Ranks,
    sampled: Sequence[SampledShard] = (),
) -> Iterator[Batch]:
    """(step, x, present, latencies, shards, sampled) of this process's sequences, read one step ahead.

    The sequences depend on the seed and the step alone: a resumed run draws the same ones, and so do several processes,
    of which each takes every `ranks.count`-th. `sampled`: latencies, mean latencies and configurations of the sequences
    of `sampled` windows, which come last in x.
    """
    lengths = np.array([len(shard) for shard in shards])
    share = lengths / lengths.sum()
    others = recipe.sampled if sampled else 0
    other_lengths = np.array([len(one.shard) for one in sampled])
    ours = slice(ranks.rank, None, ranks.count)

    def draw(step: int) -> Batch:
        rng = np.random.default_rng((recipe.seed, step))
        own = recipe.batch_size - others
        which = rng.choice(len(lengths), own, p=share)
        begin = (rng.random(own) * (lengths[which] - recipe.sequence + 1)).astype(np.int64)
        which, begin = which[ours], begin[ours]
        x, y, present = batch(shards, schema, which, begin, recipe.lead, recipe.sequence)
        if not others:
            return step, x, present, y, which, None
        chosen = rng.choice(len(sampled), others)
        begin = (rng.random(others) * (other_lengths[chosen] - recipe.sequence + 1)).astype(np.int64)
        seeds = rng.integers(1 << 62, size=others)
        chosen, begin, seeds = chosen[ours], begin[ours], seeds[ours]
        parts = [
            _sampled_sequence(sampled[index], schema, recipe, int(at), int(seed))
            for index, at, seed in zip(chosen, begin, seeds, strict=True)
        ]
        x = np.concatenate([x, *(part[0] for part in parts)], axis=1)
        present = np.concatenate([present, *(part[1] for part in parts)], axis=1)
        latency = np.stack([part[2] for part in parts], axis=1)
        relative, features = (np.stack([part[k] for part in parts]) for k in (3, 4))
        return step, x, present, y, which, (latency.astype(np.float32), relative, features)

    with ThreadPoolExecutor(1) as ahead:
        following = ahead.submit(draw, first) if first < recipe.steps else None
        for step in range(first + 1, recipe.steps + 1):
            assert following is not None
            ready = following.result()
            following = ahead.submit(draw, step) if step < recipe.steps else None
            yield ready


def drawn_pairs(generator: np.random.Generator, machines: int, wanted: int) -> NDArray[np.int64]:
    """Rows of `wanted` of so many machines, in pairs of one and the next: with replacement where there are fewer."""
    pairs, count = machines // 2, wanted // 2
    first = 2 * generator.choice(pairs, count, replace=count > pairs)
    return np.stack([first, first + 1], axis=1).reshape(-1)


def _sampled_sequence(
    one: SampledShard, schema: Schema, recipe: Recipe, begin: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.uint32], NDArray[np.float64], NDArray[np.float32]]:
    """x [T', 1, F], present [T', 1], latencies [T, M], mean latencies [M] and configurations [M, F'] of a sequence, on
    pairs of machines that `seed` draws.
    """
    rows = drawn_pairs(np.random.default_rng(seed), len(one.machines), recipe.sampled_machines)
    where = np.zeros(1, np.int64)
    x, y, present = batch([one.shard], schema, where, where + begin, recipe.lead, recipe.sequence)
    return x, present, y[:, 0, rows], one.shard.mean[rows], one.features[rows]
