"""Presets whose configuration changed get vectors again: those that the model held under their names, moved by labels.

    python -m benchmarks.perfvec.refit_presets --traces FOLDER --latencies FOLDER [-o MODEL]

The labels are of traces that trained the model, on all presets (`perfvec label TRACES --presets`). The vectors held
before are the priors of the regression (perfvec.machines.posterior), so what the labels do not determine stays. Prints
how far predictions are off before and after, each program's by a fit to the others. With -o the model is written, and
the shipped library is bound to its new digest.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfvec.evaluate import labelled_segments
from perfvec.machines.posterior import Observations, fit_segments
from perfvec.model import Model, load_model, save_model
from perfvec.representation.library import SHIPPED, load_library, save_library
from perfvec.training.data import pair_files
from tracegen.formats.latency import LatencyFile
from tracegen.formats.trace import Trace
from uarch.configuration import Machine
from uarch.machine_files import load_machine, preset_names

Segments = tuple[str, NDArray[np.float64], NDArray[np.float64]]  # program; vectors [n, d]; cycles [presets, n]


def segments_of(model: Model, traces: Path, latencies: Path) -> list[Segments]:
    """Return the segments of each labelled trace. The labels' machines are the presets in the order of their names."""
    found = []
    for trace_path, path in pair_files(traces, latencies):
        with Trace(trace_path) as trace, LatencyFile(path) as labels:
            assert [machine.name for machine in labels.machines] == preset_names()
            found.append((trace.name, *labelled_segments(model, trace, labels)))
            print(trace.name, flush=True)
    return found


def refitted(model: Model, prior: NDArray[np.float64], preset: int, segments: list[Segments]) -> NDArray[np.float64]:
    """[d] the vector of a preset, fitted around `prior` [d]."""
    numbers = np.repeat(np.arange(len(segments)), [len(vectors) for _, vectors, _ in segments])
    vectors = np.concatenate([vectors for _, vectors, _ in segments])
    cycles = np.concatenate([cycles[preset] for _, _, cycles in segments])
    return fit_segments(model, Observations(vectors, cycles, numbers), prior).mean


def errors(vector: NDArray[np.float64], preset: int, segments: list[Segments]) -> list[float]:
    return [abs(float(v.sum(axis=0) @ vector) / float(cycles[preset].sum()) - 1) for _, v, cycles in segments]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--latencies", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    model = load_model()
    segments = segments_of(model, given.traces, given.latencies)
    held = dict(zip((m.name for m in model.fitted_machines), model.fitted_vectors, strict=True))
    vectors: list[NDArray[np.float64]] = []
    machines: list[Machine] = [load_machine(name) for name in preset_names()]
    for preset, machine in enumerate(machines):
        prior = held[machine.name]
        left_out = []
        for fold in range(5):
            others = [one for number, one in enumerate(segments) if number % 5 != fold]
            left_out += errors(refitted(model, prior, preset, others), preset, segments[fold::5])
        vectors.append(refitted(model, prior, preset, segments))
        shown = [errors(prior, preset, segments), left_out, errors(vectors[-1], preset, segments)]
        text = ", ".join(f"{np.mean(one):.1%} ({np.median(one):.1%})" for one in shown)
        print(f"{machine.name}: mean (median) before, of programs left out, after: {text}", flush=True)
    if given.output is not None:
        made = replace(model, fitted_machines=tuple(machines), fitted_vectors=np.array(vectors), calibration=None)
        save_model(made, given.output)  # whose digest binds the calibration, which is of other errors than these
        save_model(replace(load_model(given.output), calibration=model.calibration), given.output)
        if given.output.parent == SHIPPED.parent:
            library = load_library(SHIPPED)
            save_library([replace(one, model=load_model(given.output).digest) for one in library], SHIPPED)


if __name__ == "__main__":
    main()
