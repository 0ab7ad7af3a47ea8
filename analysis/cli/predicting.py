"""Commands that predict: times, sweeps, attribution."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated

import typer

from analysis.api import DEFAULT_BUDGET
from analysis.cli.inputs import opened_targets
from analysis.cli.options import (
    Budget,
    ClusterFile,
    Count,
    Level,
    Machines,
    MaxInstructions,
    ModelFile,
    Scheduler,
    SimulateAll,
    Start,
    Targets,
)
from analysis.cli.output import answers
from analysis.results.result import Result
from perfvec.intervals.level import DEFAULT_LEVEL, require_level

app = typer.Typer()


@app.command()
@answers()
def predict(
    context: typer.Context,
    targets: Targets = None,
    machines: Machines = None,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    level: Level = DEFAULT_LEVEL,
    seconds: Budget = DEFAULT_BUDGET,
    simulate: SimulateAll = False,
) -> Result:
    """Predict time, cycles and CPI of programs on machines.

    Machines are all presets by default. Traces are simulated as far as the budget allows. The rest is predicted, with
    an interval where one is known. `source` says which. A line on stderr names each program or machine that is unlike
    the model's training set.
    """
    from analysis import api

    require_level(level)
    model = api.load_model(model_file)
    chosen = api.predictable(model, machines)  # a wrong machine is refused before a program is traced
    with opened_targets(context, targets, model, max_instructions) as programs:
        return api.predict(programs, chosen, budget=seconds, simulate=simulate, level=level, model=model)


@app.command()
@answers()
def sweep(
    context: typer.Context,
    targets: Targets = None,
    base: Annotated[
        str | None,
        typer.Option(help="Preset or file whose fields vary; `change` is against it. Optional with --space."),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(help="FIELD=V1,V2,… or FIELD=LOW:HIGH:STEP (or :*FACTOR); repeat for more fields."),
    ] = None,
    space: Annotated[
        str | None, typer.Option(help="Sample a design space instead: a name (perfvec uarch spaces) or a YAML file.")
    ] = None,
    sample: Annotated[int, typer.Option(min=1, help="Number of points to sample from --space.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the sample or the search.")] = 0,
    constraint: Annotated[
        list[str] | None,
        typer.Option(help="Keep only such points: 'l3.size_kib >= 2*l2.size_kib' or 'cost <= 900'; repeat for more."),
    ] = None,
    cost: Annotated[
        str | None, typer.Option(help="Cost of a design: arithmetic over fields, as '2*l1d.size_kib + l2.size_kib'.")
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="What to minimise: an expression of time (seconds), cycles, cost and fields; time by default."
        ),
    ] = None,
    best: Annotated[
        int, typer.Option(min=1, help="How many of the best points to show and export, for each program.")
    ] = 10,
    heat: Annotated[
        str | None,
        typer.Option(help="The two fields of the heat map, FIELD,FIELD; by default those with the largest effect."),
    ] = None,
    seconds: Budget = DEFAULT_BUDGET,
    simulate: SimulateAll = False,
    start: Start = 0,
    count: Count = None,
    search: Annotated[
        int | None,
        typer.Option(min=1, help="Search for the best points and list N of those tried, instead of all points."),
    ] = None,
    export_machines: Annotated[
        Path | None, typer.Option("--export-machines", help="Folder for the best points as machine files (YAML).")
    ] = None,
    export_gem5: Annotated[
        Path | None, typer.Option("--export-gem5", help="Folder for gem5 scripts of the best points.")
    ] = None,
    gem5_results: Annotated[
        Path | None,
        typer.Option(
            "--gem5-results",
            help="The folder of --export-gem5 after gem5 ran: show its results beside the predictions.",
        ),
    ] = None,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    level: Level = DEFAULT_LEVEL,
    keep: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps simulated points: a sweep that is repeated, or extended, goes on."),
    ] = None,
    scheduler: Scheduler = None,
    cluster: ClusterFile = None,
) -> Result:
    """Compare many designs: a grid of fields, or a design space.

    A grid is --base with --vary, a sampled space --space. Of traces every point is simulated if the budget allows it.
    Else some are, and the others are estimated from them; `source` says which. `pareto` marks points that no other
    beats in both time and cost (without --cost: with nothing larger, and no latency shorter; where more than eight
    fields vary, the fastest point).
    """
    from analysis.designs.vary import parse_vary
    from analysis.programs.span import Span
    from analysis.questions.sweep import SweepQuestion, gem5_result
    from perfvec.model import load_model
    from support.executor import connect
    from support.files import require_folder
    from uarch.machine_files import load_machine, save_machines

    if gem5_results is not None:
        return gem5_result(gem5_results)
    require_level(level)
    span = Span(start, count) if start or count is not None else None
    question = SweepQuestion(  # a wrong field, value or expression is refused before a program is traced
        base=load_machine(base) if base is not None else None,
        vary=parse_vary(vary) if vary else {},
        space=space,
        sample=sample,
        seed=seed,
        constraints=tuple(constraint or ()),
        cost=cost,
        objective=objective,
        best=best,
        search=search,
        heat=heat,
    )
    question.require_goes_with(simulate=simulate, span=span is not None)
    for folder in filter(None, (export_machines, export_gem5, keep)):
        require_folder(folder)
    model = load_model(model_file)
    with (
        connect(scheduler, cluster) as workers,
        opened_targets(context, targets, model, max_instructions, span) as programs,
    ):
        found = question.ask(
            model, programs, math.inf if simulate else seconds, level=level, cluster=workers, keep=keep
        )
    if export_machines is not None:
        written = save_machines(found.best_machines(), export_machines)
        print(f"perfvec: {len(written)} machines, the first: --uarch {written[0]}", file=sys.stderr)
    if export_gem5 is not None:
        from analysis.designs.confirm import how_to_run

        exported = found.export_gem5(export_gem5)
        print(f"perfvec: {how_to_run(export_gem5, exported)}", file=sys.stderr)
    return found


@app.command()
@answers()
def attribute(
    context: typer.Context,
    targets: Targets = None,
    machines: Machines = None,
    ideal: Annotated[
        Path | None, typer.Option(help="YAML: groups of fields and their ideal values (analysis/questions/ideal.yaml).")
    ] = None,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    seconds: Budget = DEFAULT_BUDGET,
    simulate: SimulateAll = False,
) -> Result:
    """Attribute cycles to a machine's parts.

    Shapley values of caches, predictor, widths, … against an ideal machine.
    """
    from analysis import api
    from analysis.questions import attribute as attribution

    chosen = api.simulable(api.required(machines))
    for machine in chosen:
        attribution.load_ideal(ideal or attribution.IDEAL, machine)  # refuses a wrong file before a program is traced
    model = api.load_model(model_file)
    with opened_targets(context, targets, model, max_instructions) as programs:
        return api.attribute(programs, chosen, ideal=ideal, budget=seconds, simulate=simulate, model=model)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for what the demonstration makes.")] = Path(
        "demo-out"
    ),
    model_file: ModelFile = None,
) -> None:
    """Run a demonstration on gzip; it leaves one HTML page.

    Trace gzip, predict it on every preset, sweep caches, compare it with two programs.
    """
    print("loading    PyTorch and the model", file=sys.stderr)  # slow from a cold disk
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
        typer.Option("--uarch", help="Machine to begin with: preset or YAML/JSON file; repeat for more."),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(help="FIELD=V1,V2,… of the simulated grid around the first machine; repeat for more."),
    ] = None,
    ideal: Annotated[
        Path | None, typer.Option(help="YAML: groups of fields and their ideal values (analysis/questions/ideal.yaml).")
    ] = None,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    seconds: Budget = DEFAULT_BUDGET,
    level: Level = DEFAULT_LEVEL,
) -> None:
    """Write a page with a slider for every field of a machine.

    Times, attribution and a heat map follow the sliders, offline. The budget simulates a grid around the first machine,
    and the presets. The page interpolates between the grid's values; beyond them the model answers. Each number names
    its source.
    """
    from analysis import api
    from analysis.designs.vary import parse_vary
    from analysis.programs.targets import cut_short
    from analysis.questions.novelty import unlike
    from support.files import require_writable

    require_writable(output)
    require_level(level)
    given = api.simulable(machines) if machines else None  # a wrong machine is refused before a program is traced
    grid = parse_vary(vary) if vary else None
    model = api.load_model(model_file)
    with opened_targets(context, targets, model, max_instructions) as programs:
        path = api.explore(programs, output, given, vary=grid, ideal=ideal, budget=seconds, level=level, model=model)
        notes = [*cut_short(programs), *unlike(model, [program.vector for program in programs])]
    for note in notes:
        print(f"perfvec: {note}", file=sys.stderr)
    print(path, file=sys.stderr)
