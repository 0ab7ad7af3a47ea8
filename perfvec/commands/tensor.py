"""Tensor programs: logs and databases become datasets of tasks, schedules, latencies and features."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Tensor programs: data sets, cost models, predictions.", no_args_is_help=True)


@app.command("card")
def card(
    dataset: Annotated[Path, typer.Argument(help="A dataset, *.tensor.h5.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout instead of text.")] = False,
) -> None:
    """What a dataset holds: tasks, devices, schedules, records, failures, features."""
    import json

    from perfvec.commands.output import shown_table
    from tracegen.tensor.dataset import Dataset, summary

    with Dataset(dataset) as data:
        document, frame = summary(data)
    if as_json:
        print(json.dumps(document, allow_nan=False))
        return
    for name, value in document.items():
        if not isinstance(value, list):
            print(f"{name}: {value}")
    print(shown_table(frame))
