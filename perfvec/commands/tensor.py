"""Tensor programs: logs and databases become datasets of tasks, schedules, latencies and features."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Tensor programs: data sets, cost models, predictions.", no_args_is_help=True)


@app.command("read")
def read(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Logs of Ansor (.json, .gz), folders of them, TenSet's folder, or MetaSchedule database folders."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The dataset to write, *.tensor.h5.")],
    device: Annotated[
        str | None, typer.Option(help="The device of all records; by default the folder's or the target's.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse the first line that is no record instead of skipping it.")
    ] = False,
    features: Annotated[
        bool, typer.Option("--features", help="Also FLOPs and features of a database's candidates; needs TVM.")
    ] = False,
) -> None:
    """What other tuners measured becomes a dataset; nothing of it is executed."""
    import sys

    from tracegen.tensor.read import read as run_read

    done = run_read(paths, output, device=device, strict=strict, features=features)
    for note in done.notes():
        print(note, file=sys.stderr)
    found = f"{done.records:,} records of {done.schedules:,} schedules of {done.tasks:,} tasks"
    print(f"{done.output}: {found} from {done.files:,} files", file=sys.stderr)


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
