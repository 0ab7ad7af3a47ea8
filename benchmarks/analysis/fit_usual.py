"""Usual hyperparameters of surfaces over the space `default`: python benchmarks/analysis/fit_usual.py -o F.json TRACES…

Each trace (instructions 600,000 to 1,000,000, caches warmed by those before) is simulated on 256 machines of its own
draw, and a process is fitted, with the shipped model's prediction as a coordinate; what is written is the mean over the
programs.
"""

import argparse
import json
import zlib
from pathlib import Path

import numpy as np

from analysis.budget import gaussian_process
from analysis.budget.coordinates import Coordinates, coordinates
from analysis.programs.simulable import SimulableTrace
from analysis.programs.span import Span
from perfvec.machines.columns import cycles_of_columns
from perfvec.model import load_model
from perfvec.representation.represent import represent
from uarch.columns import of_machines
from uarch.space import sample

MACHINES, START, COUNT = 256, 600_000, 400_000


def fitted(where: Coordinates, cycles: np.ndarray) -> dict[str, tuple[float, float]]:
    """Return by coordinate how much its logarithms are above the general prior."""
    process = gaussian_process.GaussianProcess(where, np.arange(len(cycles)), np.log(cycles))
    above = (process._width * process.state).numpy()
    count = len(where.names)
    found = dict(zip(where.names, zip(above[:count], above[count : 2 * count], strict=True), strict=True))
    return found | {"the parts": tuple(above[2 * count :])}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("traces", nargs="+")
    parser.add_argument("-o", "--output", required=True, type=Path)
    arguments = parser.parse_args()
    gaussian_process.usual_hyperparameters = dict  # none yet
    every, model = [], load_model()
    assert model.encoder is not None
    for path in arguments.traces:
        program = SimulableTrace(path, Span(START, COUNT))
        machines = sample(MACHINES, 1000 + zlib.crc32(program.name.encode()) % 100_000)
        end, begin = (
            represent(model, path, max_instructions=count, progress=False).vector for count in (START + COUNT, START)
        )
        columns = of_machines(machines)
        predicted = cycles_of_columns(model.encoder, columns, (end - begin)[None])[:, 0]
        every.append(fitted(coordinates(columns).with_model(predicted), program.simulate(machines).cycles))
        print(program.name)
    write(arguments.output, every)


def write(path: Path, every: list[dict[str, tuple[float, float]]]) -> None:
    names = list(dict.fromkeys(name for one in every for name in one))
    means = {name: np.mean([one[name] for one in every if name in one], axis=0).round(3).tolist() for name in names}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(pair)}" for name, pair in means.items())
    path.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
