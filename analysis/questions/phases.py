"""A trace's phases over time as an answer (`tracegen.control_flow.phases`)."""

from __future__ import annotations

from textwrap import fill

import numpy as np
import pandas as pd

from analysis.results.figure import Axis, Bars, Figure, FloatingBars, Panel
from analysis.results.headline import Headline, percent
from analysis.results.page import Section
from analysis.results.result import Result, table_text
from tracegen.control_flow.phases import Phases, strip


def result(found: Phases) -> Result:
    """Answer which phases a trace has; the table has a row a phase."""
    table = pd.DataFrame(found.document()["phases"])
    letters = strip(found)
    length = found.interval * len(found.phase) // len(letters)
    over_time = f"over time, {length:,} instructions a letter: {letters}"
    return Result(
        f"Phases of {found.trace}",
        table,
        document=found.document,
        text=lambda: _text(table, over_time),
        sections=lambda: sections(found),
        picture=lambda: plot(found),
        notes=(f"the last {found.left_out:,} instructions, less than an interval, are left out",)
        if found.left_out
        else (),
        headline=lambda: headline(found),
    )


def _text(table: pd.DataFrame, over_time: str) -> str:
    shown = table.assign(instruction=table["instruction"].map("{:,}".format))
    return f"{table_text(shown)}\n{fill(over_time, 80)}"


def headline(found: Phases) -> Headline:
    """The number of phases, and the one that is most of the run."""
    count, largest = len(found.point), int(np.argmax(found.weight))
    point = int(found.point[largest])
    sentence = f"{found.trace} has {count} phase{'s' if count > 1 else ''}. Phase {largest} is "
    sentence += f"{percent(float(found.weight[largest]))} of the intervals; the {found.interval:,} instructions from "
    sentence += f"{point * found.interval:,} on stand for it."
    source = "clusters of basic-block vectors (SimPoint) of all intervals"
    return Headline(str(count), "phase" if count == 1 else "phases", sentence, source)


def sections(found: Phases) -> list[Section]:
    """The parts of the HTML report."""
    text = f"Intervals of {found.interval:,} instructions, clustered by the code that they execute, as SimPoint does."
    table = pd.DataFrame(found.document()["phases"])
    return [
        Section("Phases over time", text, plot(found)),
        Section(
            "Simulation points",
            "Each phase's share of the intervals and the one that stands for it.",
            plot_weights(found),
            table,
        ),
    ]


def plot(found: Phases) -> Figure:
    """A row a phase; in it the parts of the run that belong to it."""
    change = np.flatnonzero(np.diff(found.phase, prepend=-1))
    ends = np.append(change[1:], len(found.phase))
    marks = []
    for phase in range(len(found.point)):
        rows = found.phase[change] == phase
        name = f"phase {phase}"
        marks.append(FloatingBars(name, change[rows] * found.interval, ends[rows] * found.interval, name))
    return Figure([Panel(marks, x=Axis("instructions executed"))], height=1.3 + 0.28 * len(marks))


def plot_weights(found: Phases) -> Figure:
    """The share of each phase."""
    names = [f"phase {phase}" for phase in range(len(found.point))]
    text = [f"simulation point: interval {point:,}" for point in found.point.tolist()]
    bars = Bars("", names, found.weight * 100, text=text)
    return Figure(
        [Panel([bars], x=Axis("share of the intervals, %", zero=True), sideways=True)], height=1.3 + 0.28 * len(names)
    )
