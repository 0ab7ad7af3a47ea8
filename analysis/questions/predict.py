"""Predicted time of each program on each machine: dot products of program and machine vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.budget import budget
from analysis.budget.within import within
from analysis.programs.targets import Target, cut_short
from analysis.questions import novelty
from analysis.results.figure import Axis, Bars, Figure, Panel
from analysis.results.headline import Headline, count, duration, interval, joined, time_unit
from analysis.results.intervals import changes, relative
from analysis.results.page import Section
from analysis.results.result import Result, table_text
from analysis.results.runs import legible
from perfvec.intervals.level import DEFAULT_LEVEL, require_level
from perfvec.intervals.novelty import machine_neighbours
from perfvec.intervals.predicted import around, half_widths, missing
from perfvec.machines.columns import partly_unseen
from perfvec.machines.machine_vector import MachineVector
from perfvec.model import Model
from perfvec.representation.vector import ProgramVector
from uarch.columns import of_machines
from uarch.configuration import Machine

_SOURCES = {"encoder": "zero-shot"}


def ask(
    model: Model,
    targets: Sequence[Target],
    machines: Sequence[Machine | MachineVector],
    seconds: float,
    *,
    level: float = DEFAULT_LEVEL,
    progress: bool = True,
) -> Result:
    """Answer how fast programs run on machines, within a budget of so many seconds; the table is that of `answered`.

    `low` and `high` are `low_cycles` and `high_cycles` there. The notes name programs and machines that are unlike what
    trained the model, where the model answers for them.
    """
    frame = answered(model, targets, machines, seconds, level=level, progress=progress)
    unlike = novelty.novelty(model, *by_the_model(frame, targets, machines))
    return Result(
        "Predicted run times",
        frame.drop(columns="apart").rename(columns={"low": "low_cycles", "high": "high_cycles"}),
        document=lambda: to_json(frame) | {"outside": novelty.to_json(unlike)},
        text=lambda: "\n\n".join(table_text(one) for one in (terminal_table(frame), changes_table(frame)) if len(one)),
        sections=lambda: sections(frame) + novelty.sections(unlike),
        picture=lambda: plot(frame),
        notes=(*cut_short(targets), *novelty.warnings(unlike), *notes(model, frame)),
        headline=lambda: headline(frame),
    )


def predict(
    model: Model,
    programs: Sequence[ProgramVector],
    machines: Sequence[Machine | MachineVector],
    *,
    level: float = DEFAULT_LEVEL,
) -> pd.DataFrame:
    """One row per program and machine.

    Columns: `program`, `uarch`, `instructions`, `cycles` (core cycles), `seconds`, `cpi`, `ipc`, `source` (`table`,
    `zero-shot` or `fitted`), `machine_vector` (`table`: the machine trained the model; `encoder`: zero-shot from its
    configuration; `fitted`: to labels or times), `low` and `high` (cycles of an interval of this `level`, NaN where
    there is none), `interval_of`: the errors that it holds, of `model` (its calibration), `machine` (a vector fitted to
    times) and `sampling`; "" where there is none; `change`: the time over that on the first machine, less 1, with the
    ends of its interval, `change_low` and `change_high`, here NaN.
    Raises InputError for a level outside [0.5, 1).
    """
    require_level(level)
    configured = [machine for machine in machines if isinstance(machine, Machine)]
    known, ways = model.machine_vectors(configured)
    near = machine_neighbours(model, configured)
    distances = np.full(len(ways), np.nan) if near is None else near.relative()
    distances[[way != "encoder" for way in ways]] = 0.0  # their vectors were learned, wherever they lie
    widths = half_widths(model, programs, ways, distances, level)
    if configured:
        encoded = np.array([way == "encoder" for way in ways])
        widths[:, encoded & partly_unseen(of_machines(configured))] = np.nan
    rows = []
    for number, program in enumerate(programs):
        column = iter(range(len(configured)))
        for machine in machines:
            if isinstance(machine, MachineVector):
                vector, source, width = machine.vector, "fitted", math.nan
            else:
                place = next(column)
                vector, source, width = known[place], ways[place], float(widths[number, place])
            cycles = float(vector @ program.vector)
            low, high, of = _interval(machine, program, vector, cycles, width, level)
            rows.append(
                {
                    "program": program.program,
                    "uarch": machine.name,
                    "instructions": program.instructions,
                    "cycles": cycles,
                    "seconds": cycles / (machine.frequency_ghz * 1e9),
                    "cpi": cycles / program.instructions,
                    "ipc": program.instructions / cycles,
                    "source": _SOURCES.get(source, source),
                    "machine_vector": source,
                    "low": low,
                    "high": high,
                    "level": level,
                    "interval_of": of,
                }
            )
    return _compared(pd.DataFrame(rows).assign(apart=np.nan))


def answered(
    model: Model,
    targets: Sequence[Target],
    machines: Sequence[Machine | MachineVector],
    seconds: float,
    *,
    level: float = DEFAULT_LEVEL,
    progress: bool = True,
) -> pd.DataFrame:
    """The table of `predict`, each number by the best that a budget of so many seconds allows (`analysis.budget`).

    The column `source` says what that was; `machine_vector` and `interval_of` are "" where the model was not asked.
    """
    require_level(level)
    targets = within(targets, sum(isinstance(machine, Machine) for machine in machines), seconds)
    parts = budget.shares([target.simulable for target in targets], seconds)
    frames = [
        _answered(model, target, machines, share, level, progress) for target, share in zip(targets, parts, strict=True)
    ]
    return pd.concat(frames, ignore_index=True)


def _answered(
    model: Model,
    target: Target,
    machines: Sequence[Machine | MachineVector],
    seconds: float,
    level: float,
    progress: bool,
) -> pd.DataFrame:
    def by_model() -> pd.DataFrame:
        return predict(model, [target.vector], machines, level=level)

    places = [place for place, machine in enumerate(machines) if isinstance(machine, Machine)]
    configured = [machine for machine in machines if isinstance(machine, Machine)]
    if target.simulable is None or seconds <= 0 or not configured:
        return by_model()
    found = budget.answer(
        target.simulable,
        of_machines(configured),
        seconds,
        lambda: by_model()["cycles"].to_numpy()[places],
        first=range(len(configured)),
        names=[machine.name for machine in configured],
        base=machines[0] if isinstance(machines[0], Machine) else None,
        level=level,
        progress=progress,
    )
    own = found.sources != "zero-shot"
    rows = np.array(places)[own]
    frame = by_model() if len(rows) < len(machines) else _empty(target, machines, level)
    for column in ("cycles", "low", "high", "apart"):
        frame.loc[rows, column] = getattr(found, column)[own]
    frame.loc[rows, "source"] = found.sources[own]
    frame.loc[rows, ["machine_vector", "interval_of"]] = ""
    frame.loc[rows[found.sources[own] == "corrected"], "interval_of"] = "surface"
    frame.loc[(frame["source"] == "simulated") & (frame["low"] < frame["high"]), "interval_of"] = "sampling"
    return _completed(frame, machines)


def _empty(target: Target, machines: Sequence[Machine | MachineVector], level: float) -> pd.DataFrame:
    frame = pd.DataFrame({"program": target.name, "uarch": [machine.name for machine in machines]})
    frame["instructions"] = target.instructions
    numbers = dict.fromkeys(("cycles", "seconds", "cpi", "ipc"), np.nan)
    words = dict.fromkeys(("source", "machine_vector", "interval_of"), "")
    return frame.assign(**numbers, **words, low=np.nan, high=np.nan, level=level, apart=np.nan)


def _completed(frame: pd.DataFrame, machines: Sequence[Machine | MachineVector]) -> pd.DataFrame:
    """The table with what follows from its cycles."""
    frequency = np.array([machine.frequency_ghz * 1e9 for machine in machines])
    cycles, instructions = frame["cycles"], frame["instructions"]
    found = frame.assign(seconds=cycles / frequency, cpi=cycles / instructions, ipc=instructions / cycles)
    return _compared(found)


def _compared(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with changes of the time against the first machine, and their intervals by half of it, `apart`."""
    ratio = frame["seconds"] / frame.groupby("program", sort=False)["seconds"].transform("first")
    ends = {"change": 1.0, "change_low": np.exp(-frame["apart"]), "change_high": np.exp(frame["apart"])}
    return frame.assign(**{name: ratio * end - 1 for name, end in ends.items()})


