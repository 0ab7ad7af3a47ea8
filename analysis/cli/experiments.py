"""Experiments of the literature, repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.cli.options import ModelFile
from analysis.cli.output import answers
from analysis.results.result import Result

app = typer.Typer(help="Repeat experiments of the literature.", no_args_is_help=True)


@app.callback()
def experiment() -> None:
    """Experiments of the literature, repeated."""


@app.command()
@answers()
def caches(
    traces: Annotated[list[Path], typer.Argument(help="Traces, or folders of traces.")],
    work: Annotated[
        Path, typer.Option("-o", "--output", help="Folder that keeps the simulations; a stopped run continues from it.")
    ],
    base: Annotated[str, typer.Option(help="The machine whose L1 data and L2 caches vary: preset or file.")] = (
        "cortex-a53"
    ),
    train: Annotated[
        list[str] | None,
        typer.Option(help="A program to learn from beforehand; repeat for more. By default the three medoids."),
    ] = None,
    start: Annotated[int, typer.Option(min=0, help="First timed instruction; all earlier ones warm the caches.")] = (
        2_000_000
    ),
    count: Annotated[int, typer.Option(min=1, help="Number of timed instructions.")] = 2_097_152,
    repeats: Annotated[int, typer.Option(min=1, help="Repetitions of the methods that choose designs at random.")] = 5,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Processor seconds in which the surface simulates each program's designs; by default it has four.",
        ),
    ] = None,
    model_file: ModelFile = None,
) -> Result:
    """Choose cache sizes by several methods.

    The best of 36 L1 and L2 sizes for each program, and the simulations that each method needs. The methods are PerfVec
    (fitted and zero-shot), Ïpek 2006, Dubach 2007 and Li 2016. The embedded simulator judges.
    """
    from analysis.experiments import caches as study
    from analysis.programs.targets import trace_files
    from perfvec.model import load_model
    from uarch.machine_files import load_machine

    found = study.caches(
        load_model(model_file),
        trace_files(traces),
        load_machine(base),
        work,
        train=train or [],
        start=start,
        count=count,
        repeats=repeats,
        budget=budget,
    )
    return study.answer(found)
