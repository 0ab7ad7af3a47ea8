"""Rate of representation on a GPU, by architecture, and what it changes of predicted cycles.

    python benchmarks/perfvec/gpu.py TRACE… [--device cuda] [--instructions N]

A trace's first chunk stands side by side `TOGETHER` times, as consecutive chunks of a long run do. Rates are of elapsed
time, without the extraction of features, on which the whole waits. Architectures other than the shipped model's have
random weights. The differences are of the shipped model's predictions, over the machines of its table: the GPU's
bfloat16 and float32 beside the processor's float32.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from perfvec.model import FoundationModel, load_model
from perfvec.precision import native_bf16, rounded
from perfvec.representation.device_features import DeviceFeatures
from perfvec.representation.represent import TOGETHER, sequence_sums
from perfvec.training.ranks import device_of
from tracegen.features import Schema
from tracegen.formats.trace import CHUNK, Trace

_SHAPES = (("linear", 1), ("mlp", 2), ("convolution", 4), ("lstm", 2), ("gru", 2), ("transformer", 2))
_MACHINES = 77
Features = tuple[NDArray[np.float32], NDArray[np.uint32], NDArray]  # static, static ids, stored


def features(schema: Schema, path: Path, count: int) -> Features:
    with Trace(path) as trace:
        instructions = trace.static
        chunk = next(trace.chunks(count, stop=count))
    return schema.static(instructions), chunk.static_id, schema.extractor(instructions).extract(chunk)


def seconds(work: Callable[[], object], device: torch.device, repetitions: int = 3) -> float:
    """Elapsed time, the least of some repetitions after one that does not count."""
    times = []
    for _ in range(repetitions + 1):
        begin = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def rate(foundation: FoundationModel, given: Features, device: torch.device, bf16: bool) -> float:
    """Instructions a second of the pass over `TOGETHER` chunks side by side; their bytes' way to the device counts."""
    static, ids, stored = given
    there = DeviceFeatures(foundation.schema, static, device)
    ids, stored = np.tile(ids, TOGETHER), np.tile(stored, (TOGETHER, 1))
    batch = foundation.architecture.BATCH * TOGETHER

    def work() -> None:
        sequence_sums(foundation, static, ids, stored, 0, batch=batch, bf16=bf16, on_device=there)

    return len(ids) / seconds(work, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--instructions", type=int, default=CHUNK)
    given = parser.parse_args()
    device, model = device_of(given.device), load_model()
    bf16 = native_bf16(device)
    each = [features(model.schema, path, given.instructions) for path in given.traces]
    print(f"{'architecture, layers':<24}{'instructions/s':>16}")
    for architecture, layers in _SHAPES:
        torch.manual_seed(0)
        net = FoundationModel(model.schema, _MACHINES, architecture=architecture, width=128, layers=layers).eval()
        print(f"{architecture + ', ' + str(layers):<24}{rate(rounded(net).to(device), each[0], device, bf16):>16,.0f}")

    table, here = model.table(), rounded(model.foundation)
    exact = [table @ sequence_sums(here, *one, 0).sum(axis=0) for one in each]
    there = here.to(device)
    print(f"{'the shipped model':<24}{rate(there, each[0], device, bf16):>16,.0f}")
    print(f"\n{'predicted cycles, |difference|':<32}{'mean':>12}{'worst':>12}")
    for name, half in (("float32", False), ("bfloat16", True)):
        found = [table @ sequence_sums(there, *one, 0, bf16=half).sum(axis=0) for one in each]
        off = np.abs(np.concatenate(found) / np.concatenate(exact) - 1)
        print(f"{name:<32}{off.mean():>12.4%}{off.max():>12.4%}")


if __name__ == "__main__":
    main()
