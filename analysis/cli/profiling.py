"""Commands that profile: the parts of a program, what changed between two, and which of many variants is the fastest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.inputs import predictable_machines, simulable_machines
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
    Simulate,
    SimulateAll,
)
from analysis.cli.output import draw, require_outputs, write
from support.errors import InputError

if TYPE_CHECKING:
    from analysis.costs import Costs
    from analysis.parts import Parts
    from tracegen.formats.trace import Trace

app = typer.Typer()


@app.command()
def profile(
    context: typer.Context,
    target: Annotated[str | None, typer.Argument(help="A trace; or -- PROGRAM ARGS…")] = None,
    machines: Machines = None,
    by: Annotated[str, typer.Option(help="function, line, loop, class, interval or phase.")] = "function",
    simulate: Simulate = False,
    interval: Annotated[
        int | None, typer.Option(min=1, help="Instructions of an interval; a 50th of the trace by default.")
    ] = None,
    annotate: Annotated[
        str | None, typer.Option(metavar="FUNCTION", help="Source and disassembly of a function, with cycles.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows in the terminal.")] = 20,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    as_json: Json = False,
    csv: Csv = None,
    html: Html = None,
    picture: Picture = None,
    folded: Annotated[Path | None, typer.Option(help="Write folded stacks, for flamegraph.pl.")] = None,
) -> None:
    """Cycles of a program's parts on machines, predicted or (--simulate) simulated; the parts add up to the whole.

    Simulated parts have CPI stacks: each cycle belongs to one cause.
    """
    from analysis import flame, parts
    from analysis import profile as profiling
    from analysis.report import Section
    from support.files import atomic_path, require_writable

    parts.require_partition(by)
    require_outputs(csv=csv, html=html, picture=picture)
    if folded is not None:
        require_writable(folded)
    if (target is None) == (not context.obj):
        raise InputError("give one target: a trace, or -- PROGRAM ARGS…")
    collect = _collector(machines, model_file, simulate, max_instructions, interval)
    if target is not None:
        found, costs = collect(target)
    else:
        with parts.traced(context.obj, max_instructions=max_instructions) as path:
            found, costs = collect(path)
    frame = profiling.profile(found, costs, by)
    what = costs.source.capitalize()
    draw(
        f"{what} time of {found.program} on {', '.join(costs.names)}",
        lambda: [
            flame.section(found, costs),
            Section(f"{what} cycles by {by}", figure=profiling.plot(frame, costs, by), table=frame),
        ],
        lambda: profiling.plot(frame, costs, by), html=html, picture=picture,
    )  # fmt: skip
    if folded is not None:
        with atomic_path(folded) as temporary:
            temporary.write_text(flame.folded(found, costs))
    if annotate is not None:
        lines = profiling.annotate(found, costs, annotate)
        document = profiling.annotation_json(lines, costs, annotate)
        write(lines, document, profiling.shown_annotation(lines, costs), as_json=as_json, csv=csv)
        return
    document = profiling.to_json(frame, costs, by)
    write(frame, document, profiling.shown(frame, costs, by, rows), as_json=as_json, csv=csv)


def _collector(
    machines: list[str] | None, model_file: Path | None, simulate: bool, limit: int | None, interval: int | None = None
) -> Callable[[Trace | str | Path], tuple[Parts, Costs]]:
    """Return the function that takes a trace apart, predicted or simulated. Refuse wrong machines before the work."""
    if simulate:
        from analysis import simulated_parts
        from analysis.simulate import Span

        simulated = simulable_machines(machines)
        return lambda trace: simulated_parts.collect(trace, simulated, Span(count=limit), interval=interval)
    from analysis.predicted_parts import collect

    model, costs = predictable_machines(machines, model_file)
    return lambda trace: (collect(model, trace, interval=interval, max_instructions=limit), costs)


@app.command()
def diff(
    old: Annotated[str, typer.Argument(help="A trace.")],
    new: Annotated[str, typer.Argument(help="A trace of another build, version or input.")],
    machines: Machines = None,
    by: Annotated[str, typer.Option(help="function, line, loop or class.")] = "function",
    seconds: Budget = DEFAULT_BUDGET,
    simulate: SimulateAll = False,
    rows: Annotated[int, typer.Option(min=1, help="Rows in the terminal.")] = 20,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    as_json: Json = False,
    csv: Csv = None,
    html: Html = None,
    picture: Picture = None,
) -> None:
    """Show which parts of a program gained or lost time between two traces: simulated where both fit the budget, with
    the cause of each change, else predicted. The parts' differences add up to that of the whole.
    """
    from analysis import difference
    from analysis.budget import parts_fit
    from analysis.parts import require_partition
    from tracegen.formats.trace import Trace

    require_partition(by, difference.PARTITIONS)
    require_outputs(csv=csv, html=html, picture=picture)
    with Trace(old) as first, Trace(new) as second:  # both are opened before the work on one begins
        if not simulate:
            sizes = [min(len(trace), max_instructions or len(trace)) for trace in (first, second)]
            simulate = parts_fit(sizes, machines or [], seconds)
        collect = _collector(machines, model_file, simulate, max_instructions)
        before, costs = collect(first)
        after, _ = collect(second)
    frame = difference.diff(before, after, costs, by)
    draw(
        f"{after.program} beside {before.program}",
        lambda: difference.sections(frame, before, after, costs, by),
        lambda: difference.plot(frame, costs), html=html, picture=picture,
    )  # fmt: skip
    document = difference.to_json(frame, before, after, costs, by)
    write(frame, document, difference.shown(frame, costs, rows), as_json=as_json, csv=csv)


@app.command()
def tiling(
    context: typer.Context,
    machines: Machines = None,
    values: Annotated[str, typer.Option(help="V1,V2,… of the parameter.")] = "4,8,16,32,64,128,256",
    source: Annotated[
        Path | None,
        typer.Option(help="C file to compile, {program} in the command; by default a matrix product of ours."),
    ] = None,
    define: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compile with -DNAME=value, once for each value.")
    ] = None,
    flags: Annotated[str, typer.Option(help="Of the compiler.")] = "-O2 -ftree-vectorize -g",
    region: Annotated[
        str | None, typer.Option(help="Function of interest; `multiply` of ours, whole runs otherwise.")
    ] = None,
    seconds: Budget = DEFAULT_BUDGET,
    simulate: SimulateAll = False,
    learn: Annotated[
        str, typer.Option(help="V1,V2,… of the values, whose simulated cycles each machine's vector is fitted to.")
    ] = "",
    measure: Annotated[
        int, typer.Option(min=0, help="Runs on this computer for each value, timed; none by default.")
    ] = 0,
    rounds: Annotated[int, typer.Option(min=1, help="What {rounds} is where this computer is timed.")] = 200,
    units: Annotated[
        int | None, typer.Option(min=2, help="Represent only N units of 1,024 instructions of each trace.")
    ] = None,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    as_json: Json = False,
    csv: Csv = None,
    html: Html = None,
    picture: Picture = None,
) -> None:
    """Find the fastest value of a kernel's parameter on each machine: one trace and one vector a value.

    After -- the command, with {value} where the parameter goes, {program} for the compiled --source, {rounds} for
    repetitions.
    """
    import shlex

    from analysis import tiling as kernels

    require_outputs(csv=csv, html=html, picture=picture)
    own = source is None and not context.obj
    experiment = kernels.Experiment(
        values=_words(values),
        command=tuple(context.obj) or (kernels.COMMAND if own else ("{program}", "{value}")),
        source=kernels.KERNEL if own else source, define=define, flags=tuple(shlex.split(flags)),
        region=region or (kernels.REGION if own else None),
    )  # fmt: skip
    model, costs = predictable_machines(machines, model_file)
    frame = kernels.tiling(
        model, experiment, costs.machines, seconds=math.inf if simulate else seconds, learn=_words(learn),
        repeats=measure, rounds=rounds, units=units, max_instructions=max_instructions,
    )  # fmt: skip
    draw(
        "Time over a kernel's parameter", lambda: kernels.sections(frame), lambda: kernels.plot(frame), html=html,
        picture=picture,
    )  # fmt: skip
    write(frame, kernels.to_json(frame), kernels.shown(frame), as_json=as_json, csv=csv)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
