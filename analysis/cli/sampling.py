"""Live-points of programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from analysis.cli.options import ModelFile
from analysis.cli.running import ProgramOptions, leave_as, runs_program
from support.errors import InputError
from tracegen.live_points import LEAST_UNITS, UNITS

app = typer.Typer()


@app.command("live-points")
@runs_program
def live_points(
    context: typer.Context,
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write, NAME.livepoints.h5.")],
    trace: Annotated[Path | None, typer.Argument(help="A trace; or -- PROGRAM ARGS…")] = None,
    units: Annotated[
        int, typer.Option(min=LEAST_UNITS, help="Approximate number of units of 1,024 instructions to simulate.")
    ] = UNITS,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the sample.")] = 0,
    vector: Annotated[
        bool,
        typer.Option(
            "--vector/--no-vector", help="Also keep the program's vector, so that the model can answer; takes longer."
        ),
    ] = True,
    model_file: ModelFile = None,
    *,
    program: ProgramOptions,
) -> None:
    """Sample a run once, for fast simulation on any machine.

    perfvec simulate FILE then takes a fraction of a second. Options after --max-instructions are for a program, as of
    perfvec trace; its exit status is passed through.
    """
    from support.kinds import require_output
    from tracegen.live_points import record
    from tracegen.live_points.live_points import FORMAT, SUFFIX, LivePoints, save
    from tracegen.qemu import stream

    if (trace is None) == (not context.obj):
        raise InputError("give one target: a trace, or -- PROGRAM ARGS…")
    if not output.name.endswith(SUFFIX):
        raise InputError(f"{output}: the name of a live-points file ends in {SUFFIX}")
    require_output(output, FORMAT)
    of_trace: Callable[..., LivePoints] = record.of_trace
    of_stream: Callable[..., LivePoints] = record.of_stream
    if vector:
        from perfvec.model import load_model
        from perfvec.representation.live_points import live_points_of_stream, live_points_of_trace

        model = load_model(model_file)
        of_trace, of_stream = partial(live_points_of_trace, model), partial(live_points_of_stream, model)
    if trace is not None:
        points = of_trace(trace, units=units, seed=seed, max_instructions=program.max_instructions)
        save(points, output)
        print(f"{output}: {points.summary}", file=sys.stderr)
        return
    with program.execution(context.obj) as execution, stream(execution) as running:
        points = of_stream(running, units=units, seed=seed)
        save(points, output)
    print(f"{output}: {points.summary}", file=sys.stderr)
    leave_as(running.outcome, running.cut_short)
