"""Two builds, inputs or versions of one program: which parts gained or lost predicted time, on each machine.

Parts are matched by what they are called; each one's difference is its new cycles less its old ones, 0 where it is
absent, so the differences add up to that of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.figure import Axis, Bars, Figure, Panel, distinct
from analysis.parts import Parts, price, require_partition
from analysis.profile import columns, short
from analysis.report import Section
from perfvec.machines.machine_vector import MachineVector
from perfvec.model import Model
from uarch.configuration import Machine

PARTITIONS = ("function", "line", "loop", "class")
_CLONE = re.compile(r"(\.(constprop|isra|part|cold|lto_priv|llvm)(\.\d+)?)+$")  # names that a compiler makes of one


def diff(
    model: Model, old: Parts, new: Parts, machines: Sequence[Machine | MachineVector], by: str = "function"
) -> pd.DataFrame:
    """One row per part of either, the largest difference on the first machine first.

    Functions are matched by name (a compiler's clones, as `f.constprop.0`, count as `f`), lines by file and number,
    loops by function and line (without lines by their order in the function), classes by name. Files are the same where
    their paths are, or where their names are and neither trace has two files of that name.

    Columns: `name`, `only` (`old` or `new` where the other has no such part, else ''), `instructions_old`,
    `instructions_new`, and for each machine M `old.M`, `new.M` and `difference.M`, in cycles. Raises InputError for
    another `by` (intervals of two runs do not match).
    """
    require_partition(by, PARTITIONS)
    vectors = price(model, machines)
    names = [machine.name for machine in machines]
    same = _same_files(old, new)
    sides = []
    for side, parts in (("old", old), ("new", new)):
        partition = parts.by(by)
        frame = pd.DataFrame({"name": _keys(partition.labels, by, same)})
        frame[f"instructions_{side}"] = partition.sums.instructions
        frame[[f"{side}.{name}" for name in names]] = partition.sums.vectors @ vectors.T
        sides.append(frame.groupby("name", sort=False).sum())
    both = sides[0].join(sides[1], how="outer", sort=False)
    only = np.where(both["instructions_new"].isna(), "old", np.where(both["instructions_old"].isna(), "new", ""))
    both = both.fillna(0.0)
    frame = pd.DataFrame({"name": both.index, "only": only})
    for side in ("old", "new"):
        frame[f"instructions_{side}"] = both[f"instructions_{side}"].to_numpy().astype(np.int64)
    for name in names:
        for side in ("old", "new"):
            frame[f"{side}.{name}"] = both[f"{side}.{name}"].to_numpy()
        frame[f"difference.{name}"] = frame[f"new.{name}"] - frame[f"old.{name}"]
    order = frame[f"difference.{names[0]}"].abs().sort_values(ascending=False, kind="stable").index
    return frame.loc[order].reset_index(drop=True)


def _same_files(old: Parts, new: Parts) -> dict[str, str]:
    """What each source file is called in both: its name where that is enough, else its path."""
    sides = [{file for file in parts.lines["file"] if file} for parts in (old, new)]
    names = [[Path(file).name for file in files] for files in sides]
    return {
        file: Path(file).name if all(side.count(Path(file).name) <= 1 for side in names) else file
        for files in sides
        for file in files
    }


def _keys(labels: pd.DataFrame, by: str, same: dict[str, str]) -> list[str]:
    if by == "class":
        return list(labels["name"])
    if by == "function":
        return [_CLONE.sub("", name) for name in labels["name"]]
    where = [f"{same[file]}:{line}" if line else "" for file, line in zip(labels["file"], labels["line"], strict=True)]
    functions = [_CLONE.sub("", name) for name in labels["function"]]
    if by == "line":
        return [place or f"{function} (no line)" for place, function in zip(where, functions, strict=True)]
    keys = [""] * len(labels)
    count: dict[str, int] = {}
    for row in np.argsort(labels["address"].to_numpy(), kind="stable").tolist():
        function = functions[row]
        if not labels["depth"].iloc[row]:
            keys[row] = f"{function} (no loop)"
        elif where[row]:
            keys[row] = f"{function} {where[row]}"
        else:
            count[function] = count.get(function, 0) + 1
            keys[row] = f"{function} loop {count[function]}"
    return keys


def to_json(
    frame: pd.DataFrame, old: Parts, new: Parts, machines: Sequence[Machine | MachineVector], by: str
) -> dict[str, Any]:
    """The `--json` document: `groups` with lists by machine, `only` null where both have the part."""
    names = [machine.name for machine in machines]
    groups = [
        {
            "name": row["name"], "only": row["only"] or None,
            "instructions": [row["instructions_old"], row["instructions_new"]],
            **{key: [row[f"{key}.{name}"] for name in names] for key in ("old", "new", "difference")},
        }
        for row in frame.to_dict(orient="records")
    ]  # fmt: skip
    whole = {key: [float(frame[f"{key}.{name}"].sum()) for name in names] for key in ("old", "new", "difference")}
    return {"by": by, "uarch": names, "programs": [old.program, new.program], **whole, "groups": groups}


def shown(frame: pd.DataFrame, machines: Sequence[Machine | MachineVector], rows: int = 20) -> str:
    """A table per machine within 80 columns: the `rows` largest differences, the others together, and the whole."""
    tables = []
    for machine in machines:
        cells = [f"{side}.{machine.name}" for side in ("old", "new", "difference")]
        base = float(frame[cells[0]].sum())

        def line(label: str, part: pd.DataFrame, cells: list[str] = cells, base: float = base) -> list[str]:
            old, new, change = (float(part[cell].sum()) for cell in cells)
            only = {"old": "gone", "new": "new"}.get(part["only"].iloc[0], "") if len(part) == 1 else ""
            share = f"{change / base:+.1%}" if base > 0 else "-"
            return [label, f"{old:,.0f}", f"{new:,.0f}", f"{change:+,.0f}", share, only]

        lines = [line(frame["name"].iloc[k], frame.iloc[k : k + 1]) for k in range(min(rows, len(frame)))]
        if len(frame) > rows:
            lines.append(line(f"{len(frame) - rows} more", frame.iloc[rows:]))
        tables.append(columns([machine.name, "old", "new", "change", "of all", ""], [*lines, line("whole", frame)]))
    return "\n\n".join(tables)


def sections(
    frame: pd.DataFrame, old: Parts, new: Parts, machines: Sequence[Machine | MachineVector], by: str
) -> list[Section]:
    """The parts of the HTML report."""
    text = (
        f"{old.program} before, {new.program} after: what is below 0 gained, what is above 0 lost. The differences of "
    )
    text += "all parts add up to that of the whole."
    whole = Bars("before", [m.name for m in machines], [frame[f"old.{m.name}"].sum() for m in machines])
    after = Bars("after", [m.name for m in machines], [frame[f"new.{m.name}"].sum() for m in machines])
    panel = Panel([whole, after], x=Axis("predicted cycles", zero=True), sideways=True)
    return [
        Section("The whole", "Predicted cycles before and after.", Figure([panel], height=1.4 + 0.45 * len(machines))),
        Section(f"What changed, by {by}", text, plot(frame, machines), frame),
    ]


def plot(frame: pd.DataFrame, machines: Sequence[Machine | MachineVector], most: int = 20) -> Figure:
    """The largest differences, a bar a machine."""
    shown = frame.head(most)
    only = {"old": " (gone)", "new": " (new)", "": ""}
    names = distinct([short(str(n), 36) + only[side] for n, side in zip(shown["name"], shown["only"], strict=True)])
    bars = []
    for machine in machines:
        old, new = shown[f"old.{machine.name}"], shown[f"new.{machine.name}"]
        text = [f"{a:,.0f} → {b:,.0f}" for a, b in zip(old, new, strict=True)]
        bars.append(Bars(machine.name, names, shown[f"difference.{machine.name}"], text=text))
    height = 1.4 + 0.2 * len(shown) * (0.6 + 0.4 * len(machines))
    return Figure([Panel(bars, x=Axis("difference, cycles"), sideways=True)], height=height)
