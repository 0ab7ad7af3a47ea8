"""The `perfvec` command: every command is a thin call of a documented function.

Tables go to the terminal, `--json` to stdout, progress to stderr. A wrong input is one line on stderr and status 2.
Modules that a command needs are imported when it runs, so that `--help` answers at once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uarch.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from perfvec.model import Model
    from perfvec.vector import ProgramVector
    from tracegen.qemu import Region, TraceResult
    from tracegen.qemu.run import Outcome
    from uarch.configuration import Machine

app = typer.Typer(
    name="perfvec", help="Profile a program once, predict its run time on any microarchitecture.",
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
)  # fmt: skip
uarch_app = typer.Typer(help="Machines: list, show, diff, sample, to and from gem5.", no_args_is_help=True)
suite_app = typer.Typer(help="The catalogue of workloads: list, run, table.", no_args_is_help=True)
import_app = typer.Typer(help="What other tools leave becomes traces and labels.", no_args_is_help=True)
app.add_typer(uarch_app, name="uarch")
app.add_typer(import_app, name="import")
app.add_typer(suite_app, name="suite")

Targets = Annotated[
    list[str] | None, typer.Argument(help="Traces (*.trace.h5) or vectors (*.vector.npz); or -- PROGRAM ARGS…")
]
ModelFile = Annotated[Path | None, typer.Option("--model", help="Model file; the shipped model by default.")]
Machines = Annotated[list[str] | None, typer.Option("--uarch", help="Preset name or YAML/JSON file; repeat for more.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout instead of a table.")]
Csv = Annotated[Path | None, typer.Option("--csv", help="Write the table as CSV.")]
Html = Annotated[Path | None, typer.Option("--html", help="Write a self-contained page with picture and table.")]
Picture = Annotated[Path | None, typer.Option("--picture", help="Write the picture (.png, .svg or .pdf).")]
MaxInstructions = Annotated[
    int | None, typer.Option("--max-instructions", min=1, help="Stop after so many instructions.")
]
Skip = Annotated[int, typer.Option(min=0, help="Instructions executed before recording starts.")]
RegionFunction = Annotated[
    str | None, typer.Option("--region", help="Record only this function, from its entry to its return.")
]
RegionStart = Annotated[
    str | None, typer.Option("--from", help="Record from here: SYMBOL, SYMBOL+OFFSET or 0xADDRESS of the executable.")
]
RegionStop = Annotated[str | None, typer.Option("--to", help="Record until here; to the program's end by default.")]
RegionTimes = Annotated[
    int | None, typer.Option("--times", min=1, help="Stop after so many passages of the region; all by default.")
]
Stdin = Annotated[Path | None, typer.Option(help="File on the program's standard input.")]
Cwd = Annotated[Path | None, typer.Option(help="The program's working directory.")]
Env = Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the program; repeat for more.")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: what follows `--` is a program and its arguments."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    program: list[str] = []
    if "--" in words:
        cut = words.index("--")
        words, program = words[:cut], words[cut + 1 :]
        if not program:
            _fail(InputError("nothing follows --; write -- PROGRAM ARGS…"))
    try:
        app(words, obj=program, standalone_mode=True)
    except InputError as error:
        _fail(error)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output is gone; nobody is left to tell
        sys.exit(141)


def _fail(error: InputError) -> None:
    print(f"perfvec: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(2)


def _emit(
    frame: pd.DataFrame, document: Callable[[], dict[str, Any]], plot: Callable[[], Figure], title: str, *,
    as_json: bool, csv: Path | None, html: Path | None, picture: Path | None, shown: pd.DataFrame | None = None,
) -> None:  # fmt: skip
    """Print the table or its JSON, and write the files that were asked for."""
    from analysis.report import Section, write_picture, write_report
    from tracegen.files import atomic_path

    if csv is not None:
        with atomic_path(csv) as temporary:
            frame.to_csv(temporary)
    if html is not None:
        write_report(html, title, [Section(title, figure=plot(), table=frame)])
    if picture is not None:
        write_picture(picture, plot())
    if as_json:
        print(json.dumps(document(), allow_nan=False))
    else:
        print(_table(frame if shown is None else shown))


def _table(frame: pd.DataFrame) -> str:
    import pandas as pd

    return frame.to_string(index=not isinstance(frame.index, pd.RangeIndex), float_format=lambda value: f"{value:.4g}")


def _resolve(
    context: typer.Context, targets: Sequence[str] | None, model_file: Path | None, limit: int | None
) -> tuple[Model, list[ProgramVector]]:
    from analysis.targets import resolve
    from perfvec.model import load_model

    model = load_model(model_file)
    return model, resolve(model, targets or [], context.obj, max_instructions=limit)


def _machines(names: Sequence[str] | None) -> list[Machine]:
    from uarch.configuration import load_machine, preset_names

    return [load_machine(name) for name in (names or preset_names())]


@app.command()
def trace(
    context: typer.Context,
    output: Annotated[Path, typer.Option("-o", "--output", help="The trace file to write.")],
    max_instructions: MaxInstructions = None,
    skip: Skip = 0,
    region: RegionFunction = None,
    start: RegionStart = None,
    stop: RegionStop = None,
    times: RegionTimes = None,
    threads: Annotated[
        bool, typer.Option("--threads", help="Trace every thread, each into a file of its own.")
    ] = False,
    stdin: Stdin = None,
    cwd: Cwd = None,
    env: Env = None,
) -> None:
    """Trace a program: perfvec trace -o T.trace.h5 -- PROGRAM ARGS…; its exit status is passed through.

    Children that it forks run untraced; where it becomes another program by exec, the trace ends.
    """
    from tracegen.qemu import trace as run_trace

    if not context.obj:
        raise InputError("no program to trace; write perfvec trace -o T.trace.h5 -- PROGRAM ARGS…")
    with _surroundings(stdin, cwd, env) as surroundings:
        result = run_trace(
            context.obj, output, max_instructions=max_instructions, skip=skip, threads=threads,
            region=_region(region, start, stop, times), **surroundings,
        )  # fmt: skip
    paths = ", ".join(str(path) for path in (result.path, *result.threads))
    print(f"{paths}: {result.instructions:,} instructions, {result.isa}", file=sys.stderr)
    _leave_as(result)


@contextmanager
def _surroundings(stdin: Path | None, cwd: Path | None, env: list[str] | None) -> Iterator[dict[str, Any]]:
    """Standard input, folder and environment of a program that is run."""
    import os

    wrong = [item for item in env or [] if "=" not in item]
    if wrong:
        raise InputError(f"--env {wrong[0]!r} must read NAME=VALUE")
    environment = {**os.environ, **dict(item.split("=", 1) for item in env)} if env else None
    if stdin is None:
        yield {"cwd": cwd, "env": environment}
        return
    if not stdin.is_file():
        raise InputError(f"{stdin}: no such file for --stdin")
    with stdin.open("rb") as given:
        yield {"stdin": given, "cwd": cwd, "env": environment}


def _region(function: str | None, start: str | None, stop: str | None, times: int | None) -> Region | None:
    from tracegen.qemu import Region, parse_place

    if function is None and start is None and stop is None:
        if times is not None:
            raise InputError("--times counts passages of a region; give --region, or --from and --to")
        return None
    if function is not None and (start is not None or stop is not None):
        raise InputError("--region is a function, from its entry to its return; it does not go with --from or --to")
    first = function or start
    return Region(
        start=parse_place(first) if first else None, stop=parse_place(stop) if stop else None,
        returns=function is not None, times=times,
    )  # fmt: skip


def _leave_as(result: TraceResult | Outcome) -> None:
    """Exit as the traced program did."""
    if result.replaced_by is not None:
        print(f"the program became {result.replaced_by} (exec), which is not traced: trace that one", file=sys.stderr)
    if result.interrupted:
        raise typer.Exit(130)
    if result.signal is not None and not result.stopped:
        raise typer.Exit(128 + result.signal)
    raise typer.Exit(result.exit_status or 0)


@app.command()
def features(
    context: typer.Context,
    output: Annotated[Path, typer.Option("-o", "--output", help="The features file to write.")],
    trace_file: Annotated[Path | None, typer.Argument(help="A trace; or -- PROGRAM ARGS…")] = None,
    schema: Annotated[str, typer.Option(help="Feature schema: default or perfvec-51.")] = "default",
    max_instructions: MaxInstructions = None,
    skip: Skip = 0,
    region: RegionFunction = None,
    start: RegionStart = None,
    stop: RegionStop = None,
    times: RegionTimes = None,
    stdin: Stdin = None,
    cwd: Cwd = None,
    env: Env = None,
) -> None:
    """Extract a trace's features into a file, or a program's while it runs, with no trace in between.

    The options after --schema are for a program, as of perfvec trace; its exit status is passed through.
    """
    from tracegen.features import get_schema
    from tracegen.features.file import extract, extract_stream
    from tracegen.files import require_writable
    from tracegen.qemu import stream
    from tracegen.trace import Trace

    chosen = get_schema(schema)
    require_writable(output)
    if (trace_file is None) == (not context.obj):
        raise InputError("give one source of features: a trace, or -- PROGRAM ARGS…")
    if trace_file is not None:
        with Trace(trace_file) as opened:
            extract(opened, chosen, output)
        return
    with (
        _surroundings(stdin, cwd, env) as surroundings,
        stream(
            context.obj, max_instructions=max_instructions, skip=skip, region=_region(region, start, stop, times),
            **surroundings,
        ) as running,
    ):  # fmt: skip
        instructions = extract_stream(running, chosen, output)
    print(f"{output}: {instructions:,} instructions, {running.isa}", file=sys.stderr)
    assert running.outcome is not None
    _leave_as(running.outcome)


@app.command()
def characterise(
    trace_file: Annotated[Path, typer.Argument(help="A trace.")],
    as_json: Json = False,
    csv: Csv = None,
    max_instructions: MaxInstructions = None,
) -> None:
    """A trace's microarchitecture-independent profile: mix, branch entropy, footprints, miss ratios, parallelism."""
    import pandas as pd

    from tracegen.characterise import characterise as run_characterise
    from tracegen.characterise import rows
    from tracegen.files import atomic_path, require_writable

    if csv is not None:
        require_writable(csv)
    document = run_characterise(trace_file, max_instructions=max_instructions)
    frame = pd.DataFrame(rows(document), columns=["group", "measure", "value"])
    if csv is not None:
        with atomic_path(csv) as temporary:
            frame.to_csv(temporary, index=False)
    if as_json:
        print(json.dumps(document, allow_nan=False))
    else:
        print(frame.set_index(["group", "measure"]).to_string(float_format=lambda value: f"{value:,.6g}"))


