"""The command of the embedded simulator."""

from __future__ import annotations

from typing import Annotated

import typer

from analysis.cli.inputs import machines_named, simulable_machines
from analysis.cli.options import Count, Csv, Html, Json, Machines, MaxInstructions, Picture, Start, Targets, Warmup
from analysis.cli.output import draw, require_outputs, write

app = typer.Typer()


@app.command()
def simulate(
    context: typer.Context,
    targets: Targets = None,
    machines: Machines = None,
    start: Start = 0,
    count: Count = None,
    warmup: Warmup = 50_000,
    stack: Annotated[
        bool, typer.Option("--stack", help="Print the CPI stacks: what every cycle was spent on.")
    ] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Machines side by side; one a processor by default.")
    ] = None,
    max_instructions: MaxInstructions = None,
    as_json: Json = False,
    csv: Csv = None,
    html: Html = None,
    picture: Picture = None,
) -> None:
    """Simulate traces on machines (all presets by default): cycles, misses, mispredictions, CPI stacks.

    --max-instructions ends the trace of -- PROGRAM ARGS….
    """
    from analysis import simulate as simulation

    require_outputs(csv=csv, html=html, picture=picture)
    chosen = simulable_machines(machines) if machines else machines_named(None)
    span = simulation.Span(start, count, warmup)
    with simulation.named_traces(targets or [], context.obj, max_instructions=max_instructions) as traces:
        frame = simulation.simulate(traces, chosen, span, threads=threads)
    draw(
        "Simulated time", lambda: simulation.sections(frame), lambda: simulation.plot(frame), html=html,
        picture=picture,
    )  # fmt: skip
    text = simulation.shown_stack(frame) if stack else simulation.shown(frame)
    write(frame, simulation.to_json(frame, span), text, as_json=as_json, csv=csv)
