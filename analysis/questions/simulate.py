"""Simulations of programs on machines: cycles, the measures that architects read first, and CPI stacks.

Before the first timed instruction the machine is warmed as labels are (`tracegen.label`): caches and TLBs by everything
before, pipeline and predictors by the last `warmup` instructions of it.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from analysis.parts.costs import require_names
from analysis.parts.simulated_parts import collect
from analysis.programs.names import names_apart
from analysis.programs.opened import opened, traced
from analysis.programs.span import Span, require_time, timed
from analysis.results.figure import Axis, Bars, Figure, Panel
from analysis.results.headline import Headline, count, duration, interval, joined, percent
from analysis.results.page import Section
from analysis.results.result import Result
from analysis.results.text import columns
from support.errors import InputError
from support.processors import processors
from tracegen.live_points.live_points import is_live_points, load
from tracegen.live_points.simulate import LivePointsSimulator
from uarch.configuration import Machine
from uarch.timing.simulation import SIMULATOR, new_stack
from uarch.timing.simulations import Simulations
from uarch.timing.stack import CAUSES, GROUPS
from uarch.timing.statistics import LEVELS, MISPREDICTIONS, QUEUES, statistics

if TYPE_CHECKING:
    from analysis.parts.costs import Costs
    from analysis.parts.partition import Parts

_CAUSE_COLUMN = 32  # letters, of a table of CPI stacks


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SimulationResult(Result):
    """Simulated traces; `stack` says what the cycles were spent on.

    Attributes:
        stack: Their CPI stacks.

    >>> import perfvec as pv
    >>> simulation = pv.simulate("T.trace.h5", "zen4")
    >>> bool(simulation.table["cycles"].sum() == simulation.stack.by("function").table["cycles.zen4"].sum())
    True
    """

    stack: Stack


@dataclass(frozen=True, eq=False)
class Stack:
    """The CPI stacks of simulated traces: cycles per instruction by cause.

    >>> import perfvec as pv
    >>> stack = pv.simulate("T.trace.h5", "zen4").stack.table
    >>> bool(abs(stack.drop(columns=["program", "uarch", "cpi"]).sum(axis=1) - stack["cpi"]).max() < 1e-9)
    True
    """

    rows: pd.DataFrame = field(repr=False)  # of `simulate`
    traces: Sequence[str | os.PathLike[str]]
    machines: Sequence[Machine]
    span: Span
    threads: int | None = None

    @property
    def table(self) -> pd.DataFrame:
        """One row per program and machine: a column per cause that has any cycles, and `cpi`, their sum."""
        return _stacks(self.rows).assign(cpi=self.rows["cpi"])

    def by(self, partition: str = "function") -> Result:
        """Break the stacks down by one of `analysis.parts.partition.PARTITIONS`; one more pass over the trace.

        Live-points have no calling contexts, intervals or phases. Raises InputError for more than one trace.
        """
        from analysis.parts.partition import require_partition
        from analysis.questions.profile import result

        require_partition(partition)
        return result(*self._parts, partition)

    @cached_property
    def _parts(self) -> tuple[Parts, Costs]:
        if len(self.traces) != 1:
            raise InputError(f"a stack by parts is of one trace; {len(self.traces)} were simulated")
        return collect(self.traces[0], self.machines, self.span, threads=self.threads)

    def __str__(self) -> str:
        return shown_stack(self.rows)


def ask(
    traces: Sequence[str | os.PathLike[str]],
    machines: Sequence[Machine],
    span: Span | None = None,
    *,
    threads: int | None = None,
) -> SimulationResult:
    """Answer how fast traces or live-points are on machines, and why; the table is that of `simulate`.

    There `half_width` is `half_width_cycles`.
    """
    span = span or Span()
    frame = simulate(traces, machines, span, threads=threads)
    return SimulationResult(
        "Simulated time",
        frame.rename(columns={"half_width": "half_width_cycles"}),
        document=lambda: to_json(frame, span),
        text=lambda: shown(frame),
        sections=lambda: sections(frame),
        picture=lambda: plot(frame),
        stack=Stack(frame, traces, machines, span, threads),
        notes=tuple(_cut_short(traces)),
        headline=lambda: headline(frame),
    )


def _cut_short(traces: Sequence[str | os.PathLike[str]]) -> Iterator[str]:
    """A line for each traced program that a signal ended."""
    for path in traces:
        if not is_live_points(path):
            with opened(path) as trace:
                if trace.cut_short:
                    yield trace.cut_short


def simulate(
    traces: Sequence[str | os.PathLike[str]],
    machines: Sequence[Machine],
    span: Span | None = None,
    *,
    threads: int | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """One row per trace or live-points file and machine, of the embedded timing model; read once for all machines.

    Columns: `program`, `uarch`, `simulator`, `frequency_ghz`, those of `uarch.timing.statistics`, `half_width`, half of
    the 95 % interval of `cycles` (0 where every instruction is simulated), and `stack.C`, the cycles of each cause C
    (`uarch.timing.stack.CAUSES`), which add up to `cycles`. Raises InputError for a bad file, a trace that ends before
    `span`, a `span` of live-points, or machines without different names.
    """
    require_names([machine.name for machine in machines])
    span = span or Span()
    rows: list[dict[str, Any]] = []
    names = names_apart(require_simulable(traces, span), traces)  # told before the work on another begins
    for path, name in zip(traces, names, strict=True):
        if is_live_points(path):
            rows += _estimated(path, name, machines, threads, progress)
            continue
        with opened(path) as trace, Simulations(machines, trace.static, threads or processors()) as running:
            stacks = [new_stack(1) for _ in machines]
            for chunk in timed(trace, running, span, progress):
                whole = np.zeros(len(chunk), np.uint32)
                running.run_with_stacks(chunk, [[(stack, whole)] for stack in stacks])
            require_time(trace, span, (simulation.counters["cycles"] for simulation in running.each))
            for simulation, stack in zip(running.each, stacks, strict=True):
                rows.append(_row(name, simulation.machine, simulation.statistics, 0.0, map(int, stack[0])))
    return pd.DataFrame(rows)


def require_simulable(traces: Sequence[str | os.PathLike[str]], span: Span) -> list[str]:
    """Return the programs' names.

    Raises InputError for a vector, a bad file, a trace that ends before `span`, and a `span` of live-points.
    """
    names = []
    for path in traces:
        if Path(path).name.endswith(".npz"):
            raise InputError(f"{path}: a vector cannot be simulated; give the trace (*.trace.h5)")
        if is_live_points(path):
            if span != Span():
                raise InputError(f"{path}: live-points stand for the whole run; leave --start, --count, --warmup out")
            names.append(load(path).name)
            continue
        with opened(path) as trace:
            span.stop(trace)
            names.append(trace.name)
    return names


def _estimated(
    path: str | os.PathLike[str], name: str, machines: Sequence[Machine], threads: int | None, progress: bool
) -> list[dict[str, Any]]:
    """The rows of a live-points file: counts and cycles of the whole run."""
    points = load(path)
    simulator = LivePointsSimulator(points)
    with tqdm(total=len(machines), unit="machine", desc=f"simulate {name}", disable=None if progress else True) as bar:
        found = simulator.simulate(machines, threads, stacks=True, done=bar.update)
    assert found.stacks is not None
    rows = []
    for k, machine in enumerate(machines):
        counts = {**found.counts[k], "cycles": found.cycles[k], "instructions": float(points.instructions)}
        rows.append(_row(name, machine, counts, float(found.half_width[k]), map(float, found.stacks[k])))
    return rows


def _row(
    name: str, machine: Machine, counts: Mapping[str, Any], half_width: float, stack: Iterable[float]
) -> dict[str, Any]:
    return {
        "program": name,
        "uarch": machine.name,
        "simulator": SIMULATOR,
        "frequency_ghz": machine.frequency_ghz,
        **statistics(machine, counts),
        "half_width": half_width,
        **{f"stack.{cause}": cycles for cause, cycles in zip(CAUSES, stack, strict=True)},
    }


def _stacks(frame: pd.DataFrame) -> pd.DataFrame:
    """Cycles per instruction of each row, a column per cause that has any cycles."""
    causes = [cause for cause in CAUSES if frame[f"stack.{cause}"].any()]
    return frame[["program", "uarch"]].assign(
        **{cause: frame[f"stack.{cause}"] / frame["instructions"] for cause in causes}
    )


def groups_of(frame: pd.DataFrame) -> pd.DataFrame:
    """[rows of `frame`, GROUPS] cycles per instruction of each group of causes; they add up to the CPI."""
    found = pd.DataFrame(0.0, index=frame.index, columns=list(GROUPS))
    for cause, group in CAUSES.items():
        found[group] += frame[f"stack.{cause}"] / frame["instructions"]
    return found


def to_json(frame: pd.DataFrame, span: Span) -> dict[str, Any]:
    """The `--json` document: `simulations`, an entry a row, with `stack` (cycles of each cause); NaN becomes null.

    `interval` (cycles) is null where every instruction is simulated.
    """
    found = []
    for row in frame.to_dict(orient="records"):
        plain = {str(k): None if v != v else v for k, v in row.items() if not str(k).startswith("stack.")}
        stack = {cause: row[f"stack.{cause}"] for cause in CAUSES if row[f"stack.{cause}"]}
        half = plain.pop("half_width")
        interval = [row["cycles"] - half, row["cycles"] + half] if half else None
        found.append({**plain, "interval": interval, "source": "simulated", "stack": stack})
    return {"simulations": found, "start": span.start, "count": span.count, "warmup": span.warmup}


def shown(frame: pd.DataFrame) -> str:
    """A row a machine, a table a program, within 80 columns; of one machine alone also the details.

    Every measure is in `--json`, `--csv` and the page.
    """
    header = ["", "cycles", "time", "CPI", "L1I", "L1D", "L2", "L3", "branch", "rows", "GB/s", "ROB"]
    tables = []
    for program, rows in frame.groupby("program", sort=False):
        lines = [
            [
                str(row["uarch"]),
                f"{row['cycles']:,.0f}",
                " ".join(duration(row["seconds"])),
                f"{row['cpi']:.3f}",
                *(_number(row[f"{level}_mpki"]) for level in LEVELS),
                _number(row["branch_mpki"]),
                _percent(row["dram_row_hit_rate"]),
                f"{row['memory_gbs']:.2f}",
                _number(row["reorder_buffer_occupancy"]),
            ]
            for row in rows.to_dict(orient="records")
        ]
        title = f"{program}: {rows['instructions'].iloc[0]:,.0f} instructions, simulated"
        if rows["half_width"].any():
            width = rows["half_width"] / rows["cycles"]
            least, most = f"±{width.min():.1%}", f"±{width.max():.1%}"
            title += f" by a sample, {least if least == most else f'{least} to {most}'} (95 %)"
        tables.append(f"{title}\n{columns(header, lines)}")
    note = (
        "L1I to L3, branch: demand misses and mispredictions per thousand instructions;\n"
        "rows: DRAM accesses to an open row; ROB: entries used on average."
    )
    if frame["uarch"].nunique() > 1:
        return "\n\n".join([*tables, note])
    details = [_details(row) for row in frame.to_dict(orient="records")]
    return "\n\n".join(
        [*(part for pair in zip(tables, details, strict=True) for part in pair), f"{note}\n{_OF_LEVELS}"]
    )


_OF_LEVELS = """\
misses, ratio: of demand accesses; on way: those that meet a miss in flight;
prefetch: misses of prefetches; written: write-backs; sent: prefetches;
accurate: of these used; late: of the used, those that were still on the way;
covered: would-be misses that meet a prefetched line."""


def _details(row: dict[Hashable, Any]) -> str:
    """Caches and prefetchers by level, mispredictions by kind, memory, windows."""
    names = ("mpki", "miss_ratio", "merged_mpki", "prefetch_mpki", "write_backs_pki", "prefetches_pki")
    of_prefetchers = ("prefetch_accuracy", "prefetch_coverage", "prefetch_lateness")
    header = ["per 1,000", "misses", "ratio", "on way", "prefetch", "written", "sent", "accurate", "covered", "late"]
    levels = [
        [
            level.upper(),
            *(_number(row[f"{level}_{name}"]) for name in names),
            *(_percent(row[f"{level}_{name}"]) for name in of_prefetchers),
        ]
        for level in LEVELS
    ]
    kinds = ", ".join(f"{kind} {_number(row[f'branch_{kind}_mpki'])}" for kind in MISPREDICTIONS)
    windows = ", ".join(f"{name.replace('_', ' ')} {_number(row[f'{name}_occupancy'])}" for name in QUEUES)
    lines = [
        f"mispredictions of {_number(row['branches_pki'])} branches: {kinds}; "
        f"redirected at decode {_number(row['decode_redirects_pki'])}",
        f"memory: {_number(row['memory_reads_pki'])} lines read, {_number(row['memory_writes_pki'])} written; "
        f"open rows {_percent(row['dram_row_hit_rate'])}; {row['memory_gbs']:.3g} GB/s",
        f"entries used on average: {windows}",
    ]
    return "\n".join([columns(header, levels), *(textwrap.fill(line, 80, subsequent_indent="  ") for line in lines)])


def _percent(value: float) -> str:
    return "-" if value != value else f"{value:.0%}"


def shown_stack(frame: pd.DataFrame) -> str:
    """The CPI stack of each program, a column a machine, causes under their groups; 80 columns, so several tables."""
    tables = []
    for program, all_rows in frame.groupby("program", sort=False):
        for rows in _side_by_side(all_rows):
            tables.append(_stack_table(str(program), rows))
    return "\n\n".join(tables)


def _side_by_side(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """The rows in groups whose names fit beside one another behind the causes."""
    begins, used = [0], _CAUSE_COLUMN
    for place, name in enumerate(map(str, rows["uarch"])):
        wide = max(len(name), 6) + 1
        if used + wide > 80 and place > begins[-1]:
            begins.append(place)
            used = _CAUSE_COLUMN
        used += wide
    return [rows.iloc[begin:end] for begin, end in zip(begins, [*begins[1:], len(rows)], strict=True)]


def _stack_table(program: str, rows: pd.DataFrame) -> str:
    each = groups_of(rows)
    names = [str(name) for name in rows["uarch"]]
    lines = []
    for group in GROUPS:
        if not each[group].any():
            continue
        lines.append([group, *(_number(value) for value in each[group])])
        causes = [cause for cause in CAUSES if CAUSES[cause] == group and rows[f"stack.{cause}"].any()]
        if causes != [group]:
            for cause in causes:
                lines.append([f"  {cause}", *(_number(v) for v in rows[f"stack.{cause}"] / rows["instructions"])])
    lines.append(["CPI", *(_number(value) for value in rows["cpi"])])
    return columns([f"{program}: cycles per instruction", *names], lines)


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def headline(frame: pd.DataFrame) -> Headline:
    """The CPI on the fastest machine by the geometric mean of times, and what most cycles beside retiring go to.

    Of several programs the CPI is the geometric mean too, and shares are means: each program weighs the same.
    """
    programs = list(dict.fromkeys(map(str, frame["program"])))
    mean = np.log(frame["seconds"]).groupby(frame["uarch"], sort=False).mean()
    fastest = str(mean.idxmin())
    own = frame[frame["uarch"] == fastest]
    groups = groups_of(own)
    shares = groups.div(groups.sum(axis=1), axis=0).mean()
    stalls = shares.drop("retiring").sort_values(ascending=False)
    number, unit = duration(float(np.exp(mean.min())))
    sentence = f"{joined(programs)} {'takes' if len(programs) == 1 else 'take'} {number} {unit} on {fastest}"
    if len(programs) > 1:
        sentence += " in the geometric mean"
    if len(mean) > 1:
        sentence += (
            f", the fastest of {len(mean)} machines, {np.exp(mean.max() - mean.min()):.2f} times on {mean.idxmax()}"
        )
    whose = "the cycles" if len(programs) == 1 else "a program's cycles, in the mean,"
    sentence += f". {percent(float(shares['retiring']))} of {whose} retire instructions"
    if stalls.iloc[0] > 0:
        sentence += f"; most of the others go to {stalls.index[0]} ({percent(float(stalls.iloc[0]))})"
    source = "simulated, every instruction"
    if sampled := np.count_nonzero(own["half_width"]):
        some = "" if sampled == len(own) else f", {sampled} of {len(own)} programs"
        source = f"simulated{some} by a sample; intervals stand beside the numbers"
        if len(own) == 1:
            cycles, half = float(own["cycles"].iloc[0]), float(own["half_width"].iloc[0])
            source = f"simulated by a sample, {interval(cycles, cycles - half, cycles + half, 0.95)}"
    elif len(own) == 1:
        sentence += f". {count(float(own['cycles'].iloc[0]))} cycles in all"
    cpi = float(np.exp(np.log(own["cpi"]).mean()))
    unit = "cycles per instruction" if len(programs) == 1 else "cycles per instruction (geometric mean)"
    return Headline(f"{cpi:.3g}", f"{unit} on {fastest}", f"{sentence}.", source)


def sections(frame: pd.DataFrame) -> list[Section]:
    """The parts of the HTML report."""
    measures = frame[[name for name in frame.columns if not name.startswith("stack.")]]
    return [
        Section(
            "CPI stacks",
            "Cycles per instruction by cause; a stack's parts add up to its machine's CPI.",
            plot(frame),
            _stacks(frame),
        ),
        Section("Statistics", "Counts per thousand instructions (mpki, pki), shares, averages.", table=measures),
    ]


def plot(frame: pd.DataFrame) -> Figure:
    """The CPI stacks, a panel a program, a bar a machine."""
    panels = []
    most = 1
    for program, rows in frame.groupby("program", sort=False):
        each, names = groups_of(rows), [str(name) for name in rows["uarch"]]
        bars = [Bars(group, names, each[group].to_numpy()) for group in GROUPS if groups_of(frame)[group].any()]
        panels.append(
            Panel(
                bars,
                title=str(program),
                x=Axis("simulated cycles per instruction", zero=True),
                stacked=True,
                sideways=True,
            )
        )
        most = max(most, len(names))
    return Figure(panels, height=len(panels) * (1.2 + 0.3 * most))


@contextmanager
def named_traces(
    targets: Sequence[str | os.PathLike[str]],
    program: Sequence[str] = (),
    span: Span | None = None,
    *,
    max_instructions: int | None = None,
) -> Iterator[list[Path]]:
    """The targets as paths, and the trace of `program`, a command line, made now in a temporary folder.

    Raises InputError before it runs for a target that cannot be simulated, and where there is no target.
    """
    require_simulable(targets, span or Span())
    if not targets and not program:
        raise InputError("no target: name traces (*.trace.h5), or give `-- PROGRAM ARGS…`")
    paths = [Path(target) for target in targets]
    if not program:
        yield paths
        return
    with traced(program, max_instructions=max_instructions) as path:
        yield [*paths, path]