def _interval(
    machine: Machine | MachineVector,
    program: ProgramVector,
    vector: NDArray[np.float64],
    cycles: float,
    width: float,
    level: float,
) -> tuple[float, float, str]:
    """Low and high in cycles, and whose errors these hold; sampling's is independent of the others."""
    sampling = 0.0
    if program.sampling is not None:
        sampling = float(program.sampling.half_width(vector[None], level)[0])
    own = [] if program.sampling is None else ["sampling"]
    if isinstance(machine, MachineVector):
        low, high = machine.interval(program.vector[None], level)[0].tolist()
        if own:
            half = math.hypot((high - low) / 2, sampling)
            low, high = max(cycles - half, 0.0), cycles + half
        return low, high, ", ".join(["machine", *own])
    if not math.isnan(width) and cycles > 0:
        low, high = (float(end) for end in around(np.array(cycles), np.array(width), sampling))
        return low, high, ", ".join(["model", *own])
    return (cycles - sampling, cycles + sampling, "sampling") if own else (math.nan, math.nan, "")


_ERRORS = {
    "model": "the model's errors on unseen programs and machines",
    "machine": "the fit of the machine to measured times",
    "sampling": "sampling",
    "surface": "the surface through simulated points",
}


def by_the_model(
    frame: pd.DataFrame, targets: Sequence[Target], machines: Sequence[Machine | MachineVector]
) -> tuple[list[ProgramVector], list[Machine | MachineVector]]:
    """The programs and machines of `answered` that the model answered for."""
    asked = np.array([word != "" for word in frame["machine_vector"]]).reshape(len(targets), len(machines))
    programs = [target.vector for target, own in zip(targets, asked, strict=True) if own.any()]
    return programs, [machine for machine, own in zip(machines, asked.T, strict=True) if own.any()]


