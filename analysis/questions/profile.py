"""Profiles: the cycles of a program's parts on each machine, predicted or simulated (`costs.py`).

Parts add up to the whole. What the model learned is the incremental retire latency (PerfVec): a stall is charged to the
instruction that retires late, as by time-proportional profilers (TIP: Gottschall, Eeckhout & Jahre, MICRO 2021), not to
what caused it. A small part's prediction may be negative: only the sum was trained to be a time.
"""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.parts.costs import Costs, main_causes
from analysis.parts.partition import UNKNOWN, Parts, source
from analysis.results.figure import Axis, Bars, Figure, Lines, Panel, distinct
from analysis.results.headline import Headline, count, percent
from analysis.results.page import Section
from analysis.results.result import Result
from analysis.results.text import columns
from support.errors import InputError
from support.text import nearest, short
from tracegen.decode import disassemble
from uarch.timing.stack import CAUSES, GROUPS

_MUCH_UNKNOWN = 0.1  # of the whole: code that no symbol covers
_WITHOUT_SYMBOLS = r"^(\[[^\]]+\])"  # its file, or partition.UNKNOWN
_MOST_NAMED = 3
_LEAST_SHARE = 0.001  # of the whole, to have a bar
_BY_MACHINE = ("cycles", "share", "ratio", "stack", "cause")  # columns NAME.MACHINE
_SHORT_GROUPS = {
    "retiring": "ret",
    "instruction fetch": "fetch",
    "front-end bandwidth": "front",
    "branch misprediction": "branch",
    "execution": "exec",
    "loads": "loads",
    "ports": "ports",
    "full windows": "full",
    "stores and ordering": "order",
}


def result(
    parts: Parts, costs: Costs, by: str = "function", *, rows: int | None = None, annotated: str | None = None
) -> Result:
    """Answer what a trace's parts cost; the table is that of `profile`, its text as of `shown`.

    `annotated`: table, document and text are of the instructions of this function (`annotate`), the pictures are not.
    """
    from analysis.parts import flame

    frame = profile(parts, costs, by)
    what = costs.source.capitalize()
    found = Result(
        f"{what} time of {parts.program} on {', '.join(costs.names)}",
        frame,
        document=lambda: to_json(frame, costs, by),
        text=lambda: (
            f"{profile_text(frame, costs, by, rows)}\n{_units(costs)}\n{_without_symbols(frame, costs)}\n"
            f"source: {source(costs, parts)}"
        ),
        sections=lambda: [
            flame.section(parts, costs),
            Section(f"{what} cycles by {by}", figure=plot(frame, costs, by), table=frame),
        ],
        picture=lambda: plot(frame, costs, by),
        notes=(parts.cut_short,) if parts.cut_short else (),
        headline=lambda: headline(parts, costs, frame, by),
    )
    if annotated is None:
        return found
    lines = annotate(parts, costs, annotated)
    return replace(
        found,
        table=lines,
        document=lambda: annotation_json(lines, costs, annotated),
        text=lambda: f"{annotation_text(lines, costs)}\n\nsource: {source(costs, parts)}",
    )


def headline(parts: Parts, costs: Costs, frame: pd.DataFrame, by: str) -> Headline:
    """The part with most cycles on the first machine, and what most of them go to where that is known."""
    machine = costs.names[0]
    most = frame.iloc[int(frame[f"cycles.{machine}"].to_numpy(float).argmax())]
    share = float(most[f"share.{machine}"])
    whole = float(frame[f"cycles.{machine}"].sum())
    name = str(most["name"])
    named = f"{part_named(by, name)} takes"
    if by == "interval":
        name = f"instructions {int(most['first']):,} to {int(most['end']):,}"
        named = f"I{name[1:]} take"
    sentence = f"{named} {percent(share)} of the {count(whole)} cycles of {parts.program} on {machine}"
    if costs.has_stacks:
        stack = stack_of(most.to_dict(), machine)
        sums: dict[str, float] = {}
        for cause, cycles in stack.items():
            sums[CAUSES[cause]] = sums.get(CAUSES[cause], 0.0) + cycles
        stalls = {group: cycles for group, cycles in sums.items() if group != "retiring"}
        if stalls and sum(sums.values()) > 0:
            worst = max(stalls, key=lambda group: stalls[group])
            part = percent(stalls[worst] / sum(sums.values()))
            sentence += f"; beside retiring, its largest cause is {worst} ({part})"
    sentence += f". {_without_symbols(frame, costs)}".rstrip(".\n ")
    what = f"of the cycles in {short(name, 40)}"
    return Headline(percent(share), what, f"{sentence}.", source(costs, parts))


