"""The command that compares this computer with its simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.cli.options import ModelFile
from analysis.cli.output import answers
from analysis.results.result import Result

app = typer.Typer()


@app.command()
@answers()
def validate(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(help="Workloads; all of --set by default; or -- PROGRAM ARGS…")
    ] = None,
    machines: Annotated[
        list[str] | None,
        typer.Option(
            "--uarch",
            help="Machine, as from perfvec uarch host; repeat for more. The nearest preset is added, with native "
            "micro-operations where there are tables.",
        ),
    ] = None,
    set_name: Annotated[str, typer.Option("--set", help="Set of workloads to run.")] = "validate",
    folder: Annotated[Path, typer.Option("-o", "--output", help="Folder that keeps the live-points.")] = Path(
        "validation"
    ),
    with_model: Annotated[bool, typer.Option("--with-model", help="Add the model's predictions.")] = False,
    model_file: ModelFile = None,
    least_seconds: Annotated[
        float, typer.Option(min=0.0, help="Shortest total time of a program's repeats, in seconds.")
    ] = 0.3,
    passes: Annotated[
        int, typer.Option(min=1, help="Times all programs are timed, one after another; the quickest counts.")
    ] = 3,
    keep_times: Annotated[
        bool, typer.Option("--keep-times", help="Use the times in the folder; measure only those that are missing.")
    ] = False,
    state: Annotated[
        Path | None, typer.Option("--state", help="YAML file to write: the nearest preset's error on this processor.")
    ] = None,
) -> Result:
    """Time programs on this computer, and simulate them.

    Error by program, with what the cycles go to.
    """
    from analysis.arguments import simulable
    from analysis.real_computers import validate as validation
    from analysis.real_computers.validation_result import result
    from perfvec.model import load_model
    from support.files import write_text
    from uarch.host.told import told
    from uarch.machine_files import load_machine, native_names
    from uarch.stated_error import stated_error_yaml

    preset = told().preset
    nearest = load_machine(f"{preset}-native" if f"{preset}-native" in native_names() else preset)
    chosen = simulable(machines) if machines else []
    if nearest.name not in [machine.name for machine in chosen]:
        chosen.append(nearest)
    model = load_model(model_file) if with_model or model_file is not None else None
    found = validation.validate(
        chosen,
        names or [],
        context.obj,
        set_name=set_name,
        folder=folder,
        model=model,
        least_seconds=least_seconds,
        passes=passes,
        keep_times=keep_times,
    )
    if state is not None:
        write_text(state, stated_error_yaml(validation.stated(found, nearest.name)))
    return result(found)
