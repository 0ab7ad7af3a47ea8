"""Where a program's time goes on each machine: predicted cycles of its parts, with no simulation.

A part's cycles are the dot product of the sum of its representations with the machine's vector, so parts add up to the
whole prediction. What the model learned is the incremental retire latency (PerfVec §III): a stall is charged to the
instruction that retires late, as by time-proportional profilers (TIP: Gottschall, Eeckhout & Jahre, MICRO 2021), not to
what caused it. A small part's prediction may be negative: only the sum was trained to be a time.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.parts import PARTITIONS, Parts, price
from perfvec.by_instruction import Sums
from perfvec.machine_vector import MachineVector
from perfvec.model import Model
from tracegen.decode import disassemble
from uarch.configuration import Machine, nearest
from uarch.errors import InputError

__all__ = ["PARTITIONS", "annotate", "folded", "profile", "shown", "to_json"]
_NAME = 30  # letters of a name in the terminal


def profile(
    model: Model, parts: Parts, machines: Sequence[Machine | MachineVector], by: str = "function"
) -> pd.DataFrame:
    """One row per part, the most cycles on the first machine first (intervals: in order).

    Columns: those of the partition (`name`; of lines `file`, `line`; of loops also `depth`, `iterations`, `entries`;
    of intervals `first`, `end`), `instructions`, and for each machine M `cycles.M`, `share.M` (of the whole) and, but
    for the first, `ratio.M`: its seconds over those of the first machine, NaN where that has no positive time.
    """
    partition = parts.by(by)
    vectors = price(model, machines)
    frame = partition.labels.assign(instructions=partition.sums.instructions)
    cycles = partition.sums.vectors @ vectors.T
    whole = parts.whole @ vectors.T
    frequency = np.array([machine.frequency_ghz for machine in machines])
    for k, machine in enumerate(machines):
        frame[f"cycles.{machine.name}"] = cycles[:, k]
        frame[f"share.{machine.name}"] = cycles[:, k] / whole[k]
        if k:
            frame[f"ratio.{machine.name}"] = _ratio(cycles[:, k] / frequency[k], cycles[:, 0] / frequency[0])
    if by == "interval":
        return frame
    return frame.sort_values(f"cycles.{machines[0].name}", ascending=False, kind="stable", ignore_index=True)


def _ratio(time: NDArray[np.float64], base: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(base > 0, time / np.where(base > 0, base, 1.0), np.nan)


def to_json(frame: pd.DataFrame, machines: Sequence[Machine | MachineVector], by: str) -> dict[str, Any]:
    """The `--json` document: `groups` with lists by machine; `ratio` is null where it has no meaning."""
    names = [machine.name for machine in machines]
    groups = []
    for row in frame.to_dict(orient="records"):
        group = {key: value for key, value in row.items() if key.split(".")[0] not in ("cycles", "share", "ratio")}
        group["cycles"] = [row[f"cycles.{name}"] for name in names]
        group["share"] = [row[f"share.{name}"] for name in names]
        ratios = [row[f"ratio.{name}"] for name in names[1:]]
        group["ratio"] = [None if np.isnan(ratio) else ratio for ratio in ratios]
        groups.append(group)
    return {
        "by": by,
        "uarch": names,
        "instructions": int(frame["instructions"].sum()),
        "cycles": [float(frame[f"cycles.{name}"].sum()) for name in names],
        "groups": groups,
    }


def shown(frame: pd.DataFrame, machines: Sequence[Machine | MachineVector], rows: int = 20) -> str:
    """The `rows` largest parts and the whole, within 80 columns for one or two machines."""
    some = frame.head(rows)
    names = [machine.name for machine in machines]
    first = f"share.{names[0]}"
    header = ["", "instructions", *names[:1], "share"]
    for name in names[1:]:
        header += [name, "time"]
    lines = []
    for row in some.to_dict(orient="records"):
        cells = [short(row["name"]), f"{row['instructions']:,}", f"{row[f'cycles.{names[0]}']:,.0f}"]
        cells.append(f"{row[first]:.1%}")
        for name in names[1:]:
            ratio = row[f"ratio.{name}"]
            cells += [f"{row[f'cycles.{name}']:,.0f}", "-" if np.isnan(ratio) else f"{ratio:.2f}x"]
        lines.append(cells)
    rest = frame.iloc[rows:]
    frequency = [machine.frequency_ghz for machine in machines]
    for name, part in ((f"{len(rest)} more", rest), ("whole", frame)):
        if not len(part):
            continue
        cycles = [part[f"cycles.{machine}"].sum() for machine in names]
        cells = [name, f"{part['instructions'].sum():,}", f"{cycles[0]:,.0f}", f"{part[first].sum():.1%}"]
        for k in range(1, len(names)):
            ratio = cycles[k] / frequency[k] / (cycles[0] / frequency[0])
            cells += [f"{cycles[k]:,.0f}", f"{ratio:.2f}x"]
        lines.append(cells)
    return columns(header, lines)


def short(name: str, width: int = _NAME) -> str:
    """`name` within `width` letters; its two ends tell names apart."""
    keep = width - 1
    return name if len(name) <= width else f"{name[: keep // 2]}…{name[len(name) - (keep - keep // 2) :]}"


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells as text, the first column to the left and the others to the right."""
    table = [list(header), *map(list, rows)]
    widths = [max(len(row[k]) for row in table) for k in range(len(header))]
    return "\n".join(
        " ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))])
        .rstrip()
        for row in table
    )  # fmt: skip


