"""Attribution of a program's cycles to a machine's parts: Shapley values over groups of fields, against an ideal
machine.

As Concorde attributes performance (Nasr-Esfahany et al., *Concorde: Fast and Accurate CPU Performance Modeling with
Compositional Analytical-ML Fusion*, ISCA 2025, arXiv 2503.23076), but exact: with n groups all 2^n machines between the
given one and the ideal one are predicted, one encoded vector each, and a group's value is its mean gain over all orders
in which groups can become ideal (Shapley, 1953). The values add up to what the ideal machine would save.

All of those machines are simulated where a budget allows it (`answered`), else all are encoded, also the one that the
model's table may know, so that differences are the encoder's, and as good as its zero-shot predictions. A value may be
negative: the encoder may err, and a field may serve a program better at the machine's value than at the ideal one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.budget.budget import SOURCES, answer, by_model, shares
from analysis.budget.coordinates import Coordinates
from analysis.budget.within import within
from analysis.programs.targets import Target, cut_short
from analysis.results.figure import Axis, Bars, Figure, Panel
from analysis.results.headline import Headline, percent
from analysis.results.page import Section
from analysis.results.result import Result
from analysis.results.text import columns
from perfvec.model import Model
from perfvec.representation.vector import ProgramVector
from support.errors import InputError
from support.text import nearest, show
from support.yaml_files import read_yaml
from uarch.columns import of_machines
from uarch.configuration import OPTIONAL, Machine, field_names, machine_from_dict
from uarch.constraints import CORES, FIELDS, GEM5
from uarch.machine_files import native_names

IDEAL = Path(__file__).parent / "ideal.yaml"
MOST_GROUPS = 8
REST = "the ideal machine itself"
_NOTED_SLOWER = 0.01  # of a program's cycles
_NOTED_HALF_WIDTH = 0.001


def load_ideal(path: str | Path, machine: Machine, *, either: bool = False) -> dict[str, dict[str, Any]]:
    """Each group's fields with their ideal values, as they are for `machine`; the file may be meant for `either` core.
    Raises InputError for a wrong file.
    """
    path = Path(path)
    content = read_yaml(path, "ideal machine")
    if not isinstance(content, Mapping) or not 1 <= len(content) <= MOST_GROUPS:
        raise InputError(f"{path} must hold 1 to {MOST_GROUPS} groups of fields")
    groups: dict[str, dict[str, Any]] = {}
    owner: dict[str, str] = {}
    for group, given in content.items():
        fields = groups[str(group)] = {}
        if not isinstance(given, Mapping):
            raise InputError(f"{path}: group {group} = {show(given)} must be a mapping of fields")
        for core in CORES:
            if not isinstance(given.get(core, {}), Mapping):
                raise InputError(f"{path}: {group}.{core} = {show(given[core])} must be a mapping of fields")
        own = {field: value for field, value in given.items() if field not in CORES} | given.get(machine.core, {})
        for field, value in own.items():
            if machine.l3 is None and str(field).startswith("l3."):
                continue
            of_other_core = either and field in FIELDS and str(field).startswith("pipeline.")
            if (field in OPTIONAL or of_other_core) and field not in field_names(machine):
                continue
            valid = [*field_names(machine), "memory"]
            if field not in valid or field in ("name", "core"):
                raise InputError(f"{path}: {group}: unknown field {show(field)}{nearest(str(field), valid)}")
            if owner.setdefault(field, str(group)) != str(group):
                raise InputError(f"{path}: {field} is in two groups, {owner[field]} and {group}")
            fields[field] = value
    return groups


def coalitions(machine: Machine, groups: Mapping[str, Mapping[str, Any]]) -> list[Machine]:
    """The 2^n machines of which number c has group k ideal where bit k of c is set. Raises InputError."""
    names = list(groups)
    found = []
    for number in range(1 << len(names)):
        values = machine.to_dict()
        for k, name in enumerate(names):
            if number >> k & 1:
                for field, value in groups[name].items():
                    section, _, last = field.partition(".")
                    if last:
                        values[section] = values[section] | {last: value}
                    else:
                        values[section] = value
        name = f"{machine.name} made ideal" if number else machine.name
        found.append(machine_from_dict(values | {"name": name}))
    return found


def coalition_weights(players: int) -> NDArray[np.float64]:
    """[players + 1] the weight in a player's Shapley value of what it adds to each coalition of 0, 1, … others."""
    return np.array(
        [factorial(s) * factorial(max(players - s - 1, 0)) / factorial(players) for s in range(players + 1)]
    )


