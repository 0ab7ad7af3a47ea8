"""Rate of representation, stage by stage, beside the processor's own matrix product; what shortcuts change.

    python benchmarks/perfvec/representation.py TRACE… [--instructions N] [--windows N] [--threads N] [--model M]
    python benchmarks/perfvec/representation.py TRACE --stages M1 M2 … [--instructions N] [--float32]

The first N instructions of each trace are represented in bfloat16 and in float32, by the weights as they are rounded
and as they were trained, some from their middle by windows too. Differences are of predicted cycles, over the machines
of the model's table. Rates are of CPU time (other processes do not count); the best of several, of the first trace.
With `--stages` nothing but the rates, of each of these models; with `--float32` as on a processor without bfloat16.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from perfvec.architectures import State
from perfvec.model import FoundationModel, Model, load_model
from perfvec.precision import Rounded, native_bf16, rounded
from perfvec.representation.contexts import PERFVEC_CONTEXT, context_sums
from perfvec.representation.memory import keep_freed_memory
from perfvec.representation.represent import OVERLAP, sequence_sums
from tracegen.formats.trace import CHUNK, Trace

_ROWS, _BATCH = 1 << 13, 32  # at once, as in represent.py; of a recurrent step
_LARGE = (2048, 2048, 2048)
Features = tuple[NDArray[np.float32], NDArray[np.uint32], NDArray]  # static, static ids, stored


def seconds(work: Callable[[], object], repetitions: int = 3) -> float:
    """CPU time, the least of some repetitions."""
    times = []
    for _ in range(repetitions):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def product_rate(rows: int, inner: int, columns: int, kind: torch.dtype) -> float:
    """Operations a second of [rows, inner]·[inner, columns]; a multiplication and an addition are two."""
    a, b = torch.randn(rows, inner).to(kind), torch.randn(inner, columns).to(kind)
    out = torch.empty(rows, columns, dtype=kind)
    operations = 2 * rows * inner * columns
    repetitions = max(1, int(4e9 / operations))

    def work() -> None:
        for _ in range(repetitions):
            torch.mm(a, b, out=out)

    work()
    return repetitions * operations / seconds(work)


def operations(foundation: FoundationModel) -> int:
    """Return the operations of the model's matrix products, an instruction: two a weight. Recurrent and dense models
    use each weight once.
    """
    return 2 * sum(weight.numel() for weight in foundation.architecture.parameters() if weight.dim() == 2)


def read(model: Model, path: Path, count: int) -> tuple[Features, float]:
    """Features of the first instructions, and the CPU time of their extraction (tables of an empty past)."""
    with Trace(path) as trace:
        instructions = trace.static
        chunk = next(trace.chunks(count, stop=count))
    static = model.schema.static(instructions)
    stored = model.schema.extractor(instructions).extract(chunk)
    took = seconds(lambda: model.schema.extractor(instructions).extract(chunk))
    return (static, chunk.static_id, stored), took


def peak() -> str:
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB"


def stages(model: Model, features: Features, extraction: float, bf16: bool) -> float:
    """Prints the table of stages; the whole's rate, instructions a second."""
    foundation, schema = rounded(model.foundation), model.schema
    static, ids, stored = features
    count = len(ids)
    batch = foundation.architecture.BATCH
    rows = np.arange(_ROWS).reshape(-1, batch) % count
    peak_before = peak()
    with torch.inference_mode():
        if isinstance(foundation, Rounded) and foundation.projection is not None:
            first, what = foundation.projection.of(static, ids, stored), "first layer"
            x, model_of = first(rows), foundation.behind_first  # which writes over x; numbers do not change its time
        else:
            first, what = lambda rows: torch.from_numpy(schema.expand(static, ids[rows], stored[rows])), "expansion"
            x, model_of = first(rows), foundation
        before = seconds(lambda: first(rows), 8) / rows.size
        carried: list[State | None] = [None]

        def behind() -> None:
            carried[0] = model_of(x, carried[0], bf16=bf16)[1]

        net = seconds(behind, 16) / rows.size  # in the first ones memory is taken
    overhead = 1 + OVERLAP * batch / count
    passed = seconds(lambda: sequence_sums(foundation, static, ids, stored, 0, bf16=bf16), 4)
    whole = (extraction + passed) / count
    print(f"{'stage':<28}{'instructions/s':>16}{'share of time':>16}{'peak memory so far':>22}")
    for name, each, memory in (
        ("features", extraction / count, peak_before),
        (what, before * overhead, peak()),
        ("model behind it", net * overhead, peak()),
        ("whole", whole, peak()),
    ):
        print(f"{name:<28}{1 / each:>16,.0f}{each / whole:>16.1%}{memory:>22}")
    print(f"(each sequence's warm-up is {overhead - 1:.1%} more steps, counted in all but features)")
    return 1 / whole


