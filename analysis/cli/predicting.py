"""Commands that predict: times, sweeps, attribution."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Annotated

import typer

from analysis.cli.inputs import given, machines_named, opened_targets, resolve_targets
from analysis.cli.options import (
    DEFAULT_BUDGET,
    Budget,
    Count,
    Csv,
    Html,
    Json,
    Level,
    Machines,
    MaxInstructions,
    ModelFile,
    Picture,
    SimulateAll,
    Start,
    Targets,
)
from analysis.cli.output import draw, require_outputs, shown_table, write, write_csv
from perfvec.intervals.level import DEFAULT_LEVEL, require_level
from support.errors import InputError

app = typer.Typer()


@app.command()
def predict(
    context: typer.Context,
    targets: Targets = None,
    machines: Machines = None,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    level: Level = DEFAULT_LEVEL,
    seconds: Budget = DEFAULT_BUDGET,
    simulate: SimulateAll = False,
    as_json: Json = False,
    csv: Csv = None,
    html: Html = None,
    picture: Picture = None,
) -> None:
    """Time, cycles and CPI of programs on machines (all presets by default): traces are simulated as far as the budget
    goes, all else is predicted, with an interval where one is known (per cent of each); `source` says which.

    A line on stderr for each program or machine that the model answers for and that is unlike what trained it.
    """
    from analysis import novelty
    from analysis import predict as prediction
    from perfvec.machines.machine_vector import load_predictable
    from perfvec.model import load_model

    require_outputs(csv=csv, html=html, picture=picture)
    require_level(level)
    chosen = load_predictable(machines, load_model(model_file)) if machines else machines_named(None)
    with opened_targets(context, targets, model_file, max_instructions) as (model, programs):
        frame = prediction.answered(model, programs, chosen, math.inf if simulate else seconds, level=level)
        asked = prediction.by_the_model(frame, programs, chosen)
        unlike = novelty.novelty(model, *asked)
    for warning in novelty.warnings(unlike) + prediction.notes(model, frame):
        print(f"perfvec: {warning}", file=sys.stderr)
    write_csv(frame, csv)
    draw(
        "Predicted run times", lambda: prediction.sections(frame) + novelty.sections(unlike),
        lambda: prediction.plot(frame), html=html, picture=picture,
    )  # fmt: skip
    if as_json:
        print(json.dumps(prediction.to_json(frame) | {"outside": novelty.to_json(unlike)}, allow_nan=False))
    else:
        print(shown_table(prediction.shown(frame)))


@app.command()
def sweep(
    context: typer.Context,
    targets: Targets = None,
    base: Annotated[
        str | None, typer.Option(help="The machine whose fields vary: preset or file; with --space it may be left out.")
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(help="FIELD=V1,V2,… or FIELD=LOW:HIGH:STEP (or :*FACTOR); repeat for more fields."),
    ] = None,
    space: Annotated[
        str | None, typer.Option(help="Sample a design space instead: a name (perfvec uarch spaces) or a YAML file.")
    ] = None,
    sample: Annotated[int, typer.Option(min=1, help="Points of --space.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample, or of the search.")] = 0,
    constraint: Annotated[
        list[str] | None,
        typer.Option(help="Only points where it holds, as 'l3.size_kib >= 2*l2.size_kib' or 'cost <= 900'; repeat."),
    ] = None,
    cost: Annotated[str | None, typer.Option(help="Arithmetic over fields, as '2*l1d.size_kib + l2.size_kib'.")] = None,
    objective: Annotated[
        str | None, typer.Option(help="What is minimised, of time (seconds), cycles, cost and fields; time by default.")
    ] = None,
    best: Annotated[int, typer.Option(min=1, help="Best points shown and exported, of each program.")] = 10,
    heat: Annotated[str | None, typer.Option(help="FIELD,FIELD of the heat map; the first two by default.")] = None,
    seconds: Budget = DEFAULT_BUDGET,
    simulate: SimulateAll = False,
    start: Start = 0,
    count: Count = None,
    search: Annotated[
        int | None, typer.Option(min=1, help="Search the best in N trials instead of listing all points (Optuna).")
    ] = None,
    export_gem5: Annotated[
        Path | None, typer.Option("--export-gem5", help="Folder for gem5 scripts of the best points.")
    ] = None,
    gem5_results: Annotated[
        Path | None,
        typer.Option("--gem5-results", help="That folder, once gem5 ran: its results beside the predictions."),
    ] = None,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    level: Level = DEFAULT_LEVEL,
    as_json: Json = False,
    csv: Csv = None,
    html: Html = None,
    picture: Picture = None,
) -> None:
    """Times over a grid of configuration fields (--base, --vary) or a sampled design space (--space): of traces every
    point is simulated where the budget allows it, else some are and correct the rest; `source` says which a number is.

    `pareto` marks the points that none beats in time and cost (without --cost, of a grid: at equal or smaller fields).
    """
    from analysis import confirm, intervals
    from analysis import sweep as sweeping
    from analysis.sensitivity import sensitivity
    from analysis.simulate import Span
    from uarch.configuration import load_machine

    if gem5_results is not None:
        table = confirm.gem5_results(gem5_results)
        write_csv(table, csv)
        print(json.dumps({"points": table.to_dict(orient="records")}) if as_json else shown_table(table))
        return
    if (space is None) == (not vary):
        raise InputError("an empty sweep: give --vary FIELD=V1,V2,… with --base M, or --space S, one of the two")
    if vary and base is None:
        raise InputError("--vary needs the machine whose fields vary: --base M (a preset or file)")
    require_outputs(csv=csv, html=html, picture=picture)
    require_level(level)
    # A wrong field, value or expression is refused before a program is traced.
    limits = sweeping.parse_constraints(constraint or [], cost)
    grid = sweeping.parse_vary(vary) if vary else {}
    machine = load_machine(base) if base is not None else None
    if search is not None and (simulate or start or count):
        raise InputError("--search goes with a budget and whole programs; leave out --simulate, --start and --count")
    if search is None:
        design = (
            sweeping.space_design(space, sample, seed=seed, base=base, constraints=limits)
            if space is not None
            else sweeping.grid_design(given(machine), grid, limits)
        )
        sweeping.Outcome(design.columns, cost, objective)
    else:
        from analysis import search as searching

        over = (
            searching.search_space(space, base=base, constraints=limits)
            if space is not None
            else searching.search_grid(given(machine), grid, limits)
        )
    span = Span(start, count) if start or count else None
    with opened_targets(context, targets, model_file, max_instructions, span) as (model, programs):
        if search is not None:
            design = searching.search(
                model, [one.vector for one in programs], over, search, seed=seed, cost=cost, objective=objective
            )
        if design.left_out:
            print(f"perfvec: {design.left_out}", file=sys.stderr)
        frame = sweeping.answered(
            model, programs, design, math.inf if simulate else seconds, base=machine, cost=cost, objective=objective,
            best=best, level=level,
        )  # fmt: skip
        chosen = intervals.of_best(model, programs, design.columns, frame, best, level)
        facts = {one.name: (one.instructions, one.isa) for one in programs}
    importance = sensitivity(frame, sweeping.fields_of(frame), sweeping.outcome_of(frame), exact=design.exact)
    write_csv(frame, csv)
    title, axes = f"Sweep of {space or base}", sweeping.heat_fields(frame, heat)
    draw(
        title, lambda: sweeping.sections(frame, chosen, importance, axes),
        lambda: sweeping.plot(frame, axes), html=html, picture=picture,
    )  # fmt: skip
    if export_gem5 is not None:
        exported = confirm.export_gem5(export_gem5, frame, design, best, facts)
        print(f"perfvec: {confirm.how_to_run(export_gem5, exported)}", file=sys.stderr)
    if as_json:
        print(json.dumps(sweeping.to_json(frame, sensitivities=importance, chosen=chosen), allow_nan=False))
        return
    order = list(dict.fromkeys(importance["field"]))
    print(shown_table(sweeping.shown(chosen, order)))
    told = f"; {100 * level:g}% intervals of the times" if (chosen["low"] < chosen["high"]).any() else ""
    print(f"{len(chosen):,} best of {len(frame):,} points, {int(frame['pareto'].sum()):,} on the Pareto front{told}")
    print(f"source: {sweeping.told_sources(frame)}\n")
    print(shown_table(importance.groupby("program", sort=False).head(8).reset_index(drop=True)))


@app.command()
def attribute(
    context: typer.Context,
    targets: Targets = None,
    machines: Machines = None,
    ideal: Annotated[
        Path | None, typer.Option(help="YAML with the groups of fields and their ideal values (analysis/ideal.yaml).")
    ] = None,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    seconds: Budget = DEFAULT_BUDGET,
    simulate: SimulateAll = False,
    as_json: Json = False,
    csv: Csv = None,
    html: Html = None,
    picture: Picture = None,
) -> None:
    """Attribute the cycles to a machine's parts: Shapley values of its caches, predictor, widths, … against an ideal.
    """
    import pandas as pd

    from analysis import attribute as attribution

    if not machines:
        raise InputError("say on which machine: --uarch M")
    require_outputs(csv=csv, html=html, picture=picture)
    chosen = machines_named(machines)
    for machine in chosen:
        attribution.load_ideal(ideal or attribution.IDEAL, machine)  # refuses a wrong file before a program is traced
    each = math.inf if simulate else seconds / len(chosen)
    with opened_targets(context, targets, model_file, max_instructions) as (model, programs):
        frames = [attribution.answered(model, programs, machine, each, ideal) for machine in chosen]
    frame = pd.concat(frames, ignore_index=True)
    draw(
        "What the cycles are due to", lambda: attribution.sections(frame), lambda: attribution.plot(frame),
        html=html, picture=picture,
    )  # fmt: skip
    write(frame, attribution.to_json(frame), attribution.shown(frame), as_json=as_json, csv=csv)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for what the demonstration makes.")] = Path(
        "demo-out"
    ),
    model_file: ModelFile = None,
) -> None:
    """Trace gzip, predict it on every preset, sweep caches, compare it with two programs; leaves one HTML page."""
    from analysis.demo import demo as run_demo
    from perfvec.model import load_model

    run_demo(output, load_model(model_file))


@app.command()
def explore(
    context: typer.Context,
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write (.html).")],
    targets: Targets = None,
    machines: Annotated[
        list[str] | None,
        typer.Option("--uarch", help="Where it begins: preset or YAML/JSON file; repeat for more."),
    ] = None,
    ideal: Annotated[
        Path | None, typer.Option(help="YAML with the groups of fields and their ideal values (analysis/ideal.yaml).")
    ] = None,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
) -> None:
    """A page with a slider for every field of a machine: times, attribution and a heat map follow the hand, offline."""
    from analysis.explore import explore as run_explore

    require_outputs(html=output)
    chosen = machines_named(machines) if machines else []
    model, vectors = resolve_targets(context, targets, model_file, max_instructions)
    print(run_explore(output, model, vectors, chosen, ideal=ideal), file=sys.stderr)
