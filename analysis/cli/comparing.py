"""Commands that compare: programs, their parts, subsets of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from analysis.api import DEFAULT_BUDGET
from analysis.cli.inputs import opened_targets
from analysis.cli.options import Budget, Machines, MaxInstructions, ModelFile, SimulateAll, Space, Targets
from analysis.cli.output import answers
from analysis.results.result import Result
from support.errors import InputError

app = typer.Typer()


@app.command()
@answers()
def compare(
    context: typer.Context,
    targets: Targets = None,
    library: Annotated[
        str | None,
        typer.Option(
            help="The nearest programs to each target of a folder of vectors, a *.library.npz, or `suite`, the shipped "
            "library, which is the default for one target."
        ),
    ] = None,
    nearest: Annotated[int, typer.Option(min=1, help="Number of nearest programs to list.")] = 5,
    map_: Annotated[
        str,
        typer.Option(
            "--map", help="How to draw the programs in two dimensions: pca (principal components) or tsne (t-SNE)."
        ),
    ] = "pca",
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
) -> Result:
    """Show how alike programs are: distances, a tree and a map.

    With --library, the programs most like them.
    """
    from analysis.programs.targets import cut_short
    from analysis.questions import compare as comparison
    from perfvec.model import load_model

    count = len(targets or []) + bool(context.obj)
    if count == 0:
        raise InputError("comparing needs targets: two or more, or one that is compared with --library")
    if count == 1 and library is None:
        library = "suite"
    if map_ not in comparison.MAPS:
        raise InputError(f"--map {map_}: expected {' or '.join(comparison.MAPS)}")
    model = load_model(model_file)
    known = comparison.load_library(library, model) if library is not None else []  # refused before the work
    with opened_targets(context, targets, model, max_instructions) as programs:
        return comparison.ask([one.vector for one in programs], known, nearest, map_).noted(cut_short(programs))


@app.command()
@answers()
def subset(
    context: typer.Context,
    targets: Targets = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of programs in the subset.")] = 5,
    on: Annotated[
        str,
        typer.Option(
            help="What makes programs alike: machines (CPI on sampled machines) or vectors (direction of vectors)."
        ),
    ] = "machines",
    space: Space = "default",
    sample: Annotated[int, typer.Option(min=1, help="Number of machines that the error is measured on.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the sample of machines.")] = 0,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
) -> Result:
    """Choose the k programs that best stand for all.

    With weights, and their error over many machines.
    """
    from analysis import api

    if len(targets or []) + bool(context.obj) <= k:
        raise InputError(f"-k {k} must be less than the number of targets; name at least {k + 1}")
    model = api.load_model(model_file)
    with opened_targets(context, targets, model, max_instructions) as programs:
        return api.subset(programs, k, on=on, space=space, sample=sample, seed=seed, model=model)


@app.command("report")
def report(
    context: typer.Context,
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write (.html).")],
    targets: Targets = None,
    machines: Machines = None,
    tensor: Annotated[
        list[str] | None,
        typer.Option(
            help="JSON of perfvec tensor predict, replay or evaluate, or the folder of a tune; repeat. Then programs "
            "may be left out."
        ),
    ] = None,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    seconds: Budget = DEFAULT_BUDGET,
    simulate: SimulateAll = False,
) -> None:
    """Write one page about programs on machines.

    Predictions, attribution, comparison, and a sweep of caches. Of traces it also has profile and phases. With --tensor
    it shows results of tensor programs.
    """
    from dataclasses import replace

    from analysis import api
    from analysis.results.page import write_page
    from analysis.tensor import results
    from support.files import require_writable

    require_writable(output)
    measured = results.sections(tensor or [])
    if tensor and not targets and not context.obj:
        print(write_page(output, "Tensor programs", measured, headline=results.headline(measured)), file=sys.stderr)
        return
    model = api.load_model(model_file)
    chosen = api.predictable(model, api.required(machines))  # a wrong machine is refused before a program is traced
    with opened_targets(context, targets, model, max_instructions) as programs:
        found = api.report(
            programs, chosen, budget=seconds, simulate=simulate, max_instructions=max_instructions, model=model
        )
    parts = [*found.sections(), *measured]
    replace(found, sections=lambda: parts).to_html(output)
    for note in found.notes:
        print(f"perfvec: {note}", file=sys.stderr)
    print(output, file=sys.stderr)