@app.command()
def label(
    traces: Annotated[list[Path], typer.Argument(help="Traces to label.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the latency files.")],
    machines: Machines = None,
    presets: Annotated[bool, typer.Option("--presets", help="Label on every preset.")] = False,
    sample: Annotated[int, typer.Option(min=0, help="Label on so many machines sampled from the design space.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    machines_of: Annotated[Path | None, typer.Option(help="Label on the machines of this latency file.")] = None,
    start: Annotated[int, typer.Option(min=0, help="First labelled instruction; caches are warmed by all before.")] = 0,
    count: Annotated[
        int | None, typer.Option(min=1, help="Labelled instructions; to the trace's end by default.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Traces (with gem5: simulations) side by side.")] = 2,
    simulator: Annotated[str, typer.Option(help="embedded, or gem5, which runs the traces' programs.")] = "embedded",
    gem5: Annotated[Path | None, typer.Option(help="gem5's binary; by default the environment's GEM5.")] = None,
) -> None:
    """Time traces on machines: latency files for training and evaluation."""
    from tracegen.label import label as run_label
    from tracegen.latency import LatencyFile
    from uarch.configuration import preset_names
    from uarch.space import sample as sample_space

    chosen = _machines(machines) if machines else []
    if presets:
        chosen += _machines(preset_names())
    if sample:
        chosen += sample_space(sample, seed)
    if machines_of:
        with LatencyFile(machines_of) as labels:
            chosen += labels.machines
    for path in run_label(
        traces, chosen, output, start=start, count=count, workers=workers, simulator=simulator, gem5=gem5
    ):
        print(path)


@import_app.command("gem5")
def import_gem5(
    files: Annotated[
        list[Path],
        typer.Argument(help="gem5's output folder, or its files: the text (.gz, a pipe, -), config.json, stats.txt."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The trace file to write.")],
    latency: Annotated[Path | None, typer.Option(help="The latency file to write.")] = None,
    program: Annotated[Path | None, typer.Option(help="The executable, if not where config.json says.")] = None,
    name: Annotated[str | None, typer.Option(help="The machine's name; by default the run's.")] = None,
    warmup: Annotated[
        int | None, typer.Option(min=0, help="Instructions without labels; by default the run's warm-up.")
    ] = None,
) -> None:
    """A trace and labels from a run of gem5 with --debug-flags=ExecAll,O3PipeView,Vma."""
    from tracegen.gem5.reader import import_gem5 as run_import

    done = run_import(files, output, latency=latency, program=program, name=name, warmup=warmup)
    for note in done.notes:
        print(note, file=sys.stderr)
    labels = f", {done.labelled:,} labels from {done.start:,} on" if latency is not None else ""
    agreement = "agrees with stats.txt" if done.checked else "not compared with stats.txt, which is not there"
    found = f"{done.instructions:,} instructions{labels}, {done.cycles:,} cycles on {done.machine.name}"
    print(f"{done.path}: {found}; {agreement}", file=sys.stderr)
    if done.saturated:
        print(f"{done.saturated:,} latencies are above 65,535 cycles and were cut to that", file=sys.stderr)


@app.command()
def train(
    traces: Annotated[Path, typer.Option(help="Folder with traces.")],
    latencies: Annotated[Path, typer.Option(help="Folder with latency files of those traces.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The model to write.")],
    encoder_latencies: Annotated[
        Path | None, typer.Option(help="Latency files of more machines, for the encoder.")
    ] = None,
    table_latencies: Annotated[
        Path | None, typer.Option(help="Latency files of machines to fit vectors for, after training.")
    ] = None,
    encoder: Annotated[
        bool, typer.Option("--encoder/--no-encoder", help="Whether to fit an encoder of other machines.")
    ] = True,
    exclude: Annotated[list[str] | None, typer.Option(help="A program to leave out; repeat for more.")] = None,
    fold: Annotated[str, typer.Option(help="K/N: leave out the K-th of N folds of the programs.")] = "",
    hold_machines: Annotated[int, typer.Option(min=0, help="Leave out so many of the labels' machines.")] = 0,
    machine_seed: Annotated[int, typer.Option(min=0, help="Seed of which machines are left out.")] = 0,
    validate_programs: Annotated[
        str, typer.Option(help="Programs A,B,… that do not train but tell which weights are the best.")
    ] = "",
    validate_fraction: Annotated[
        float, typer.Option(min=0.0, max=0.5, help="Validate on this fraction of the programs instead.")
    ] = 0.0,
    validate_every: Annotated[int, typer.Option(min=1, help="Steps between validations.")] = 500,
    patience: Annotated[
        int, typer.Option(min=0, help="Validations without a better one before training stops; 0: never.")
    ] = 0,
    schema: Annotated[str, typer.Option(help="Feature schema.")] = "default",
    architecture: Annotated[str, typer.Option(help="lstm, gru, convolution, transformer, linear or mlp.")] = "lstm",
    width: Annotated[int, typer.Option(min=1, help="Length of the vectors.")] = 256,
    layers: Annotated[int, typer.Option(min=1, help="Layers of the architecture.")] = 2,
    number: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE of the architecture, as window=32 of a transformer; repeat for more."),
    ] = None,
    skip: Annotated[
        bool, typer.Option("--skip", help="Features also enter an instruction's vector by a linear map.")
    ] = False,
    instructions: Annotated[
        int, typer.Option(min=1, help="Instructions to train on, repetitions counted.")
    ] = 60_000_000,
    lanes: Annotated[int, typer.Option(min=1, help="Chunks in a batch.")] = 16,
    optimizer: Annotated[str, typer.Option(help="muon (matrices by Muon, the rest by Adam) or adam.")] = "muon",
    learning_rate: Annotated[float, typer.Option(min=1e-6, max=1.0, help="Adam's peak learning rate.")] = 2e-3,
    matrix_rate: Annotated[float, typer.Option(min=1e-6, max=1.0, help="Muon's peak learning rate.")] = 0.02,
    weight_decay: Annotated[float, typer.Option(min=0.0, help="Decay of the weights, as AdamW's.")] = 0.0,
    average: Annotated[
        float, typer.Option(min=0.0, max=0.999999, help="Save a moving average of the weights with this decay a step.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of weights and batches.")] = 0,
    initial: Annotated[Path | None, typer.Option(help="A model to go on from, instead of from nothing.")] = None,
    device: Annotated[str, typer.Option(help="auto (a GPU where there is one), cpu, cuda or cuda:N.")] = "auto",
    tensorboard: Annotated[Path | None, typer.Option(help="Folder for TensorBoard's files.")] = None,
    keep_work: Annotated[bool, typer.Option("--keep-work", help="Keep shards and checkpoint afterwards.")] = False,
) -> None:
    """Train the foundation model and the machine encoder; a killed run continues where its checkpoint was.

    Several GPUs or processors: torchrun --nproc-per-node N -m perfvec train …
    """
    from perfvec.data import Split
    from perfvec.model import load_model
    from perfvec.recipe import Recipe, parse_numbers
    from perfvec.train import train as run_train

    recipe = Recipe(
        schema=schema, architecture=architecture, width=width, layers=layers, numbers=parse_numbers(number or []),
        skip=skip, instructions=instructions, lanes=lanes, optimizer=optimizer, learning_rate=learning_rate,
        matrix_rate=matrix_rate, weight_decay=weight_decay, average=average, validate_every=validate_every,
        patience=patience, seed=seed,
    )  # fmt: skip
    split = Split(
        exclude=tuple(exclude or []), fold=fold, hold_machines=hold_machines, machine_seed=machine_seed,
        validate_programs=tuple(filter(None, validate_programs.split(","))), validate_fraction=validate_fraction,
    )  # fmt: skip
    run_train(
        traces, latencies, output, recipe=recipe, split=split, encoder_latencies=encoder_latencies,
        table_latencies=table_latencies, encoder=encoder, initial=load_model(initial) if initial else None,
        device=device, tensorboard=tensorboard, keep_work=keep_work,
    )  # fmt: skip


@app.command()
def evaluate(
    traces: Annotated[Path, typer.Option(help="Folder with traces.")],
    latencies: Annotated[Path, typer.Option(help="Folder with latency files of those traces.")],
    model_files: Annotated[
        list[Path] | None, typer.Option("--model", help="Model file, the shipped one by default; repeat for folds.")
    ] = None,
    group: Annotated[str | None, typer.Option("--by", help="A table by program or by uarch instead.")] = None,
    as_json: Json = False,
    csv: Csv = None,
) -> None:
    """The accuracy protocol: errors for seen and unseen programs and machines, of one model or of several folds."""
    from perfvec import evaluate as evaluation
    from perfvec.model import load_model
    from tracegen.files import atomic_path

    if group is not None:
        evaluation.require_group(group)
    models = [load_model(path) for path in model_files] if model_files else [load_model()]
    pairs = evaluation.evaluate(models, traces, latencies)
    if csv is not None:
        with atomic_path(csv) as temporary:
            pairs.to_csv(temporary, index=False)
    if as_json:
        print(json.dumps(evaluation.to_json(pairs), allow_nan=False))
    else:
        print(_table(evaluation.summary(pairs) if group is None else evaluation.by(pairs, group)))
        print(evaluation.describe(pairs), file=sys.stderr)


@app.command("fit-uarch")
def fit_uarch(
    output: Annotated[Path, typer.Option("-o", "--output", help="The machine vector to write (*.machine.npz).")],
    times: Annotated[
        Path | None, typer.Option(help="CSV or JSON: target, seconds or cycles, and optionally uncertainty.")
    ] = None,
    traces: Annotated[Path | None, typer.Option(help="Folder with traces, for --latencies.")] = None,
    latencies: Annotated[Path | None, typer.Option(help="Folder with latency files: fit to labels.")] = None,
    machine: Annotated[
        str | None, typer.Option("--uarch", help="What is known of the machine: preset, file, or a name in the labels.")
    ] = None,
    frequency_ghz: Annotated[
        float | None, typer.Option("--frequency-ghz", help="Core clock; by default that of --uarch.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The machine's name; by default that of --uarch or the file.")
    ] = None,
    model_file: ModelFile = None,
    as_json: Json = False,
) -> None:
    """Fit a machine's vector to whole-program times, or to labels; predict --uarch FILE then uses it."""
    from analysis.targets import resolve
    from perfvec import fit_uarch as fitting
    from perfvec.model import load_model

    fitting.require_name(output)
    if (times is None) == (latencies is None) or (latencies is None) != (traces is None):
        raise InputError("give one source: --times FILE, or --traces DIR with --latencies DIR")
    if times is not None:
        fitted = fitting.fit_times(
            times, output, load_model=lambda: load_model(model_file), resolve=resolve, uarch=machine,
            frequency_ghz=frequency_ghz, name=name,
        )  # fmt: skip
    else:
        assert traces is not None
        assert latencies is not None
        fitted = fitting.fit_labels(load_model(model_file), traces, latencies, output, uarch=machine, name=name)
    for warning in fitted.warnings:
        print(f"perfvec: {warning}", file=sys.stderr)
    print(json.dumps(fitted.to_json(), allow_nan=False) if as_json else _table(fitted.table))


@app.command()
def represent(
    context: typer.Context,
    output: Annotated[Path, typer.Option("-o", "--output", help="The vector file to write.")],
    target: Annotated[Path | None, typer.Argument(help="A trace; or -- PROGRAM ARGS…")] = None,
    model_file: ModelFile = None,
    sample: Annotated[
        str | None, typer.Option(help="auto: from a part of the instructions, with an interval of confidence.")
    ] = None,
    half_width: Annotated[
        str, typer.Option(help="Of the 95 % interval, relative, on every machine of the model's table.")
    ] = "2%",
    seed: Annotated[int, typer.Option(min=0, help="Of the sample.")] = 0,
    windowed: Annotated[
        bool,
        typer.Option("--windowed", help="Of a trace: a 256-step window per instruction, PerfVec's way; very slow."),
    ] = False,
    max_instructions: MaxInstructions = None,
    skip: Skip = 0,
    region: RegionFunction = None,
    start: RegionStart = None,
    stop: RegionStop = None,
    times: RegionTimes = None,
    stdin: Stdin = None,
    cwd: Cwd = None,
    env: Env = None,
) -> None:
    """Turn a program into its vector: a trace (a killed run continues), or a program while it runs, with no trace.

    The options after --max-instructions are for a program, as of perfvec trace; its exit status is passed through.
    Ctrl-C ends the program and keeps the vector of what was seen.
    """
    from perfvec.model import load_model
    from perfvec.represent import represent_file, represent_stream
    from perfvec.sample import parse_half_width, represent_sampled, represent_stream_sampled
    from tracegen.files import require_writable
    from tracegen.qemu import stream

    require_writable(output)
    if (target is None) == (not context.obj):
        raise InputError("give one target: a trace, or -- PROGRAM ARGS…")
    if sample not in (None, "auto"):
        raise InputError(f"--sample {sample!r} must read auto")
    if windowed and (target is None or sample is not None):
        raise InputError("--windowed is for a whole trace: give a trace file and leave --sample out")
    width, model = parse_half_width(half_width), load_model(model_file)
    if target is not None:
        if sample is None:
            represent_file(model, target, output, max_instructions=max_instructions, windowed=windowed)
        else:
            options: dict[str, Any] = {"half_width": width, "max_instructions": max_instructions, "seed": seed}
            represent_sampled(model, target, **options).save(output)
        print(_vector_line(output), file=sys.stderr)
        return
    with (
        _surroundings(stdin, cwd, env) as surroundings,
        stream(
            context.obj, max_instructions=max_instructions, skip=skip, region=_region(region, start, stop, times),
            **surroundings,
        ) as running,
    ):  # fmt: skip
        if sample is None:
            represent_stream(model, running).save(output)
        else:
            represent_stream_sampled(model, running, half_width=width, seed=seed).save(output)
    print(_vector_line(output), file=sys.stderr)
    if running.outcome is None:
        raise typer.Exit(130)
    _leave_as(running.outcome)


def _vector_line(path: Path) -> str:
    from perfvec.vector import load_vector

    vector = load_vector(path)
    sampling = vector.sampling
    part = f", {sampling.units_represented:,} of {sampling.units:,} units represented" if sampling else ""
    return f"{path}: {vector.program}, {vector.instructions:,} instructions{part}"


@app.command()
def phases(
    trace_file: Annotated[Path, typer.Argument(help="A trace.")],
    interval: Annotated[
        int | None, typer.Option(min=1000, help="Instructions of an interval; a 200th of the trace by default.")
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Phases at most.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="Of the clustering.")] = 0,
    prefix: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write PREFIX.simpoints, PREFIX.weights and PREFIX.bb.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Phases of a trace, as SimPoint finds them, and their simulation points, for gem5."""
    import pandas as pd

    from tracegen.phases import phases as run_phases
    from tracegen.phases import strip, write_simpoints

    found = run_phases(trace_file, interval=interval, most=most, seed=seed)
    for path in write_simpoints(found, prefix) if prefix is not None else []:
        print(path, file=sys.stderr)
    if as_json:
        print(json.dumps(found.document(), allow_nan=False))
    else:
        print(_table(pd.DataFrame(found.document()["phases"])))
        print(f"over time, {found.interval:,} instructions an interval: {strip(found)}")


@app.command()
def predict(
    context: typer.Context,
    targets: Targets = None,
    machines: Machines = None,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    as_json: Json = False,
    csv: Csv = None,
    html: Html = None,
    picture: Picture = None,
) -> None:
    """Time, cycles and CPI of programs on machines (all presets by default); a line on stderr for each that is unlike
    what trained the model.
    """
    from analysis import novelty
    from analysis import predict as prediction
    from perfvec.machine_vector import load_predictable
    from perfvec.model import load_model

    chosen = load_predictable(machines, load_model(model_file)) if machines else _machines(None)
    model, vectors = _resolve(context, targets, model_file, max_instructions)
    frame = prediction.predict(model, vectors, chosen)
    unlike = novelty.novelty(model, vectors, chosen)
    for warning in novelty.warnings(unlike):
        print(f"perfvec: {warning}", file=sys.stderr)
    shown = prediction.shown(frame)
    _emit(
        frame, lambda: prediction.to_json(frame) | {"outside": novelty.to_json(unlike)},
        lambda: prediction.plot(frame), "Predicted run times",
        as_json=as_json, csv=csv, html=html, picture=picture, shown=shown,
    )  # fmt: skip


@app.command()
def sweep(
    context: typer.Context,
    targets: Targets = None,
    base: Annotated[
        str | None, typer.Option(help="The machine whose fields vary: preset or file; with --space it may be left out.")
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(help="FIELD=V1,V2,… or FIELD=LOW:HIGH:STEP (or :*FACTOR); repeat for more fields."),
    ] = None,
    space: Annotated[
        str | None, typer.Option(help="Sample a design space instead: a name (perfvec uarch spaces) or a YAML file.")
    ] = None,
    sample: Annotated[int, typer.Option(min=1, help="Points of --space.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample, or of the search.")] = 0,
    constraint: Annotated[
        list[str] | None, typer.Option(help="Only points where it holds, as 'l3.size_kib >= 2 * l2.size_kib'; repeat.")
    ] = None,
    cost: Annotated[str | None, typer.Option(help="Arithmetic over fields, as '2*l1d.size_kib + l2.size_kib'.")] = None,
    objective: Annotated[
        str | None, typer.Option(help="What is minimised, of time (seconds), cycles, cost and fields; time by default.")
    ] = None,
    best: Annotated[int, typer.Option(min=1, help="Best points shown and exported, of each program.")] = 10,
    heat: Annotated[str | None, typer.Option(help="FIELD,FIELD of the heat map; the first two by default.")] = None,
    search: Annotated[
        int | None, typer.Option(min=1, help="Look for the best in so many trials instead of listing all (Optuna).")
    ] = None,
    export_gem5: Annotated[
        Path | None, typer.Option("--export-gem5", help="Folder for gem5 scripts of the best points.")
    ] = None,
    gem5_results: Annotated[
        Path | None,
        typer.Option("--gem5-results", help="That folder, once gem5 ran: its results beside the predictions."),
    ] = None,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    as_json: Json = False,
    csv: Csv = None,
    html: Html = None,
    picture: Picture = None,
) -> None:
    """Times over a grid of configuration fields (--base, --vary) or a sampled design space (--space).

    `pareto` marks the points that none beats in time and cost (without --cost, of a grid: at equal or smaller fields).
    """
    from analysis import confirm, report
    from analysis import sweep as sweeping
    from analysis.sensitivity import sensitivity
    from uarch.configuration import load_machine

    if gem5_results is not None:
        table = confirm.gem5_results(gem5_results)
        _write_csv(table, csv)
        print(json.dumps({"points": table.to_dict(orient="records")}) if as_json else _table(table))
        return
    if (space is None) == (not vary):
        raise InputError("an empty sweep: give --vary FIELD=V1,V2,… with --base M, or --space S, one of the two")
    if vary and base is None:
        raise InputError("--vary needs the machine whose fields vary: --base M (a preset or file)")
    # A wrong field, value or expression is told before a program is traced.
    limits = sweeping.parse_constraints(constraint or [])
    grid = sweeping.parse_vary(vary) if vary else {}
    machine = load_machine(base) if base is not None else None
    if search is not None:
        from analysis import search as searching

        over = (
            searching.search_space(space, base=base, constraints=limits)
            if space is not None
            else searching.search_grid(_given(machine), grid, limits)
        )
        model, vectors = _resolve(context, targets, model_file, max_instructions)
        design = searching.search(model, vectors, over, search, seed=seed, cost=cost, objective=objective)
    else:
        design = (
            sweeping.space_design(space, sample, seed=seed, base=base, constraints=limits)
            if space is not None
            else sweeping.grid_design(_given(machine), grid, limits)
        )
        sweeping.Outcome(design.columns, cost, objective)
        model, vectors = _resolve(context, targets, model_file, max_instructions)
    if design.left_out:
        print(f"perfvec: {design.left_out}", file=sys.stderr)
    frame = sweeping.run(model, vectors, design, cost=cost, objective=objective)
    importance = sensitivity(frame, sweeping.fields_of(frame), sweeping.outcome_of(frame), exact=design.exact)
    chosen = sweeping.best(frame, best)
    _write_csv(frame, csv)
    title, axes = f"Sweep of {space or base}", sweeping.heat_fields(frame, heat)
    if html is not None:
        report.write_report(html, title, sweeping.sections(frame, chosen, importance, title, axes))
    if picture is not None:
        report.write_picture(picture, sweeping.plot(frame, axes))
    if export_gem5 is not None:
        programs = {vector.program: (vector.instructions, vector.isa) for vector in vectors}
        exported = confirm.export_gem5(export_gem5, frame, design, best, programs)
        print(f"perfvec: {confirm.how_to_run(export_gem5, exported)}", file=sys.stderr)
    if as_json:
        print(json.dumps(sweeping.to_json(frame, k=best, sensitivities=importance), allow_nan=False))
        return
    order = list(dict.fromkeys(importance["field"]))
    print(_table(sweeping.shown(chosen, order)))
    print(f"{len(chosen):,} best of {len(frame):,} points, {int(frame['pareto'].sum()):,} on the Pareto front\n")
    print(_table(importance.groupby("program", sort=False).head(8).reset_index(drop=True)))


def _given(machine: Machine | None) -> Machine:
    assert machine is not None
    return machine


def _write_csv(frame: pd.DataFrame, path: Path | None) -> None:
    from tracegen.files import atomic_path

    if path is not None:
        with atomic_path(path) as temporary:
            frame.to_csv(temporary)


Space = Annotated[str, typer.Option(help="Design space whose machines are sampled: a name or a YAML file.")]


@app.command()
def compare(
    context: typer.Context,
    targets: Targets = None,
    library: Annotated[
        Path | None, typer.Option(help="Folder of vectors (*.vector.npz): the nearest of them to each target.")
    ] = None,
    nearest: Annotated[int, typer.Option(min=1, help="How many of the library.")] = 5,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    as_json: Json = False,
    csv: Csv = None,
    html: Html = None,
    picture: Picture = None,
) -> None:
    """Cosine distances between programs, a dendrogram, a map; with --library the programs most like them."""
    from analysis import compare as comparison
    from analysis import report
    from perfvec.model import load_model

    if len(targets or []) + bool(context.obj) < (1 if library is not None else 2):
        raise InputError("comparing needs at least two targets, or one and --library DIR")
    known = comparison.load_library(library, load_model(model_file)) if library is not None else []
    _, vectors = _resolve(context, targets, model_file, max_instructions)
    found = comparison.nearest(vectors, known, nearest) if known else None
    everyone = vectors if len(vectors) > 1 else [*vectors, *known]
    distance = comparison.compare(everyone)
    place = comparison.plane(everyone)
    _write_csv(distance if found is None else found, csv)
    if html is not None:
        sections = comparison.sections(distance, place, found)
        report.write_report(html, "How alike programs are", sections)
    if picture is not None:
        report.write_picture(picture, comparison.plot(distance))
    if as_json:
        print(json.dumps(comparison.to_json(distance, place, found), allow_nan=False))
        return
    if len(vectors) > 1:
        print(comparison.shown(distance))
    if found is not None:
        print(_table(found))


@app.command()
def subset(
    context: typer.Context,
    targets: Targets = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Programs of the subset.")] = 5,
    on: Annotated[
        str, typer.Option(help="machines: alike in CPI over sampled machines; vectors: in their vectors' direction.")
    ] = "machines",
    space: Space = "default",
    sample: Annotated[int, typer.Option(min=1, help="Machines that the error is measured on.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the machines' sample.")] = 0,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    as_json: Json = False,
    csv: Csv = None,
) -> None:
    """The k programs that best stand for the others, with weights and the error that they make over many machines."""
    from analysis import subset as subsetting

    if len(targets or []) + bool(context.obj) <= k:
        raise InputError(f"-k {k} must be less than the number of targets; name at least {k + 1}")
    model, vectors = _resolve(context, targets, model_file, max_instructions)
    found = subsetting.subset(model, vectors, k, on=on, space=space, machines=sample, seed=seed)
    _write_csv(found.members, csv)
    if as_json:
        print(json.dumps(found.to_json(), allow_nan=False))
        return
    print(subsetting.shown(found))


@app.command()
def profile(
    context: typer.Context,
    target: Annotated[str | None, typer.Argument(help="A trace; or -- PROGRAM ARGS…")] = None,
    machines: Machines = None,
    by: Annotated[str, typer.Option(help="function, line, loop, class or interval.")] = "function",
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
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with flame graph and table.")] = None,
    folded: Annotated[Path | None, typer.Option(help="Write folded stacks, for flamegraph.pl.")] = None,
) -> None:
    """Predicted cycles of a program's parts on machines, with no simulation; the parts add up to the whole."""
    from analysis import flame, parts
    from analysis import profile as profiling
    from tracegen.files import atomic_path, require_writable

    model, chosen = _named_machines(machines, model_file)
    parts.require_partition(by)
    for path in (csv, html, folded):
        if path is not None:
            require_writable(path)
    if (target is None) == (not context.obj):
        raise InputError("give one target: a trace, or -- PROGRAM ARGS…")
    options: dict[str, Any] = {"interval": interval, "max_instructions": max_instructions}
    if target is not None:
        found = parts.collect(model, target, **options)
    else:
        found = parts.collect_command(model, context.obj, **options)
    frame = profiling.profile(model, found, chosen, by)
    if html is not None:
        flame.write_flame(html, model, found, chosen, frame, f"Predicted cycles by {by}")
    if folded is not None:
        with atomic_path(folded) as temporary:
            temporary.write_text(flame.folded(model, found, chosen))
    if annotate is not None:
        lines = profiling.annotate(model, found, chosen, annotate)
        document = profiling.annotation_json(lines, chosen, annotate)
        _write(lines, document, profiling.shown_annotation(lines, chosen), as_json=as_json, csv=csv)
        return
    document = profiling.to_json(frame, chosen, by)
    _write(frame, document, profiling.shown(frame, chosen, by, rows), as_json=as_json, csv=csv)


@app.command()
def diff(
    old: Annotated[str, typer.Argument(help="A trace.")],
    new: Annotated[str, typer.Argument(help="A trace of another build, version or input.")],
    machines: Machines = None,
    by: Annotated[str, typer.Option(help="function, line, loop or class.")] = "function",
    rows: Annotated[int, typer.Option(min=1, help="Rows in the terminal.")] = 20,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    as_json: Json = False,
    csv: Csv = None,
) -> None:
    """Which parts of a program gained or lost predicted time between two traces; they add up to the difference."""
    from analysis import difference
    from analysis.parts import collect, require_partition
    from tracegen.files import require_writable
    from tracegen.trace import Trace

    model, chosen = _named_machines(machines, model_file)
    require_partition(by, difference.PARTITIONS)
    if csv is not None:
        require_writable(csv)
    with Trace(old) as first, Trace(new) as second:  # both are opened before the work on one begins
        before, after = (collect(model, file, max_instructions=max_instructions) for file in (first, second))
    frame = difference.diff(model, before, after, chosen, by)
    document = difference.to_json(frame, before, after, chosen, by)
    _write(frame, document, difference.shown(frame, chosen, rows), as_json=as_json, csv=csv)


@app.command()
def attribute(
    context: typer.Context,
    targets: Targets = None,
    machines: Machines = None,
    ideal: Annotated[
        Path | None, typer.Option(help="YAML with the groups of fields and their ideal values (analysis/ideal.yaml).")
    ] = None,
    model_file: ModelFile = None,
    max_instructions: MaxInstructions = None,
    as_json: Json = False,
    csv: Csv = None,
) -> None:
    """What of a machine the cycles are due to: Shapley values of its caches, predictor, widths, … against an ideal."""
    import pandas as pd

    from analysis import attribute as attribution

    if not machines:
        raise InputError("say on which machine: --uarch M")
    chosen = _machines(machines)
    for machine in chosen:
        attribution.load_ideal(ideal or attribution.IDEAL, machine)  # a wrong file is told before a program is traced
    model, vectors = _resolve(context, targets, model_file, max_instructions)
    frame = pd.concat([attribution.attribute(model, vectors, machine, ideal) for machine in chosen], ignore_index=True)
    _write(frame, attribution.to_json(frame), attribution.shown(frame), as_json=as_json, csv=csv)


def _named_machines(names: Sequence[str] | None, model_file: Path | None) -> tuple[Model, list[Any]]:
    """The model, and machines that must be named: presets, files or fitted vectors."""
    from analysis.parts import price
    from perfvec.machine_vector import load_predictable
    from perfvec.model import load_model

    if not names:
        raise InputError("say on which machine: --uarch A, and --uarch B to compare")
    model = load_model(model_file)
    machines = load_predictable(names, model)
    price(model, machines)  # a machine that cannot be predicted is told before the work
    return model, machines


def _write(frame: pd.DataFrame, document: dict[str, Any], text: str, *, as_json: bool, csv: Path | None) -> None:
    from tracegen.files import atomic_path

    if csv is not None:
        with atomic_path(csv) as temporary:
            frame.to_csv(temporary, index=False)
    print(json.dumps(document, allow_nan=False) if as_json else text)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for what the demonstration makes.")] = Path(
        "demo-out"
    ),
    model_file: ModelFile = None,
) -> None:
    """Trace gzip, predict it on every preset, sweep caches, compare it with two programs; leaves one HTML page."""
    from analysis.demo import demo as run_demo
    from perfvec.model import load_model

    run_demo(output, load_model(model_file))


@uarch_app.command("list")
def uarch_list(as_json: Json = False) -> None:
    """The presets, a line each."""
    found = _machines(None)
    if as_json:
        print(json.dumps([machine.to_dict() for machine in found]))
        return
    for machine in found:
        print(_machine_line(machine))


def _machine_line(machine: Machine) -> str:
    caches = " ".join(f"{c.size_kib}K" if c else "-" for c in (machine.l1i, machine.l1d, machine.l2, machine.l3))
    return f"{machine.name:20} {machine.core:13} {machine.frequency_ghz:4.2f} GHz  {caches:24} {machine.memory.model}"


@uarch_app.command("show")
def uarch_show(name: Annotated[str, typer.Argument(help="Preset or file.")], as_json: Json = False) -> None:
    """One machine's configuration."""
    from uarch.configuration import machine_yaml

    machine = _machines([name])[0]
    print(json.dumps(machine.to_dict()) if as_json else machine_yaml(machine).rstrip("\n"))


@uarch_app.command("diff")
def uarch_diff(first: str, second: str) -> None:
    """The fields in which two machines differ."""
    from uarch.configuration import field_names, get_field

    one, other = _machines([first, second])
    names = list(dict.fromkeys([*field_names(one), *field_names(other)]))
    for name in names:
        values = [get_field(m, name) if name in field_names(m) else "-" for m in (one, other)]
        if values[0] != values[1]:
            print(f"{name:36} {values[0]!s:>14} {values[1]!s:>14}")


@uarch_app.command("export")
def uarch_export(
    machine: Annotated[str, typer.Argument(help="Preset or file.")],
    gem5: Annotated[bool, typer.Option("--gem5", help="A configuration script for stock gem5 v24.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write; the terminal otherwise.")
    ] = None,
    isa: Annotated[str, typer.Option(help="x86-64, aarch64 or riscv64.")] = "x86-64",
) -> None:
    """A machine for a simulator: perfvec uarch export --gem5 zen4 -o zen4.py, then gem5.opt zen4.py -- PROGRAM ARGS…"""
    from tracegen.files import atomic_path
    from uarch.gem5.script import gem5_script
    from uarch.gem5.table import as_simulated

    if not gem5:
        raise InputError("say for which simulator: --gem5")
    chosen = _machines([machine])[0]
    text = gem5_script(chosen, isa)
    for note in as_simulated(chosen, isa)[1]:
        print(note, file=sys.stderr)
    if output is None:
        print(text, end="")
        return
    with atomic_path(output) as temporary:
        temporary.write_text(text)


@uarch_app.command("import")
def uarch_import(
    config: Annotated[Path, typer.Argument(help="config.json of a gem5 output folder.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="YAML to write; the terminal otherwise.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The machine's name; by default the folder's.")] = None,
    base: Annotated[str | None, typer.Option(help="Machine (preset or file) for what gem5 cannot tell.")] = None,
) -> None:
    """The machine that a gem5 run simulated; a line on stderr for each thing that had to be assumed."""
    from tracegen.files import atomic_path
    from uarch.configuration import machine_yaml
    from uarch.gem5.config import import_config

    machine, notes = import_config(config, name=name, base=_machines([base])[0] if base else None)
    for note in notes:
        print(note, file=sys.stderr)
    if output is None:
        print(machine_yaml(machine), end="")
        return
    with atomic_path(output) as temporary:
        temporary.write_text(machine_yaml(machine))


@uarch_app.command("sample")
def uarch_sample(
    count: Annotated[int, typer.Argument(min=1, help="Number of machines.")],
    space: Annotated[str, typer.Option(help="Design space: a name (perfvec uarch spaces) or a YAML file.")] = "default",
    method: Annotated[str, typer.Option(help="sobol or lhs (Latin hypercube).")] = "sobol",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample.")] = 0,
    base: Annotated[str | None, typer.Option(help="Machine for the fields that the space leaves alone.")] = None,
    as_json: Json = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder for one YAML a machine.")] = None,
) -> None:
    """Machines sampled from a design space."""
    from uarch.configuration import save_machines
    from uarch.space import sample

    machines = sample(count, seed, space, method, base)
    if output is not None:
        save_machines(machines, output)
    if as_json:
        print(json.dumps([machine.to_dict() for machine in machines], indent=1))
    elif output is None:
        for machine in machines:
            print(_machine_line(machine))


@uarch_app.command("spaces")
def uarch_spaces(as_json: Json = False) -> None:
    """The named design spaces."""
    from uarch.space import load_space, space_names

    spaces = [load_space(name) for name in space_names()]
    if as_json:
        print(json.dumps([{"name": s.name, "description": s.description, "varied": s.varied} for s in spaces]))
        return
    for space in spaces:
        print(f"{space.name:12} {len(space.varied):3} fields  {space.description}")


@import_app.command("champsim")
def import_champsim(
    source: Annotated[str, typer.Argument(help="A ChampSim trace, plain, .xz or .gz; - for standard input.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The trace file to write.")],
    max_instructions: Annotated[int | None, typer.Option(min=1, help="Read so many records at most.")] = None,
) -> None:
    """A ChampSim trace becomes a trace file: perfvec import champsim F.champsimtrace.xz -o T.trace.h5."""
    from tracegen.champsim import import_champsim as run_import

    result = run_import(source, output, max_instructions=max_instructions)
    for note in result.notes():
        print(note, file=sys.stderr)
    print(f"{result.path}: {result.instructions:,} instructions of {result.records:,} records", file=sys.stderr)


@suite_app.command("list")
def suite_list() -> None:
    """The workloads; those whose program is not on this machine, and what to install for them."""
    from tracegen.suite import catalogue, packages_missing

    workloads = catalogue().values()
    for w in workloads:
        missing_here = "" if w.available else "(not on this machine)"
        print(f"{w.name:16} {w.group:12} {w.set:8} {w.package:20} {missing_here}".rstrip())
    if missing := packages_missing(workloads):
        print(f"apt-get install --no-install-recommends {' '.join(missing)}", file=sys.stderr)


@suite_app.command("run")
def suite_run(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the traces.")],
    names: Annotated[list[str] | None, typer.Argument(help="Workloads; all that the machine has by default.")] = None,
    set_name: Annotated[str | None, typer.Option("--set", help="All of one set: default, debian or mix.")] = None,
    max_instructions: Annotated[int, typer.Option(min=1000, help="Most instructions of each.")] = 4_000_000,
    workers: Annotated[int, typer.Option(min=1, help="Programs traced side by side.")] = 2,
) -> None:
    """Trace the workloads; traces that are there already stay. Status 2 where one failed; the others are there then."""
    from tracegen.suite import run

    traced = run(names or [], output, max_instructions, set_name=set_name, workers=workers)
    for name, instructions in traced.instructions.items():
        print(f"{name:16} {instructions:>12,}")
    for name, reason in traced.failures.items():
        print(f"perfvec: {name} has no trace: {' '.join(reason.split())}", file=sys.stderr)
    if traced.failures:
        raise typer.Exit(2)


@suite_app.command("table")
def suite_table(
    folder: Annotated[Path, typer.Argument(help="Folder with traces.")],
    as_markdown: Annotated[bool, typer.Option("--markdown", help="As a Markdown table.")] = False,
    as_json: Json = False,
) -> None:
    """What the traces of a folder are like: instructions, bytes, footprint, branches."""
    import pandas as pd

    from tracegen.suite import table
    from tracegen.suite.table import markdown

    rows = table(folder)
    print(json.dumps(rows) if as_json else markdown(rows) if as_markdown else _table(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
