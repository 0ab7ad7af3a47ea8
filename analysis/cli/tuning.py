"""Commands that use tensor cost models: `perfvec tensor tune`, `replay`, and their like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.cli.options import Machines
from analysis.cli.output import answers
from analysis.result import Result, of_table, table_text

app = typer.Typer()


@app.command("tune")
def tune(
    network: Annotated[str, typer.Argument(help="NAME[:batch=B][,size=S][,layers=L], as for collect.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The work folder: MetaSchedule's database, and the search's history.")
    ],
    model: Annotated[
        str, typer.Option(help="A trained model (*.safetensors), shipped, xgb (TVM's own), or random.")
    ] = "xgb",
    device: Annotated[str, typer.Option(help="x86-64-v2, -v3, or -v4.")] = "x86-64-v3",
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="Candidates to measure, over all tasks; by default two rounds for each task."),
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Start no round after N minutes.")] = None,
    round_: Annotated[int, typer.Option("--round", min=1, help="Candidates of a task to measure in one round.")] = 32,
    population: Annotated[int, typer.Option(min=8, help="Population of the evolutionary search.")] = 256,
    generations: Annotated[int, typer.Option(min=1, help="Generations of the evolutionary search in a round.")] = 3,
    update_epochs: Annotated[
        int, typer.Option(min=0, help="Passes of the model over the measurements after each round; 0: no updates.")
    ] = 5,
    tasks: Annotated[int | None, typer.Option(min=1, help="Search only the N tasks with the most FLOPs.")] = None,
    cpu: Annotated[int | None, typer.Option(min=0, help="The core that measures; keep it quiet.")] = None,
    builder_cpu: Annotated[int | None, typer.Option(min=0, help="The core that builds.")] = None,
    budget: Annotated[float, typer.Option(min=0.01, help="Seconds to measure one candidate.")] = 0.3,
    seed: Annotated[int, typer.Option(help="Random seed of the search.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout instead of a table.")] = False,
) -> None:
    """Search fast schedules of a network with a cost model. A stopped run continues with the same command."""
    import json

    from analysis.tensor import tune as tuning

    plan = tuning.Plan(
        network,
        model,
        device,
        trials=trials,
        minutes=minutes,
        round=round_,
        population=population,
        generations=generations,
        update_epochs=update_epochs,
        seed=seed,
        budget_s=budget,
        cpu=cpu,
        builder_cpu=builder_cpu,
        tasks=tasks,
    )
    found = tuning.tune(plan, output)
    document = tuning.to_json(found)
    if as_json:
        print(json.dumps(document, allow_nan=False))
        return
    print(table_text(found.tasks().drop(columns="key")))
    latency = (
        "unknown, some task never ran" if document["latency_s"] is None else f"{1e3 * document['latency_s']:.3f} ms"
    )
    print(f"estimated latency {latency}; {found.trials} trials, {found.elapsed_s:.0f} s; database: {output}")


@app.command("compare-searches")
@answers("as_json", "csv")
def compare_searches(
    folders: Annotated[
        list[Path], typer.Argument(help="Work folders of perfvec tensor tune, for one network and device.")
    ],
    reference: Annotated[
        int, typer.Option(min=0, help="The search, counted from 0, whose final latency is the goal.")
    ] = 0,
) -> Result:
    """Compare searches of tune.

    The latency found, and trials and time to reach what the reference found.
    """
    from analysis.tensor import compare

    frame = compare.compare(folders, reference)
    return of_table("Searches beside each other", frame, lambda: compare.to_json(frame))


@app.command("replay")
@answers("as_json", "csv")
def replay(
    network: Annotated[str, typer.Argument(help="NAME[:batch=B][,size=S][,layers=L], as for collect.")],
    model: Annotated[
        Path | None, typer.Option(help="A trained model (*.safetensors) that predicts latencies, or shipped.")
    ] = None,
    device: Annotated[str, typer.Option(help="A device that the model knows.")] = "x86-64-v3",
    database: Annotated[
        Path | None,
        typer.Option(help="Folder of a MetaSchedule database, as tune writes it, with the kernels' schedules."),
    ] = None,
    schedules: Annotated[
        str, typer.Option(help="Without a database: predicted (the best of random candidates), or default (none).")
    ] = "predicted",
    candidates: Annotated[
        int, typer.Option(min=1, help="Random candidates for each kernel, with --schedules predicted.")
    ] = 64,
    streams: Annotated[str, typer.Option(help="Numbers of streams to replay on, A,B,…")] = "1,2,4",
    engines: Annotated[
        list[str] | None, typer.Option(help="Also replay on typed engines, as compute=2,copy=1; repeat for more.")
    ] = None,
    bandwidth: Annotated[
        float | None, typer.Option(min=0.01, help="Memory bandwidth in GB/s, which bounds kernels that no cache holds.")
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Also measure kernels and network, on this machine, one thread.")
    ] = False,
    cpu: Annotated[int | None, typer.Option(min=0, help="The core that measures; keep it quiet.")] = None,
    kernels: Annotated[
        Path | None,
        typer.Option(help="With --uarch: the folder that export-kernels wrote. Needs no cost model and no TVM."),
    ] = None,
    machines: Machines = None,
    foundation: Annotated[
        Path | None, typer.Option(help="With --uarch: foundation model; the shipped one by default.")
    ] = None,
    zero_shot: Annotated[
        bool, typer.Option("--zero-shot", help="Allow a device that did not train the model.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed of the candidates.")] = 0,
) -> Result:
    """Predict a network's latency from its kernels'.

    They are replayed over its graph, and shown beside the measured latency. Kernels are predicted by a tensor cost
    model for this computer's devices (--model), or by their program vectors for machines of `uarch/` (--uarch,
    --kernels).
    """
    from analysis.tensor import replay as replaying
    from support.errors import InputError

    numbers = [part.strip() for part in streams.split(",")]
    if not all(part.isdigit() for part in numbers):
        raise InputError(f"--streams {streams}: expected numbers with commas between them, such as 1,2,4")
    if machines:
        if kernels is None:
            raise InputError("--uarch needs --kernels DIR; make it with perfvec tensor export-kernels")
        return _replay_machines(network, kernels, machines, foundation, [int(part) for part in numbers])
    if model is None:
        raise InputError("name a trained cost model with --model, or machines with --uarch and --kernels")
    found = replaying.replay(
        network,
        model,
        device,
        database=database,
        schedules=schedules,
        candidates=candidates,
        streams=[int(part) for part in numbers],
        engines=[replaying.parse_engines(text) for text in engines or ()],
        measuring=replaying.Measuring(cpu=cpu) if measure else None,
        seed=seed,
        zero_shot=zero_shot,
        bandwidth_gbs=bandwidth,
    )
    document = replaying.to_json(found)
    lines = [
        table_text(found.kernels.drop(columns="key")),
        table_text(found.streams),
        f"critical path {1e3 * found.critical_path_s:.3f} ms",
    ]
    if len(found.engines):
        lines.insert(2, table_text(found.engines))
    if found.network is not None:
        lines.append(f"measured end to end {1e3 * found.network.seconds:.3f} ms; predicted {document['error']:+.1%}")
    return of_table(f"Replay of {network}", found.kernels, lambda: document, lambda: "\n".join(lines))


def _replay_machines(
    network: str, folder: Path, names: list[str], foundation: Path | None, streams: list[int]
) -> Result:
    from analysis.tensor import programs
    from perfvec.machines.machine_vector import load_predictable
    from perfvec.model import load_model
    from support.errors import InputError

    exported = programs.read(folder)
    if exported.network != network:
        raise InputError(f"{folder}: holds the kernels of {exported.network}, not of {network}")
    model = load_model(foundation)
    frame, whole = programs.replay_machines(folder, model, load_predictable(names, model), streams)
    text = f"{table_text(frame)}\n{table_text(whole)}"
    return of_table(f"Replay of {network}", frame, lambda: programs.to_json(frame, whole), lambda: text)


@app.command("export-kernels")
def export_kernels(
    network: Annotated[str, typer.Argument(help="NAME[:batch=B][,size=S][,layers=L], as for collect.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write, with a vector for each kernel.")],
    database: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a MetaSchedule database, as tune writes it; without one, kernels are unscheduled."
        ),
    ] = None,
    isa: Annotated[str, typer.Option(help="x86-64 (level v2) or aarch64.")] = "x86-64",
    foundation: Annotated[Path | None, typer.Option(help="Foundation model; the shipped one by default.")] = None,
    max_instructions: Annotated[
        int, typer.Option(min=1, help="Most instructions of one call of a kernel.")
    ] = 50_000_000,
) -> None:
    """Write a network's kernels as program vectors.

    And the network's own. For predict, sweep, compare and replay --uarch.
    """
    import sys

    from analysis.tensor import programs
    from analysis.tensor.replay import database_or_default
    from perfvec.model import load_model
    from tracegen.tensor.simulated import require_simulated

    require_simulated(isa)
    model = load_model(foundation)
    graph, kernels = database_or_default(network, database)
    done = programs.export(graph, kernels, model, output, isa=isa, max_instructions=max_instructions)
    print(f"{output}: {len(done.vectors)} kernels, {programs.NETWORK}", file=sys.stderr)
