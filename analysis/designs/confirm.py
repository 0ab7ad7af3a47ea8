"""The best points of a sweep confirmed by gem5: scripts to run, and their results beside the predictions."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.designs.design import Design
from analysis.designs.table import best, fields_of
from support.errors import InputError
from support.files import write_text
from support.text import parse_json
from tracegen.gem5.source import read_facts
from tracegen.gem5.statistics import read_statistics
from uarch.configuration import Machine, machine_from_dict
from uarch.gem5.config import machine_from_config, read_config, simulation_from_config
from uarch.gem5.script import gem5_script
from uarch.gem5.simulated import digest

PREDICTIONS = "predictions.json"
_FORMAT = "perfvec-confirm/1"


def best_machines(frame: pd.DataFrame, design: Design, k: int) -> Iterator[tuple[pd.Series, Machine]]:
    """Yield the `k` best points of each program of a sweep's table, the best first: its row, and its machine, named
    PROGRAM-01, PROGRAM-02, …
    """
    rank: dict[str, int] = {}
    names: dict[str, str] = {}
    for index, row in best(frame, k).iterrows():
        program = str(row["program"])
        if program not in names:
            rank[program] = 0
            names[program] = re.sub(r"[^A-Za-z0-9_.-]", "_", program)
            while list(names.values()).count(names[program]) > 1:
                names[program] += "_"
        rank[program] += 1
        name = f"{names[program]}-{rank[program]:02d}"
        yield row, design.machine(int(index), name)  # type: ignore[call-overload]


def export_gem5(
    folder: str | os.PathLike[str], frame: pd.DataFrame, design: Design, k: int, programs: Mapping[str, tuple[int, str]]
) -> pd.DataFrame:
    """A gem5 script for each of the `k` best points of each program of a sweep's table, and `predictions.json`.

    `programs` gives each program's instructions and ISA. One row a script: `uarch`, `program`, `script`, `cpi`. Run
    each with gem5's output folder inside this one, `gem5.opt -d FOLDER/UARCH FOLDER/UARCH.py -- PROGRAM ARGS`, and
    `gem5_results` finds it.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write scripts to {folder}: {error.strerror}") from None
    fields = fields_of(frame)
    rows, points = [], []
    for row, machine in best_machines(frame, design, k):
        program, name = str(row["program"]), machine.name
        instructions, isa = programs[program]
        write_text(folder / f"{name}.py", gem5_script(machine, isa))
        cpi = float(row["cycles"]) / instructions
        points.append(
            {
                "uarch": name,
                "program": program,
                "digest": digest(machine),
                "instructions": instructions,
                "cpi": cpi,
                "frequency_ghz": machine.frequency_ghz,
                "fields": {field: str(row[field]) for field in fields},
            }
        )
        rows.append({"uarch": name, "program": program, "script": str(folder / f"{name}.py"), "cpi": cpi})
    write_text(folder / PREDICTIONS, json.dumps({"format": _FORMAT, "points": points}, indent=1, allow_nan=False))
    return pd.DataFrame(rows)


def how_to_run(folder: str | os.PathLike[str], exported: pd.DataFrame) -> str:
    """One line that says how gem5 is run on the scripts."""
    first = Path(str(exported["script"].iloc[0]))
    return (
        f"{len(exported)} scripts; run each as: gem5.opt -d {shlex.quote(str(first.with_suffix('')))} "
        f"{shlex.quote(str(first))} -- PROGRAM ARGS; then: perfvec sweep --gem5-results {shlex.quote(str(folder))}"
    )


def gem5_results(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """gem5's result of each exported point that was run, beside the prediction; the fastest by gem5 first.

    Columns: `uarch`, `program`, `cpi` (predicted), `gem5_cpi`, `error` (predicted / gem5 − 1), `ns` and `gem5_ns` (per
    instruction), `rank` (predicted, among the program's exported points) and `gem5_rank` (among those that ran). CPIs
    are compared, as gem5 may have measured fewer instructions than the trace has. Raises InputError where there are no
    predictions or no results, or a run is of another machine than the exported one.
    """
    folder = Path(folder)
    points = _predictions(folder / PREDICTIONS)
    rows = []
    for config in sorted(folder.glob("*/config.json")):
        result = _result(config)
        point = points.get(result["uarch"])
        if point is None:
            continue
        if result["digest"] not in (None, point["digest"]):
            raise InputError(
                f"{config.parent}: the run's machine {result['uarch']} is not the exported one; export and run it again"
            )
        gem5_cpi = result["cycles"] / result["instructions"]
        rows.append(
            {
                "uarch": point["uarch"],
                "program": point["program"],
                "cpi": point["cpi"],
                "gem5_cpi": gem5_cpi,
                "error": point["cpi"] / gem5_cpi - 1,
                "ns": point["cpi"] / point["frequency_ghz"],
                "gem5_ns": gem5_cpi / point["frequency_ghz"],
            }
        )
    if not rows:
        names = ", ".join(list(points)[:3])
        raise InputError(
            f"{folder}: no results of gem5 for the exported points ({names}, …); run them with -d {folder}/NAME"
        )
    frame = pd.DataFrame(rows)
    place = {point["uarch"]: sum(_ahead(other, point) for other in points.values()) + 1 for point in points.values()}
    frame["rank"] = frame["uarch"].map(place)
    frame["gem5_rank"] = frame.groupby("program", sort=False)["gem5_ns"].rank(method="min").astype(int)
    return frame.sort_values(["program", "gem5_ns"], kind="stable", ignore_index=True)


def _ahead(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether a point of a program is predicted to be faster than another."""
    return bool(
        one["program"] == other["program"] and one["cpi"] / one["frequency_ghz"] < other["cpi"] / other["frequency_ghz"]
    )


def _predictions(path: Path) -> dict[str, dict[str, Any]]:
    try:
        document = parse_json(path.read_text())
        if document["format"] != _FORMAT:
            raise ValueError
        kinds = {"uarch": str, "program": str, "digest": str, "cpi": float, "frequency_ghz": (int, float)}
        points = {point["uarch"]: point for point in document["points"]}
        if not all(isinstance(point[name], kind) for point in points.values() for name, kind in kinds.items()):  # type: ignore[arg-type]
            raise ValueError
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; give the folder of --export-gem5") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path}: damaged, or not of perfvec sweep --export-gem5") from None
    return points


def _result(config: Path) -> dict[str, Any]:
    """Machine, cycles and instructions of one output folder of gem5."""
    document = read_config(config)
    facts = read_facts(config.parent / "run.json") if (config.parent / "run.json").exists() else {}
    try:
        simulation = simulation_from_config(document)
        machine_from_config(document, config.parent.name)
        machine = machine_from_dict(facts["machine"]) if "machine" in facts else None
    except InputError as error:
        raise InputError(f"{config}: {error}") from None
    path = config.parent / "stats.txt"
    statistics = read_statistics(path)
    cycles = statistics.get(f"{simulation.core}.numCycles", 0.0)
    instructions = statistics.get(f"{simulation.core}.commitStats0.numInsts", 0.0)
    if not cycles > 0 or not instructions > 0:
        raise InputError(f"{path}: no cycles or no instructions of {simulation.core}; gem5 measured nothing")
    return {
        "uarch": machine.name if machine is not None else config.parent.name,
        "digest": digest(machine) if machine is not None else None,
        "cycles": cycles,
        "instructions": instructions,
    }