def notes(model: Model, frame: pd.DataFrame) -> list[str]:
    """One line for each reason why some predictions have no interval of the model's, or are not for comparison."""
    asked = frame["machine_vector"] != ""
    without = frame[asked & ~frame["interval_of"].str.contains("model|machine")]
    ways, level = set(without["machine_vector"]), float(frame["level"].iloc[0])
    found = missing(model, sorted(ways), level) if ways else []
    if "encoder" in ways and not missing(model, ["encoder"], level):
        names = ", ".join(dict.fromkeys(without.loc[without["machine_vector"] == "encoder", "uarch"]))
        found.append(
            f"no interval for {names}: too far from what trained the model, or with fields that it has no input of"
        )
    lost = frame[~(frame["cycles"] > 0)]
    if len(lost):
        first = lost.iloc[0]
        found.append(
            f"{len(lost)} predictions are not above 0 cycles ({first['program']} on {first['uarch']}): the model does "
            "not know such programs or machines; simulate (--budget), or train it longer"
        )
    if "zero-shot" in set(frame["source"]) and set(frame["source"]) & {"table", "fitted"}:
        found.append(
            "zero-shot machines have other errors than fitted ones: compare these by a simulation (--budget) or a sweep"
        )
    return found


def to_json(frame: pd.DataFrame) -> dict[str, Any]:
    """The `--json` document; `interval` (cycles) is null where only a point is known, and where all was simulated, and
    so is `change_interval`.
    """
    rows = frame.drop(columns="apart").to_dict(orient="records")
    for row in rows:
        low, high = row.pop("low"), row.pop("high")
        row["interval"] = None if math.isnan(low) or low == high else [low, high]
        low, high = row.pop("change_low"), row.pop("change_high")
        row["change_interval"] = [low, high] if low < high else None
        row["machine_vector"] = row["machine_vector"] or None
        row["interval_of"] = [word for word in row["interval_of"].split(", ") if word]
    return {"predictions": rows}


def terminal_table(frame: pd.DataFrame) -> pd.DataFrame:
    """The table of the terminal. An interval, where one is known, is in per cent of the time, the cycles and the CPI,
    and takes the place of the IPC: both do not fit 80 columns.
    """
    table = legible(frame[["program", "uarch", "instructions", "cycles", "seconds", "cpi", "ipc", "source"]])
    if not (frame["low"] < frame["high"]).any():
        return table
    return table.drop(columns="ipc").assign(**{_named(frame): relative(frame, "cycles")})


def changes_table(frame: pd.DataFrame) -> pd.DataFrame:
    """The changes against the first machine that have intervals, a row each."""
    first = frame["uarch"].iloc[0]
    others = frame[(frame["uarch"] != first) & (frame["apart"] > 0)].reset_index(drop=True)
    return others[["program", "uarch"]].assign(**{f"time against {first}": changes(others)})


def _named(frame: pd.DataFrame) -> str:
    return f"{100 * float(frame['level'].iloc[0]):g}%"


