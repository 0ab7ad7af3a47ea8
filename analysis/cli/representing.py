"""Programs as vectors, and their phases."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from analysis.cli.options import ClusterFile, Device, ModelFile, Scheduler
from analysis.cli.output import answers
from analysis.cli.running import ProgramOptions, leave_as, runs_program
from analysis.results.result import Result
from support.errors import InputError
from tracegen.control_flow import MOST_PHASES

app = typer.Typer()


@app.command()
@runs_program
def represent(
    context: typer.Context,
    output: Annotated[Path, typer.Option("-o", "--output", help="The vector file to write, or their folder.")],
    targets: Annotated[list[Path] | None, typer.Argument(help="Traces; or -- PROGRAM ARGS…")] = None,
    model_file: ModelFile = None,
    sample: Annotated[
        str | None, typer.Option(help="auto: represent a sample of the instructions, with a confidence interval.")
    ] = None,
    half_width: Annotated[
        str,
        typer.Option(help="Largest relative half width of the 95 % interval, on every machine of the model's table."),
    ] = "2%",
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the sample.")] = 0,
    windowed: Annotated[
        bool,
        typer.Option(
            "--windowed", help="Give each instruction its own 256-step context, as PerfVec does; some 350 times slower."
        ),
    ] = False,
    device: Device = "auto",
    scheduler: Scheduler = None,
    cluster: ClusterFile = None,
    *,
    program: ProgramOptions,
) -> None:
    """Turn a trace or a running program into its vector.

    A killed run of a trace continues. Several traces, or an --output that is a folder, give NAME.vector.npz there.
    Options after --max-instructions are for a program, as of perfvec trace; its exit status is passed through. Ctrl-C
    ends the program and keeps the vector so far.
    """
    from perfvec.model import load_model
    from perfvec.representation.distributed import represent_on_cluster
    from perfvec.representation.represent import represent_file, represent_stream
    from perfvec.representation.sample import parse_half_width, represent_sampled, represent_stream_sampled
    from perfvec.representation.vector import FORMAT, vector_files
    from perfvec.training.ranks import device_of
    from support.executor import connect
    from support.kinds import require_output
    from tracegen.qemu import stream

    if (not targets) == (not context.obj):
        raise InputError("give one target: a trace, or -- PROGRAM ARGS…")
    if sample not in (None, "auto"):
        raise InputError(f"--sample {sample!r} must read auto")
    if windowed and (not targets or sample is not None):
        raise InputError("--windowed is for a whole trace: give a trace file and leave --sample out")
    elsewhere = scheduler is not None or cluster is not None
    if elsewhere and (not targets or sample is not None or windowed or device not in ("auto", "cpu")):
        raise InputError("--scheduler and --cluster are for exact vectors of traces, on processors: leave the rest out")
    place = device_of("cpu" if elsewhere else device)
    if targets:
        outputs, limit = vector_files(targets, output), program.max_instructions
        width = parse_half_width(half_width)
        with connect(scheduler, cluster) as workers:
            if workers is not None:
                represent_on_cluster(model_file, targets, outputs, workers, max_instructions=limit)
            else:
                model = load_model(model_file).to(place)
                for target, path in zip(targets, outputs, strict=True):
                    if sample is None:
                        represent_file(model, target, path, max_instructions=limit, windowed=windowed)
                    else:
                        options: dict[str, Any] = {"half_width": width, "max_instructions": limit, "seed": seed}
                        represent_sampled(model, target, **options).save(path)
        for path in outputs:
            print(_vector_line(path), file=sys.stderr)
        return
    require_output(output, FORMAT)
    width, model = parse_half_width(half_width), load_model(model_file).to(place)
    with program.execution(context.obj) as execution, stream(execution) as running:
        if sample is None:
            represent_stream(model, running).save(output)
        else:
            represent_stream_sampled(model, running, half_width=width, seed=seed).save(output)
    print(_vector_line(output), file=sys.stderr)
    leave_as(running.outcome, running.cut_short)


def _vector_line(path: Path) -> str:
    from perfvec.representation.vector import load_vector

    vector = load_vector(path)
    sampling = vector.sampling
    part = f", {sampling.units_represented:,} of {sampling.units:,} units represented" if sampling else ""
    return f"{path}: {vector.program}, {vector.instructions:,} instructions{part}"


@app.command()
@answers()
def phases(
    trace_file: Annotated[Path, typer.Argument(help="A trace.")],
    interval: Annotated[
        int | None,
        typer.Option(min=1000, help="Length of an interval in instructions; by default a 200th of the trace."),
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Most phases to find.")] = MOST_PHASES,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the clustering.")] = 0,
    prefix: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write PREFIX.simpoints, PREFIX.weights and PREFIX.bb.")
    ] = None,
) -> Result:
    """Find phases and simulation points, as SimPoint does."""
    from analysis.questions.phases import result
    from tracegen.control_flow.phases import phases as find
    from tracegen.control_flow.phases import write_simpoints

    found = find(trace_file, interval=interval, most=most, seed=seed)
    for path in write_simpoints(found, prefix) if prefix is not None else []:
        print(path, file=sys.stderr)
    return result(found)
