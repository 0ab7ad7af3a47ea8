"""Commands that compare: programs, their parts, subsets of them."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Annotated

import typer

from analysis.cli.inputs import opened_targets, resolve_targets
from analysis.cli.options import (
    DEFAULT_BUDGET,
    Budget,
    Csv,
    Html,
    Json,
    Machines,
    MaxInstructions,
    ModelFile,
    Picture,
    SimulateAll,
    Space,
    Targets,
)
from analysis.cli.output import draw, require_outputs, shown_table, write_csv
from support.errors import InputError

app = typer.Typer()


@app.command()
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
    nearest: Annotated[int, typer.Option(min=1, help="How many of the library.")] = 5,
    map_: Annotated[
        str, typer.Option("--map", help="Programs in two dimensions: pca (principal components) or tsne (t-SNE).")
    ] = "pca",
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    as_json: Json = False,
    csv: Csv = None,
    html: Html = None,
    picture: Picture = None,
) -> None:
    """Cosine distances between programs, a dendrogram, a map; with --library the programs most like them."""
    from analysis import compare as comparison
    from perfvec.model import load_model

    count = len(targets or []) + bool(context.obj)
    if count == 0:
        raise InputError("comparing needs targets: two or more, or one that is compared with --library")
    if count == 1 and library is None:
        library = "suite"
    if map_ not in comparison.MAPS:
        raise InputError(f"--map {map_}: expected {' or '.join(comparison.MAPS)}")
    require_outputs(csv=csv, html=html, picture=picture)
    known = comparison.load_library(library, load_model(model_file)) if library is not None else []
    _, vectors = resolve_targets(context, targets, model_file, max_instructions)
    found = comparison.nearest(vectors, known, nearest) if known else None
    everyone = vectors if len(vectors) > 1 else [*vectors, *known]
    distance = comparison.compare(everyone)
    place = comparison.plane(everyone, map_)
    write_csv(distance if found is None else found, csv)
    draw(
        "How alike programs are", lambda: comparison.sections(distance, place, found),
        lambda: comparison.plot(distance), html=html, picture=picture,
    )  # fmt: skip
    if as_json:
        print(json.dumps(comparison.to_json(distance, place, found), allow_nan=False))
        return
    if len(vectors) > 1:
        print(comparison.shown(distance))
    if found is not None:
        print(shown_table(found))


@app.command()
def subset(
    context: typer.Context,
    targets: Targets = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Programs of the subset.")] = 5,
    on: Annotated[
        str, typer.Option(help="machines: alike in CPI over sampled machines; vectors: in their vectors' direction.")
    ] = "machines",
    space: Space = "default",
    sample: Annotated[int, typer.Option(min=1, help="Machines that the error is measured on.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the machines' sample.")] = 0,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    as_json: Json = False,
    csv: Csv = None,
    html: Html = None,
    picture: Picture = None,
) -> None:
    """The k programs that best stand for the others, with weights and the error that they make over many machines."""
    from analysis import subset as subsetting

    if len(targets or []) + bool(context.obj) <= k:
        raise InputError(f"-k {k} must be less than the number of targets; name at least {k + 1}")
    require_outputs(csv=csv, html=html, picture=picture)
    model, vectors = resolve_targets(context, targets, model_file, max_instructions)
    found = subsetting.subset(model, vectors, k, on=on, space=space, machines=sample, seed=seed)
    write_csv(found.members, csv)
    title = f"{k} programs that stand for {len(vectors)}"
    draw(title, lambda: subsetting.sections(found), lambda: subsetting.plot(found), html=html, picture=picture)
    if as_json:
        print(json.dumps(found.to_json(), allow_nan=False))
        return
    print(subsetting.shown(found))


@app.command("report")
def write_overview(
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
    """One page of everything about programs on machines: predictions, attribution, comparison, a sweep of caches around
    the first machine and, of traces, profile and phases; and of tensor programs, from results that are there.
    """
    from analysis.cli.inputs import predictable_machines
    from analysis.overview import overview
    from analysis.report import write_report
    from analysis.tensor import results

    require_outputs(html=output)
    measured = results.sections(tensor or [])
    if tensor and not targets and not context.obj:
        print(write_report(output, "Tensor programs", measured), file=sys.stderr)
        return
    model, costs = predictable_machines(machines, model_file)
    traces = [target for target in targets or [] if not target.endswith(".npz")]
    with opened_targets(context, targets, model_file, max_instructions) as (_, programs):
        sections = overview(
            model, programs, traces, costs.machines, seconds=math.inf if simulate else seconds,
            max_instructions=max_instructions,
        )  # fmt: skip
        title = f"{', '.join(program.name for program in programs)} on {', '.join(costs.names)}"
    by = f"Simulated where the source says so, else by the model {model.digest[:12]}"
    print(write_report(output, title, sections + measured, by), file=sys.stderr)