def shapley(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n, …] each player's Shapley value of a game given by the worth [2^n, …] of every coalition, as bits."""
    players = len(values).bit_length() - 1
    if len(values) != 1 << players:
        raise ValueError("the worth of every coalition is needed: 2^n of them")
    number = np.arange(len(values))
    size = np.array([int(c).bit_count() for c in number])
    weight = coalition_weights(players)
    result = np.zeros((players, *values.shape[1:]))
    for k in range(players):
        without = number[number >> k & 1 == 0]
        result[k] = np.tensordot(weight[size[without]], values[without | 1 << k] - values[without], 1)
    return result


def ask(
    model: Model,
    targets: Sequence[Target],
    machines: Sequence[Machine],
    seconds: float,
    ideal: str | Path | None = None,
    *,
    progress: bool = True,
) -> Result:
    """Answer what of each machine the cycles are due to; the table is that of `answered`, for each machine in turn."""
    each = seconds / max(len(machines), 1)
    frames = [answered(model, targets, machine, each, ideal, progress=progress) for machine in machines]
    frame = pd.concat(frames, ignore_index=True)
    return Result(
        "Cycles by part of the machine",
        frame,
        document=lambda: to_json(frame),
        text=lambda: attribution_text(frame),
        sections=lambda: sections(frame),
        picture=lambda: plot(frame),
        notes=(
            *cut_short(targets),
            *(line for one in machines for line in notes(frame[frame["uarch"] == one.name], one)),
        ),
        headline=lambda: headline(frame),
    )


def notes(frame: pd.DataFrame, machine: Machine) -> list[str]:
    """One line for each program whose cycles are of a sample, and one for groups that cost time when made ideal."""
    found = []
    for program, uarch, rows in _each(frame):
        whole, half = float(rows["encoded"].iloc[0]), float(rows["half_width"].iloc[0])
        if half > _NOTED_HALF_WIDTH * whole:
            found.append(f"{program} on {uarch}: its live-points were simulated, ±{half / whole:.1%}")
        groups = rows[rows["group"] != REST]
        slower = groups.loc[groups["share"] < -_NOTED_SLOWER, "group"].tolist()
        if slower and rows["source"].iloc[0] in ("simulated", "corrected"):
            line = f"{program} on {uarch}: slower with ideal {' and '.join(slower)}"
            if machine.core == "out-of-order" and machine.microcode == GEM5:
                line += ": gem5's cores take longer to squash what more of is in flight, eight micro-operations a cycle"
                native = f"{machine.name}-native"
                line += f"; {native} does not" if native in native_names() else ""
            found.append(line)
    return found


def headline(frame: pd.DataFrame) -> Headline:
    """The group of fields that costs the first program most on the first machine."""
    program, uarch = frame["program"].iloc[0], frame["uarch"].iloc[0]
    own = frame[(frame["program"] == program) & (frame["uarch"] == uarch)]
    groups = own[own["group"] != REST].sort_values("cycles", ascending=False)
    rest = float(own.loc[own["group"] == REST, "share"].iloc[0])
    worst, share = str(groups["group"].iloc[0]), float(groups["share"].iloc[0])
    sentence = (
        f"Of {program}'s cycles on {uarch} {percent(share)} are due to {worst}, more than to any other part of the "
    )
    sentence += f"machine; {percent(rest)} are left on the ideal machine."
    source = " and ".join(dict.fromkeys(map(str, own["source"])))
    return Headline(percent(share), f"of the cycles: {worst}", sentence, f"{source}; Shapley values have no interval")


