"""A validation as an answer: text, figures, page and document."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.real_computers.validate import Validation
from analysis.results.figure import Axis, Bars, Figure, Lines, Mark, Panel, Points
from analysis.results.headline import Headline, percent
from analysis.results.page import Section
from analysis.results.result import Result
from analysis.results.text import columns
from tracegen.suite.host_cpu import matched

_BUSY = 0.3  # processors that others keep busy, for a remark


def result(found: Validation) -> Result:
    """The validation as an answer."""
    notes = [f"{name} is left out: {why}" for name, why in found.left_out.items()]
    if found.busy > _BUSY:
        notes.append(f"This computer was busy: others used {found.busy:.1f} of its processors; time again when quiet")
    if lacking := matched(found.told).lacking:
        notes.append(f"QEMU lacks {', '.join(lacking)}: code that chooses by them differs; OpenSSL is kept from them")
    return Result(
        f"{found.told.model_name} ({found.told.family}), measured and simulated",
        found.table,
        document=lambda: _document(found),
        text=lambda: shown(found),
        sections=lambda: sections(found),
        picture=lambda: plot(found),
        subtitle=f"{_programs(len(found.table))}, {found.date}, clock {found.ghz:.2f} GHz, "
        f"cycles {'counted' if found.counted else 'by time'}",
        notes=tuple(notes),
        headline=lambda: headline(found),
    )


def _programs(count: int) -> str:
    return "1 program" if count == 1 else f"{count} programs"


def headline(found: Validation) -> Headline:
    """The median error of the first machine, and those of the others beside it."""
    first, *others = found.summary()
    beside = "".join(f"; {each['uarch']} {percent(each['median'])}" for each in others)
    off = f"{first['programs']} programs are off by {percent(first['median'])} in the median and "
    off += f"{percent(first['mean'])} in the mean"
    if first["programs"] == 1:
        off = f"{found.table['program'].iloc[0]} is off by {percent(first['median'])}"
    return Headline(
        percent(first["median"]),
        "median error" if first["programs"] > 1 else "error",
        f"Simulated on {first['uarch']}, {off}{beside}.",
        f"simulated, beside times on this computer ({found.told.model_name}, {found.told.family})",
    )


def shown(found: Validation) -> str:
    """A row a program, the worst first; the stack's largest parts on the first machine; within 80 columns."""
    first = found.machines[0]
    short = {machine: machine[:10] for machine in found.machines}
    header = ["", "ms", "CPI", *(short[machine] for machine in found.machines), "simulated CPI is made of"]
    order = found.table[f"error.{first}"].abs().sort_values(ascending=False).index
    lines = []
    for row in found.table.loc[order].to_dict(orient="records"):
        parts = sorted(found.stacks[row["program"], first].items(), key=lambda part: -part[1])[:2]
        lines.append(
            [
                str(row["program"])[:18],
                f"{row['seconds'] * 1e3:.1f}",
                f"{row['cpi']:.2f}",
                *(f"{row[f'error.{machine}']:+.0%}" for machine in found.machines),
                ", ".join(f"{group.split()[0]} {value:.2f}" for group, value in parts),
            ]
        )
    text = [columns(header, lines), ""]
    for each in found.summary():
        rank = "-" if each["rank"] is None else f"{each['rank']:.2f}"
        line = f"{each['uarch']}: {_programs(each['programs'])}, median {each['median']:.1%}, mean {each['mean']:.1%}"
        text.append(f"{line}, bias {each['bias']:+.1%}, rank {rank}")
        if each["ratio"] is not None:
            text.append(f"  speed ratios of {each['builds']} programs' builds: median {each['ratio']:.1%} off")
        if each["with_kernel"] is not None:
            text.append(f"  user and kernel time together: median {each['with_kernel']:.1%} off")
    return "\n".join(line[:80].rstrip() for part in text for line in part.split("\n"))


def sections(found: Validation) -> list[Section]:
    """The parts of the page."""
    stacks = pd.DataFrame(
        [{"program": name, "uarch": machine, **parts} for (name, machine), parts in found.stacks.items()]
    )
    ratios = found.ratios()
    parts = [
        Section(
            "Measured and simulated",
            "Cycles per instruction of whole runs; errors are of cycles.",
            plot(found),
            found.table,
        ),
        Section("Summary", table=pd.DataFrame(found.summary())),
        Section("CPI stacks", "What the simulator spends the cycles on, by instruction.", table=stacks),
    ]
    if len(ratios):
        parts.append(Section("Two builds", "Time of -O1 over that of -O3.", table=ratios))
    if found.left_out:
        left = [{"program": name, "why": why} for name, why in found.left_out.items()]
        parts.append(Section("Left out", table=pd.DataFrame(left)))
    return parts


def plot(found: Validation) -> Figure:
    """Simulated over measured CPI, and the errors."""
    names = [str(name) for name in found.table["program"]]
    ends = [float(found.table["cpi"].min()), float(found.table["cpi"].max())]
    against: list[Mark] = [
        Points(machine, found.table["cpi"], found.table[f"cpi.{machine}"], names) for machine in found.machines
    ]
    errors: list[Mark] = [Bars(machine, names, found.table[f"error.{machine}"] * 100) for machine in found.machines]
    panels = [
        Panel(
            [*against, Lines("as measured", ends, ends)],
            x=Axis("measured CPI", log=True),
            y=Axis("simulated CPI", log=True),
        ),
        Panel(errors, x=Axis("error, %"), sideways=True),
    ]
    return Figure(panels, 2, width=10.0, height=max(4.0, 1.4 + 0.3 * len(names)))


def _document(found: Validation) -> dict[str, Any]:
    rows = []
    for row in found.table.to_dict(orient="records"):
        rows.append({**{str(key): value for key, value in row.items()}, "stack": _stacks(found, str(row["program"]))})
    return {
        "programs": rows,
        "summary": found.summary(),
        "ratios": found.ratios().to_dict(orient="records"),
        "left_out": found.left_out,
        "processor": {"model": found.told.model_name, "microarchitecture": found.told.family},
        "ghz": found.ghz,
        "counted": found.counted,
        "date": found.date,
    }


def _stacks(found: Validation, program: str) -> dict[str, dict[str, float]]:
    return {machine: parts for (name, machine), parts in found.stacks.items() if name == program}
