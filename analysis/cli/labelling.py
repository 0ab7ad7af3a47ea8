"""Labels: times of traces on machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.cli.inputs import machines_named
from analysis.cli.options import ClusterFile, Machines, Scheduler

app = typer.Typer()


@app.command()
def label(
    traces: Annotated[list[Path], typer.Argument(help="Traces to label.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the latency files.")],
    machines: Machines = None,
    presets: Annotated[bool, typer.Option("--presets", help="Label on every preset.")] = False,
    sample: Annotated[int, typer.Option(min=0, help="Label on N machines sampled from the design space.")] = 0,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the sample.")] = 0,
    pairs: Annotated[
        bool,
        typer.Option(
            "--pairs", help="Sample in pairs: every second machine is the one before it with one field changed."
        ),
    ] = False,
    machines_of: Annotated[Path | None, typer.Option(help="Label on the machines of this latency file.")] = None,
    start: Annotated[
        int, typer.Option(min=0, help="First labelled instruction; all earlier ones warm the caches.")
    ] = 0,
    count: Annotated[
        int | None, typer.Option(min=1, help="Number of labelled instructions; by default to the trace's end.")
    ] = None,
    touches: Annotated[
        bool,
        typer.Option("--touches", help="Warm caches by the lines last touched: faster where there are many machines."),
    ] = False,
    workers: Annotated[
        int, typer.Option(min=1, help="Traces (with gem5: simulations) to process at the same time.")
    ] = 2,
    simulator: Annotated[str, typer.Option(help="embedded, or gem5. gem5 runs the programs again.")] = "embedded",
    gem5: Annotated[Path | None, typer.Option(help="gem5's binary; by default the environment variable GEM5.")] = None,
    scheduler: Scheduler = None,
    cluster: ClusterFile = None,
) -> None:
    """Time traces on machines: labels for training and evaluation."""
    from support.executor import connect
    from tracegen.formats.latency import LatencyFile
    from tracegen.label import label as run_label
    from uarch.machine_files import preset_names
    from uarch.space import sample as sample_space
    from uarch.space import sample_pairs

    chosen = machines_named(machines) if machines else []
    if presets:
        chosen += machines_named(preset_names())
    if sample:
        chosen += sample_pairs(sample, seed) if pairs else sample_space(sample, seed)
    if machines_of:
        with LatencyFile(machines_of) as labels:
            chosen += labels.machines
    with connect(scheduler, cluster) as workers_elsewhere:
        outputs = run_label(
            traces,
            chosen,
            output,
            start=start,
            count=count,
            workers=workers,
            touches=touches,
            cluster=workers_elsewhere,
            simulator=simulator,
            gem5=gem5,
        )
    for path in outputs:
        print(path)
