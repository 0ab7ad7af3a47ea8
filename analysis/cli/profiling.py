"""Commands that profile: the parts of a program, what changed between two, and the fastest of many variants."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from analysis.api import DEFAULT_BUDGET
from analysis.cli.options import Budget, Machines, MaxInstructions, ModelFile, SimulateAll
from analysis.cli.output import answers
from analysis.results.result import Result
from support.errors import InputError

app = typer.Typer()


@app.command()
@answers()
def profile(
    context: typer.Context,
    target: Annotated[str | None, typer.Argument(help="A trace or live-points; or -- PROGRAM ARGS…")] = None,
    machines: Machines = None,
    by: Annotated[
        str, typer.Option(help="function, line, loop, class, instruction, context (of calls), interval or phase.")
    ] = "function",
    seconds: Budget = DEFAULT_BUDGET,
    simulate: SimulateAll = False,
    interval: Annotated[
        int | None, typer.Option(min=1, help="Length of an interval in instructions; by default a 50th of the trace.")
    ] = None,
    annotate: Annotated[
        str | None,
        typer.Option(metavar="FUNCTION", help="Print the source and disassembly of this function, with cycles."),
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows to print; 20 by default, of intervals all.")] = None,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    folded: Annotated[Path | None, typer.Option(help="Write folded stacks, for flamegraph.pl.")] = None,
) -> Result:
    """Show where a program's cycles go: functions, lines, loops.

    A trace that fits the budget is simulated, and has CPI stacks: each cycle has one cause. Else it is predicted. The
    parts add up to the whole.
    """
    from analysis import api
    from analysis.parts import flame
    from analysis.parts.partition import OF_A_WHOLE, require_partition
    from analysis.programs.opened import traced
    from analysis.questions import profile as profiling
    from support.files import write_text

    require_partition(by)
    if (target is None) == (not context.obj):
        raise InputError("give one target: a trace, or -- PROGRAM ARGS…")
    collect = api.collector(
        machines,
        math.inf if simulate else seconds,
        interval=interval,
        limit=max_instructions,
        whole=interval is not None or folded is not None or by in OF_A_WHOLE,
        model=model_file,
    )
    if target is not None:
        (found,), costs = collect(target)
    else:
        with traced(context.obj, max_instructions=max_instructions) as path:
            (found,), costs = collect(path)
    answer = profiling.result(found, costs, by, rows=rows, annotated=annotate)  # refused before anything is written
    if folded is not None:
        write_text(folded, flame.folded(found, costs))
    return answer


@app.command()
@answers()
def diff(
    old: Annotated[str, typer.Argument(help="A trace or live-points.")],
    new: Annotated[str, typer.Argument(help="The same of another build, version or input.")],
    machines: Machines = None,
    by: Annotated[str, typer.Option(help="function, line, loop or class.")] = "function",
    seconds: Budget = DEFAULT_BUDGET,
    simulate: SimulateAll = False,
    rows: Annotated[int, typer.Option(min=1, help="Rows to print.")] = 20,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
) -> Result:
    """Show which parts gained or lost time between two traces.

    Where both fit the budget they are simulated, and each change has a cause. Else they are predicted. The parts'
    differences add up to that of the whole.
    """
    from analysis import api

    return api.diff(
        old,
        new,
        machines,
        by,
        budget=seconds,
        simulate=simulate,
        rows=rows,
        max_instructions=max_instructions,
        model=model_file,
    )


@app.command()
@answers()
def tiling(
    context: typer.Context,
    machines: Machines = None,
    values: Annotated[str, typer.Option(help="Values of the parameter, V1,V2,…")] = "4,8,16,32,64,128,256",
    source: Annotated[
        Path | None,
        typer.Option(
            help="C file to compile; {program} stands for it in the command. By default the toolkit's matrix product."
        ),
    ] = None,
    define: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compile with -DNAME=value, once for each value.")
    ] = None,
    flags: Annotated[str, typer.Option(help="Flags of the compiler.")] = "-O2 -ftree-vectorize -g",
    region: Annotated[
        str | None,
        typer.Option(help="Function to trace; by default `multiply` of the toolkit's product, else the whole run."),
    ] = None,
    seconds: Budget = DEFAULT_BUDGET,
    simulate: SimulateAll = False,
    learn: Annotated[str, typer.Option(help="Values V1,V2,… to simulate, and to fit each machine's vector to.")] = "",
    measure: Annotated[int, typer.Option(min=0, help="Time N runs of each value on this computer.")] = 0,
    rounds: Annotated[int, typer.Option(min=1, help="What {rounds} stands for in the timed runs.")] = 200,
    units: Annotated[
        int | None, typer.Option(min=2, help="Represent only N units of 1,024 instructions of each trace.")
    ] = None,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
) -> Result:
    """Find the fastest value of a kernel's parameter.

    One trace for each value is timed on each machine. After -- comes the command: {value} is the parameter, {program}
    the compiled --source, {rounds} the repetitions.
    """
    import shlex

    from analysis import api
    from analysis.questions import tiling as kernels

    own = source is None and not context.obj
    experiment = kernels.Experiment(
        values=_words(values),
        command=tuple(context.obj) or (kernels.COMMAND if own else ("{program}", "{value}")),
        source=kernels.KERNEL if own else source,
        define=define,
        flags=tuple(shlex.split(flags)),
        region=region or (kernels.REGION if own else None),
    )
    return api.tiling(
        machines,
        experiment,
        budget=seconds,
        simulate=simulate,
        learn=_words(learn),
        measure=measure,
        rounds=rounds,
        units=units,
        max_instructions=max_instructions,
        model=model_file,
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
