"""Tensor programs: logs and databases become datasets of tasks, schedules, latencies and features."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from analysis.cli.options import require_unset
from analysis.cli.output import answers
from analysis.results.result import Result

DatasetFile = Annotated[Path, typer.Argument(help="A dataset, *.tensor.h5.")]
Configuration = Annotated[
    str | None, typer.Option(help="Configuration of the models: two-cores (default), papers, atformer, or a YAML file.")
]
Epochs = Annotated[
    int,
    typer.Option(min=1, help="Passes over the records; boosted trees add 10 rounds for each, up to their own number."),
]
Seconds = Annotated[
    float | None, typer.Option(min=0.1, help="Most processor seconds of a training, or of a whole fine-tuning.")
]
Validation = Annotated[float, typer.Option(min=0.01, max=0.5, help="Share of the tasks that are validation tasks.")]
Criterion = Annotated[str, typer.Option(help="What to judge on validation tasks: pairwise, latency or both.")]


app = typer.Typer(help="Tensor programs: datasets, cost models, searches.", no_args_is_help=True)


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
        bool, typer.Option("--strict", help="Stop at the first line that is not a record, instead of skipping it.")
    ] = False,
    features: Annotated[
        bool, typer.Option("--features", help="Also extract FLOPs and features of a database's candidates; needs TVM.")
    ] = False,
) -> None:
    """Read other tuners' measurements into a dataset. Nothing in them is executed."""
    from tracegen.tensor.read import read as run_read

    done = run_read(paths, output, device=device, strict=strict, features=features)
    for note in done.notes():
        print(note, file=sys.stderr)
    found = f"{done.records:,} records of {done.schedules:,} schedules of {done.tasks:,} tasks"
    print(f"{done.output}: {found} from {done.files:,} files", file=sys.stderr)


@app.command("card")
@answers("as_json", "csv")
def card(
    dataset: DatasetFile,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the dataset's card in Markdown: noise and provenance too.")
    ] = False,
) -> Result:
    """Describe a dataset: its tasks, devices and records."""
    from analysis.tensor import answers

    return answers.card(dataset, markdown=markdown)


@app.command("merge")
def merge(
    datasets: Annotated[list[Path], typer.Argument(help="Datasets, *.tensor.h5.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The dataset to write, *.tensor.h5.")],
    device: Annotated[
        list[str] | None, typer.Option(help="Keep only this device, or those of a pattern ('sim:*'); repeat for more.")
    ] = None,
) -> None:
    """Merge datasets, or keep some devices of them.

    Equal tasks, schedules, devices and records become one.
    """
    from tracegen.tensor.dataset import Dataset
    from tracegen.tensor.dataset import merge as run_merge

    done = run_merge(datasets, output, devices=device or ())
    if done.left_out:
        print(f"equal records, kept once: {done.left_out:,} left out", file=sys.stderr)
    with Dataset(output) as data:
        found = f"{data.record_count:,} records of {data.schedule_count:,} schedules of {len(data.tasks):,} tasks"
        print(f"{output}: {found} on {len(data.devices):,} devices", file=sys.stderr)


@app.command("select")
@answers("as_json", "csv")
def select(
    context: typer.Context,
    dataset: DatasetFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="The pruned dataset to write, *.tensor.h5.")],
    by: Annotated[
        str, typer.Option(help="How to select tasks: verma, flops, cdmpp, kmeans, random, or all.")
    ] = "verma",
    share: Annotated[float, typer.Option(help="Share of the tasks to keep.")] = 0.5,
    slow: Annotated[float, typer.Option(help="Drop schedules N times slower than their task's best; 0: none.")] = 10.0,
    device: Annotated[
        list[str] | None, typer.Option(help="Read only the times of this device; repeat for more.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of what is drawn.")] = 0,
    points: Annotated[
        Path | None, typer.Option(help="Write every schedule's first two principal components (*.csv).")
    ] = None,
    judge: Annotated[
        str, typer.Option(help="Train this model on all and on the selection, and judge both on other tasks.")
    ] = "",
    configuration: Configuration = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of --judge.")] = 3,
    epochs: Epochs = 40,
    seconds: Seconds = None,
    patience: Annotated[
        int, typer.Option(min=0, help="Stop after N passes without a gain on validation tasks; 0: never.")
    ] = 0,
) -> Result:
    """Prune a dataset: select tasks, drop slow schedules.

    It reports what was kept and what a model loses.
    """
    from analysis.tensor.answers import of_pruned
    from perfvec.tensor import pruning
    from perfvec.tensor.configuration import choose, read_entries
    from perfvec.tensor.contract import Budget
    from support.files import atomic_path, require_writable

    choice = pruning.Choice(by, share, slow, tuple(device or ()), seed)
    if not judge:
        require_unset(context, "is of --judge", "configuration", "seeds", "epochs", "seconds", "patience")
    entry = choose(read_entries(configuration), [judge])[0] if judge else None
    if points is not None:
        require_writable(points)
    done = pruning.prune(dataset, output, choice)
    if points is not None:
        with atomic_path(points) as temporary:
            done.points.to_csv(temporary, index=False)
    judged = None
    if entry is not None:
        judged = pruning.judge(dataset, choice, entry, Budget(epochs, seconds, patience), seeds)
    return of_pruned(done, judged)


