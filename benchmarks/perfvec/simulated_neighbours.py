"""Prediction from simulating a new program on a few machines: a yardstick for the model, which simulates none.

    python -m benchmarks.perfvec.simulated_neighbours LABELS [--most 8] [--also MORE]

LABELS, MORE: folders of latency files on the same machines; MORE takes part in every fit and is not judged.

A program's time on a machine is taken for a non-negative combination of its simulated times on K of the machines and
its number of instructions, fitted over all other programs (least squares of relative errors). The K are chosen one by
one, each the one that lowers the error over all programs most, so the choice, though not the fit, has seen the program
that is judged. Errors are of the machines not simulated.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from tracegen.formats.latency import LatencyFile

_RIDGE = 0.1  # against windows, each of which counts 1: draws every coefficient to an equal share of the time


def coefficients(times: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """[k] of `wanted` [w] from `times` [w, k]."""
    relative = times / wanted[:, None]
    scale, count = relative.mean(axis=0), times.shape[1]
    weight = np.sqrt(_RIDGE)
    rows = np.concatenate([relative / scale, weight * np.eye(count)])
    found, _ = nnls(rows, np.concatenate([np.ones(len(wanted)), np.full(count, weight / count)]))
    return np.asarray(found) / scale


def errors(
    times: NDArray[np.float64], known: NDArray[np.float64], programs: NDArray[np.str_], judged: NDArray[np.str_]
) -> NDArray[np.float64]:
    """[j, U] relative errors of `times` [w, U] of the `judged` programs' windows from `known` [w, k], each fitted
    without its own program.
    """
    found = np.empty(times.shape)
    for program in judged:
        here = programs == program
        for machine in range(times.shape[1]):
            fit = coefficients(known[~here], times[~here, machine])
            found[here, machine] = known[here] @ fit / times[here, machine] - 1
    return np.abs(found[np.isin(programs, judged)])


def windows(folder: Path) -> tuple[list[str], list[int], list[NDArray[np.float64]]]:
    """Program, instructions and cycles [U] of each."""
    names, counts, cycles = [], [], []
    for path in sorted(folder.glob("*.latency.h5")):
        with LatencyFile(path) as file:
            names.append(file.trace)
            counts.append(len(file))
            cycles.append(file.cycles())
    return names, counts, cycles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--most", type=int, default=8, help="simulated machines at most")
    parser.add_argument("--also", type=Path, action="append", default=[], help="labels that are not judged")
    arguments = parser.parse_args()
    names, counts, cycles = windows(arguments.labels)
    judged = np.unique(names)
    for folder in arguments.also:
        names, counts, cycles = (
            [*before, *more] for before, more in zip((names, counts, cycles), windows(folder), strict=True)
        )
    times, programs, known = np.array(cycles), np.array(names), np.array(counts, np.float64)[:, None]
    own = np.isin(programs, judged)
    chosen: list[int] = []
    print("| simulated | mean | median | worst programs |\n|---|---|---|---|")
    while len(chosen) < arguments.most:
        others = [machine for machine in range(times.shape[1]) if machine not in chosen]
        trials = []
        for other in others:
            trial, sampled = np.hstack([known, times[:, [other]]]), times[:, ::3]
            fits = np.array([coefficients(trial, column) for column in sampled.T])
            trials.append(np.abs(trial[own] @ fits.T / sampled[own] - 1).mean())
        chosen.append(others[int(np.argmin(trials))])
        known = np.hstack([known, times[:, chosen[-1:]]])
        error = np.delete(errors(times, known, programs, judged), chosen, axis=1)
        means = {program: error[programs[own] == program].mean() for program in judged}
        worst = sorted(means, key=lambda program: -means[program])[:4]
        text = ", ".join(f"{program} {means[program]:.0%}" for program in worst)
        print(f"| {len(chosen)} | {error.mean():.1%} | {np.median(error):.1%} | {text} |", flush=True)


if __name__ == "__main__":
    main()
