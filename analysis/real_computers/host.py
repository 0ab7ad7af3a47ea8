"""This computer as a machine: the answer of `perfvec uarch host`, with its curves as pictures."""

from __future__ import annotations

import datetime
import sys
from typing import Any

import pandas as pd

from analysis.results.figure import Axis, Figure, Lines, Mark, Panel
from analysis.results.headline import Headline
from analysis.results.page import Section
from analysis.results.result import Result
from uarch.configuration import flatten
from uarch.host.describe import ASSUMED, COUNTED, MEASURED, ORIGINS, TOLD, Host, describe
from uarch.host.measure import Measurements, measure
from uarch.host.told import told

# Subject of `Measurements.curves` → title, paragraph, axes, whether y is logarithmic.
_PICTURES = {
    "latency": (
        "Latency by size",
        "Loads that wait for one another along a random cycle through a working set of the size.",
        Axis("working set, KiB", log=True),
        Axis("cycles a load", log=True),
    ),
    "strides": (
        "Latency by stride",
        "As before, one load every so many bytes of half of L2, and of memory.",
        Axis("stride, bytes", log=True),
        Axis("cycles a load", log=True),
    ),
    "TLB": (
        "Address translation",
        "One line of each page. Beyond the cache's latency is what translation costs; a virtual machine's huge pages "
        "may be small ones of its host.",
        Axis("pages", log=True),
        Axis("cycles a load", log=True),
    ),
    "bandwidth": (
        "Bandwidth",
        "Bytes read, written or copied a cycle, by 32-byte vectors, in a working set of the size.",
        Axis("working set, KiB", log=True),
        Axis("bytes a cycle", zero=True),
    ),
    "parallel misses": (
        "Misses side by side",
        "Chases side by side: how many misses are in flight, by the time of one.",
        Axis("chases", zero=True),
        Axis("misses in flight", zero=True),
    ),
    "windows": (
        "Windows",
        "Two misses with so many instructions between them; the time doubles where they no longer fit (Wong 2013).",
        Axis("instructions between two misses", zero=True),
        Axis("cycles", zero=True),
    ),
    "stores": (
        "Memory renaming",
        "A load of what the first of so many stores wrote: the time rises where it waits for the store queue.",
        Axis("stores", zero=True),
        Axis("cycles a round"),
    ),
    "branch patterns": (
        "Branch prediction",
        "A branch on random bits that repeat after a length: the share mispredicted.",
        Axis("length of the pattern", log=True),
        Axis("share mispredicted", zero=True),
    ),
    "jumps": (
        "Branch targets",
        "A chain of direct jumps: the time rises where their targets no longer fit.",
        Axis("jumps", log=True),
        Axis("cycles a jump", zero=True),
    ),
    "calls": (
        "Returns",
        "Nested calls: the time rises where the return-address stack ends.",
        Axis("depth", zero=True),
        Axis("cycles a call and return", zero=True),
    ),
}


def host(*, repeats: int = 7, progress: bool = True, name: str = "host") -> tuple[Host, Result]:
    """Measure this computer and describe it as a machine: the description, and the answer that shows it.

    Takes half a minute on a quiet machine. Raises InputError where it cannot be measured.
    """
    known = told()

    def tell(subject: str) -> None:
        if progress and sys.stderr.isatty():
            print(f"measure: {subject}", file=sys.stderr)

    found = measure(known, tell, repeats)
    described = describe(known, found, datetime.datetime.now(datetime.timezone.utc).date().isoformat(), name)
    return described, result(described)


def table(described: Host) -> pd.DataFrame:
    """A row a field: `field`, `value`, `origin`, `note`."""
    values = flatten(described.machine.to_dict())
    rows = [
        {"field": field, "value": values[field], "origin": origin.origin, "note": origin.note}
        for field, origin in described.fields.items()
        if field in values
    ]
    return pd.DataFrame(rows)


