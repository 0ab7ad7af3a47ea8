"""Models: train, evaluate, fit machines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from analysis.cli.options import Level, MaxInstructions, ModelFile
from analysis.cli.output import answers
from analysis.results.result import Result
from perfvec.intervals.level import DEFAULT_LEVEL
from perfvec.training.recipe import Recipe, parse_numbers
from support.errors import InputError

app = typer.Typer()


@app.command()
def train(
    traces: Annotated[Path, typer.Option(help="Folder with traces.")],
    latencies: Annotated[Path, typer.Option(help="Folder with latency files of those traces.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The model to write.")],
    encoder_latencies: Annotated[
        Path | None, typer.Option(help="Latency files of more machines, to train the encoder.")
    ] = None,
    table_latencies: Annotated[
        Path | None, typer.Option(help="Latency files of machines whose vectors are fitted after training.")
    ] = None,
    sampled_latencies: Annotated[
        Path | None,
        typer.Option(help="Latency files with other machines in each file; they train network and encoder."),
    ] = None,
    row_latencies: Annotated[
        Path | None, typer.Option(help="Latency files of other programs on the labels' machines, to refine them.")
    ] = None,
    encoder: Annotated[
        bool, typer.Option("--encoder/--no-encoder", help="Fit an encoder, which gives vectors to other machines.")
    ] = True,
    exclude: Annotated[list[str] | None, typer.Option(help="Leave this program out; repeat for more.")] = None,
    fold: Annotated[str, typer.Option(help="K/N: leave out the K-th of N folds of the programs.")] = "",
    hold_machines: Annotated[int, typer.Option(min=0, help="Leave out N of the labels' machines.")] = 0,
    machine_seed: Annotated[int, typer.Option(min=0, help="Random seed of --hold-machines.")] = 0,
    validate_programs: Annotated[
        str, typer.Option(help="Programs A,B,… that choose the best weights, and do not train.")
    ] = "",
    validate_fraction: Annotated[
        float, typer.Option(min=0.0, max=0.5, help="Validate on this fraction of the programs, instead of named ones.")
    ] = 0.0,
    validate_every: Annotated[int, typer.Option(min=1, help="Steps between validations.")] = Recipe.validate_every,
    patience: Annotated[
        int, typer.Option(min=0, help="Stop after N validations without an improvement; 0: never.")
    ] = Recipe.patience,
    schema: Annotated[
        str | None,
        typer.Option(
            help="Feature schema; NAME~COLUMN leaves out a column.", show_default=f"--initial's, or {Recipe.schema}"
        ),
    ] = None,
    architecture: Annotated[
        str | None,
        typer.Option(
            help="lstm, gru, convolution, transformer, linear or mlp.",
            show_default=f"--initial's, or {Recipe.architecture}",
        ),
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Width of the network, and length of its vectors.",
            show_default=f"--initial's, or {Recipe.width}",
        ),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(min=1, help="Number of layers.", show_default=f"--initial's, or {Recipe.layers}")
    ] = None,
    number: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=VALUE: a parameter of the architecture, as context=32 of a transformer; repeat for more."
        ),
    ] = None,
    skip_connection: Annotated[
        bool | None,
        typer.Option(
            "--skip-connection/--no-skip-connection",
            help="Add a linear map of an instruction's features to its vector.",
            show_default=f"--initial's, or {'yes' if Recipe.skip_connection else 'no'}",
        ),
    ] = None,
    instructions: Annotated[
        int, typer.Option(min=1, help="Instructions to train on, counting repetitions.")
    ] = Recipe.instructions,
    batch_size: Annotated[
        int, typer.Option(min=1, help=f"Sequences of {Recipe.sequence} instructions in a batch.")
    ] = Recipe.batch_size,
    optimizer: Annotated[
        str, typer.Option(help="muon (matrices by Muon, the rest by Adam) or adam.")
    ] = Recipe.optimizer,
    learning_rate: Annotated[
        float, typer.Option(min=1e-6, max=1.0, help="Adam's peak learning rate.")
    ] = Recipe.learning_rate,
    muon_lr: Annotated[float, typer.Option(min=1e-6, max=1.0, help="Muon's peak learning rate.")] = Recipe.muon_lr,
    weight_decay: Annotated[float, typer.Option(min=0.0, help="Weight decay, as in AdamW.")] = Recipe.weight_decay,
    ema_decay: Annotated[
        float,
        typer.Option(
            min=0.0, max=0.999999, help="Save an exponential moving average of the weights, with this decay per step."
        ),
    ] = Recipe.ema_decay,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of weights and batches.")] = Recipe.seed,
    initial: Annotated[Path | None, typer.Option(help="Start from this model's weights.")] = None,
    frozen: Annotated[
        bool, typer.Option("--frozen", help="Keep --initial's weights; teach the encoder and fit machines only.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto (a GPU where there is one), cpu, cuda or cuda:N.")] = "auto",
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for TensorBoard's files.")] = None,
    shards: Annotated[
        Path | None, typer.Option(help="Folder that keeps the training data, for several runs on the same labels.")
    ] = None,
    keep_work: Annotated[
        bool, typer.Option("--keep-work", help="Keep the shards and the checkpoint after the run.")
    ] = False,
) -> None:
    """Train the foundation model and the machine encoder.

    A killed run continues at its checkpoint. On several GPUs or processors: torchrun --nproc-per-node N -m perfvec
    train …
    """
    from perfvec.model import load_model
    from perfvec.training.split import Split
    from perfvec.training.train import shape_options
    from perfvec.training.train import train as run_train

    start = load_model(initial) if initial else None
    shape = shape_options(
        start,
        schema=schema,
        architecture=architecture,
        width=width,
        layers=layers,
        numbers=parse_numbers(number or []) or None,
        skip_connection=skip_connection,
    )
    recipe = Recipe(
        **shape,
        instructions=instructions,
        batch_size=batch_size,
        optimizer=optimizer,
        learning_rate=learning_rate,
        muon_lr=muon_lr,
        weight_decay=weight_decay,
        ema_decay=ema_decay,
        validate_every=validate_every,
        patience=patience,
        seed=seed,
    )
    split = Split(
        exclude=tuple(exclude or []),
        fold=fold,
        hold_machines=hold_machines,
        machine_seed=machine_seed,
        validate_programs=tuple(filter(None, validate_programs.split(","))),
        validate_fraction=validate_fraction,
    )
    run_train(
        traces,
        latencies,
        output,
        recipe=recipe,
        split=split,
        encoder_latencies=encoder_latencies,
        table_latencies=table_latencies,
        sampled_latencies=sampled_latencies,
        row_latencies=row_latencies,
        encoder=encoder,
        initial=start,
        frozen=frozen,
        device=device,
        tensorboard=tensorboard,
        shards=shards,
        keep_work=keep_work,
    )


@app.command()
@answers("as_json", "csv")
def evaluate(
    traces: Annotated[list[Path], typer.Option(help="Folder with traces; for --what-if also traces, repeated.")],
    latencies: Annotated[Path | None, typer.Option(help="Folder with latency files of those traces.")] = None,
    what_if: Annotated[
        bool,
        typer.Option(
            "--what-if", help="Run the what-if protocol instead: predicted changes of time against simulated ones."
        ),
    ] = False,
    work: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="With --what-if: folder that keeps the simulations; a stopped run continues from it."
        ),
    ] = None,
    tasks: Annotated[
        list[str] | None,
        typer.Option("--task", help="With --what-if: run only this task, as 'one field'; repeat for more."),
    ] = None,
    live_points: Annotated[
        bool,
        typer.Option(
            "--live-points", help="With --what-if: simulate on live-points; the truth stays every instruction."
        ),
    ] = False,
    max_instructions: MaxInstructions = None,
    model_files: Annotated[
        list[Path] | None, typer.Option("--model", help="Model file, the shipped one by default; repeat for folds.")
    ] = None,
    group: Annotated[str | None, typer.Option("--by", help="Group the table by program, uarch or model.")] = None,
) -> Result:
    """Measure a model's errors on seen and unseen programs.

    The accuracy protocol, of one model or of several folds, on seen and unseen machines. --what-if tests predicted
    changes of a machine instead: simulated, corrected, and by the model (docs/explanation/budgets.md).
    """
    from analysis.questions import accuracy
    from perfvec.model import load_model

    if what_if:
        labelled = {"--latencies": latencies, "--by": group}
        if lost := [option for option, value in labelled.items() if value]:
            raise InputError(f"{lost[0]} belongs to the accuracy protocol; leave it or --what-if out")
        return _what_if(traces, work, tasks, max_instructions, model_files, live_points=live_points)
    if latencies is None or len(traces) != 1:
        raise InputError("give one folder with --traces and its labels with --latencies, or --what-if")
    given = {"--output": work, "--task": tasks, "--live-points": live_points, "--max-instructions": max_instructions}
    if lost := [option for option, value in given.items() if value]:
        raise InputError(f"{lost[0]} belongs to --what-if; give that, or leave it out")
    from perfvec.evaluate import describe

    models = [load_model(path) for path in model_files] if model_files else [load_model()]
    files = [str(path) for path in model_files or []]
    found = accuracy.of_models(models, traces[0], latencies, group=group, files=files)
    print(describe(found.table), file=sys.stderr)
    return found


def _what_if(
    traces: list[Path],
    work: Path | None,
    tasks: list[str] | None,
    limit: int | None,
    model_files: list[Path] | None,
    *,
    live_points: bool,
) -> Result:
    from analysis.programs.targets import trace_files
    from analysis.questions import accuracy, what_if
    from perfvec.model import load_model

    if work is None:
        raise InputError("--what-if keeps its simulations: name a folder with -o")
    if len(model_files or ()) > 1:
        raise InputError("--what-if judges one model; give one --model")
    if wrong := set(tasks or []) - set(what_if.task_names()):
        raise InputError(f"--task {min(wrong)}: expected one of {', '.join(what_if.task_names())}")
    model = load_model(model_files[0] if model_files else None)
    programs = what_if.programs_of(model, trace_files(traces), work, max_instructions=limit, live_points=live_points)
    return accuracy.of_changes(*what_if.evaluate(programs, tasks=tasks))


@app.command()
@answers("as_json", "csv")
def calibrate(
    traces: Annotated[Path, typer.Option(help="Folder with traces.")],
    latencies: Annotated[Path, typer.Option(help="Folder with latency files of those traces.")],
    fold_files: Annotated[
        list[Path], typer.Option("--fold", help="A model like this one that left programs out; repeat for each fold.")
    ],
    model_file: ModelFile = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The calibrated model to write; may be --model itself.")
    ] = None,
    level: Level = DEFAULT_LEVEL,
) -> Result:
    """Give a model's predictions intervals.

    They come from the errors of folds on programs that these left out. The table shows how often an interval held for a
    program that was left out of the calibration too.
    """
    from analysis.questions.accuracy import of_intervals
    from perfvec.intervals import calibrate as calibrating
    from perfvec.model import load_model, save_model
    from support.files import require_writable

    if output is not None:
        require_writable(output)
    calibrating.require_level(level)
    folds = [load_model(path) for path in fold_files]
    found = calibrating.calibrate(load_model(model_file), folds, traces, latencies, level=level)
    if output is not None:
        save_model(found.model, output)
    return of_intervals(found)


@app.command("fit-uarch")
@answers()
def fit_uarch(
    output: Annotated[Path, typer.Option("-o", "--output", help="The machine vector to write (*.machine.npz).")],
    times: Annotated[
        Path | None, typer.Option(help="CSV or JSON: target, seconds or cycles, and optionally uncertainty.")
    ] = None,
    traces: Annotated[Path | None, typer.Option(help="Folder with traces, for --latencies.")] = None,
    latencies: Annotated[Path | None, typer.Option(help="Folder with latency files: fit to labels.")] = None,
    machine: Annotated[
        str | None,
        typer.Option("--uarch", help="What you know of the machine: a preset, a file, or a name in the labels."),
    ] = None,
    frequency_ghz: Annotated[
        float | None, typer.Option("--frequency-ghz", help="Core clock; by default that of --uarch.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The machine's name; by default that of --uarch or the file.")
    ] = None,
    model_file: ModelFile = None,
) -> Result:
    """Fit a machine's vector to times of programs, or to labels.

    Use it with predict --uarch FILE. Columns: left_out is a time predicted from the other programs. prior_error is the
    error of --uarch, or of the mean machine, before the fit.
    """
    from analysis.programs.targets import target_of
    from analysis.real_computers import suite_times
    from perfvec.machines import fit_uarch as fitting
    from perfvec.model import load_model

    fitting.require_name(output)
    if (times is None) == (latencies is None) or (latencies is None) != (traces is None):
        raise InputError("give one source: --times FILE, or --traces DIR with --latencies DIR")
    if times is not None:
        fitted = fitting.fit_times(
            times,
            output,
            load_model=lambda: load_model(model_file),
            resolve=lambda model, paths: [target_of(model, path).vector for path in paths],
            uarch=machine,
            frequency_ghz=frequency_ghz,
            name=name,
        )
    else:
        assert traces is not None
        assert latencies is not None
        if frequency_ghz is not None:
            raise InputError("labels are cycles of machines that have a clock; leave --frequency-ghz out")
        fitted = fitting.fit_labels(load_model(model_file), traces, latencies, output, uarch=machine, name=name)
    return suite_times.result(fitted)
