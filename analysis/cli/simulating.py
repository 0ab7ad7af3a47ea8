"""The command of the embedded simulator."""

from __future__ import annotations

from typing import Annotated

import typer

from analysis.cli.options import Count, Machines, MaxInstructions, Start, Traces, Warmup
from analysis.cli.output import answers
from analysis.results.result import Result
from support.errors import InputError

app = typer.Typer()


@app.command()
@answers()
def simulate(
    context: typer.Context,
    targets: Traces = None,
    machines: Machines = None,
    start: Start = 0,
    count: Count = None,
    warmup: Warmup = 50_000,
    stack: Annotated[bool, typer.Option("--stack", help="Print the CPI stacks: what each cycle was spent on.")] = False,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Machines to simulate at the same time; by default one for each processor."),
    ] = None,
    max_instructions: MaxInstructions = None,
) -> Result:
    """Simulate traces: cycles, misses, mispredictions, CPI stacks.

    Machines are all presets by default. --start and --count choose a part of a trace, but of live-points none.
    --max-instructions ends the trace of -- PROGRAM ARGS….
    """
    from analysis import api
    from analysis.questions.simulate import Span, named_traces

    if max_instructions is not None and not context.obj:
        raise InputError("--max-instructions ends the trace of -- PROGRAM ARGS…; for a part of a trace say --count N")
    chosen = api.simulable(machines)  # a wrong machine is refused before a program is traced
    span = Span(start, count, warmup)
    with named_traces(targets or [], context.obj, span, max_instructions=max_instructions) as traces:
        found = api.simulate(traces, chosen, start=start, count=count, warmup=warmup, threads=threads)
    return found.with_text(lambda: str(found.stack)) if stack else found