def answered(
    model: Model,
    targets: Sequence[Target],
    machine: Machine,
    seconds: float,
    ideal: str | Path | None = None,
    *,
    progress: bool = True,
) -> pd.DataFrame:
    """A row per program and group, and one for the ideal machine: they add up to the program's cycles.

    Columns: `program`, `uarch`, `group`; `cycles` (the Shapley value: what the group costs beyond the ideal), `share`
    of the program's cycles; `source`; `alone` what the ideal value of this group alone would save, and `last` what it
    would still save where all others are ideal (of the ideal machine's row NaN). `predicted` are the program's cycles
    as `predict` says, `encoded` by the source (both the same, but for a machine that trained the model); `half_width`
    is that of their interval, 0 where all of the program was simulated.

    The machines in between are simulated as far as a budget of so many seconds goes. Those that are not are corrected
    by the others (`analysis.budget`; the coordinates are which groups are ideal) where at least the two ends, and each
    group's `alone` and `last` are simulated; else the encoder answers for all, `scaled` to the machine itself where
    that is simulated. `source` is that of the least sure of a program's machines. Raises InputError for a wrong file,
    or a model without an encoder where it is asked.
    """
    groups, machines = _players(machine, ideal)
    targets = within(targets, len(machines), seconds)
    players = len(groups)
    bits = (np.arange(len(machines))[:, None] >> np.arange(players) & 1).astype(np.float32) - 0.5
    where = Coordinates(bits, np.ones(players, bool), players)
    every = len(machines) - 1
    one = [1 << k for k in range(players)]
    first = list(dict.fromkeys([0, every, *one, *(every ^ bit for bit in one)]))
    cycles = np.empty((len(machines), len(targets)))
    predicted, half, sources = np.empty(len(targets)), np.zeros(len(targets)), []
    for number, (target, share) in enumerate(
        zip(targets, shares([target.simulable for target in targets], seconds), strict=True)
    ):
        found = (
            by_model(_encoded(model, machines, [target.vector])[:, 0])
            if target.simulable is None or share <= 0
            else answer(
                target.simulable,
                of_machines(machines),
                share,
                lambda target=target: _encoded(model, machines, [target.vector])[:, 0],  # type: ignore[misc]
                where=where,
                first=first,
                least=len(first),
                progress=progress,
            )
        )
        cycles[:, number] = found.cycles
        predicted[number] = found.cycles[0]
        sources.append(SOURCES[int(found.source.max())])
        if sources[-1] == "zero-shot":  # differences are between like and like
            encoded = _encoded(model, machines, [target.vector])[:, 0]
            if SOURCES[found.source[0]] == "simulated":
                cycles[:, number], sources[-1] = encoded * (found.cycles[0] / encoded[0]), "scaled"
            else:
                cycles[:, number] = encoded
                predicted[number] = float(model.machine_vectors([machine])[0][0] @ target.vector.vector)
        half[number] = max(float(np.nan_to_num(found.high[0] - found.cycles[0])), 0.0)
    return _tabulated(machine, groups, [target.name for target in targets], cycles, predicted, half, sources)


def _players(machine: Machine, ideal: str | Path | None) -> tuple[dict[str, dict[str, Any]], list[Machine]]:
    """The groups of fields, and the machines of all coalitions."""
    groups = load_ideal(ideal or IDEAL, machine)
    try:
        return groups, coalitions(machine, groups)
    except InputError as error:
        raise InputError(f"{ideal or IDEAL}: {error}") from None


def _encoded(model: Model, machines: Sequence[Machine], programs: Sequence[ProgramVector]) -> NDArray[np.float64]:
    """[machines, programs] cycles by the encoder."""
    if model.encoder is None:
        raise InputError("this model has no encoder, and attribution needs one; train with --encoder-latencies")
    return model.encoder.vectors(machines) @ np.stack([program.vector for program in programs]).T


def _tabulated(
    machine: Machine,
    groups: Mapping[str, Any],
    programs: Sequence[str],
    cycles: NDArray[np.float64],
    predicted: NDArray[np.float64],
    half: NDArray[np.float64],
    sources: Sequence[str],
) -> pd.DataFrame:
    saved = shapley(-cycles)
    every = len(cycles) - 1
    rows = []
    for p, program in enumerate(programs):
        whole = cycles[0, p]
        common = {"program": program, "uarch": machine.name, "source": sources[p]}
        known = {"encoded": whole, "predicted": predicted[p], "half_width": half[p]}
        for k, group in enumerate(groups):
            bit = 1 << k
            rows.append(
                {
                    **common,
                    "group": group,
                    "cycles": saved[k, p],
                    "share": saved[k, p] / whole,
                    "alone": whole - cycles[bit, p],
                    "last": cycles[every ^ bit, p] - cycles[every, p],
                    **known,
                }
            )
        rest = cycles[every, p]
        rows.append(
            {**common, "group": REST, "cycles": rest, "share": rest / whole, "alone": np.nan, "last": np.nan, **known}
        )
    return pd.DataFrame(rows)