def part_named(by: str, name: str) -> str:
    """Return a part as a sentence begins with it: `The loop f a.c:3`, `Code of f outside loops`."""
    for ending, where in ((" (no loop)", "outside loops"), (" (no line)", "without lines")):
        if name.endswith(ending):
            return f"Code of {name.removesuffix(ending)} {where}"
    return f"The {by} {name}"


def _without_symbols(frame: pd.DataFrame, costs: Costs) -> str:
    """Return which code has no symbols, and why, in lines; '' where it is little."""
    share = frame[f"share.{costs.names[0]}"].groupby(frame["name"].str.extract(_WITHOUT_SYMBOLS)[0]).sum()
    if float(share.sum()) < _MUCH_UNKNOWN:
        return ""
    names = [str(name) for name in share.sort_values(ascending=False).index[:_MOST_NAMED]]
    stripped = ", ".join(name for name in names if name != UNKNOWN)
    text = f"{UNKNOWN}: code of no file, such as what a program makes while it runs\n" if UNKNOWN in names else ""
    return text + (f"{stripped}: code without symbols (stripped)\n" if stripped else "")


def _units(costs: Costs) -> str:
    """Return what the columns of the terminal's table are in."""
    if len(costs.machines) > 1:
        return "Under a machine's name: cycles; time: the ratio of the seconds to the first's."
    told = "; columns after share: per cent of them, by cause" if costs.has_stacks else ""
    causes = f"\n{_CAUSES}" if costs.has_stacks else ""
    return f"{short(costs.names[0], 24)}: cycles{told}.{causes}"


_CAUSES = "ret: retiring; front: front-end bandwidth; full: windows; order: stores, fences."


def profile(parts: Parts, costs: Costs, by: str = "function") -> pd.DataFrame:
    """One row per part, the most cycles on the first machine first (intervals: in order).

    Columns: those of the partition (`name`; of lines `file`, `line`; of loops also `depth`, `iterations` (executions of
    the header), `entries`; of intervals `first`, `end`), `instructions`, and for each machine M `cycles.M`, `share.M`
    (of the whole) and, but for the first, `ratio.M`: its seconds over those of the first machine, NaN where that has no
    positive time. Of simulated parts also `stack.M.C`, the cycles of each cause C that has any.
    """
    partition, machines = parts.by(by), costs.machines
    frame = partition.labels.assign(instructions=partition.sums.instructions)
    cycles = costs.cycles(partition.sums)
    whole = costs.machine_vectors @ parts.whole
    frequency = np.array([machine.frequency_ghz for machine in costs.machines])
    for k, machine in enumerate(machines):
        frame[f"cycles.{machine.name}"] = cycles[:, k]
        frame[f"share.{machine.name}"] = cycles[:, k] / whole[k]
        if k:
            frame[f"ratio.{machine.name}"] = _ratio(cycles[:, k] / frequency[k], cycles[:, 0] / frequency[0])
    if costs.has_stacks:
        stacks = costs.stack_columns(costs.stacks(partition.sums))
        frame = pd.concat([frame, pd.DataFrame(stacks, index=frame.index)], axis=1)
    if by == "interval":
        return frame
    return frame.sort_values(f"cycles.{machines[0].name}", ascending=False, kind="stable", ignore_index=True)


