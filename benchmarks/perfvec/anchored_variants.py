"""Times of presets with one field changed, by the encoder, beside the simulator's (a tool, not a test):

    python benchmarks/perfvec/anchored_variants.py TRACE… --max-instructions 1000000

`zero-shot` is the encoder's vector E(m) of the variant m. `anchored` begins at the fitted vector v of its preset k, and
adds what the encoder says of the difference: v + |v| / |E(k)| · (E(m) − E(k)).
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
from uarch.configuration import load_machine

PRESETS = ("base", "zen2", "cortex-a53", "zen4", "neoverse-n1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--max-instructions", type=int, default=1_000_000)
    arguments = parser.parse_args()
    model = load_model()
    assert model.encoder is not None
    rows = []
    for path in tqdm(arguments.traces, unit="program"):
        trace = SimulableTrace(path, Span(count=arguments.max_instructions))
        program = represent(model, path, max_instructions=arguments.max_instructions, progress=False).vector
        for name in PRESETS:
            machines = one_field_changes(load_machine(name))
            true = trace.simulate(machines).cycles
            fitted, encoded = model.machine_vectors(machines[:1])[0][0], model.encoder.vectors(machines)
            scale = np.linalg.norm(fitted) / np.linalg.norm(encoded[0])
            for way, vectors in (("zero-shot", encoded), ("anchored", fitted + scale * (encoded - encoded[0]))):
                cycles = vectors @ program
                off = np.abs(cycles / true - 1)[1:]
                change = np.abs(cycles / cycles[0] - true / true[0])[1:]
                rows += [{"way": way, "time": one, "change": other} for one, other in zip(off, change, strict=True)]
    print(pd.DataFrame(rows).groupby("way", sort=False).agg(["mean", "median", "max"]).round(4).to_string())


if __name__ == "__main__":
    main()