@app.command("train")
@answers("as_json", "csv")
def train(
    context: typer.Context,
    dataset: DatasetFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="The model to write (*.safetensors).")],
    model: Annotated[
        str | None, typer.Option(help="Name of a model, or of an entry of the configuration; by default atformer.")
    ] = None,
    configuration: Configuration = None,
    initial: Annotated[
        Path | None, typer.Option(help="A model to fine-tune instead; cross-validation chooses how many passes.")
    ] = None,
    epochs: Epochs = 40,
    seconds: Seconds = None,
    patience: Annotated[
        int,
        typer.Option(
            min=0, help="Lower the rate, and at last stop, after N passes without a gain on validation tasks; 0: never."
        ),
    ] = 0,
    validation: Validation = 0.1,
    criterion: Criterion = "both",
    device: Annotated[str, typer.Option(help="Where networks are trained: cpu, cuda or cuda:N.")] = "cpu",
    curve: Annotated[Path | None, typer.Option(help="Write loss and errors after every pass (*.csv).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of weights and batches.")] = 0,
) -> Result:
    """Train a cost model on a dataset's measured records."""
    from analysis.tensor.answers import of_trained
    from perfvec.tensor.configuration import choose, read_entries
    from perfvec.tensor.contract import Budget
    from perfvec.tensor.train import train as run_train
    from support.files import require_writable

    if initial is not None:
        why = "is of a new model; leave it out with --initial, whose model is fine-tuned"
        require_unset(context, why, "model", "configuration", "patience")
    if not patience:
        require_unset(context, "says when to stop; it goes with --patience", "criterion", "validation")
    (entry,) = choose(read_entries(configuration), [model or "atformer"])
    budget = Budget(epochs, seconds, patience, criterion)
    if curve is not None:
        require_writable(curve)
    done = run_train(
        dataset, output, entry, budget=budget, seed=seed, initial=initial, validation=validation, on=device
    )
    found = of_trained(done, output, epochs)
    if curve is not None and not done.curve:
        print(f"perfvec: no {curve}: {done.model} has a curve only with --patience, or none", file=sys.stderr)
    elif curve is not None:
        found.to_csv(curve)
    return found


@app.command("autotune")
@answers("as_json", "csv")
def autotune(
    dataset: DatasetFile,
    output: Annotated[Path, typer.Option("-o", "--output", help="The configuration to write (*.yaml).")],
    model: Annotated[str, typer.Option(help="Name of a model, or of an entry of the configuration.")] = "cdmpp",
    configuration: Configuration = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Number of trainings, including those of an earlier call with --work.")
    ] = 50,
    epochs: Epochs = 40,
    seconds: Seconds = None,
    patience: Annotated[
        int, typer.Option(min=0, help="Stop after N passes without a gain on validation tasks; 0: never.")
    ] = 0,
    criterion: Criterion = "both",
    device: Annotated[str, typer.Option(help="Where networks are trained: cpu, cuda or cuda:N.")] = "cpu",
    seed: Annotated[int, typer.Option(min=0, help="Random seed of split, search and training.")] = 0,
    work: Annotated[
        Path | None, typer.Option(help="File that keeps the trials; a killed run continues from it.")
    ] = None,
) -> Result:
    """Tune a cost model's hyper-parameters with Optuna.

    Judged on validation tasks; writes a configuration.
    """
    from analysis.tensor.answers import of_tuned
    from perfvec.tensor import autotune as tuning
    from perfvec.tensor.configuration import choose, read_entries
    from perfvec.tensor.contract import Budget

    (entry,) = choose(read_entries(configuration), [model])
    budget = Budget(epochs, seconds, patience, criterion)
    done = tuning.autotune(dataset, output, entry, trials=trials, budget=budget, seed=seed, work=work, on=device)
    return of_tuned(done, output)


