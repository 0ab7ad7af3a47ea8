"""A trace's character, whatever the machine, as an answer (`tracegen.statistics.characterise`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.results.headline import Headline, count
from analysis.results.result import Result, of_table
from support.errors import InputError
from tracegen.live_points.character import character
from tracegen.live_points.live_points import is_live_points, load
from tracegen.statistics.characterise import characterise, rows


def ask(trace: str | os.PathLike[str], *, max_instructions: int | None = None) -> Result:
    """Answer what a trace is like, or the run of live-points by estimate. Raises InputError.

    The table has the columns `group`, `measure`, `value` and `unit`.
    """
    document: dict[str, Any]
    notes: tuple[str, ...] = ()
    if is_live_points(trace):
        if max_instructions is not None:
            raise InputError(f"{trace}: live-points stand for the whole run; leave --max-instructions out")
        document, notes = character(load(trace)), (_ESTIMATED,)
    else:
        document = characterise(trace, max_instructions=max_instructions)
    frame = pd.DataFrame(rows(document), columns=["group", "measure", "value"])
    frame.insert(3, "unit", frame["group"].map(UNITS))
    return of_table(
        f"Character of {Path(trace).name}",
        frame,
        lambda: document,
        lambda: _text(frame),
        notes=notes,
        headline=lambda: headline(document, estimated=bool(notes)),
    )


_ESTIMATED = (
    "estimated from sampled units: footprints end with the last unit, entropies by long histories are low, producers "
    "in memory are left out (characterise the trace)"
)

# What the numbers of a group of measures are, on average over the executed instructions unless it says otherwise.
UNITS = {
    "size": "instructions",
    "mix": "share of the instructions",
    "footprint": "distinct ones; loads and stores: accesses",
    "branches": "share of the conditional branches; entropies from 0 to 1",
    "lru_miss_ratio": "share of accesses that miss a cache of so many lines or pages",
    "stack_distance": "accesses, by how many others were touched in between",
    "producer_within": "share of the reads, by how many instructions ago it was written",
    "ideal_ipc": "instructions a cycle; nothing but data dependences and the window",
}


def _text(frame: pd.DataFrame) -> str:
    """A block a group, headed by the group and its unit."""
    lines = []
    for group, part in frame.groupby("group", sort=False):
        lines += ["", f"{group}: {UNITS[str(group)]}"]
        lines += [
            f"  {name:36} {shown_number(value):>12}" for name, value in zip(part["measure"], part["value"], strict=True)
        ]
    return "\n".join(lines[1:])


def shown_number(value: float) -> str:
    """A measure for the terminal, never with an exponent."""
    if float(value).is_integer():
        return f"{int(value):,}"
    return np.format_float_positional(value, precision=4, fractional=False, trim="-")


def headline(document: dict[str, Any], *, estimated: bool = False) -> Headline:
    """The parallelism that the program has, and its size."""
    windows = document["ideal_ipc"]
    window, most = max(windows.items(), key=lambda item: item[1])
    sentence = (
        f"{document['trace']} executes {count(document['instructions'])} instructions; with a window of {window} "
    )
    sentence += f"and nothing else in the way {most:.3g} go in a cycle."
    source = "estimated from sampled units" if estimated else "counted over every executed instruction"
    return Headline(f"{most:.3g}", "instructions a cycle, ideal", sentence, source)
