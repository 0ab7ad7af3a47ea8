"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _presets_that_begin(incomplete: str) -> list[str]:
    """Presets for the shell's completion."""
    from uarch.machine_files import native_names, preset_names

    return [name for name in [*preset_names(), *native_names()] if name.startswith(incomplete)]


Targets = Annotated[
    list[str] | None,
    typer.Argument(help="Traces, live-points (*.livepoints.h5) or vectors (*.vector.npz); or -- PROGRAM ARGS…"),
]
Traces = Annotated[
    list[str] | None, typer.Argument(help="Traces or live-points (*.livepoints.h5); or -- PROGRAM ARGS…")
]
ModelFile = Annotated[Path | None, typer.Option("--model", help="Model file; the shipped model by default.")]
Machines = Annotated[
    list[str] | None,
    typer.Option("--uarch", help="Preset name or YAML/JSON file; repeat for more.", autocompletion=_presets_that_begin),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout instead of a table.")]
Csv = Annotated[Path | None, typer.Option("--csv", help="Write the table as CSV.")]
Html = Annotated[Path | None, typer.Option("--html", help="Write an offline page of interactive figures and tables.")]
Picture = Annotated[Path | None, typer.Option("--picture", help="Write the picture (.png, .svg or .pdf).")]
MaxInstructions = Annotated[int | None, typer.Option("--max-instructions", min=1, help="Stop after N instructions.")]
Start = Annotated[
    int, typer.Option("--start", min=0, help="First timed instruction; all earlier ones warm the caches.")
]
Count = Annotated[
    int | None, typer.Option("--count", min=1, help="Number of timed instructions; by default to the trace's end.")
]
Warmup = Annotated[
    int, typer.Option(min=0, help="Instructions before --start that also warm the pipeline and the predictors.")
]
Budget = Annotated[
    float,
    typer.Option(
        "--budget",
        min=0,
        help="Seconds of simulation. Points that do not fit are estimated from those that do. 0: the model alone. "
        "Making a vector for the model comes on top, once.",
    ),
]
SimulateAll = Annotated[bool, typer.Option("--simulate", help="Simulate everything, however long it takes.")]
Level = Annotated[float, typer.Option(help="Probability of the intervals, such as 0.9.")]
Skip = Annotated[int, typer.Option(min=0, help="Instructions executed before recording starts.")]
RegionFunction = Annotated[
    str | None, typer.Option("--region", help="Record only this function, from its entry to its return.")
]
RegionStart = Annotated[
    str | None, typer.Option("--from", help="Record from here: SYMBOL, SYMBOL+OFFSET or 0xADDRESS of the executable.")
]
RegionStop = Annotated[str | None, typer.Option("--to", help="Record until here; to the program's end by default.")]
RegionTimes = Annotated[
    int | None, typer.Option("--times", min=1, help="Stop after N executions of the region; all by default.")
]
Stdin = Annotated[Path | None, typer.Option(help="File on the program's standard input.")]
Cwd = Annotated[Path | None, typer.Option(help="The program's working directory.")]
Env = Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the program; repeat for more.")]
Space = Annotated[str, typer.Option(help="Design space whose machines are sampled: a name or a YAML file.")]
Scheduler = Annotated[
    str | None, typer.Option("--scheduler", help="Run on the workers of the Dask scheduler at this address.")
]
ClusterFile = Annotated[
    Path | None, typer.Option("--cluster", help="Run on a SLURM, PBS, LSF, … cluster: a YAML file for dask-jobqueue.")
]
Device = Annotated[
    str, typer.Option(help="Where the model runs: auto (a GPU where there is one), cpu, cuda or cuda:N.")
]


def require_unset(context: typer.Context, why: str, *options: str) -> None:
    """Raise InputError for the first of these parameters that the user gave, of which `why` says what it is of."""
    from support.errors import InputError

    for name in options:
        source = context.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT":  # by name: some releases of Typer have a Click of their own
            raise InputError(f"--{name.replace('_', '-')} {why}")