def ceiling(model: Model, rate: float, bf16: bool) -> None:
    """Prints the processor's own rates and the share of them that the model reaches."""
    foundation = model.foundation
    width, inputs = foundation.width, model.schema.width
    shapes = (_LARGE, (2 * _ROWS, inputs, 4 * width), (_BATCH, width, 4 * width), (_BATCH, 2 * width, 4 * width))
    print(f"\n{'product':<28}{'bfloat16':>12}{'float32':>12}   GFLOP/s")
    largest = {torch.bfloat16: 0.0, torch.float32: 0.0}
    for shape in shapes:
        rates = {kind: product_rate(*shape, kind) for kind in largest}
        largest = {kind: max(largest[kind], rates[kind]) for kind in largest}
        text = f"[{shape[0]}, {shape[1]}]·[{shape[1]}, {shape[2]}]"
        print(f"{text:<28}{rates[torch.bfloat16] / 1e9:>12.0f}{rates[torch.float32] / 1e9:>12.0f}")
    each, most = operations(foundation), largest[torch.bfloat16 if bf16 else torch.float32]
    print(f"the model: {each / 1e6:.2f} MFLOP an instruction; the highest rate allows {most / each:,.0f} a second")
    print(f"share of that ceiling reached by the whole: {rate * each / most:.0%}")


def times_slower(foundation: FoundationModel, features: Features, bf16: bool) -> float:
    """Time of an instruction with its own context, of 256 in the middle, over that of one of the stateful pass."""
    static, ids, stored = features
    middle = len(ids) // 2
    part = slice(max(0, middle - PERFVEC_CONTEXT), middle + 256)
    rows, columns, lead = ids[part], stored[part], middle - part.start
    slow = seconds(lambda: context_sums(foundation, static, rows, columns, lead, bf16=bf16), 2) / 256
    fast = seconds(lambda: sequence_sums(foundation, static, ids, stored, 0, bf16=bf16), 2) / len(ids)
    return slow / fast


def difference(table: NDArray[np.float64], vector: NDArray[np.float64], exact: NDArray[np.float64]) -> NDArray:
    """[machines] relative differences of predicted cycles."""
    return np.abs(table @ vector / (table @ exact) - 1)


def shown(*differences: NDArray) -> str:
    return "".join(f"{value:>12.4%}" for each in differences for value in (each.mean(), each.max()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--instructions", type=int, default=CHUNK)
    parser.add_argument("--windows", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--stages", nargs="+", type=Path)
    parser.add_argument("--float32", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    keep_freed_memory()
    bf16 = native_bf16() and not given.float32
    for path in given.stages or ():
        model = load_model(path)
        weights = sum(weight.numel() for weight in model.foundation.architecture.parameters())
        print(f"{path.name}: {model.foundation.shape}, {weights:,} weights")
        stages(model, *read(model, given.traces[0], given.instructions), bf16)
    if given.stages:
        return
    model = load_model(given.model)
    table, foundation = model.table(), rounded(model.foundation)
    rounding, trained, carrying, ratios = [], [], [], []
    for index, path in enumerate(given.traces):
        (static, ids, stored), extraction = read(model, path, given.instructions)
        if index == 0:
            ceiling(model, stages(model, (static, ids, stored), extraction, bf16), bf16)
            heads = ("bfloat16 − float32", "rounded − trained", "stateful − contexts")
            print(f"\n{'predicted cycles, |difference|':<32}" + "".join(f"{head:>24}" for head in heads))
            print(f"{'':<32}" + f"{'mean':>12}{'worst':>12}" * 3 + f"{'contexts, times slower':>26}")
        exact = sequence_sums(foundation, static, ids, stored, 0).sum(axis=0)
        half = sequence_sums(foundation, static, ids, stored, 0, bf16=True).sum(axis=0)
        rounding.append(difference(table, half, exact))
        whole = sequence_sums(model.foundation, static, ids, stored, 0).sum(axis=0)
        trained.append(difference(table, exact, whole))

        begin = len(ids) // 2
        part = slice(max(0, begin - PERFVEC_CONTEXT), begin + given.windows)
        rows, columns, lead = ids[part], stored[part], begin - part.start
        stateful = sequence_sums(foundation, static, rows, columns, lead, batch=1).sum(axis=0)
        contexts = context_sums(foundation, static, rows, columns, lead)
        carrying.append(difference(table, stateful, contexts))
        ratios.append(times_slower(foundation, (static, ids, stored), bf16))
        values = shown(rounding[-1], trained[-1], carrying[-1])
        print(f"{path.name.removesuffix('.trace.h5'):<32}{values}{ratios[-1]:>26.0f}", flush=True)
    values = shown(*(np.concatenate(found) for found in (rounding, trained, carrying)))
    print(f"{'all':<32}{values}{np.median(ratios):>26.0f}")


if __name__ == "__main__":
    main()
