"""Errors of the encoder on presets with one field changed, in time and in change, against the simulator:

    python benchmarks/perfvec/preset_variants.py TRACE… [--model MODEL] [--max-instructions 1000000]

Presets have vectors of their own; their variants, which most sweeps consist of, have the encoder's. The last lines are
the errors of the presets themselves, by their own vectors and by the encoder's.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from tqdm import tqdm

from analysis.programs.simulable import SimulableTrace
from analysis.programs.span import Span
from analysis.questions.what_if import one_field_changes
from perfvec.model import load_model
from perfvec.representation.represent import represent
from uarch.machine_files import load_machine, preset_names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--model")
    parser.add_argument("--max-instructions", type=int, default=1_000_000)
    arguments = parser.parse_args()
    model = load_model(arguments.model)
    assert model.encoder is not None
    rows, presets = [], []
    own, _ = model.machine_vectors([load_machine(name) for name in preset_names()])
    for path in tqdm(arguments.traces, unit="program"):
        trace = SimulableTrace(path, Span(count=arguments.max_instructions))
        program = represent(model, path, max_instructions=arguments.max_instructions, progress=False).vector
        for name, vector in zip(preset_names(), own, strict=True):
            machines = one_field_changes(load_machine(name))
            true, cycles = trace.simulate(machines).cycles, model.encoder.vectors(machines) @ program
            found = {"own vector": vector @ program, "encoder": cycles[0]}
            presets += [{"by": by, "preset": name, "off": abs(time / true[0] - 1)} for by, time in found.items()]
            off = np.abs(cycles / true - 1)[1:]
            change = np.abs(cycles / cycles[0] - true / true[0])[1:]
            pairs = zip(off, change, strict=True)
            rows += [{"preset": name, "program": trace.name, "time": one, "change": other} for one, other in pairs]
    errors = pd.DataFrame(rows)
    for by in ("preset", "program"):
        both = pd.concat([errors, errors.assign(**{by: "all"})])
        print(both.groupby(by, sort=False)[["time", "change"]].agg(["mean", "median", "max"]).round(4).to_string())
    print(f"{len(errors):,} pairs\n\npresets themselves")
    print(pd.DataFrame(presets).groupby("by")["off"].agg(["mean", "median", "max", "count"]).round(4).to_string())


if __name__ == "__main__":
    main()
