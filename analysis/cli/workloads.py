"""The catalogue of workloads: list, run, represent, time, table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from analysis.cli.options import ClusterFile, ModelFile, Scheduler
from analysis.cli.output import answers
from analysis.results.result import Result, of_table
from perfvec.representation import LIBRARY_UNITS

app = typer.Typer(help="Trace, time and represent the catalogue of workloads.", no_args_is_help=True)


@app.command("list")
def suite_list() -> None:
    """List the workloads, and what to install for missing ones."""
    from tracegen.suite import catalogue, packages_missing

    workloads = catalogue().values()
    print(f"{'workload':16} {'group':12} {'set':8} package")
    for w in workloads:
        missing_here = "" if w.available else "(not here)"
        print(f"{w.name:16} {w.group:12} {w.set:8} {w.package:20} {missing_here}".rstrip())
    if missing := packages_missing(workloads):
        print(f"apt-get install --no-install-recommends {' '.join(missing)}", file=sys.stderr)


@app.command("run")
def suite_run(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the traces.")],
    names: Annotated[
        list[str] | None, typer.Argument(help="Workloads; by default all whose programs are installed.")
    ] = None,
    set_name: Annotated[
        str | None,
        typer.Option("--set", help="Run one set: default, debian, mix, phases, long-phases, loops, laps or validate."),
    ] = None,
    max_instructions: Annotated[
        int, typer.Option(min=1000, help="Stop each program after N instructions.")
    ] = 4_000_000,
    workers: Annotated[int, typer.Option(min=1, help="Programs to trace at the same time.")] = 2,
    scheduler: Scheduler = None,
    cluster: ClusterFile = None,
) -> None:
    """Trace the workloads. Traces that exist are kept. Status 2 where one failed; the others are still traced."""
    from support.executor import connect
    from tracegen.suite import run

    with connect(scheduler, cluster) as workers_elsewhere:
        traced = run(
            names or [], output, max_instructions, set_name=set_name, workers=workers, cluster=workers_elsewhere
        )
    for name, instructions in traced.instructions.items():
        print(f"{name:16} {instructions:>12,}")
    for name, reason in traced.failures.items():
        print(f"perfvec: {name} has no trace: {' '.join(reason.split())}", file=sys.stderr)
    if traced.failures:
        raise typer.Exit(2)


@app.command("represent")
def suite_represent(
    traces: Annotated[list[Path], typer.Argument(help="Traces, or folders of traces.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The library to write (*.library.npz).")],
    units: Annotated[
        int, typer.Option(min=2, help="Units of 1,024 instructions to represent of each program.")
    ] = LIBRARY_UNITS,
    model_file: ModelFile = None,
) -> None:
    """Write vectors of many programs into one file.

    For compare --library. A stopped run continues.
    """
    from analysis.programs.targets import trace_files
    from perfvec.model import load_model
    from perfvec.representation.library import represent_library
    from support.files import require_writable

    require_writable(output)
    found = represent_library(load_model(model_file), trace_files(traces), output, units=units)
    print(f"{output}: {len(found)} programs, {output.stat().st_size / 1024:.0f} KiB", file=sys.stderr)


@app.command("time")
@answers("as_json", "csv")
def suite_time(
    names: Annotated[list[str], typer.Argument(help="Workloads; each should run for tens of milliseconds.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for times.csv and the runs' vectors.")],
    repeats: Annotated[int, typer.Option(min=1, help="Measured runs of each workload.")] = 11,
    half_width: Annotated[str, typer.Option(help="Half width of the interval, as of represent --sample auto.")] = "2%",
    units: Annotated[
        int | None, typer.Option(min=24, help="Represent only N units of 1,024 instructions: faster.")
    ] = None,
    model_file: ModelFile = None,
) -> Result:
    """Time workloads on this computer, and represent them.

    Times are medians of user mode, for fit-uarch --times DIR/times.csv.
    """
    from analysis.real_computers.suite_times import time_suite, timed
    from perfvec.model import load_model
    from perfvec.representation.sample import parse_half_width

    width = parse_half_width(half_width)
    model = load_model(model_file)
    return timed(output, *time_suite(model, names, output, repeats=repeats, half_width=width, units=units))


@app.command("table")
@answers("as_json", "csv")
def suite_table(
    folder: Annotated[Path, typer.Argument(help="Folder with traces.")],
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
) -> Result:
    """Show a table of a folder's traces."""
    import pandas as pd

    from analysis.results.text import columns
    from tracegen.suite import table
    from tracegen.suite.table import cells, markdown

    def text() -> str:
        header = [name.partition("/")[0] for name in rows[0]]
        return f"{columns(header, list(map(cells, rows)))}\nbytes, branches, loads and stores: an instruction"

    rows = table(folder)
    return of_table("Traces", pd.DataFrame(rows), lambda: rows, (lambda: markdown(rows)) if as_markdown else text)
