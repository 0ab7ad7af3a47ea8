"""Predictions from sampled vectors against those from the exact vector of the same instructions, on every preset.

    python benchmarks/perfvec/compare_sampled_vectors.py TRACE… [--instructions N] [--seeds S]

The interval is that of sampling alone, without the model's error.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from perfvec.model import load_model
from perfvec.representation.represent import represent
from perfvec.representation.sample import represent_sampled
from uarch.machine_files import load_machine, preset_names


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--instructions", type=int, default=40_000_000)
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    model = load_model()
    machines, _ = model.machine_vectors([load_machine(name) for name in preset_names()])
    rows = []
    for path in options.traces:
        cycles = machines @ represent(model, path, max_instructions=options.instructions).vector
        for seed in range(options.seeds):
            vector = represent_sampled(model, path, max_instructions=options.instructions, seed=seed)
            if vector.sampling is None:
                raise SystemExit(f"{path}: so short that all units are represented")
            off, width = machines @ vector.vector / cycles - 1, vector.sampling.half_width(machines) / cycles
            worst = int(np.argmax(np.abs(off)))
            rows.append(
                {
                    "program": vector.program,
                    "seed": seed,
                    "units": f"{vector.sampling.units_represented:,} of {vector.sampling.units:,}",
                    "mean |off|": f"{np.abs(off).mean():.2%}",
                    "mean off": f"{off.mean():+.2%}",
                    "worst": f"{off[worst]:+.2%} {preset_names()[worst]}",
                    "interval": f"±{width.mean():.2%}",
                    "hold": f"{int((np.abs(off) <= width).sum())} of {len(off)}",
                }
            )
    print(pd.DataFrame(rows).to_string(index=False))


if __name__ == "__main__":
    main()
