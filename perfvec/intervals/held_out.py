"""The errors of fold models on programs that did not train them: what an interval is calibrated on."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from perfvec.evaluate import LabelledWindow, labelled_windows, machine_ways
from perfvec.intervals.novelty import machine_neighbours, program_neighbours
from perfvec.model import Model
from perfvec.training.data import pair_files
from support.errors import InputError
from tracegen.formats.latency import LatencyFile
from uarch.configuration import configuration_key

WAYS = {"seen": "table", "fitted": "fitted", "zero-shot": "encoder"}  # the protocol's words → predict's


def held_out_errors(
    folds: Sequence[Model], traces: str | os.PathLike[str], latencies: str | os.PathLike[str], *, progress: bool = True
) -> pd.DataFrame:
    """One row per (fold, labelled window of a program that it left out, machine, way to its vector).

    Columns: `program`, `uarch`, `machine_digest` (of its configuration), `core`, `way` (`table`, `fitted` or `encoder`,
    as `predict` says), `error` = log(simulated / predicted cycles), infinite where the prediction is not positive;
    `program_distance` and `machine_distance`, as multiples of the usual ones (perfvec.intervals.novelty), NaN where
    they are unknown, of machines 0 but for the encoder's; `fold`, the number of the model. Raises InputError where a
    fold left nothing out.
    """
    machines = _labelled_machines(Path(traces), Path(latencies))
    fits = [not machines <= _known(model) for model in folds]
    trained = [{program.digest for program in model.programs} for model in folds]

    def needed(index: int, digest: str) -> bool:
        """Left out; of the others only the labels are needed, to fit machines."""
        return digest not in trained[index] or fits[index]

    windows = labelled_windows(folds, traces, latencies, needed=needed, progress=progress)
    rows: list[dict[str, Any]] = []
    for index, model in enumerate(folds):
        found = list(_errors(model, index, windows))
        if not found:
            out = {window.trace_digest for window in windows} - trained[index]
            what = (
                "it has neither a vector nor an encoder for the labelled machines"
                if out
                else "every labelled program trained it; nothing was left out"
            )
            raise InputError(f"fold model {index + 1}: {what}")
        rows += [row | {"fold": index} for row in found]
    return pd.DataFrame(rows)


def _labelled_machines(traces: Path, latencies: Path) -> set[str]:
    found: set[str] = set()
    for _, path in pair_files(traces, latencies):
        with LatencyFile(path) as labels:
            found |= {configuration_key(machine) for machine in labels.machines}
    return found


def _known(model: Model) -> set[str]:
    return {configuration_key(machine) for machine in (*model.machines, *model.fitted_machines)}


def _errors(model: Model, index: int, windows: Sequence[LabelledWindow]) -> Iterator[dict[str, Any]]:
    seen = {program.digest for program in model.programs}
    unseen = [window for window in windows if window.trace_digest not in seen]
    if not unseen:
        return
    ways = machine_ways(model, index, [window for window in windows if len(window.vectors[index])])
    machines = {configuration_key(machine): machine for window in unseen for machine in window.machines}
    far = machine_neighbours(model, list(machines.values()))
    distances = dict(zip(machines, far.relative().tolist(), strict=True)) if far is not None else {}
    for window in unseen:
        total = window.vectors[index].sum(axis=0)
        near = program_neighbours(model, total[None])
        for machine, cycles in zip(window.machines, window.cycles, strict=True):
            key = configuration_key(machine)
            for way, vector in ways[key].items():
                predicted, simulated = float(total @ vector), float(cycles.sum())
                yield {
                    "program": window.program,
                    "uarch": machine.name,
                    "core": machine.core,
                    "machine_digest": hashlib.sha256(key.encode()).hexdigest()[:16],
                    "way": WAYS[way],
                    "error": math.log(simulated / predicted) if predicted > 0 else math.inf,
                    "program_distance": math.nan if near is None else float(near.relative()[0]),
                    "machine_distance": distances.get(key, math.nan) if way == "zero-shot" else 0.0,
                }
