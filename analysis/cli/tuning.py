"""Commands that use tensor cost models: `perfvec tensor tune`, `replay`, and their like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.cli.options import Machines, require_unset
from analysis.cli.output import answers
from analysis.results.result import Result

app = typer.Typer()


@app.command("tune")
@answers("as_json", "csv")
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
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed of the search.")] = 0,
) -> Result:
    """Search fast schedules of a network with a cost model. A stopped run continues with the same command."""
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
    return tuning.tune(plan, output).result()


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

    return compare.ask(folders, reference)


@app.command("replay")
@answers("as_json", "csv")
def replay(
    context: typer.Context,
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
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed of the candidates.")] = 0,
) -> Result:
    """Predict a network's latency from its kernels'.

    They are replayed over its graph, and shown beside the measured latency. Kernels are predicted by a tensor cost
    model for this computer's devices (--model), or by their program vectors for machines of `uarch/` (--uarch,
    --kernels).
    """
    from analysis import api
    from analysis.tensor import programs
    from analysis.tensor import replay as replaying
    from perfvec.model import load_model
    from support.errors import InputError

    numbers = replaying.parse_streams(streams)
    if machines:
        if kernels is None:
            raise InputError("--uarch needs --kernels DIR; make it with perfvec tensor export-kernels")
        require_unset(context, "is of --model; leave it out with --uarch", *_OF_MODELS)
        found = load_model(foundation)
        return programs.ask(network, kernels, found, api.predictable(found, machines), numbers)
    if model is None:
        raise InputError("name a trained cost model with --model, or machines with --uarch and --kernels")
    return replaying.replay(
        network,
        model,
        device,
        database=database,
        schedules=schedules,
        candidates=candidates,
        streams=numbers,
        engines=[replaying.parse_engines(text) for text in engines or ()],
        measuring=replaying.Measuring(cpu=cpu) if measure else None,
        seed=seed,
        zero_shot=zero_shot,
        bandwidth_gbs=bandwidth,
    ).result()


_OF_MODELS = (  # parameters of `replay`
    *("model", "device", "database", "schedules", "candidates", "engines", "bandwidth", "measure", "cpu"),
    *("zero_shot", "seed"),
)


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
