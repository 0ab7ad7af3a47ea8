"""Rate of the whole training loop beside a bare network's forward and backward pass of the same shape: an LSTM, or what
an MLP with a skip connection consists of but for its activations, its matrix products.

    python benchmarks/perfvec/training.py [--data FOLDER] [--machines N…] [--architecture mlp] [--steps N] …

FOLDER holds traces and latency files; without it random numbers of their shape are trained on. With --machines the loop
alone, on as many machines at once: an instruction's representation is computed once for all of them, as in PerfVec.
Rates are of counted instructions: the bare network steps over the lead of each sequence too, as the loop does. On a
processor the time is CPU time (other processes do not count).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from perfvec.precision import native_bf16
from perfvec.training.data import Labels, Rows, Shard, prepare
from perfvec.training.ranks import Ranks, device_of
from perfvec.training.recipe import Recipe
from perfvec.training.split import Division, Split
from perfvec.training.train import fit
from tracegen.features import Schema, get_schema
from uarch.space import sample


def random_labels(schema: Schema, folder: Path, machines: int = 77, instructions: int = 200_000) -> Labels:
    """One shard of random features and latencies."""
    rng = np.random.default_rng(0)
    arrays = {
        "static_id": rng.integers(0, 5000, instructions).astype("<u4"),
        "stored": rng.integers(0, 256, (instructions, len(schema.columns))).astype(schema.dtype),
        "latency": rng.integers(0, 6, (instructions, machines)).astype("<u2"),
    }
    files = {}
    for name, array in arrays.items():
        (folder / name).write_bytes(array.tobytes())
        files[name] = Rows(folder / name, array.dtype.str, instructions, array.shape[1:])
    static = rng.random((5000, schema.static_width)).astype(np.float32)
    shard = Shard("random", "", "", 0, static, **files, mean=arrays["latency"].mean(axis=0))
    return Labels(tuple(sample(machines, seed=0)), (shard,))


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.process_time()


def loop_rate(division: Division, schema: Schema, recipe: Recipe, device: torch.device) -> float:
    """Counted instructions a second, of the time that further steps take: preparations do not count."""
    times = []
    for factor in (1, 3):
        longer = replace(recipe, instructions=factor * recipe.instructions)
        with tempfile.TemporaryDirectory() as folder:
            begin = clock(device)
            fit(division, schema, longer, Path(folder) / "checkpoint.pt", ranks=Ranks(device=device), progress=False)
            times.append(clock(device) - begin)
    return 2 * recipe.instructions / (times[1] - times[0])


class Products(torch.nn.Module):
    """The matrix products of an MLP with a skip connection, and of the head."""

    def __init__(self, inputs: int, width: int, layers: int, machines: int) -> None:
        super().__init__()
        shapes = [(inputs, width)] + [(width, width)] * layers
        self.chain = torch.nn.Sequential(*(torch.nn.Linear(*shape) for shape in shapes))
        self.skip = torch.nn.Linear(inputs, width)
        self.head = torch.nn.Linear(width, machines)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, None]:
        return self.head(self.chain(x) + self.skip(x)), None


def bare_rate(inputs: int, recipe: Recipe, machines: int, device: torch.device) -> float:
    """Counted instructions a second of the bare network, forward and backward, in the precision that the loop uses."""
    if recipe.architecture == "mlp":
        net: torch.nn.Module = Products(inputs, recipe.width, recipe.layers, machines).to(device)
    else:
        net = torch.nn.LSTM(inputs, recipe.width, recipe.layers).to(device)
    x = torch.randn(recipe.lead + recipe.sequence, recipe.batch_size, inputs, device=device)
    half = torch.autocast(device.type, torch.bfloat16) if native_bf16(device) else nullcontext()

    def step() -> None:
        net.zero_grad()
        with half:
            r, _ = net(x)
        r.float().sum().backward()

    step()
    begin = clock(device)
    for _ in range(recipe.steps):
        step()
    return recipe.instructions / (clock(device) - begin)


def print_rates(machines: list[int], schema: Schema, recipe: Recipe, device: torch.device) -> None:
    """Print the loop's rate for each number of machines, and an instruction's cost beside the first one's."""
    first = None
    for count in machines:
        with tempfile.TemporaryDirectory() as folder:
            rate = loop_rate(Split().divide(random_labels(schema, Path(folder), count)), schema, recipe, device)
        first = first or rate
        print(f"{count:4} machines {rate:10,.0f} instructions/s {first / rate:6.2f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--machines", type=int, nargs="+", default=[])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--architecture", choices=("lstm", "mlp"), default="lstm")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    device, schema = device_of(given.device), get_schema("timed" if given.architecture == "mlp" else "default")
    recipe = Recipe(
        architecture=given.architecture,
        width=given.width,
        layers=given.layers,
        skip_connection=given.architecture == "mlp",
        batch_size=given.batch_size,
    )
    recipe = replace(recipe, instructions=given.steps * recipe.sequence * recipe.batch_size)
    if given.machines:
        print_rates(given.machines, schema, recipe, device)
        return
    with tempfile.TemporaryDirectory() as folder:
        labels = (
            prepare(given.data, given.data, schema, Path(folder), progress=False)
            if given.data
            else random_labels(schema, Path(folder))
        )
        loop = loop_rate(Split().divide(labels), schema, recipe, device)
    bare = bare_rate(schema.width, recipe, len(labels.machines), device)
    print(f"the loop            {loop:10,.0f} instructions/s")
    print(f"the bare network    {bare:10,.0f} instructions/s")
    print(f"share               {loop / bare:10.0%}")


if __name__ == "__main__":
    main()