def _ratio(time: NDArray[np.float64], base: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(base > 0, time / np.where(base > 0, base, 1.0), np.nan)


def to_json(frame: pd.DataFrame, costs: Costs, by: str) -> dict[str, Any]:
    """The `--json` document: `groups` with lists by machine; `ratio` is null where it has no meaning; simulated ones
    have a `stack`, cycles by cause.
    """
    names = costs.names
    groups = []
    for row in frame.to_dict(orient="records"):
        group = {key: value for key, value in row.items() if str(key).split(".")[0] not in _BY_MACHINE}
        group["cycles"] = [row[f"cycles.{name}"] for name in names]
        group["share"] = [row[f"share.{name}"] for name in names]
        if costs.has_stacks:
            group["stack"] = [stack_of(row, name) for name in names]
        ratios = [row[f"ratio.{name}"] for name in names[1:]]
        group["ratio"] = [None if np.isnan(ratio) else ratio for ratio in ratios]
        groups.append(group)
    return {
        "by": by,
        "source": costs.source,
        "uarch": names,
        "instructions": int(frame["instructions"].sum()),
        "cycles": [float(frame[f"cycles.{name}"].sum()) for name in names],
        "groups": groups,
    }


def stack_of(row: dict[Hashable, Any], machine: str) -> dict[str, float]:
    """The cycles of each cause that has any, from the columns `stack.M.C` of a row."""
    return {cause: row[key] for cause in CAUSES if row.get(key := f"stack.{machine}.{cause}", 0)}


def profile_text(frame: pd.DataFrame, costs: Costs, by: str, rows: int | None = None) -> str:
    """The first `rows` parts (by default 20, of intervals all), the rest together, and the whole; 80 columns for one or
    two machines.

    `time` is the ratio of seconds to the first machine's. Of parts that are simulated on one machine the columns after
    `share` are per cent of the part's cycles by what they were spent on.
    """
    if rows is None:
        rows = len(frame) if by == "interval" else 20
    if costs.has_stacks and len(costs.machines) == 1:
        return _stacks_text(frame, costs, by, rows)
    names, frequency = costs.names, [machine.frequency_ghz for machine in costs.machines]
    header = [by, "instructions", names[0], "share"]
    for name in names[1:]:
        header += [name, "time"]

    def line(label: str, part: pd.DataFrame) -> list[str]:
        cycles = [float(part[f"cycles.{name}"].sum()) for name in names]
        cells = [
            label,
            f"{part['instructions'].sum():,}",
            f"{round(cycles[0]):,}",
            f"{part[f'share.{names[0]}'].sum():.1%}",
        ]
        for k in range(1, len(names)):
            ratio = f"{cycles[k] / frequency[k] * frequency[0] / cycles[0]:.2f}x" if cycles[0] > 0 else "-"
            cells += [f"{round(cycles[k]):,}", ratio]
        return cells

    return columns(header, with_rest(frame, rows, line), apart=by == "context")


def with_rest(frame: pd.DataFrame, rows: int, line: Callable[[str, pd.DataFrame], list[str]]) -> list[list[str]]:
    """Return the `line` of each of the first rows of a table of parts, of the others together, and of all."""
    lines = [line(frame["name"].iloc[k], frame.iloc[k : k + 1]) for k in range(min(rows, len(frame)))]
    if len(frame) > rows:
        lines.append(line(f"{len(frame) - rows} more", frame.iloc[rows:]))
    return [*lines, line("whole", frame)]


def _stacks_text(frame: pd.DataFrame, costs: Costs, by: str, rows: int) -> str:
    (name,) = costs.names
    whole = float(frame[f"cycles.{name}"].sum())
    groups = {
        group: [key for cause in CAUSES if CAUSES[cause] == group and (key := f"stack.{name}.{cause}") in frame]
        for group in GROUPS
    }

    def line(label: str, part: pd.DataFrame) -> list[str]:
        cycles = float(part[f"cycles.{name}"].sum())
        of = [float(part[keys].to_numpy().sum()) for keys in groups.values()]
        shares = [f"{100 * each / cycles:.0f}" if cycles else "-" for each in of]
        return [label, f"{round(cycles):,}", f"{cycles / whole:.1%}", *shares]

    header = [by, short(name, 12), "share", *(_SHORT_GROUPS[group] for group in groups)]
    return columns(header, with_rest(frame, rows, line), apart=by == "context")


def plot(frame: pd.DataFrame, costs: Costs, by: str, most: int = 20) -> Figure:
    """The parts that cost most, a bar a machine; of intervals the cycles per instruction over the run."""
    if by == "interval":
        ends = [*frame["first"], frame["end"].iloc[-1]]
        paces = {m.name: (frame[f"cycles.{m.name}"] / frame["instructions"]).tolist() for m in costs.machines}
        lines = [Lines(name, ends, [*pace, pace[-1]], steps=True) for name, pace in paces.items()]
        x = Axis("instructions executed")
        return Figure([Panel(lines, x=x, y=Axis(f"{costs.source} cycles per instruction", zero=True))], height=4)
    shares = frame[[f"share.{machine.name}" for machine in costs.machines]].abs().max(axis=1)
    shown = frame[(shares >= _LEAST_SHARE) | (shares == shares.max())].head(most)
    names = distinct([short(str(name), 40) for name in shown["name"]])
    bars = [
        Bars(m.name, names, shown[f"cycles.{m.name}"], text=[f"{s:.1%} of the whole" for s in shown[f"share.{m.name}"]])
        for m in costs.machines
    ]
    height = 1.4 + 0.2 * len(shown) * (0.6 + 0.4 * len(costs.machines))
    return Figure([Panel(bars, x=Axis(f"{costs.source} cycles"), sideways=True)], height=height)


def annotate(parts: Parts, costs: Costs, function: str) -> pd.DataFrame:
    """One row per executed instruction of a function, in the order of addresses.

    Columns: `address`, `file`, `line` (0: not known), `source` (the line's text where the file is there), `text` (the
    disassembly), `instructions` (executions) and `cycles.M` for each machine; of simulated ones also `stack.M.C`, and
    `cause.M`, what most cycles beside retiring were spent on. Raises InputError where the trace has no
    such function.
    """
    if function not in parts.functions:
        raise InputError(
            f"the trace of {parts.program} has no function {function!r}{nearest(function, parts.functions)}"
        )
    rows = np.flatnonzero((parts.function == parts.functions.index(function)) & parts.executed)
    if not len(rows):
        raise InputError(f"the trace of {parts.program} executes nothing of the function {function!r}")
    lines = parts.lines.iloc[rows]
    address = parts.instructions.address[rows]
    frame = pd.DataFrame(
        {
            "address": address,
            "file": lines["file"].to_numpy(),
            "line": lines["line"].to_numpy().astype(np.int64),
            "source": [_source(file, line) for file, line in zip(lines["file"], lines["line"], strict=True)],
            "text": disassemble(address, parts.code[rows], parts.isa),
            "instructions": parts.statics.instructions[rows],
        }
    )
    cycles = costs.cycles(parts.statics)[rows]
    for k, machine in enumerate(costs.machines):
        frame[f"cycles.{machine.name}"] = cycles[:, k]
    if costs.has_stacks:
        stacks = costs.stacks(parts.statics)[rows]
        for k, name in enumerate(costs.names):
            frame[f"cause.{name}"] = main_causes(stacks[:, k])
        frame = pd.concat([frame, pd.DataFrame(costs.stack_columns(stacks), index=frame.index)], axis=1)
    return frame


def _source(file: str, line: int) -> str:
    return linecache.getline(file, line).rstrip() if line else ""


def annotation_json(frame: pd.DataFrame, costs: Costs, function: str) -> dict[str, Any]:
    """The `--json` document: `lines`, an entry an instruction, with cycles by machine; `line` is 0 where not known."""
    names = costs.names
    lines = [
        {key: value for key, value in row.items() if str(key).split(".")[0] not in _BY_MACHINE}
        | {"cycles": [row[f"cycles.{name}"] for name in names]}
        | ({"stack": [stack_of(row, name) for name in names]} if costs.has_stacks else {})
        for row in frame.to_dict(orient="records")
    ]
    return {"function": function, "uarch": names, "lines": lines}


def annotation_text(frame: pd.DataFrame, costs: Costs) -> str:
    """Source lines, each above its instructions, with cycles of the line and of each instruction; 80 columns.

    Simulated ones end with what most of their cycles on the first machine were spent on.
    """
    names = costs.names
    cycles = frame[[f"cycles.{name}" for name in names]].to_numpy()
    width = max(max((len(name) for name in names), default=0), max(len(f"{v:,.0f}") for v in [*cycles.sum(axis=0), 0]))
    room = max(80 - (width + 1) * len(names) - 2, 20)
    output = [" ".join(name.rjust(width) for name in names) + "  cycles"]
    change = (frame["line"] != frame["line"].shift()) | (frame["file"] != frame["file"].shift())
    bounds = [*np.flatnonzero(change), len(frame)]
    for begin, end in itertools.pairwise(bounds):
        block = frame.iloc[begin:end]
        file, line, source = block["file"].iloc[0], int(block["line"].iloc[0]), block["source"].iloc[0]
        if line:
            total = cycles[begin:end].sum(axis=0)
            where = f"{file.rsplit('/', 1)[-1]}:{line}"
            output.append(_numbers(total, width) + "  " + _cut(f"{where}: {source.strip()}", room))
        for k, (address, instruction) in enumerate(zip(block["address"], block["text"], strict=True), begin):
            cause = frame[f"cause.{names[0]}"].iloc[k] if costs.has_stacks else ""
            text = f"    {address:x}  {instruction}"
            output.append(_numbers(cycles[k], width) + "  " + _beside(text, f"; {cause}" if cause else "", room))
    output.append(_numbers(cycles.sum(axis=0), width) + "  whole function")
    return "\n".join(output)


def _numbers(values: NDArray[np.float64], width: int) -> str:
    return " ".join(f"{round(value):,}".rjust(width) for value in values)


def _beside(text: str, remark: str, width: int) -> str:
    """`text`, and `remark` at the right end of `width` where there is one."""
    room = width - len(remark) - 1
    return f"{_cut(text, room).ljust(room)} {remark}" if remark else _cut(text, width)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
