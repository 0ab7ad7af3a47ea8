"""Two builds, inputs or versions of one program: which parts gained or lost time, predicted or simulated, by machine.

Parts are matched by what they are called; each one's difference is its new cycles less its old ones, 0 where it is
absent, so the differences add up to that of the whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.parts.costs import Costs
from analysis.parts.partition import Parts, require_partition, source, without_clone
from analysis.questions.profile import part_named, stack_of, with_rest
from analysis.results.figure import Axis, Bars, Figure, Panel, distinct
from analysis.results.headline import Headline, count, percent
from analysis.results.page import Section
from analysis.results.result import Result
from analysis.results.text import columns
from support.text import short
from uarch.timing.stack import CAUSES

PARTITIONS = ("function", "line", "loop", "class")


def result(old: Parts, new: Parts, costs: Costs, by: str = "function", *, rows: int = 20) -> Result:
    """Answer which parts gained or lost time; the table is that of `diff`, its text has so many `rows` a machine."""
    frame = diff(old, new, costs, by)
    return Result(
        f"{new.program} beside {old.program}",
        frame,
        document=lambda: to_json(frame, old, new, costs, by),
        text=lambda: f"{difference_text(frame, costs, rows)}\n\nsource: {source(costs, old, new)}",
        sections=lambda: sections(frame, old, new, costs, by),
        picture=lambda: plot(frame, costs),
        notes=tuple(one.cut_short for one in (old, new) if one.cut_short),
        headline=lambda: headline(frame, old, new, costs, by),
    )


def headline(frame: pd.DataFrame, old: Parts, new: Parts, costs: Costs, by: str) -> Headline:
    """Tell by how much the whole changed on the first machine, and the part that changed most."""
    machine = costs.names[0]
    before, after = float(frame[f"old.{machine}"].sum()), float(frame[f"new.{machine}"].sum())
    change = after / before - 1 if before > 0 else 0.0
    most = frame.iloc[int(frame[f"difference.{machine}"].abs().to_numpy(float).argmax())]
    part = float(most[f"difference.{machine}"])
    sentence = f"{new.program} takes {count(after)} cycles on {machine}, {old.program} {count(before)}. "
    if part:
        sentence += f"{part_named(by, str(most['name']))} changed most, by {_sign(part)}{count(abs(part))} cycles"
        if costs.has_stacks:
            cause = str(most[f"cause.{machine}"])
            sentence += f"; {cause} by {_sign(part)}{count(abs(float(most[f'stack.{machine}.{cause}'])))}"
        sentence += "."
    else:
        sentence += f"No {by} changed."
    return Headline(f"{_sign(change)}{percent(abs(change))}", f"cycles on {machine}", sentence, source(costs, old, new))


def _sign(change: float) -> str:
    return "+" if change > 0 else "−" if change < 0 else ""


def diff(old: Parts, new: Parts, costs: Costs, by: str = "function") -> pd.DataFrame:
    """One row per part of either, the largest difference on the first machine first.

    Functions are matched by name (a compiler's clones, as `f.constprop.0`, count as `f`), lines by file and number,
    loops by function and line (without lines by their order in the function), classes by name. Files are the same where
    their paths are, or where their names are and neither trace has two files of that name.

    Columns: `name`, `only` (`old` or `new` where the other has no such part, else ''), `instructions_old`,
    `instructions_new`, and for each machine M `old.M`, `new.M` and `difference.M`, in cycles; of simulated parts also
    `cause.M`, the cause that most of the difference is in (`retiring`: more or fewer instructions), and `stack.M.C`, by
    how many cycles each cause C changed. Raises InputError for another `by` (intervals of two runs do not match).
    """
    require_partition(by, PARTITIONS)
    names = costs.names
    same = _same_files(old, new)
    sides = []
    for side, parts in (("old", old), ("new", new)):
        partition = parts.by(by)
        frame = pd.DataFrame({"name": _keys(partition.labels, by, same)})
        frame[f"instructions_{side}"] = partition.sums.instructions
        frame[[f"{side}.{name}" for name in names]] = costs.cycles(partition.sums)
        if costs.has_stacks:
            stacks = costs.stacks(partition.sums).reshape(len(frame), -1)
            places = [f"{side} {place}" for place in range(stacks.shape[1])]
            frame = pd.concat([frame, pd.DataFrame(stacks, columns=places)], axis=1)
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
    if costs.has_stacks:
        every = range(len(names) * len(CAUSES))
        change = np.stack([(both[f"new {place}"] - both[f"old {place}"]).to_numpy() for place in every], axis=1)
        change = change.reshape(len(frame), len(names), len(CAUSES))
        causes = {
            f"cause.{name}": _main_causes(change[:, k], frame[f"difference.{name}"].to_numpy(float))
            for k, name in enumerate(names)
        }
        frame = pd.concat([frame, pd.DataFrame(causes | costs.stack_columns(change))], axis=1)
    order = frame[f"difference.{names[0]}"].abs().sort_values(ascending=False, kind="stable").index
    return frame.loc[order].reset_index(drop=True)


def _main_causes(change: NDArray[np.float64], difference: NDArray[np.float64]) -> list[str]:
    """[G] the cause that most of each part's `difference` [G] is in, of its changes [G, len(CAUSES)]; '' where there is
    no difference.
    """
    along = change * np.sign(difference)[:, None]
    names = list(CAUSES)
    return [names[k] if row[k] > 0 else "" for row, k in zip(along, along.argmax(axis=1).tolist(), strict=True)]


def _same_files(old: Parts, new: Parts) -> dict[str, str]:
    """Return the name of each source file in both: its name where that is enough, else its path."""
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
        return [without_clone(name) for name in labels["name"]]
    where = [f"{same[file]}:{line}" if line else "" for file, line in zip(labels["file"], labels["line"], strict=True)]
    functions = [without_clone(name) for name in labels["function"]]
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


def to_json(frame: pd.DataFrame, old: Parts, new: Parts, costs: Costs, by: str) -> dict[str, Any]:
    """The `--json` document: `groups` with lists by machine, `only` null where both have the part; of simulated parts
    `stack`, by how much the cycles of each cause changed.
    """
    names = costs.names
    groups = [
        {
            "name": row["name"],
            "only": row["only"] or None,
            "instructions": [row["instructions_old"], row["instructions_new"]],
            **{key: [row[f"{key}.{name}"] for name in names] for key in ("old", "new", "difference")},
            **({"stack": [stack_of(row, name) for name in names]} if costs.has_stacks else {}),
        }
        for row in frame.to_dict(orient="records")
    ]
    whole = {key: [float(frame[f"{key}.{name}"].sum()) for name in names] for key in ("old", "new", "difference")}
    told: dict[str, Any] = {"by": by, "source": costs.source, "uarch": names, "programs": [old.program, new.program]}
    told |= {"live_points": [old.sampled, new.sampled]} if costs.has_stacks else {}
    return {**told, **whole, "groups": groups}


def difference_text(frame: pd.DataFrame, costs: Costs, rows: int = 20) -> str:
    """A table per machine within 80 columns: the `rows` largest differences, the others together, and the whole.

    Of simulated parts the last column is the cause whose cycles changed most.
    """
    tables = []
    for machine in costs.machines:
        cells = [f"{side}.{machine.name}" for side in ("old", "new", "difference")]
        base = float(frame[cells[0]].sum())

        def line(
            label: str, part: pd.DataFrame, cells: list[str] = cells, base: float = base, name: str = machine.name
        ) -> list[str]:
            old, new, change = (float(part[cell].sum()) for cell in cells)
            only = {"old": "gone", "new": "new"}.get(part["only"].iloc[0], "") if len(part) == 1 else ""
            share = f"{change / base:+.1%}" if base > 0 else "-"
            cause = part[f"cause.{name}"].iloc[0] if costs.has_stacks and len(part) == 1 else ""
            return [label, f"{old:,.0f}", f"{new:,.0f}", f"{change:+,.0f}", share, only or cause]

        header = [f"cycles on {machine.name}", "old", "new", "change", "of all", ""]
        tables.append(columns(header, with_rest(frame, rows, line), remarks=True))
    return "\n\n".join(tables)


def sections(frame: pd.DataFrame, old: Parts, new: Parts, costs: Costs, by: str) -> list[Section]:
    """The parts of the HTML report."""
    text = (
        f"{old.program} before, {new.program} after: what is below 0 gained, what is above 0 lost. The differences of "
    )
    text += "all parts add up to that of the whole."
    whole = Bars("before", costs.names, [frame[f"old.{name}"].sum() for name in costs.names])
    after = Bars("after", costs.names, [frame[f"new.{name}"].sum() for name in costs.names])
    height = 1.4 + 0.45 * len(costs.machines)
    panel = Panel([whole, after], x=Axis(f"{costs.source} cycles", zero=True), sideways=True)
    return [
        Section("The whole", f"{costs.source.capitalize()} cycles before and after.", Figure([panel], height=height)),
        Section(f"What changed, by {by}", text, plot(frame, costs), frame),
    ]


def plot(frame: pd.DataFrame, costs: Costs, most: int = 20) -> Figure:
    """The largest differences, a bar a machine."""
    shown = frame.head(most)
    only = {"old": " (gone)", "new": " (new)", "": ""}
    names = distinct([short(str(n), 36) + only[side] for n, side in zip(shown["name"], shown["only"], strict=True)])
    bars = []
    for machine in costs.machines:
        old, new = shown[f"old.{machine.name}"], shown[f"new.{machine.name}"]
        text = [f"{a:,.0f} → {b:,.0f}" for a, b in zip(old, new, strict=True)]
        bars.append(Bars(machine.name, names, shown[f"difference.{machine.name}"], text=text))
    height = 1.4 + 0.2 * len(shown) * (0.6 + 0.4 * len(costs.machines))
    return Figure([Panel(bars, x=Axis("difference, cycles"), sideways=True)], height=height)
