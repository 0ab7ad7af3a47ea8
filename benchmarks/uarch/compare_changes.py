"""Changes of one field against gem5's (a tool, not a test):

    python -m benchmarks.uarch.compare_changes FOLDER --gem5 gem5.opt --programs dc brotli

The machines are those of the what-if protocol's task `one field` (docs/explanation/budgets.md), programs and windows
those of label_unseen.py. Changes are told by the embedded simulator and by the model's encoder. What is there is not
made again; without `--gem5` nothing is made.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.designs.sweep import encoder_of
from analysis.questions import what_if
from benchmarks.uarch.compare_gem5 import windows
from benchmarks.uarch.label_unseen import COUNT, PROGRAMS, START, trace
from perfvec.evaluate import labelled_segments
from perfvec.machines.columns import cycles_of_columns
from perfvec.model import Model, load_model
from support.errors import InputError
from tracegen.formats.latency import LatencyFile
from tracegen.formats.trace import Trace
from tracegen.label import label
from tracegen.suite.workloads import select
from uarch.columns import of_machines
from uarch.configuration import Machine, flatten
from uarch.machine_files import load_machine


def machines() -> list[Machine]:
    return [machine for name in what_if.MACHINES for machine in what_if.one_field_changes(load_machine(name))]


def base_of(name: str) -> str:
    return f"{name.split()[0]} 0"


def changes(folder: Path, program: str, model: Model) -> Iterator[pd.DataFrame]:
    """A row a change, as of `what_if.evaluate`, and its field."""
    labels = folder / f"{program}-{START}.latency.h5"
    with Trace(folder / f"{program}.trace.h5") as run, LatencyFile(labels) as labelled:
        vector = labelled_segments(model, run, labelled)[0].sum(axis=0)
    rows = windows(folder, program, set())
    made = [row["machine"] for row in rows]
    place = {machine.name: k for k, machine in enumerate(made)}
    of = np.array([place.get(base_of(machine.name), -1) for machine in made])
    of[of == np.arange(len(made))] = -1
    period = 1 / np.array([machine.frequency_ghz for machine in made])
    by_model = cycles_of_columns(encoder_of(model), of_machines(made), vector[None])[:, 0]
    true = np.array([row["gem5"] for row in rows]) * period
    ours = np.array([row["ours"] for row in rows]) * period
    fields = [changed(made[start], machine) for machine, start in zip(made, of, strict=True) if start >= 0]
    for source, told in (("simulated", ours), ("zero-shot", by_model / COUNT * period)):
        found = what_if.Told(true, told, of, ordered=False).changes()
        found = found.assign(program=program, programs="", task="one field", source=source, field=fields)
        yield found[found["field"] != ""]  # what gem5 leaves out does not change


def changed(base: Machine, machine: Machine) -> str:
    """The field that differs, nothing where gem5 leaves it out."""
    before, after = (flatten(one.to_dict()) for one in (base, machine))
    return next((field for field, value in after.items() if field != "name" and before.get(field) != value), "")


def by_field(found: pd.DataFrame) -> str:
    """A Markdown table: mean absolute change, and how far each source is off, in points."""
    lines = ["| field | changes | change | simulated | zero-shot |", "|---|---|---|---|---|"]
    for field, part in found.groupby("field"):
        told = {source: part[part["source"] == source] for source in ("simulated", "zero-shot")}
        off = [100 * (one["told"] - one["true"]).abs().mean() for one in told.values()]
        mean = 100 * told["simulated"]["true"].abs().mean()
        lines.append(f"| `{field}` | {len(told['simulated'])} | {mean:.1f} | {off[0]:.2f} | {off[1]:.2f} |")
    return "\n".join(lines)


def by_gem5(folder: Path, program: str, gem5: str, workers: int) -> None:
    """Trace and label a program of the suite."""
    folder.mkdir(parents=True, exist_ok=True)
    (workload,) = select([program])
    trace(workload, folder, gem5)
    traced = folder / f"{program}.trace.h5"
    label([traced], machines(), folder, start=START, count=COUNT, workers=workers, simulator="gem5", gem5=gem5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gem5", default=os.environ.get("GEM5"))
    parser.add_argument("--programs", nargs="*", default=PROGRAMS)
    parser.add_argument("--workers", type=int, default=2, help="simulations side by side")
    arguments = parser.parse_args()
    model, found = load_model(), []
    for program in arguments.programs:
        try:
            if arguments.gem5:
                by_gem5(arguments.folder, program, arguments.gem5, arguments.workers)
            found += changes(arguments.folder, program, model)
        except InputError as error:
            print(f"{program}: {error}", file=sys.stderr)
    if not found:
        return 1
    every = pd.concat(found, ignore_index=True)
    no_order: dict[str, Any] = dict.fromkeys(
        ("tau", "close_tau", "clear_tau", "regret", "simulated", "seconds"), float("nan")
    )
    orders = every[["program", "programs", "task", "source"]].drop_duplicates().assign(**no_order)
    print(what_if.shown(what_if.summary(every, orders)))
    print(by_field(every))
    return 0


if __name__ == "__main__":
    sys.exit(main())