@app.command("evaluate")
@answers("as_json", "csv")
def evaluate(
    context: typer.Context,
    dataset: DatasetFile,
    models: Annotated[str, typer.Option(help="Models A,B,… of the configuration; by default all.")] = "",
    configuration: Configuration = None,
    splits: Annotated[
        str | None,
        typer.Option(
            "--splits", help="By default within_task,by_task; there are by_target, cross_model, cross_device too."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds of split and training.")] = 3,
    epochs: Epochs = 40,
    seconds: Seconds = None,
    patience: Annotated[
        int, typer.Option(min=0, help="Train to convergence: stop after N passes without a gain on validation tasks.")
    ] = 0,
    validation: Validation = 0.1,
    criterion: Criterion = "both",
    compute: Annotated[str, typer.Option(help="Where networks are trained: cpu, cuda or cuda:N.")] = "cpu",
    tune_epochs: Annotated[int, typer.Option(min=1, help="Most passes of fine-tuning.")] = 20,
    test: Annotated[float, typer.Option(min=0.01, max=0.9, help="Share to hold out.")] = 0.1,
    train_records: Annotated[int, typer.Option(min=0, help="Train on at most N records; 0: all.")] = 0,
    networks: Annotated[str, typer.Option(help="Networks A,B,… that cross_model holds out.")] = "",
    kind: Annotated[
        str, typer.Option(help="Kind of device that by_target holds out: gpu, cpu or simulated.")
    ] = "simulated",
    device: Annotated[str, typer.Option(help="Device that cross_device holds out.")] = "",
    share: Annotated[
        float,
        typer.Option(min=0.001, max=0.9, help="Share of the held-out device's tasks, or records, to fine-tune on."),
    ] = 0.1,
    selections: Annotated[
        str,
        typer.Option(
            help="How to choose what to fine-tune on: cdmpp, kmeans, verma, flops, random (tasks) or records."
        ),
    ] = "cdmpp,kmeans,verma,random",
    saved: Annotated[
        Path | None,
        typer.Option(help="Judge this trained model (or `shipped`) on --device, before and after fine-tuning there."),
    ] = None,
    work: Annotated[
        Path | None, typer.Option(help="File that keeps finished rows; a killed run continues from it.")
    ] = None,
) -> Result:
    """Compare cost models on held-out tasks and devices.

    All are trained on the same records within the same budget. The table has means over seeds, --json each seed too.
    """
    from analysis.tensor.answers import of_evaluation
    from perfvec.tensor import evaluate as evaluation
    from perfvec.tensor.configuration import choose, read_entries
    from perfvec.tensor.contract import Budget

    protocol = evaluation.Protocol(
        splits=tuple(filter(None, (splits or "within_task,by_task").split(","))),
        seeds=seeds,
        test=test,
        budget=Budget(epochs, seconds, patience, criterion),
        validation=validation,
        fine_tuning=Budget(tune_epochs, seconds),
        networks=tuple(filter(None, networks.split(","))),
        kind=kind,
        device=device,
        share=share,
        selections=tuple(filter(None, selections.split(","))),
        train_records=train_records,
    )
    if saved is not None:
        why = "is of models that are trained here; leave it out with --saved"
        trained = ("work", "models", "configuration", "splits", "networks", "patience", "train_records", "epochs")
        require_unset(context, why, *trained, "validation", "criterion", "test", "kind")
        rows = evaluation.evaluate_saved(saved, dataset, protocol, compute)
    else:
        for split, options in evaluation.OPTIONS.items():
            if split not in protocol.splits:
                require_unset(context, f"is of the split {split}; add it to --splits", *options)
        entries = read_entries(configuration)
        names = [name for name in models.split(",") if name]
        rows = evaluation.evaluate(dataset, choose(entries, names) if names else entries, protocol, work, compute)
    return of_evaluation(rows)


@app.command("limits")
@answers("as_json", "csv")
def limits(
    dataset: DatasetFile, seed: Annotated[int, typer.Option(min=0, help="Random seed of what is drawn.")] = 0
) -> Result:
    """Show how good a cost model of a dataset can be.

    Noise, ties, and what other devices say.
    """
    from analysis.tensor.answers import of_limits

    return of_limits(dataset, seed)


@app.command("predict")
@answers("as_json", "csv")
def predict(
    model: Annotated[Path, typer.Argument(help="A trained model (*.safetensors), or shipped.")],
    dataset: Annotated[
        Path, typer.Argument(help="Candidates: a dataset (*.tensor.h5), or logs as perfvec tensor read takes them.")
    ],
    device: Annotated[list[str] | None, typer.Option(help="Predict for this device; repeat for more.")] = None,
    top: Annotated[int, typer.Option(min=0, help="Print only the best N of each task; 0: all.")] = 0,
    zero_shot: Annotated[
        bool, typer.Option("--zero-shot", help="Also predict for devices that did not train the model.")
    ] = False,
) -> Result:
    """Predict the latency or score of each candidate.

    The best comes first.
    """
    from analysis.tensor.answers import of_predictions
    from perfvec.tensor.predict import predict as run_predict

    return of_predictions(run_predict(model, dataset, devices=device, top=top, zero_shot=zero_shot))


@app.command("collect")
def collect(
    output: Annotated[Path, typer.Option("-o", "--output", help="The dataset to write, *.tensor.h5.")],
    network: Annotated[
        list[str] | None,
        typer.Option(
            help="Tasks of NAME[:batch=B][,size=S][,layers=L]; several; `all`. Without --network and --operators: "
            "the tasks of an earlier call."
        ),
    ] = None,
    operators: Annotated[
        list[str] | None, typer.Option(help="A single operator: NAME or NAME:64x64x64; several times; `all`.")
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(
            help="x86-64-v2, -v3 (default), -v4, or LEVEL@NAME to tell computers apart; simulated: sim:MACHINE, or "
            "sim:SPACE:N, N machines of a design space; several."
        ),
    ] = None,
    schedules_of: Annotated[
        Path | None, typer.Option(help="Measure this dataset's schedules instead of new ones.")
    ] = None,
    tasks: Annotated[int | None, typer.Option(min=1, help="Take only N of that dataset's tasks, of all sizes.")] = None,
    schedules: Annotated[
        int, typer.Option(min=0, help="Most candidate schedules of each task; 0: those of an earlier call.")
    ] = 64,
    evolutionary: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of the schedules from evolutionary search; the others are random."),
    ] = 0.5,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop after N minutes and write what was measured.")
    ] = None,
    cpu: Annotated[int | None, typer.Option(min=0, help="The core that measures; keep it quiet.")] = None,
    builder_cpu: Annotated[int | None, typer.Option(min=0, help="The core that builds.")] = None,
    budget: Annotated[float, typer.Option(min=0.01, help="Seconds to measure one candidate.")] = 0.3,
    again: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the records to measure again, which shows the noise.")
    ] = 0.02,
    isa: Annotated[str, typer.Option(help="Instruction set of simulated programs: x86-64 or aarch64.")] = "x86-64",
    max_instructions: Annotated[
        int, typer.Option(min=1, help="Do not simulate programs with more instructions than this.")
    ] = 5_000_000,
    simulated_tasks: Annotated[
        int | None, typer.Option(min=1, help="Simulate only N tasks, small ones of all sizes.")
    ] = None,
    simulated_schedules: Annotated[
        int | None, typer.Option(min=1, help="Simulate only N schedules of each task.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed of the sampling.")] = 0,
    features: Annotated[
        bool, typer.Option(help="Add statement features and compact ASTs to the dataset (some 50 ms a schedule).")
    ] = True,
    finish_only: Annotated[
        bool, typer.Option("--finish-only", help="Measure nothing; write what an earlier call measured.")
    ] = False,
) -> None:
    """Measure schedules of tensor programs on this machine. A stopped run continues with the same command."""
    from support.files import require_writable
    from tracegen.tensor.collect import collect as run_collect
    from tracegen.tensor.finish import finish
    from tracegen.tensor.networks import networks
    from tracegen.tensor.operators import sizes
    from tracegen.tensor.plan import Plan

    require_writable(output)
    if not finish_only:
        every_network, every_operator = network == ["all"], operators == ["all"]
        plan = Plan(
            networks=tuple(networks() if every_network else network or ()),
            operators=tuple(sizes() if every_operator else operators or ()),
            devices=tuple(device or ["x86-64-v3"]),
            schedules_of=None if schedules_of is None else str(schedules_of),
            tasks=tasks,
            again=again,
            schedules=schedules,
            evolutionary=evolutionary,
            minutes=minutes,
            cpu=cpu,
            builder_cpu=builder_cpu,
            budget_s=budget,
            seed=seed,
            isa=isa,
            max_instructions=max_instructions,
            simulated_tasks=simulated_tasks,
            simulated_schedules=simulated_schedules,
        )
        run_collect(plan, output)
    print(f"{output}: {finish(output, features):,} records", file=sys.stderr)