def headline(frame: pd.DataFrame) -> Headline:
    """The fastest machine for the programs together, by the geometric mean, and how far the slowest is behind."""
    programs, machines = (list(dict.fromkeys(map(str, frame[column]))) for column in ("program", "uarch"))
    seconds = np.log(frame["seconds"].clip(lower=1e-30)).groupby(frame["uarch"], sort=False).mean().sort_values()
    fastest, slowest = str(seconds.index[0]), str(seconds.index[-1])
    own, compared = frame[frame["uarch"] == fastest], [fastest]
    number, unit = duration(float(np.exp(seconds.iloc[0])))
    cycles, cpi = float(own["cycles"].iloc[0]), float(own["cpi"].iloc[0])
    where, mean = f"{unit} on {fastest}", f"geometric mean of {len(programs)} programs"
    if len(machines) > 1:
        compared.append(slowest)
        behind = float(np.exp(seconds.iloc[-1] - seconds.iloc[0]))
        sentence = f"{joined(programs)} {'runs' if len(programs) == 1 else 'run'} fastest on {fastest}"
        sentence += f", of {len(machines)} machines; on {slowest} {behind:.2f} times as long"
    else:
        sentence = f"{joined(programs)} {'takes' if len(programs) == 1 else 'take'} {number} {where}"
    if len(programs) == 1:
        sentence += f". {count(cycles)} cycles there, {cpi:.3g} per instruction."
    else:
        where, sentence = f"{where}, {mean}", f"{sentence} ({mean})."
    told = {name: sources(frame[frame["uarch"] == name]) for name in compared}
    same = len(set(told.values())) == 1
    source = told[fastest] if same else "; ".join(f"{name} {text}" for name, text in told.items())
    return Headline(number, where, sentence, source)


def sources(frame: pd.DataFrame) -> str:
    """Return where these numbers come from, with the interval where it is of one number."""
    found = " and ".join(dict.fromkeys(map(str, frame["source"])))
    if (frame["source"] == "simulated").all() and not (frame["low"] < frame["high"]).any():
        return f"{found}, every instruction"
    if len(frame) > 1:
        return f"{found}; intervals stand beside the numbers"
    one = frame.iloc[0]
    return f"{found}, {interval(one['cycles'], one['low'], one['high'], one['level'])}"


def sections(frame: pd.DataFrame) -> list[Section]:
    """The parts of the HTML report."""
    errors = [text for name, text in _ERRORS.items() if frame["interval_of"].str.contains(name).any()]
    if (frame["low"] < frame["high"]).any():
        causes = f", for {', '.join(errors)}" if errors else ""
        intervals = f"Lines across the bars' ends are {_named(frame)} intervals{causes}."
    elif (frame["source"] == "simulated").all():
        intervals = "Every instruction was simulated, so the bars have no interval."
    else:
        intervals = "No intervals: the model has no calibration for these."
    return [
        Section(
            "Cycles per instruction",
            f"Machines by their mean; the lowest is last. {intervals}",
            plot(frame),
            frame,
            source=sources(frame),
        ),
        Section(
            "Time", f"Cycles at each machine's frequency. {intervals}", plot(frame, "seconds"), source=sources(frame)
        ),
    ]


def plot(frame: pd.DataFrame, what: str = "cpi") -> Figure:
    """`cpi`, or `seconds` in a fitting unit, of every program on every machine, machines sorted by the mean."""
    programs, machines = (list(dict.fromkeys(frame[column])) for column in ("program", "uarch"))
    mean = np.log(frame[what].clip(lower=1e-30)).groupby(frame["uarch"], sort=False).mean()
    machines = [str(name) for name in mean.sort_values(ascending=False).index]
    told = "simulated" if (frame["source"] == "simulated").all() else "predicted"
    unit, factor = time_unit(float(frame["seconds"].min())) if what == "seconds" else ("", 1.0)
    title = f"{told} cycles per instruction" if what == "cpi" else f"{told} time, {unit}"
    bars = []
    for program in programs:
        rows = frame[frame["program"] == program].drop_duplicates("uarch").set_index("uarch").loc[machines]
        each = rows[what] * factor / rows["cycles"]  # of a cycle
        low, high = (rows[end].where(rows["low"] < rows["high"]) * each for end in ("low", "high"))
        bars.append(Bars(str(program), machines, rows[what] * factor, low, high))
    height = 1.4 + 0.22 * len(machines) * (0.6 + 0.4 * len(programs))
    return Figure([Panel(bars, x=Axis(title, zero=True), sideways=True)], height=height)