def _each(frame: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Program, machine and rows of each attribution; its last row is the ideal machine's."""
    begin = 0
    for end in (np.flatnonzero(frame["group"] == REST) + 1).tolist():
        rows = frame.iloc[begin:end]
        yield rows["program"].iloc[0], rows["uarch"].iloc[0], rows
        begin = end


def to_json(frame: pd.DataFrame) -> dict[str, Any]:
    """The `--json` document: per program and machine its cycles, the groups, and what is left on the ideal machine."""
    found = []
    for program, uarch, rows in _each(frame):
        groups = rows[rows["group"] != REST]
        found.append(
            {
                "program": program,
                "uarch": uarch,
                "source": rows["source"].iloc[0],
                "encoded_cycles": float(rows["encoded"].iloc[0]),
                "predicted_cycles": float(rows["predicted"].iloc[0]),
                "ideal_cycles": float(rows["cycles"][rows["group"] == REST].iloc[0]),
                "groups": groups[["group", "cycles", "share", "alone", "last"]].to_dict(orient="records"),
            }
        )
    return {"attributions": found}


def attribution_text(frame: pd.DataFrame) -> str:
    """A table per program and machine, the most cycles first, within 80 columns."""
    tables = []
    for program, uarch, rows in _each(frame):
        groups = rows[rows["group"] != REST].sort_values("cycles", ascending=False)
        lines = [
            [
                row["group"],
                f"{row['cycles']:,.0f}",
                f"{row['share']:.1%}",
                f"{row['alone']:,.0f}",
                f"{row['last']:,.0f}",
            ]
            for row in groups.to_dict(orient="records")
        ]
        rest = rows[rows["group"] == REST].iloc[0]
        lines.append([REST, f"{rest['cycles']:,.0f}", f"{rest['share']:.1%}", "", ""])
        by = "zero-shot" if rest["source"] == "zero-shot" else "simulated"
        lines.append([f"whole, {by}", f"{rest['encoded']:,.0f}", "100.0%", "", ""])
        if abs(rest["predicted"] - rest["encoded"]) > 1e-6 * abs(rest["encoded"]):
            lines.append(["whole, as predict says", f"{rest['predicted']:,.0f}", "", "", ""])
        table = columns([f"{program} on {uarch}", "cycles", "share", "alone", "last"], lines)
        told = rest["source"] in ("simulated", "zero-shot")  # by the row of the whole
        tables.append(table if told else f"{table}\nsource of the groups: {rest['source']}")
    return "\n\n".join(tables)


def sections(frame: pd.DataFrame) -> list[Section]:
    """The parts of the HTML report."""
    text = (
        "A program's cycles by groups of fields: Shapley values against an ideal machine, whose own cycles come first. "
        "A negative value is left of 0."
    )
    return [Section("Cycles by part of the machine", text, plot(frame), frame)]


def plot(frame: pd.DataFrame) -> Figure:
    """Stacked bars: a panel a program, a bar a machine, in it the groups of fields."""
    groups = [REST, *dict.fromkeys(group for group in frame["group"] if group != REST)]
    panels = []
    for program, part in frame.groupby("program", sort=False):
        bars = []
        for group in groups:
            rows = part[part["group"] == group]
            text = [f"{group}: {share:.1%}" for share in rows["share"]]
            bars.append(Bars(group, [str(name) for name in rows["uarch"]], rows["cycles"], text=text))
        panels.append(Panel(bars, str(program), Axis("cycles"), stacked=True, sideways=True))
    machines = frame["uarch"].nunique()
    return Figure(panels, width=9, height=(1.1 + 0.4 * machines) * len(panels) + 0.5)
