"""Rates of reading and of feature extraction: `python -m benchmarks.tracegen.tensor_features [LOG]`.

CPU time of one process (`time.process_time`), the best of five. Primitives and reading: an Ansor log, by default a
generated one. Statements, compact AST, operator class: a matrix product of 128 under a tiled schedule; needs TVM.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tracegen.tensor import ansor, primitives
from tracegen.tensor.dataset import Dataset, merge
from tracegen.tensor.read import read

RECORDS = 5000


def generated(path: Path) -> Path:
    """A log of RECORDS distinct records of 20 tasks, with the steps of a tiled CPU convolution."""
    key = ["875556d12d0be2269206a7775d5296a6", 1, 7, 7, 512, 1, 1, 512, 2048, 1, 7, 7, 2048]
    with path.open("w") as file:
        for number in range(RECORDS):
            key[1] = 1 + number % 20
            steps = [["SP", 3, 4 * k, 2048, [number % 97 + 1, number // 97 + 1, 8], 1] for k in range(7)]
            steps += [["RE", 3, list(range(22))], ["FSP", 10, 0, 3, 2], ["CA", 3, 10, 7], ["FU", 10, list(range(8))]]
            steps += [["AN", 10, 0, 3], ["PR", 3, 0, "auto_unroll_max_step$512"], ["AN", 3, 21, 2]]
            task = [json.dumps(key), "llvm -mcpu=core-avx2", [8, 64, 64, 0, 0, 0, 0, 0], "", 2]
            times = [1e-4 * (1 + (number * k) % 7 / 100) for k in range(1, 11)]
            file.write(json.dumps({"i": [task, [[], steps]], "r": [times, 0, 0.3, 1606960917], "v": "v0.5"}) + "\n")
    return path


def best(what: Callable[[], object]) -> float:
    """CPU seconds, the least of five."""
    times = []
    for _ in range(5):
        begin = time.process_time()
        what()
        times.append(time.process_time() - begin)
    return min(times)


def show(name: str, count: int, seconds: float) -> None:
    print(f"{name:40} {count / seconds:12,.0f} /s {1e6 * seconds / count:12,.0f} µs each", flush=True)


def logs(log: Path, folder: Path) -> None:
    records = [record for _, record in ansor.read_log(log) if isinstance(record, ansor.Record)]
    count = len(records)
    show("Ansor log: parse and check a record", count, best(lambda: sum(1 for _ in ansor.read_log(log))))
    steps = [json.dumps(record.steps) for record in records]
    show("primitives of a schedule", count, best(lambda: [primitives.rows(text, "ansor") for text in steps]))
    data = folder / "d.tensor.h5"
    show("log to dataset, with primitives", count, best(lambda: read([log], data, progress=False)))
    sizes = [path.stat().st_size / count for path in (log, data)]
    print(f"{'bytes a record: log, dataset':40} {sizes[0]:12,.0f}    {sizes[1]:12,.0f}")
    show("merge", count, best(lambda: merge([data], folder / "m.tensor.h5")))

    def whole() -> None:
        with Dataset(data) as dataset:
            dataset.table(), dataset.features("primitives"), dataset.steps()

    show("dataset: open and read all", count, best(whole))


def programs() -> None:
    from tracegen.tensor.installation import require_tvm, without_tensor_intrinsics

    require_tvm()
    without_tensor_intrinsics()
    import tvm
    from tvm import te
    from tvm.s_tir import Schedule

    from tracegen.tensor.compact_ast import compact_ast
    from tracegen.tensor.statements import operator_class, statement_features

    a, b = te.placeholder((128, 128), name="A"), te.placeholder((128, 128), name="B")
    k = te.reduce_axis((0, 128), name="k")
    c = te.compute((128, 128), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    program = tvm.IRModule({"main": te.create_prim_func([a, b, te.compute((128, 128), lambda i, j: c[i, j] + 1.0)])})
    schedule = Schedule(program)
    block = schedule.get_sblock("C")
    i, j, k = schedule.get_loops(block)
    (i0, i1), (j0, j1), (k0, k1) = (schedule.split(loop, [None, 8]) for loop in (i, j, k))
    schedule.reorder(i0, j0, k0, i1, k1, j1)
    schedule.parallel(i0)
    schedule.vectorize(j1)
    statement_features([schedule.mod])
    compact_ast(schedule.mod)
    show("statement features of a program", 50, best(lambda: statement_features([schedule.mod] * 50)))
    show("compact AST of a program", 50, best(lambda: [compact_ast(schedule.mod) for _ in range(50)]))
    show("operator class of a task", 50, best(lambda: [operator_class(program) for _ in range(50)]))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs(Path(sys.argv[1]) if len(sys.argv) > 1 else generated(folder / "log.json"), folder)
    programs()


if __name__ == "__main__":
    main()
