"""A trace's character, whatever the machine, as an answer (`tracegen.statistics.characterise`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.results.headline import Headline, count
from analysis.results.result import Result, of_table
from support.errors import InputError
from tracegen.live_points.character import character
from tracegen.live_points.live_points import is_live_points, load
from tracegen.statistics.characterise import characterise, rows


def ask(trace: str | os.PathLike[str], *, max_instructions: int | None = None) -> Result:
    """Answer what a trace is like, or the run of live-points by estimate. Raises InputError.

    The table has the columns `group`, `measure` and `value`.
    """
    document: dict[str, Any]
    if is_live_points(trace):
        if max_instructions is not None:
            raise InputError(f"{trace}: live-points stand for the whole run; leave --max-instructions out")
        document = character(load(trace))
    else:
        document = characterise(trace, max_instructions=max_instructions)
    frame = pd.DataFrame(rows(document), columns=["group", "measure", "value"])
    return of_table(
        f"Character of {Path(trace).name}",
        frame,
        lambda: document,
        lambda: frame.set_index(["group", "measure"]).to_string(float_format=shown_number),
        headline=lambda: headline(document),
    )


def shown_number(value: float) -> str:
    """A measure for the terminal, never with an exponent where it is large."""
    return f"{value:,.0f}" if value >= 1e5 else f"{value:,.6g}"


def headline(document: dict[str, Any]) -> Headline:
    """The parallelism that the program has, and its size."""
    windows = document["ideal_ipc"]
    window, most = max(windows.items(), key=lambda item: item[1])
    sentence = (
        f"{document['trace']} executes {count(document['instructions'])} instructions; with a window of {window} "
    )
    sentence += f"and nothing else in the way {most:.3g} go in a cycle."
    return Headline(f"{most:.3g}", "instructions a cycle, ideal", sentence, "counted over every executed instruction")
