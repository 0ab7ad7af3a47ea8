"""Commands that import other tools' files as traces and labels."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Import traces and labels from gem5 or ChampSim.", no_args_is_help=True)


@app.command("gem5")
def import_gem5(
    files: Annotated[
        list[Path],
        typer.Argument(help="gem5's output folder, or its files: the text (.gz, a pipe, -), config.json, stats.txt."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The trace file to write.")],
    latency: Annotated[Path | None, typer.Option(help="The latency file to write.")] = None,
    program: Annotated[Path | None, typer.Option(help="The executable, if it is not where config.json says.")] = None,
    name: Annotated[str | None, typer.Option(help="The machine's name; by default the run's.")] = None,
    warmup: Annotated[
        int | None, typer.Option(min=0, help="Instructions without labels; by default the run's warm-up.")
    ] = None,
) -> None:
    """Import a trace and labels from a gem5 run.

    The run needs --debug-flags=ExecAll,O3PipeView,Vma.
    """
    from tracegen.gem5.reader import import_gem5 as run_import

    done = run_import(files, output, latency=latency, program=program, name=name, warmup=warmup)
    for note in done.notes:
        print(note, file=sys.stderr)
    labels = f", {done.labelled:,} labels from {done.start:,} on" if latency is not None else ""
    found = f"{done.instructions:,} instructions{labels}, {done.cycles:,} cycles on {done.machine.name}"
    print(f"{done.path}: {found}; {done.agreement}", file=sys.stderr)


@app.command("champsim")
def import_champsim(
    source: Annotated[str, typer.Argument(help="A ChampSim trace, plain, .xz or .gz; - for standard input.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The trace file to write.")],
    max_instructions: Annotated[int | None, typer.Option(min=1, help="Read at most N records.")] = None,
) -> None:
    """Import a ChampSim trace.

    perfvec import champsim F.champsimtrace.xz -o T.trace.h5.
    """
    from tracegen.formats.champsim import import_champsim as run_import

    result = run_import(source, output, max_instructions=max_instructions)
    for note in result.notes():
        print(note, file=sys.stderr)
    print(f"{result.path}: {result.instructions:,} instructions of {result.records:,} records", file=sys.stderr)
