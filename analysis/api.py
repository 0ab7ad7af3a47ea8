"""The Python API: programs, machines and questions about them. `import perfvec as pv` offers all of it as `pv.NAME`.

It is one file by intent: a page that shows every function of the API.

A question returns a `Result`. A program is a trace or live-points file (its path, or what `trace` and `load` return),
a vector file, or what `represent` returns. A machine is a preset's name, a YAML or JSON file, a fitted vector
(`*.machine.npz`), or what `machine` returns. What is wrong with them is an `Error`, one line. Modules that are heavy
are imported by the function that needs them.
"""

from __future__ import annotations

import math
import os
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from analysis.arguments import (
    configured,
    is_fitted,
    loaded_model,
    predictable,
    require_at_least,
    required,
    simulable,
    values_of,
)
from analysis.results.result import Result
from support.errors import InputError as Error
from tracegen.control_flow import MOST_PHASES
from tracegen.live_points import UNITS

if TYPE_CHECKING:
    from analysis.arguments import Machines, Models, Named
    from analysis.parts.costs import Costs
    from analysis.parts.partition import Parts
    from analysis.programs.targets import Target
    from analysis.questions.simulate import SimulationResult
    from analysis.questions.sweep import Sweep
    from analysis.questions.tiling import Experiment
    from perfvec.model import Model
    from perfvec.representation.vector import ProgramVector
    from tracegen.qemu import Region
    from uarch.configuration import Machine

DEFAULT_BUDGET = 20.0  # seconds
__all__ = [
    "DEFAULT_BUDGET",
    "Error",
    "LivePointsFile",
    "Program",
    "Result",
    "TraceFile",
    "attribute",
    "characterise",
    "collector",
    "compare",
    "diff",
    "explore",
    "import_champsim",
    "import_gem5",
    "live_points",
    "load",
    "load_model",
    "machine",
    "phases",
    "predict",
    "predictable",
    "presets",
    "profile",
    "report",
    "represent",
    "required",
    "simulable",
    "simulate",
    "subset",
    "sweep",
    "tiling",
    "trace",
]


