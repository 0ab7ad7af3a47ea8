"""The demonstration: a program that nobody prepared, from its binary to predictions, beside the simulator's."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.designs import sweep
from analysis.designs.design import grid_design
from analysis.designs.table import fields_of
from analysis.programs.targets import target_of
from analysis.questions import compare, predict, simulate, sweep_figures
from analysis.results.figure import Axis, Bars, Figure, Panel, label
from analysis.results.headline import Headline, percent
from analysis.results.intervals import changes as changed
from analysis.results.page import Section, write_page
from perfvec.intervals.level import DEFAULT_LEVEL
from perfvec.model import Model
from perfvec.representation.sample import represent_sampled
from tracegen.qemu import Execution, trace
from tracegen.suite.inputs import input_file
from uarch.columns import of_machine
from uarch.configuration import Machine
from uarch.machine_files import load_machine, preset_names

INSTRUCTIONS = {"gzip": 2_000_000, "grep": 1_000_000, "sort": 1_000_000}  # the whole is less than a minute on two cores
_HALF_WIDTH = 0.05  # of the sampled representation
_SAMPLED = f"the model on a sample of each program, ±{_HALF_WIDTH:.0%}; lines across the bars' ends are 90 % intervals"
_SIMULATED = "simulated, every instruction"
_SWEEP: dict[str, list[Any]] = {"l1d.size_kib": [8, 16, 32, 64, 128], "l2.size_kib": [128, 256, 512, 1024, 2048]}
_FURTHER: dict[str, list[Any]] = {
    "pipeline.rob_entries": [96, 128, 192],
    "branch_predictor.kind": ["bimode", "ltage", "tage-sc-l"],
}
SECONDS = 5.0  # for the larger sweep
_SWEEP_BASE = "base"
_SHOWN = ("base", "zen4", "cortex-a53")  # whose stacks the terminal shows


def demo(folder: str | os.PathLike[str], model: Model) -> Path:
    """Trace gzip on a generated file and two other programs; predict, simulate, sweep, compare; write `report.html`.

    Prints every prediction for gzip beside the simulator's cycles for the same trace, and what they were spent on.
    """
    began = time.monotonic()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    text, records = input_file("text", folder / "inputs"), input_file("records", folder / "inputs")
    commands = {
        "gzip": ["gzip", "-c", str(records)],
        "grep": ["grep", "-c", "-E", "(na|ko)+[a-z]*ra", str(text)],
        "sort": ["sort", str(records)],
    }
    vectors = []
    for name, command in commands.items():
        path = folder / f"{name}.trace.h5"
        _say(f"tracing    {' '.join(command)}")
        with Path(os.devnull).open("wb") as unheard:
            trace(Execution(command, stdout=unheard, max_instructions=INSTRUCTIONS[name]), path)
        vectors.append(represent_sampled(model, path, half_width=_HALF_WIDTH))
        vectors[-1].save(folder / f"{name}.vector.npz")

    machines = [load_machine(name) for name in preset_names()]
    predictions = predict.predict(model, vectors, machines)
    gzip = predictions[predictions["program"] == "gzip"].set_index("uarch")
    _say(f"simulating gzip's trace on {len(machines)} machines, to see the error")
    traced = folder / "gzip.trace.h5"
    stacks = simulate.simulate([traced], machines)
    simulated = stacks.set_index("uarch")["cycles"].astype(float)
    table = pd.DataFrame({"predicted_cycles": gzip["cycles"], "simulated_cycles": simulated})
    table["error"] = (table["predicted_cycles"] / table["simulated_cycles"] - 1.0).abs()
    print(table.to_string(formatters={"error": "{:.1%}".format}, float_format="{:,.0f}".format))
    print(f"mean error {table['error'].mean():.1%}, worst {table['error'].max():.1%}\n")
    print(simulate.shown_stack(stacks[stacks["uarch"].isin(_SHOWN)]) + "\n")

    _say("simulating gzip's trace over cache sizes")
    base, target = load_machine(_SWEEP_BASE), target_of(model, traced)
    points = sweep.answered(model, [target], grid_design(base, _SWEEP), float("inf"))
    more = grid_design(base, _SWEEP | _FURTHER)
    _say(f"sweeping {more.columns.count} machines, of which {SECONDS:g} s simulate as many as they can")
    changes = _one_field_off(
        base,
        sweep.answered(model, [target], more, SECONDS, base=base),
        sweep.run(model, [target.vector], more, base=base),
    )
    print(_shown(changes).to_string(index=False) + "\n")
    distances = compare.compare(vectors)
    print(distances.to_string(float_format=lambda value: f"{value:.4f}"))
    report = write_page(
        folder / "report.html",
        "From a binary to predictions",
        [
            Section(
                "Predicted cycles per instruction",
                "The first "
                + ", ".join(f"{count / 1e6:g} million instructions of {name}" for name, count in INSTRUCTIONS.items())
                + " on every preset machine.",
                predict.plot(predictions),
                predictions,
                source=_SAMPLED,
            ),
            Section(
                "Prediction against the simulator",
                f"gzip: mean error {table['error'].mean():.1%} over {len(table)} machines.",
                _beside(table),
                table.reset_index(),
            ),
            Section(
                "What gzip's cycles are spent on",
                "CPI stacks of the simulated machines: every cycle belongs to one cause.",
                simulate.plot(stacks),
                simulate.groups_of(stacks).assign(uarch=stacks["uarch"]),
                source=_SIMULATED,
            ),
            Section(
                "gzip over L1 data and L2 cache sizes",
                f"The machine {_SWEEP_BASE!r} with other caches, every point simulated.",
                sweep_figures.plot(points),
                points.drop(columns=["low", "high"]),
                source=_SIMULATED,
            ),
            Section(
                "What one change of the machine does to gzip",
                f"One field of {_SWEEP_BASE!r} changed: points of a grid of {more.columns.count}, within "
                f"{SECONDS:g} s, beside the model alone.",
                _plot_changes(changes),
                _shown(changes),
                source="simulated, or corrected by simulated points; lines across the bars' ends are intervals of "
                f"{DEFAULT_LEVEL:.0%}",
            ),
            Section(
                "How alike the programs are",
                "Cosine distance of their vectors.",
                compare.plot(distances),
                distances,
                source=_SAMPLED,
            ),
        ],
        headline=Headline(
            percent(table["error"].mean()),
            "mean error",
            f"Predicted from its binary alone, gzip's cycles are {percent(table['error'].mean())} off the simulator's "
            f"on average over {len(table)} machines, {percent(table['error'].max())} at worst.",
            "the model on a sample of the program, beside the simulation of every instruction",
        ),
    )
    _say(f"{report} holds the pictures ({time.monotonic() - began:.0f} s)")
    return report


def _one_field_off(base: Machine, answered: pd.DataFrame, alone: pd.DataFrame) -> pd.DataFrame:
    """The rows of a sweep that differ from the base in one field, which is named in `machine`; `alone` is the model's
    change.
    """
    own = of_machine(base)
    fields = fields_of(answered)
    differs = pd.DataFrame({field: answered[field].astype(object) != own[field] for field in fields})
    chosen = differs.sum(axis=1) == 1
    rows = answered[chosen].assign(alone=alone.loc[chosen, "change"])
    field = differs[chosen].idxmax(axis=1)
    values = [row[name] for row, name in zip(rows.to_dict(orient="records"), field, strict=True)]
    names = [f"{name} {label(value)}" for name, value in zip(field, values, strict=True)]
    return rows.assign(machine=names, field=field.map(fields.index)).sort_values(["field", *fields])


def _shown(changes: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "machine": changes["machine"],
            "source": changes["source"].astype(str),
            "change": changed(changes),
            "model alone": [f"{100 * change:+.1f}%" for change in changes["alone"]],
        }
    )


def _plot_changes(changes: pd.DataFrame) -> Figure:
    names, per_cent = changes["machine"].tolist(), changes[["change", "change_low", "change_high", "alone"]] * 100
    bars = [
        Bars("within the budget", names, per_cent["change"], per_cent["change_low"], per_cent["change_high"]),
        Bars("the model alone", names, per_cent["alone"]),
    ]
    panel = Panel(bars, x=Axis("change of gzip's time, %"), sideways=True)
    return Figure([panel], height=1.4 + 0.3 * len(names))


def _beside(table: pd.DataFrame) -> Figure:
    """Predicted and simulated cycles of each machine."""
    names = [str(name) for name in table.index]
    text = [f"error {error:.1%}" for error in table["error"]]
    bars = [
        Bars("predicted", names, table["predicted_cycles"], text=text),
        Bars("simulated", names, table["simulated_cycles"]),
    ]
    return Figure([Panel(bars, x=Axis("cycles", zero=True), sideways=True)], height=1.4 + 0.3 * len(names))


def _say(text: str) -> None:
    print(text, file=sys.stderr)
