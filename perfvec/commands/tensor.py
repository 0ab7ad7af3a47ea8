"""Tensor programs: logs and databases become datasets of tasks, schedules, latencies and features."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Tensor programs: data sets, cost models, predictions.", no_args_is_help=True)


@app.command("read")
def read(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Logs of Ansor (.json, .gz), folders of them, TenSet's folder, or MetaSchedule database folders."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The dataset to write, *.tensor.h5.")],
    device: Annotated[
        str | None, typer.Option(help="The device of all records; by default the folder's or the target's.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse the first line that is no record instead of skipping it.")
    ] = False,
    features: Annotated[
        bool, typer.Option("--features", help="Also FLOPs and features of a database's candidates; needs TVM.")
    ] = False,
) -> None:
    """What other tuners measured becomes a dataset; nothing of it is executed."""
    import sys

    from tracegen.tensor.read import read as run_read

    done = run_read(paths, output, device=device, strict=strict, features=features)
    for note in done.notes():
        print(note, file=sys.stderr)
    found = f"{done.records:,} records of {done.schedules:,} schedules of {done.tasks:,} tasks"
    print(f"{done.output}: {found} from {done.files:,} files", file=sys.stderr)


@app.command("card")
def card(
    dataset: Annotated[Path, typer.Argument(help="A dataset, *.tensor.h5.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout instead of text.")] = False,
) -> None:
    """What a dataset holds: tasks, devices, schedules, records, failures, features."""
    import json

    from perfvec.commands.output import shown_table
    from tracegen.tensor.dataset import Dataset, summary

    with Dataset(dataset) as data:
        document, frame = summary(data)
    if as_json:
        print(json.dumps(document, allow_nan=False))
        return
    for name, value in document.items():
        if not isinstance(value, list):
            print(f"{name}: {value}")
    print(shown_table(frame))


@app.command("collect")
def collect(
    output: Annotated[Path, typer.Option("-o", "--output", help="The dataset to write, *.tensor.h5.")],
    network: Annotated[
        list[str] | None, typer.Option(help="A network's tasks: NAME[:batch=B][,size=S]; several times; `all`.")
    ] = None,
    operators: Annotated[
        list[str] | None, typer.Option(help="A single operator: NAME or NAME:64x64x64; several times; `all`.")
    ] = None,
    device: Annotated[
        list[str] | None, typer.Option(help="x86-64-v2, -v3 (default), -v4, or sim:MACHINE, simulated; several.")
    ] = None,
    schedules: Annotated[int, typer.Option(min=1, help="Candidate schedules of each task, at most.")] = 64,
    evolutionary: Annotated[
        float, typer.Option(min=0, max=1, help="Part of them found by evolutionary search; the others are random.")
    ] = 0.5,
    minutes: Annotated[float | None, typer.Option(min=0, help="Stop after so long, with what there is.")] = None,
    cpu: Annotated[int | None, typer.Option(min=0, help="The core that measures; keep it quiet.")] = None,
    builder_cpu: Annotated[int | None, typer.Option(min=0, help="The core that builds.")] = None,
    budget: Annotated[float, typer.Option(min=0.01, help="Seconds to measure one candidate.")] = 0.3,
    isa: Annotated[str, typer.Option(help="Of the programs that machines simulate: x86-64 or aarch64.")] = "x86-64",
    max_instructions: Annotated[
        int, typer.Option(min=1, help="Programs that execute more are not simulated.")
    ] = 5_000_000,
    seed: Annotated[int, typer.Option(help="Of the sampling.")] = 0,
    features: Annotated[
        bool, typer.Option(help="Statement features and compact ASTs into the dataset (some 50 ms a schedule).")
    ] = True,
    finish_only: Annotated[
        bool, typer.Option("--finish-only", help="Measure nothing; write what an earlier call measured.")
    ] = False,
) -> None:
    """Measure candidate schedules of tensor programs on this machine. Stopped or killed, the same command goes on."""
    import sys

    from tracegen.files import require_writable
    from tracegen.tensor.collect import Plan
    from tracegen.tensor.collect import collect as run_collect
    from tracegen.tensor.finish import finish
    from tracegen.tensor.networks import networks
    from tracegen.tensor.operators import sizes

    require_writable(output)
    if not finish_only:
        every_network, every_operator = network == ["all"], operators == ["all"]
        plan = Plan(
            networks=tuple(networks() if every_network else network or ()),
            operators=tuple(sizes() if every_operator else operators or ()), devices=tuple(device or ["x86-64-v3"]),
            schedules=schedules, evolutionary=evolutionary, minutes=minutes, cpu=cpu, builder_cpu=builder_cpu,
            budget_s=budget, seed=seed, isa=isa, max_instructions=max_instructions,
        )  # fmt: skip
        run_collect(plan, output)
    print(f"{output}: {finish(output, features):,} records", file=sys.stderr)
