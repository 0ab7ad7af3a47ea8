"""The best that a program's cycles on some machines tell of another one, whatever the network:

    python benchmarks/perfvec/limits.py LABELS [--machines 8 16 32 64] [--draws 3] [--targets 10]

LABELS holds windows of many programs, all labelled on the same machines (`perfvec label`). A window is described by its
true cycles on so many of them, drawn at random: vectors that know as much as that many reference machines can tell. For
each of some other machines, also drawn, two regressions learn its cycles from the windows of four fifths of the
programs, and are judged on the rest: a *dot product* (ridge regression on relative errors, large ones weighted down),
which is all that PerfVec's equation allows, and a *Gaussian process* over logarithms. Each has the best of its
penalties, so the errors are what can be hoped for at most.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracegen.formats.latency import LatencyFile

Array = NDArray[np.float64]
Regression = Callable[[Array, Array, NDArray[np.bool_]], Array]
FOLDS = 5
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
LENGTHS = (0.7, 1.5)  # of the process's kernel, in standard deviations of the inputs


def read(folder: Path) -> tuple[list[str], Array]:
    """The windows' programs [N] and cycles [N, M]. Raises SystemExit where their machines differ."""
    programs, cycles, machines = [], [], None
    for path in sorted(folder.glob("*.latency.h5")):
        with LatencyFile(path) as file:
            machines = machines or file.machines
            if file.machines != machines:
                raise SystemExit(f"{path}: other machines than the files before it")
            programs.append(file.trace)
            cycles.append(file.cycles())
    return programs, np.stack(cycles)


def dot_product(known: Array, targets: Array, teaches: NDArray[np.bool_], penalty: float) -> Array:
    """The targets' cycles [N, T] as weighted sums of the known ones [N, K], learned from the rows that teach."""
    found = np.empty_like(targets)
    for column, target in enumerate(targets.T):
        inputs = known[teaches] / target[teaches, None]
        scale = penalty * len(inputs) * np.diag((inputs**2).mean(0))
        weight = np.ones(len(inputs))
        for _ in range(5):
            weighted = inputs * weight[:, None]
            learned = np.linalg.solve(weighted.T @ inputs + scale, weighted.sum(0))
            weight = np.minimum(1.0, 0.1 / np.maximum(np.abs(inputs @ learned - 1), 1e-9))
        found[:, column] = known @ learned
    return found


def process(known: Array, targets: Array, teaches: NDArray[np.bool_], penalty: float, length: float) -> Array:
    """The same by a Gaussian process with a linear and a squared-exponential kernel, relative to the windows' means."""
    level = np.log(known).mean(1, keepdims=True)
    inputs = np.log(known) - level
    inputs -= inputs[teaches].mean(0)
    square = inputs @ inputs.T / inputs.var() / inputs.shape[1]
    distance = np.add.outer(square.diagonal(), square.diagonal()) - 2 * square
    kernel = 1 + square + 0.3 * np.exp(-distance / (2 * length**2))
    wanted = np.log(targets) - level
    taught = kernel[np.ix_(teaches, teaches)] + penalty * np.eye(teaches.sum())
    return np.exp(level + kernel[:, teaches] @ np.linalg.solve(taught, wanted[teaches]))


def errors(regression: Regression, known: Array, targets: Array, fold: NDArray[np.int64]) -> Array:
    """|relative error| [N, T], each window's by the regression that knows no window of its program's fold."""
    found = np.empty_like(targets)
    for number in range(FOLDS):
        told = regression(known, targets, fold != number)
        found[fold == number] = np.abs(told / targets - 1)[fold == number]
    return found


def row(programs: Sequence[str], cycles: Array, count: int, draws: int, targets: int) -> str:
    """The table's row of so many known machines: mean / median error of both regressions."""
    names = np.array(programs)
    ways: dict[str, list[Regression]] = {
        "dot product": [partial(dot_product, penalty=one) for one in PENALTIES],
        "process": [partial(process, penalty=one, length=length) for one in PENALTIES for length in LENGTHS],
    }
    cells = []
    for regressions in ways.values():
        best = min(
            (
                np.concatenate([errors(one, *drawn(names, cycles, count, targets, draw)) for draw in range(draws)])
                for one in regressions
            ),
            key=np.mean,
        )
        cells.append(f"{100 * best.mean():5.1f} / {100 * np.median(best):4.1f} %")
    return f"{count:8}   " + "   ".join(cells)


def drawn(names: NDArray, cycles: Array, count: int, targets: int, seed: int) -> tuple[Array, Array, NDArray[np.int64]]:
    """Cycles on known machines [N, count] and on others [N, targets], and each window's fold [N], whole programs."""
    generator = np.random.default_rng(seed)
    machines = generator.permutation(cycles.shape[1])
    if count + targets > len(machines):
        raise SystemExit(f"{count} known machines and {targets} others: the files have {len(machines)}")
    every, program = np.unique(names, return_inverse=True)
    fold = generator.permutation(len(every)) % FOLDS
    return cycles[:, machines[:count]], cycles[:, machines[count : count + targets]], fold[program]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--machines", type=int, nargs="+", default=[8, 16, 32, 64])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--targets", type=int, default=10)
    arguments = parser.parse_args()
    programs, cycles = read(arguments.labels)
    print(f"{len(programs)} windows of {len(set(programs))} programs on {cycles.shape[1]} machines")
    print("machines   dot product    Gaussian process")
    for count in arguments.machines:
        print(row(programs, cycles, count, arguments.draws, arguments.targets), flush=True)


if __name__ == "__main__":
    main()