def annotate(
    model: Model, parts: Parts, machines: Sequence[Machine | MachineVector], function: str
) -> pd.DataFrame:
    """One row per executed instruction of a function, in the order of addresses.

    Columns: `address`, `file`, `line` (0: not known), `source` (the line's text where the file is there), `text` (the
    disassembly), `instructions` (executions) and `cycles.M` for each machine. Raises InputError where the trace has no
    such function.
    """
    if function not in parts.functions:
        raise InputError(f"the trace of {parts.program} has no function {function!r}{nearest(function, parts.functions)}")
    rows = np.flatnonzero((parts.function == parts.functions.index(function)) & (parts.statics.instructions > 0))
    if not len(rows):
        raise InputError(f"the trace of {parts.program} executes nothing of the function {function!r}")
    lines = parts.lines.iloc[rows]
    address = parts.instructions.address[rows]
    frame = pd.DataFrame({
        "address": address, "file": lines["file"].to_numpy(), "line": lines["line"].to_numpy().astype(np.int64),
        "source": [_source(file, line) for file, line in zip(lines["file"], lines["line"], strict=True)],
        "text": disassemble(address, parts.code[rows], parts.isa), "instructions": parts.statics.instructions[rows],
    })  # fmt: skip
    cycles = parts.statics.vectors[rows] @ price(model, machines).T
    for k, machine in enumerate(machines):
        frame[f"cycles.{machine.name}"] = cycles[:, k]
    return frame


def _source(file: str, line: int) -> str:
    return linecache.getline(file, line).rstrip() if line else ""


def shown_annotation(frame: pd.DataFrame, machines: Sequence[Machine | MachineVector]) -> str:
    """Source lines, each above its instructions, with cycles of the line and of each instruction; 80 columns."""
    names = [machine.name for machine in machines]
    cycles = frame[[f"cycles.{name}" for name in names]].to_numpy()
    width = max(max((len(name) for name in names), default=0), max(len(f"{v:,.0f}") for v in [*cycles.sum(axis=0), 0]))
    room = max(80 - (width + 1) * len(names) - 2, 20)
    output = [" ".join(name.rjust(width) for name in names)]
    change = (frame["line"] != frame["line"].shift()) | (frame["file"] != frame["file"].shift())
    for _, block in frame.groupby(change.cumsum(), sort=False):
        file, line, source = block["file"].iloc[0], int(block["line"].iloc[0]), block["source"].iloc[0]
        if line:
            total = cycles[block.index].sum(axis=0)
            where = f"{file.rsplit('/', 1)[-1]}:{line}"
            output.append(_numbers(total, width) + "  " + _cut(f"{where}: {source.strip()}", room))
        for index, row in block.iterrows():
            text = f"    {row['address']:x}  {row['text']}"
            output.append(_numbers(cycles[index], width) + "  " + _cut(text, room))
    output.append(_numbers(cycles.sum(axis=0), width) + "  whole function")
    return "\n".join(output)


def _numbers(values: NDArray[np.float64], width: int) -> str:
    return " ".join(f"{value:,.0f}".rjust(width) for value in values)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def folded(model: Model, parts: Parts, machines: Sequence[Machine | MachineVector]) -> str:
    """Folded stacks, `outer;inner;innermost cycles`, as Brendan Gregg's flamegraph.pl reads them.

    A column of cycles per machine: with two, flamegraph.pl draws the differential flame graph. Whole cycles, and 0
    where a context's prediction is negative.
    """
    cycles = np.maximum(np.rint(parts.contexts.vectors @ price(model, machines).T), 0).astype(np.int64)
    stacks = context_names(parts)
    return "".join(
        f"{stack} {' '.join(map(str, numbers))}\n"
        for stack, numbers in zip(stacks, cycles.tolist(), strict=True)
        if stack and any(numbers)
    )


def context_names(parts: Parts) -> list[str]:
    """Of each calling context its functions from the outermost on, joined by `;`; '' for the root."""
    stacks = [""] * len(parts.context_parent)
    for node in range(1, len(stacks)):
        name = parts.functions[parts.context_function[node]].replace(";", ":")
        above = stacks[parts.context_parent[node]]
        stacks[node] = f"{above};{name}" if above else name
    return stacks


def context_sums(parts: Parts) -> Sums:
    """Sums of each calling context with all that it calls."""
    vectors, instructions = parts.contexts.vectors.copy(), parts.contexts.instructions.copy()
    for node in range(len(instructions) - 1, 0, -1):
        vectors[parts.context_parent[node]] += vectors[node]
        instructions[parts.context_parent[node]] += instructions[node]
    return Sums(vectors, instructions)