@dataclass(frozen=True)
class _Recording(os.PathLike[str]):
    """A file of one run; it is a path, so every function that takes a path takes it."""

    path: Path
    _folder: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False, compare=False)

    def __fspath__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class TraceFile(_Recording):
    """A trace, the executed instructions of one thread. A temporary file is removed with the object.

    Attributes:
        path: The file; the object is a path, too.
        name: The program's name in tables.
        isa: x86-64, aarch64, riscv64 or champsim.
        instructions: Number of executed instructions.
        exit_status: The exit status of a program that `trace` ran to its end.
        notes: What is not recorded, what an import assumed, the signal that ended the program; a line each.

    >>> import perfvec as pv
    >>> trace = pv.load("T.trace.h5")
    >>> trace.isa, trace.instructions
    ('x86-64', 20000)
    """

    name: str = ""
    isa: str = ""
    instructions: int = 0
    exit_status: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LivePointsFile(_Recording):
    """Sampled units of a run with the state that warms any machine: simulated in a fraction of a second.

    Attributes:
        path: The file; the object is a path, too.
        name: The program's name in tables.
        isa: x86-64, aarch64, riscv64 or champsim.
        instructions: Number of instructions of the whole run.

    >>> import perfvec as pv
    >>> points = pv.live_points("T.trace.h5", units=64)
    >>> pv.simulate(points, "zen4").table["cycles"].gt(0).all().item()
    True
    """

    name: str = ""
    isa: str = ""
    instructions: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Program:
    """A program as the model sees it: its `vector` and, where it is known, the `recording` that simulations use.

    Attributes:
        vector: The sum of its instructions' vectors, `vector.vector` [d], and of what run.
        recording: Its trace; None where only the vector is known.

    >>> import perfvec as pv
    >>> program = pv.represent("T.trace.h5")
    >>> program
    Program('T', x86-64, 20,000 instructions)
    >>> program.save("T.vector.npz")
    >>> pv.load("T.vector.npz").name
    'T'
    """

    vector: ProgramVector
    recording: TraceFile | None = None

    def __repr__(self) -> str:
        return f"Program({self.name!r}, {self.vector.isa}, {self.instructions:,} instructions)"

    @property
    def name(self) -> str:
        """The program's name in tables."""
        return self.vector.program

    @property
    def instructions(self) -> int:
        """Number of executed instructions."""
        return self.vector.instructions

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the vector, `*.vector.npz`, atomically."""
        self.vector.save(path)


if TYPE_CHECKING:
    Recorded = str | os.PathLike[str] | Program
    Runnable = Recorded | ProgramVector | Target
    Runnables = Runnable | Iterable[Runnable]


def trace(
    command: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] | None = None,
    *,
    max_instructions: int | None = None,
    skip: int = 0,
    region: Region | str | None = None,
    stdin: IO[Any] | int | None = None,
    stdout: IO[Any] | int | None = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
) -> TraceFile:
    """Run a program under QEMU and record what it executes.

    `output` is the trace file; by default a temporary one. `skip` instructions are left out, then at most
    `max_instructions` are recorded; `region` records a function (its name) or a `tracegen.qemu.Region`. `stdin`,
    `stdout`, `env` and `cwd` are as in `subprocess`; the program's output is discarded by default. A warning tells of
    threads and children that are not recorded, and of a signal that ended the program. Raises Error.

    >>> import perfvec as pv
    >>> pv.trace(["true"], max_instructions=1000).instructions
    1000
    """
    from tracegen.qemu import Execution, parse_place
    from tracegen.qemu import Region as QemuRegion
    from tracegen.qemu import trace as run_trace

    if isinstance(command, str):
        raise Error(f"a command is a list of words, as ['gzip', '-c', 'records.csv'], not the text {command!r}")
    if other := [word for word in command if not isinstance(word, str | os.PathLike)]:
        raise Error(f"a command's words are texts or paths, as {str(other[0])!r}, not {other[0]!r}")
    require_at_least(1, max_instructions=max_instructions)
    require_at_least(0, skip=skip)
    if isinstance(region, str):
        region = QemuRegion(start=parse_place(region), returns=True)
    folder, path = _place(output, f"{Path(command[0]).name if command else 'program'}.trace.h5")
    execution = Execution(
        command,
        stdin=stdin,
        stdout=stdout,
        env=env,
        cwd=cwd,
        max_instructions=max_instructions,
        skip=skip,
        region=region,
    )
    done = run_trace(execution, path)
    if done.interrupted:
        raise KeyboardInterrupt
    found = _trace_file(done.path, folder)
    found = replace(found, exit_status=done.exit_status, notes=(*done.lost, *found.notes))
    for note in found.notes:
        warnings.warn(note, stacklevel=2)
    return found


def load(path: str | os.PathLike[str]) -> TraceFile | LivePointsFile | Program:
    """Open a trace (`*.trace.h5`), live-points (`*.livepoints.h5`) or a program vector (`*.vector.npz`).

    Raises Error for a file that is absent, damaged or foreign.

    >>> import perfvec as pv
    >>> pv.load("T.trace.h5").name
    'T'
    """
    from tracegen.live_points.live_points import is_live_points

    if Path(path).name.endswith(".npz"):
        from perfvec.representation.vector import load_vector

        return Program(load_vector(path))
    return _live_points_file(Path(path), None) if is_live_points(path) else _trace_file(Path(path), None)


def import_gem5(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] | None = None,
    *,
    latency: str | os.PathLike[str] | None = None,
    program: str | os.PathLike[str] | None = None,
) -> TraceFile:
    """Read a run of gem5: its output folder, or the files in it (text, config.json, stats.txt).

    The run needs `--debug-flags=ExecAll,O3PipeView,Vma`. `output` is the trace file, by default a temporary one;
    `latency` the file for gem5's own retire latencies; `program` the executable, if not where config.json says.
    Raises Error, naming file and line.

    >>> import perfvec as pv
    >>> pv.import_gem5("m5out", program="touch").isa
    'x86-64'
    """
    from tracegen.gem5.reader import import_gem5 as read

    paths = [files] if isinstance(files, str | os.PathLike) else list(files)
    folder, path = _place(output, "gem5.trace.h5")
    done = read(paths, path, latency=latency, program=program)
    return replace(_trace_file(done.path, folder), notes=(*done.notes, done.agreement))


def import_champsim(
    source: str | os.PathLike[str], output: str | os.PathLike[str] | None = None, *, max_instructions: int | None = None
) -> TraceFile:
    """Read a ChampSim trace, plain or compressed by xz or gzip. `output` as of `import_gem5`. Raises Error.

    >>> import perfvec as pv
    >>> pv.import_champsim("line.champsimtrace.xz", max_instructions=1000).instructions
    1000
    """
    from tracegen.formats.champsim import import_champsim as read

    require_at_least(1, max_instructions=max_instructions)
    folder, path = _place(output, "champsim.trace.h5")
    done = read(source, path, max_instructions=max_instructions)
    return replace(_trace_file(done.path, folder), notes=tuple(done.notes()))


def live_points(
    trace: Recorded,
    output: str | os.PathLike[str] | None = None,
    *,
    units: int = UNITS,
    seed: int = 0,
    vector: bool = True,
    model: Models = None,
) -> LivePointsFile:
    """Sample a trace once, so that any machine is simulated on about `units` units of 1,024 instructions.

    `output` is the live-points file, by default a temporary one; `vector`: it holds the program's vector by the `model`
    too. Raises Error.

    >>> import perfvec as pv
    >>> pv.live_points("T.trace.h5", units=64).instructions
    20000
    """
    from tracegen.live_points.live_points import SUFFIX, save
    from tracegen.live_points.record import of_trace

    require_at_least(0, seed=seed)
    require_at_least(1, units=units)
    source = _recording(trace)
    folder, path = _place(output, Path(source).name.removesuffix(".trace.h5") + SUFFIX)
    if vector:
        from perfvec.representation.live_points import live_points_of_trace

        save(live_points_of_trace(load_model(model), source, units=units, seed=seed), path)
    else:
        save(of_trace(source, units=units, seed=seed), path)
    return _live_points_file(path, folder)


def load_model(path: Models = None) -> Model:
    """Read a model (`*.safetensors`); without a path, the one that ships. A model is returned as it is. Raises Error.

    >>> import perfvec as pv
    >>> "zen4" in {machine.name for machine in pv.load_model().machines} or pv.load_model().encoder is not None
    True
    """
    return loaded_model(path)


def represent(
    trace: Recorded, *, half_width: float | None = None, max_instructions: int | None = None, model: Models = None
) -> Program:
    """Turn a trace into a program vector, from which the model predicts any machine.

    `half_width`: sample the trace so that the 95 % interval is at most that wide (0.02 is 2 %) on either side; by
    default every instruction is represented. Raises Error.

    >>> import perfvec as pv
    >>> pv.represent("T.trace.h5").instructions
    20000
    """
    from perfvec.representation.represent import represent as whole
    from perfvec.representation.sample import represent_sampled

    require_at_least(1, max_instructions=max_instructions)
    loaded, source = load_model(model), _recording(trace)
    path = os.fspath(source)
    if half_width is None:
        vector = whole(loaded, path, max_instructions=max_instructions)
    else:
        vector = represent_sampled(loaded, path, half_width=half_width, max_instructions=max_instructions)
    return Program(vector, source if isinstance(source, TraceFile) else _trace_file(Path(source), None))


def machine(name: str | os.PathLike[str] | Mapping[str, Any]) -> Machine:
    """Return a machine: a preset by name, a YAML or JSON file, or what such a file holds, as a mapping. `with_` changes
    fields of it. Raises Error.

    >>> import perfvec as pv
    >>> pv.machine("zen4").with_(l2__size_kib=2048).l2.size_kib
    2048
    """
    from uarch.configuration import machine_from_dict
    from uarch.machine_files import load_machine

    return machine_from_dict(name) if isinstance(name, Mapping) else load_machine(os.fspath(name))


def presets() -> list[str]:
    """Return the names of the preset machines.

    >>> import perfvec as pv
    >>> "zen4" in pv.presets()
    True
    """
    from uarch.machine_files import preset_names

    return preset_names()


def predict(
    programs: Runnables,
    machines: Machines = None,
    *,
    budget: float = DEFAULT_BUDGET,
    simulate: bool = False,
    level: float = 0.9,
    model: Models = None,
) -> Result:
    """Predict time, cycles, CPI and IPC of programs on machines (all presets by default).

    Of traces what fits in a `budget` of seconds is simulated and the rest corrected by it; 0 asks the model alone,
    `simulate` simulates everything. Vectors are the model's. The column `source` says which a number is; `low_cycles`
    and `high_cycles` are the interval of this `level`, `change` is the time against the first machine's, less 1.

    >>> import perfvec as pv
    >>> result = pv.predict("T.trace.h5", ["zen4", "cortex-a53"])
    >>> list(result.table["uarch"]), set(result.table["source"])
    (['zen4', 'cortex-a53'], {'simulated'})
    """
    from analysis.questions import predict as prediction

    loaded = load_model(model)
    chosen = predictable(loaded, machines)
    return prediction.ask(loaded, _targets(loaded, programs), chosen, _seconds(budget, simulate), level=level)


def simulate(
    traces: Recorded | Iterable[Recorded],
    machines: Machines = None,
    *,
    start: int = 0,
    count: int | None = None,
    warmup: int = 50_000,
    threads: int | None = None,
) -> SimulationResult:
    """Simulate traces or live-points on machines (all presets by default) with the embedded timing model.

    The table has every measure; `stack` is the CPI stack, `stack.by("function")` its parts. `start` and `count`: time
    only these instructions; caches see everything before, pipeline and predictors the last `warmup` of it.

    >>> import perfvec as pv
    >>> simulation = pv.simulate("T.trace.h5", "zen4")
    >>> parts = simulation.stack.by("function").table
    >>> int(parts["cycles.zen4"].sum()) == int(simulation.table["cycles"].sum())
    True
    """
    from analysis.programs.names import require_once
    from analysis.questions import simulate as simulation

    require_at_least(0, start=start, warmup=warmup)
    require_at_least(1, count=count, threads=threads)
    found = [_recording(one) for one in ([traces] if isinstance(traces, str | os.PathLike | Program) else traces)]
    if not found:
        raise Error("no program: give a trace, live-points, or a list of them")
    require_once(found)
    return simulation.ask(found, simulable(machines), simulation.Span(start, count, warmup), threads=threads)


def sweep(
    programs: Runnables,
    base: Named | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    *,
    space: str | None = None,
    sample: int = 10_000,
    seed: int = 0,
    constraints: str | Sequence[str] = (),
    cost: str | None = None,
    objective: str | None = None,
    best: int = 10,
    search: int | None = None,
    budget: float = DEFAULT_BUDGET,
    simulate: bool = False,
    start: int = 0,
    count: int | None = None,
    level: float = 0.9,
    keep: str | os.PathLike[str] | None = None,
    model: Models = None,
) -> Sweep:
    """Find the time of every point of a grid around `base`, or of a `sample` of a design space.

    `vary` gives each field its values. `cost` and `objective` are arithmetic over fields (and `time`, `cycles`,
    `cost`), `constraints` comparisons. `search`: look for the best and list so many instead of all points.
    `budget` and `simulate` are as of `predict`; points that are in the folder `keep` are not simulated again. The
    result has also `best` and `sensitivity`, tables. Raises Error.

    >>> import perfvec as pv
    >>> swept = pv.sweep("T.trace.h5", base="zen4", vary={"l2.size_kib": [256, 512, 1024]}, budget=20)
    >>> len(swept.table), swept.best["l2.size_kib"].iloc[0] in (256, 512, 1024)
    (3, True)
    """
    from analysis.programs.span import Span
    from analysis.questions.sweep import SweepQuestion

    require_at_least(0, seed=seed, start=start)
    require_at_least(1, sample=sample, best=best, search=search, count=count)
    around = None if base is None else configured(base)
    question = SweepQuestion(
        base=around,
        vary={field: values_of(field, values) for field, values in (vary or {}).items()},
        space=space,
        sample=sample,
        seed=seed,
        constraints=(constraints,) if isinstance(constraints, str) else tuple(constraints),
        cost=cost,
        objective=objective,
        best=best,
        search=search,
    )
    span = Span(start, count) if start or count is not None else None
    question.require_goes_with(simulate=simulate, span=span is not None)
    loaded = load_model(model)
    given = _seconds(budget, simulate)
    return question.ask(loaded, _targets(loaded, programs, span), given, level=level, keep=keep)


def compare(
    programs: Sequence[Runnable],
    *,
    library: str | os.PathLike[str] | None = None,
    nearest: int = 5,
    plane: str = "pca",
    model: Models = None,
) -> Result:
    """Compare programs by the directions of their vectors: cosine distances, a dendrogram, a map.

    `library`: also the `nearest` programs of a folder of vectors, a `*.library.npz`, or `"suite"`, the shipped one.
    `plane` is the map's method, `"pca"` or `"tsne"`. Raises Error.

    >>> import perfvec as pv
    >>> pv.compare(["T.trace.h5", "U.trace.h5"]).json["programs"]
    ['T', 'U']
    """
    from analysis.programs.targets import cut_short
    from analysis.questions import compare as comparison

    require_at_least(1, nearest=nearest)
    loaded = load_model(model)
    known = comparison.load_library(os.fspath(library), loaded) if library is not None else []
    targets = _targets(loaded, programs)
    return comparison.ask([one.vector for one in targets], known, nearest, plane).noted(cut_short(targets))


def profile(
    trace: Recorded,
    machines: Machines,
    by: str = "function",
    *,
    budget: float = DEFAULT_BUDGET,
    simulate: bool = False,
    interval: int | None = None,
    rows: int | None = None,
    max_instructions: int | None = None,
    model: Models = None,
) -> Result:
    """Break the cycles of a trace into its parts on each machine; parts add up to the whole.

    `by` is function, line, loop, class, instruction, context (of calls), interval or phase. A trace that fits a
    `budget` of seconds is simulated, with CPI stacks; else the model answers. 0 asks the model alone, `simulate`
    simulates however long it takes. Raises Error.

    >>> import perfvec as pv
    >>> round(float(pv.profile("T.trace.h5", "zen4").table["share.zen4"].sum()), 6)
    1.0
    """
    from analysis.parts.partition import OF_A_WHOLE, require_partition
    from analysis.questions import profile as profiling

    require_partition(by)
    require_at_least(1, interval=interval, rows=rows, max_instructions=max_instructions)
    whole = interval is not None or by in OF_A_WHOLE
    seconds = _seconds(budget, simulate)
    collect = collector(machines, seconds, interval=interval, limit=max_instructions, whole=whole, model=model)
    (found,), costs = collect(_recording(trace))
    return profiling.result(found, costs, by, rows=rows)


def attribute(
    programs: Runnables,
    machines: Machines,
    *,
    ideal: str | Path | None = None,
    budget: float = DEFAULT_BUDGET,
    simulate: bool = False,
    model: Models = None,
) -> Result:
    """Attribute cycles to groups of a machine's fields: Shapley values against an ideal machine. Raises Error.

    >>> import perfvec as pv
    >>> table = pv.attribute("T.trace.h5", "zen4", budget=0).table
    >>> round(float(table["share"].sum()), 6)
    1.0
    """
    from analysis.questions import attribute as attribution

    loaded = load_model(model)
    chosen = simulable(required(machines))
    return attribution.ask(loaded, _targets(loaded, programs), chosen, _seconds(budget, simulate), ideal)


def diff(
    old: Recorded,
    new: Recorded,
    machines: Machines,
    by: str = "function",
    *,
    budget: float = DEFAULT_BUDGET,
    simulate: bool = False,
    rows: int = 20,
    max_instructions: int | None = None,
    model: Models = None,
) -> Result:
    """Compare two traces of one program part by part: which gained or lost time, and by what cause. Raises Error.

    >>> import perfvec as pv
    >>> table = pv.diff("T.trace.h5", "T.trace.h5", "zen4").table
    >>> float(table["difference.zen4"].abs().max())
    0.0
    """
    from analysis.parts.partition import require_partition
    from analysis.questions import difference

    require_partition(by, difference.PARTITIONS)
    require_at_least(1, rows=rows, max_instructions=max_instructions)
    collect = collector(machines, _seconds(budget, simulate), limit=max_instructions, model=model)
    (first, second), costs = collect(_recording(old), _recording(new))
    return difference.result(first, second, costs, by, rows=rows)


def subset(
    programs: Sequence[Runnable],
    k: int,
    *,
    on: str = "machines",
    space: str = "default",
    sample: int = 1000,
    seed: int = 0,
    model: Models = None,
) -> Result:
    """Find the `k` programs that stand for the others, and the error that they make over `sample` machines.

    `on`: alike in CPI over sampled machines (`"machines"`) or in direction (`"vectors"`). Raises Error.

    >>> import perfvec as pv
    >>> pv.subset(["T.trace.h5", "U.trace.h5"], 1, sample=16).table["weight"].tolist()
    [1.0]
    """
    from analysis.programs.targets import cut_short
    from analysis.questions import subset as subsetting

    require_at_least(0, seed=seed)
    require_at_least(1, k=k, sample=sample)
    loaded = load_model(model)
    targets = _targets(loaded, programs)
    vectors = [one.vector for one in targets]
    found = subsetting.subset(loaded, vectors, k, on=on, space=space, machines=sample, seed=seed)
    return subsetting.result(found, len(vectors)).noted(cut_short(targets))


def phases(trace: Recorded, *, interval: int | None = None, most: int = MOST_PHASES, seed: int = 0) -> Result:
    """Find the phases of a trace and their simulation points, as SimPoint does. Raises Error.

    >>> import perfvec as pv
    >>> len(pv.phases("T.trace.h5", most=3).table) <= 3
    True
    """
    from analysis.questions import phases as phase_question
    from tracegen.control_flow.phases import phases as find

    require_at_least(1, interval=interval, most=most)
    require_at_least(0, seed=seed)
    return phase_question.result(find(_recording(trace), interval=interval, most=most, seed=seed))


def characterise(trace: Recorded, *, max_instructions: int | None = None) -> Result:
    """Return the profile of a trace that no machine has a part in: mix, entropies, footprints, parallelism.

    >>> import perfvec as pv
    >>> pv.characterise("T.trace.h5").json["instructions"]
    20000
    """
    from analysis.questions import characterise as character

    require_at_least(1, max_instructions=max_instructions)
    return character.ask(_recording(trace), max_instructions=max_instructions)


def tiling(
    machines: Machines,
    experiment: Experiment | None = None,
    *,
    budget: float = DEFAULT_BUDGET,
    simulate: bool = False,
    learn: Sequence[str] = (),
    measure: int = 0,
    rounds: int = 200,
    units: int | None = None,
    max_instructions: int | None = None,
    model: Models = None,
) -> Result:
    """Find the fastest value of a kernel's parameter on each machine: one trace and one vector a value.

    `experiment` is an `analysis.questions.tiling.Experiment`; by default a tiled matrix product. Raises Error.

    >>> import perfvec as pv
    >>> from analysis.questions.tiling import Experiment
    >>> seconds = Experiment(("1", "2"), ("sleep", "0.00{value}"), source=None, region=None)
    >>> pv.tiling("zen4", seconds, max_instructions=2000).table["value"].tolist()
    ['1', '2']
    """
    from analysis.questions import tiling as kernels

    require_at_least(0, measure=measure)
    require_at_least(1, rounds=rounds, units=units, max_instructions=max_instructions)
    loaded = load_model(model)
    found = kernels.tiling(
        loaded,
        experiment or kernels.Experiment(),
        predictable(loaded, required(machines)),
        seconds=_seconds(budget, simulate),
        learn=learn,
        repeats=measure,
        rounds=rounds,
        units=units,
        max_instructions=max_instructions,
    )
    return kernels.result(found)


def report(
    programs: Runnables,
    machines: Machines,
    *,
    budget: float = DEFAULT_BUDGET,
    simulate: bool = False,
    max_instructions: int | None = None,
    model: Models = None,
) -> Result:
    """Answer everything about programs on machines on one page; the table is that of `predict`. Raises Error.

    >>> import perfvec as pv
    >>> "<html" in pv.report("T.trace.h5", "zen4", budget=0).to_html("T.html")
    True
    """
    from analysis.programs.span import Span
    from analysis.questions import report as page

    require_at_least(1, max_instructions=max_instructions)
    loaded = load_model(model)
    chosen = predictable(loaded, required(machines))
    targets = _targets(loaded, programs, None if max_instructions is None else Span(count=max_instructions))
    return page.ask(loaded, targets, chosen, seconds=_seconds(budget, simulate))


def explore(
    programs: Runnables,
    output: str | os.PathLike[str],
    machines: Machines = None,
    *,
    vary: Mapping[str, Sequence[Any]] | None = None,
    ideal: str | Path | None = None,
    budget: float = DEFAULT_BUDGET,
    level: float = 0.9,
    model: Models = None,
) -> Path:
    """Write a page with a slider for every field of a machine, and return its path.

    It begins at the first of `machines`, and has the others and all presets. The `budget` simulates these and a grid
    around the first, whose fields have the values of `vary`; beyond it the model answers. Raises Error.

    >>> import perfvec as pv
    >>> pv.explore("T.trace.h5", "explore.html", "zen4", budget=0).name
    'explore.html'
    """
    from analysis.designs.sweep import encoder_of
    from analysis.questions import explore as page
    from analysis.questions.explored import ask

    page.ideal_groups(ideal)  # refuses a wrong file before a program is simulated
    given = [] if machines is None else simulable(machines)
    begin = page.starts(given)
    loaded = load_model(model)
    targets = _targets(loaded, programs)
    values = None if vary is None else {field: values_of(field, each) for field, each in vary.items()}
    seconds = _seconds(budget, simulate=False)
    found = ask(encoder_of(loaded), targets, begin[0], begin, seconds, vary=values, level=level)
    vectors = [target.vector for target in targets]
    return page.explore(output, loaded, vectors, begin[: len(given)], ideal=ideal, explored=found)


def collector(
    machines: Machines,
    seconds: float,
    *,
    interval: int | None = None,
    limit: int | None = None,
    whole: bool = False,
    model: Models = None,
) -> Callable[..., tuple[list[Parts], Costs]]:
    """Return the function that takes traces apart; wrong machines are refused here.

    Where all fit the `seconds` (infinity: always) they are simulated, a long one by its own live-points unless the
    `whole` is asked for; else the model answers, as for a fitted vector.
    """
    named = required(machines)
    if not math.isinf(seconds) and any(is_fitted(one) for one in named):
        seconds = 0.0
    given = simulable(named) if seconds else []
    chosen = given or predictable(model, named)

    def collect(*traces: str | os.PathLike[str]) -> tuple[list[Parts], Costs]:
        from analysis.parts.within import opened_within

        with opened_within(traces, len(chosen), seconds, limit, whole=whole) as (opened, simulated):
            if simulated:
                from analysis.parts import simulated_parts
                from analysis.programs.span import Span

                span = Span(count=limit)
                found = [simulated_parts.collect(one, given, span, interval=interval) for one in opened]
                return [parts for parts, _ in found], found[0][1]
            from analysis.parts import predicted_parts  # with PyTorch
            from analysis.parts.costs import predicted

            loaded = load_model(model)
            costs = predicted(loaded, chosen)
            parts = [predicted_parts.collect(loaded, one, interval=interval, max_instructions=limit) for one in opened]
            return parts, costs

    return collect


def _targets(model: Model, programs: Runnables, span: Any = None) -> list[Target]:
    """Programs of a question: those that can be simulated, represented, or both."""
    from analysis.programs.names import require_once
    from analysis.programs.targets import Target, target_of, target_of_vector, told_apart
    from perfvec.representation.vector import ProgramVector

    if programs is None:
        raise Error("no program: give a trace, a vector, or a list of them")
    single = isinstance(programs, str | os.PathLike | Program | ProgramVector | Target)
    several: Any = programs
    each: list[Any] = [programs] if single else list(several)
    require_once([one for one in each if isinstance(one, str | os.PathLike)])
    found = []
    for one in each:
        if isinstance(one, Target):
            found.append(one)
        elif isinstance(one, Program):
            found.append(target_of_vector(model, one.vector, one.recording, span))
        elif isinstance(one, ProgramVector):
            found.append(target_of_vector(model, one, None, span))
        else:
            found.append(target_of(model, os.fspath(one), span=span))
    if not found:
        raise Error("no program: give a trace, a vector, or a list of them")
    return told_apart(found, [one if isinstance(one, str | os.PathLike) else None for one in each])


def _recording(one: Recorded) -> str | os.PathLike[str]:
    """Return the recording of a program. Raises Error for one that is known as a vector alone, or in a part."""
    if not isinstance(one, Program):
        return one
    if one.recording is None:
        raise Error(f"{one.name}: a vector holds no instructions; give the trace")
    if one.instructions != one.recording.instructions:
        raise Error(f"{one.name}: represents {one.instructions:,} instructions of its trace; give the trace")
    return one.recording


def _seconds(budget: float, simulate: bool) -> float:
    if not budget >= 0:
        raise Error(f"budget = {budget!r}: give seconds, 0 or more")
    return float("inf") if simulate else budget


def _place(output: str | os.PathLike[str] | None, name: str) -> tuple[tempfile.TemporaryDirectory[str] | None, Path]:
    """Return the file's path: the given one, or a name in a temporary folder that lives as long as its object."""
    if output is not None:
        return None, Path(output)
    folder = tempfile.TemporaryDirectory(prefix="perfvec-")
    return folder, Path(folder.name) / name


def _trace_file(path: Path, folder: tempfile.TemporaryDirectory[str] | None) -> TraceFile:
    from tracegen.formats.trace import Trace

    with Trace(path) as opened:
        notes = (opened.cut_short,) if opened.cut_short else ()
        return TraceFile(path, folder, opened.name, opened.isa, len(opened), notes=notes)


def _live_points_file(path: Path, folder: tempfile.TemporaryDirectory[str] | None) -> LivePointsFile:
    from tracegen.live_points.live_points import load as read

    points = read(path)
    return LivePointsFile(path, folder, points.name, points.isa, points.instructions)