def result(described: Host) -> Result:
    """The description as an answer: fields with their origins, curves, costs of system calls."""
    frame, found = table(described), described.measurements
    notes = [warning] if (warning := busy_warning(found)) else []
    return Result(
        f"{described.told.model_name} as a machine",
        frame,
        document=lambda: _document(described),
        text=lambda: shown(described),
        sections=lambda: sections(described),
        picture=lambda: Figure([_panel(found, subject) for subject in _PICTURES if subject in found.curves], 3),
        subtitle=f"{described.told.family}, measured {described.date}",
        notes=tuple(notes),
        headline=lambda: headline(described),
    )


def headline(described: Host) -> Headline:
    """Return how many fields were measured, and what most programs depend on: width and latencies."""
    frame, found = table(described), described.measurements
    origins = frame["origin"].value_counts()
    wide = described.machine.to_dict()["pipeline"]
    levels = [found.latency[level] for level in ("l1d", "l2", "l3", "memory") if level in found.latency]
    latencies = ", ".join(f"{cycles:.0f}" for cycles in levels)
    return Headline(
        str(origins.get(MEASURED, 0) + origins.get(COUNTED, 0)),
        f"of {len(frame)} fields measured",
        f"{described.told.model_name} renames {wide.get('rename_width', wide.get('width'))} instructions a cycle at "
        f"{described.machine.frequency_ghz:.2f} GHz; its caches and memory answer after {latencies} cycles.",
        f"measured on this computer; {origins.get(TOLD, 0)} fields told, {origins.get(ASSUMED, 0)} assumed",
    )


def busy_warning(found: Measurements) -> str:
    """One line where repeats differ so much that the machine was busy, else ''."""
    if not found.busy:
        return ""
    return f"this computer was busy: repeats differ by {found.spread:.1%} (a quiet one: under 5 %); measure again"


def shown(described: Host) -> str:
    """The fields by origin, within 80 columns."""
    frame = table(described)
    counts = frame["origin"].value_counts()
    lines = [
        f"{described.told.model_name}: {described.told.family}, the rest as {described.told.preset}",
        *(f"{origin}: {counts[origin]} fields" for origin in ORIGINS if origin in counts),
        "",
    ]
    for row in frame.to_dict(orient="records"):
        lines.append(f"{row['field']:36} {row['value']!s:>12}  {row['origin']:8} {row['note']}"[:80].rstrip())
    return "\n".join(lines)


def sections(described: Host) -> list[Section]:
    """The parts of the page."""
    found = described.measurements
    parts = []
    for subject, (title, text, _, _) in _PICTURES.items():
        if subject in found.curves:
            parts.append(Section(title, text, Figure([_panel(found, subject)])))
    numbers = {
        "latency, cycles": found.latency,
        "instructions a cycle": found.per_cycle,
        "system calls, cycles": found.system_calls,
    }
    rows = [
        {"what": what, "of": name, "value": round(value, 2)}
        for what, each in numbers.items()
        for name, value in each.items()
    ]
    return [
        Section("The machine", "Every field with its origin.", table=table(described)),
        *parts,
        Section("Operations and system calls", table=pd.DataFrame(rows)),
    ]


def _panel(found: Measurements, subject: str) -> Panel:
    title, _, x, y = _PICTURES[subject]
    marks: list[Mark] = [Lines(name, *curve, points=True) for name, curve in found.curves[subject].items()]
    return Panel(marks, title=title, x=x, y=y)


def _document(described: Host) -> dict[str, Any]:
    found = described.measurements
    return {
        "machine": described.machine.to_dict(),
        "fields": {field: {"origin": each.origin, "note": each.note} for field, each in described.fields.items()},
        "processor": {
            "vendor": described.told.vendor,
            "model": described.told.model_name,
            "microarchitecture": described.told.family,
            "nearest_preset": described.told.preset,
            "virtual": described.told.virtual,
        },
        "date": described.date,
        "spread": found.spread,
        "busy": found.busy,
        "ghz": found.ghz,
        "latency_cycles": found.latency,
        "per_cycle": found.per_cycle,
        "windows": found.windows,
        "misprediction_cycles": found.misprediction,
        "numbers": found.numbers,
        "system_call_cycles": found.system_calls,
        "curves": {
            subject: {name: {"x": list(x), "y": list(y)} for name, (x, y) in lines.items()}
            for subject, lines in found.curves.items()
        },
    }
