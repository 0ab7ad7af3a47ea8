"""Traces of programs, their features and their character."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from analysis.cli.options import ClusterFile, MaxInstructions, Scheduler
from analysis.cli.output import answers
from analysis.cli.running import ProgramOptions, leave_as, runs_program
from analysis.results.result import Result
from support.errors import InputError

app = typer.Typer()


@app.command()
@runs_program
def trace(
    context: typer.Context,
    output: Annotated[Path, typer.Option("-o", "--output", help="The trace file to write.")],
    threads: Annotated[bool, typer.Option("--threads", help="Trace every thread, each into its own file.")] = False,
    *,
    program: ProgramOptions,
) -> None:
    """Trace a program while it runs under QEMU.

    perfvec trace -o T.trace.h5 -- PROGRAM ARGS…; its exit status is passed through. Forked children are not traced. The
    trace ends where the program becomes another one by exec.
    """
    from tracegen.qemu import trace as run_trace

    if not context.obj:
        raise InputError("no program to trace; write perfvec trace -o T.trace.h5 -- PROGRAM ARGS…")
    with program.execution(context.obj, threads=threads) as execution:
        result = run_trace(execution, output)
    for path, instructions in ((result.path, result.instructions), *result.threads):
        print(f"{path}: {instructions:,} instructions, {result.isa}", file=sys.stderr)
    leave_as(result, result.cut_short)


@app.command()
@runs_program
def features(
    context: typer.Context,
    output: Annotated[Path, typer.Option("-o", "--output", help="The features file to write, or their folder.")],
    traces: Annotated[list[Path] | None, typer.Argument(help="Traces; or -- PROGRAM ARGS…")] = None,
    schema: Annotated[str, typer.Option(help="Feature schema: default, timed or perfvec-51.")] = "default",
    workers: Annotated[int, typer.Option(min=1, help="Process N traces at the same time.")] = 2,
    scheduler: Scheduler = None,
    cluster: ClusterFile = None,
    *,
    program: ProgramOptions,
) -> None:
    """Extract features from a trace or a running program.

    Several traces, or an --output that is a folder, give NAME.features.h5 there; files that exist are kept. Options
    after --cluster are for a program, as of perfvec trace; its exit status is passed through.
    """
    from support.executor import Local, connect
    from support.kinds import require_output
    from tracegen.features import get_schema
    from tracegen.features.file import FORMAT, extract, extract_several, extract_stream
    from tracegen.formats.trace import Trace
    from tracegen.qemu import stream

    chosen = get_schema(schema)
    if (not traces) == (not context.obj):
        raise InputError("give one source of features: traces, or -- PROGRAM ARGS…")
    elsewhere = scheduler is not None or cluster is not None
    if traces and (len(traces) > 1 or output.is_dir() or elsewhere):
        with connect(scheduler, cluster) as workers_elsewhere:
            for path in extract_several(traces, chosen, output, workers_elsewhere or Local(workers)):
                print(path)
        return
    if elsewhere:
        raise InputError("a program runs on this machine; leave --scheduler and --cluster out")
    require_output(output, FORMAT)
    if traces:
        with Trace(traces[0]) as opened:
            extract(opened, chosen, output)
        return
    with program.execution(context.obj) as execution, stream(execution) as running:
        instructions = extract_stream(running, chosen, output)
    print(f"{output}: {instructions:,} instructions, {running.isa}", file=sys.stderr)
    assert running.outcome is not None
    leave_as(running.outcome, running.cut_short)


@app.command()
@answers("as_json", "csv", "html")
def characterise(
    trace_file: Annotated[Path, typer.Argument(help="A trace or live-points.")],
    max_instructions: MaxInstructions = None,
) -> Result:
    """Characterise a trace without a machine.

    Instruction mix, branch entropy, footprints, miss ratios, parallelism.
    """
    from analysis.api import characterise as ask

    return ask(trace_file, max_instructions=max_instructions)
