"""The accuracy protocol: predicted against simulated cycles of labelled windows (docs/explanation/machine-vectors.md).

A program is seen when its trace's digest trained the model; a machine is seen when its configuration did. An unseen
machine is judged twice: with a vector fitted in closed form to the *seen* programs' labels (the model's own, where it
has one), and zero-shot by the encoder. Several models, the folds of a cross validation, are judged together: each
counts a program as seen or unseen for itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from perfvec.machines.posterior import fit_segments, observations
from perfvec.model import Model
from perfvec.precision import native_bf16, rounded
from perfvec.representation.represent import sequence_sums
from perfvec.training.data import WARMUP, pair_files
from support.errors import InputError
from tracegen.features import Schema
from tracegen.formats.latency import LatencyFile
from tracegen.formats.trace import CHUNK, Trace
from uarch.configuration import Machine, configuration_key

_SEGMENT, _SEGMENTS = 1000, 32  # instructions of a segment, at least; segments of a window, at most
_COUNTED = (("program", "program"), ("uarch", "machine"), ("model", "model"))


@dataclass(frozen=True)
class LabelledWindow:
    """A labelled window: its segments' cycles on every machine, and by each model the sums of their representations.

    A model that was not asked for it has no vectors: [0, d].
    """

    program: str
    trace_digest: str
    machines: list[Machine]
    cycles: NDArray[np.float64]  # [U, segments]
    vectors: list[NDArray[np.float64]]  # [segments, d], a model each


def evaluate(
    models: Model | Sequence[Model],
    traces: str | os.PathLike[str],
    latencies: str | os.PathLike[str],
    *,
    progress: bool = True,
) -> pd.DataFrame:
    """One row per (model, labelled window, machine, way to its vector).

    Columns: `program`, `uarch`, `programs` (seen or unseen by that model), `uarchs` (seen, fitted or zero-shot),
    `predicted_cycles`, `simulated_cycles`, `error` (fraction of the simulated cycles), `bias` (the same with its sign:
    positive where the prediction is too slow), `model` (its digest). Raises InputError where a latency file and its
    trace do not fit, or labels are missing.
    """
    models = [models] if isinstance(models, Model) else list(models)
    if not models:
        raise InputError("no model to evaluate")
    windows = labelled_windows(models, traces, latencies, progress=progress)
    rows = [row for index, model in enumerate(models) for row in _judge(model, index, windows)]
    if not rows:
        raise InputError(
            f"{latencies}: labels no machine that a model can tell: none of its table, and no encoder for others"
        )
    return pd.DataFrame(rows)


def labelled_windows(
    models: Sequence[Model],
    traces: str | os.PathLike[str],
    latencies: str | os.PathLike[str],
    *,
    needed: Callable[[int, str], bool] = lambda number, digest: True,
    progress: bool = True,
) -> list[LabelledWindow]:
    """Every labelled window, represented by the models whose numbers are `needed` for the trace of that digest.

    Raises InputError where a latency file and its trace do not fit, or labels are missing.
    """
    windows = []
    pairs = list(pair_files(Path(traces), Path(latencies)))
    for trace_path, latency_path in tqdm(pairs, desc="represent", unit="file", disable=None if progress else True):
        with Trace(trace_path) as trace, LatencyFile(latency_path) as labels:
            asked = [needed(number, trace.digest) for number in range(len(models))]
            if any(asked):
                windows.append(_window(models, trace, labels, asked))
    return windows


def labelled_segments(
    model: Model, trace: Trace, labels: LatencyFile
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """[segments, d] vectors of the consecutive segments of the labelled window, and [U, segments] their cycles."""
    window = _window([model], trace, labels)
    return window.vectors[0], window.cycles


def _window(
    models: Sequence[Model], trace: Trace, labels: LatencyFile, asked: Sequence[bool] | None = None
) -> LabelledWindow:
    if labels.start + len(labels) > len(trace):
        raise InputError(
            f"{labels.path}: labels up to instruction {labels.start + len(labels)}, but its trace has {len(trace)}"
        )
    bf16, foundations = native_bf16(), [rounded(model.foundation) for model in models]
    asked = asked or [True] * len(models)
    schemas = {model.schema.stored: model.schema for model, wanted in zip(models, asked, strict=True) if wanted}
    vectors: list[list[NDArray[np.float64]]] = [[np.empty((0, model.foundation.width))] for model in models]
    cycles: list[NDArray[np.float64]] = []
    cut = False
    for turn, (identity, schema) in enumerate(schemas.items()):  # features once for all models that read them
        for static, ids, stored, lead, position in _features(trace, labels, schema):
            count = len(ids) - lead
            segments = max(1, min(_SEGMENTS, count // _SEGMENT))
            first = np.arange(0, count, -(-count // segments))
            if turn == 0:
                latency = labels.read(position, position + count)
                cut |= bool(labels.cut(latency).any())
                cycles.append(np.add.reduceat(latency, first, axis=1, dtype=np.float64))
            for index, model in enumerate(models):
                if asked[index] and model.schema.stored == identity:
                    sums = sequence_sums(foundations[index], static, ids, stored, lead, batch=segments, bf16=bf16)
                    vectors[index].append(sums[: len(first)])
    if cut:
        told = "a latency may have been cut at 65,535 cycles: the file is of version 1; remove it and label anew"
        print(f"perfvec: {labels.path}: {told}", file=sys.stderr)
    total = np.concatenate(cycles, axis=1)
    if (empty := np.flatnonzero(total.sum(axis=1) == 0)).size:
        name = labels.machines[int(empty[0])].name
        raise InputError(f"{labels.path}: every latency of machine {name!r} is 0; labels are missing")
    joined = [np.concatenate(of_model) for of_model in vectors]
    return LabelledWindow(trace.name, trace.digest, labels.machines, total, joined)


def _features(
    trace: Trace, labels: LatencyFile, schema: Schema
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.uint32], NDArray, int, int]]:
    """Parts of the labelled window: static features, static ids, stored features, how many instructions at their
    begin only lead in, and the label of the first that counts."""
    instructions = trace.static
    extractor = schema.extractor(instructions)
    static = schema.static(instructions)
    lead = min(WARMUP, labels.start)
    begin = labels.start - lead
    for chunk in trace.chunks(stop=begin):
        extractor.extract(chunk)
    ids, stored = np.empty(0, np.uint32), np.empty((0, len(schema.columns)), schema.dtype)
    for chunk in trace.chunks(size=CHUNK, start=begin, stop=labels.start + len(labels)):
        ids = np.concatenate([ids, chunk.static_id])
        stored = np.concatenate([stored, extractor.extract(chunk)])
        if len(ids) > lead:
            yield static, ids, stored, lead, chunk.start + len(chunk) - (len(ids) - lead) - labels.start
            lead = min(WARMUP, len(ids))
            ids, stored = ids[-lead:], stored[-lead:]


def machine_ways(
    model: Model, index: int, windows: Sequence[LabelledWindow]
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """The vectors [d] of each machine of these windows (by its `configuration_key`), by the way to them: `seen`, or
    `zero-shot` and `fitted`; the model is number `index` of the windows'.
    """
    table = model.table()
    known = {configuration_key(machine): row for row, machine in enumerate(model.machines)}
    seen = {program.digest for program in model.programs}
    machines = {configuration_key(machine): machine for window in windows for machine in window.machines}
    fitted = {configuration_key(machine): row for row, machine in enumerate(model.fitted_machines)}
    unknown = [machine for key, machine in machines.items() if key not in known]
    zero_shot: dict[str, NDArray[np.float64]] = {}
    if model.encoder is not None and unknown:
        zero_shot = dict(zip(map(configuration_key, unknown), model.encoder.vectors(unknown), strict=True))
    ways: dict[str, dict[str, NDArray[np.float64]]] = {}
    for key in machines:
        if key in known:
            ways[key] = {"seen": table[known[key]]}
            continue
        ways[key] = {}
        if key in zero_shot:
            ways[key]["zero-shot"] = zero_shot[key]
        if key in fitted and model.fitted_vectors is not None:
            ways[key]["fitted"] = model.fitted_vectors[fitted[key]]
            continue
        labels = _labels_of(key, index, [window for window in windows if window.trace_digest in seen])
        if labels:
            ways[key]["fitted"] = fit_segments(model, observations(labels), zero_shot.get(key)).mean
    return ways


def _judge(model: Model, index: int, windows: Sequence[LabelledWindow]) -> Iterator[dict[str, Any]]:
    ways, seen = machine_ways(model, index, windows), {program.digest for program in model.programs}
    for window in windows:
        total = window.vectors[index].sum(axis=0)
        for machine, cycles in zip(window.machines, window.cycles, strict=True):
            simulated = float(cycles.sum())
            for way, vector in ways[configuration_key(machine)].items():
                predicted = float(total @ vector)
                yield {
                    "program": window.program,
                    "uarch": machine.name,
                    "programs": "seen" if window.trace_digest in seen else "unseen",
                    "uarchs": way,
                    "predicted_cycles": predicted,
                    "simulated_cycles": simulated,
                    "error": abs(predicted - simulated) / simulated,
                    "bias": (predicted - simulated) / simulated,
                    "model": model.digest,
                }


def _labels_of(
    key: str, index: int, windows: Sequence[LabelledWindow]
) -> list[tuple[str, NDArray[np.float64], NDArray[np.float64]]]:
    """Digest, vectors and cycles of each of these windows that is labelled on the machine."""
    found = []
    for window in windows:
        rows = [row for row, machine in enumerate(window.machines) if configuration_key(machine) == key]
        if rows:
            found.append((window.trace_digest, window.vectors[index], window.cycles[rows[0]]))
    return found


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """Mean, median, 90th percentile and worst error by seen/unseen programs and kind of machine vector.

    `worst_program` is the largest mean error of one program, `bias` the mean of the signed errors; `pairs`,
    `program_count` and `machine_count` say over how many judgements, programs and machines.
    """
    rows = []
    for (programs, uarchs), group in pairs.groupby(["programs", "uarchs"], sort=True):
        error = group["error"]
        rows.append(
            {
                "programs": programs,
                "uarchs": uarchs,
                "mean": error.mean(),
                "median": error.median(),
                "p90": error.quantile(0.9),
                "worst": error.max(),
                "pairs": len(group),
                "bias": group["bias"].mean(),
                "worst_program": group.groupby("program")["error"].mean().max(),
                "program_count": group["program"].nunique(),
                "machine_count": group["uarch"].nunique(),
            }
        )
    return pd.DataFrame(rows)


def require_group(column: str) -> None:
    """Raise InputError unless errors can be grouped by this column."""
    if column not in dict(_COUNTED):
        raise InputError(f"--by {column}: errors are grouped by program or by uarch, or by model")


def describe(pairs: pd.DataFrame) -> str:
    """One line: over how many programs, machines and models the errors are."""
    counts = [(pairs[column].nunique(), word) for column, word in _COUNTED]
    return ", ".join(f"{count} {word}{'s' if count != 1 else ''}" for count, word in counts)


def by(pairs: pd.DataFrame, column: str, names: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Mean, median, worst error and bias of each `program`, `uarch` or `model` (the column), worst mean first in each
    group; with `names` of the column's values, these are shown instead (of models: their files)."""
    require_group(column)
    shown = pairs[column].map(lambda value: (names or {}).get(value, value))
    groups = pairs.assign(**{column: shown}).groupby(["programs", "uarchs", column], sort=True)
    frame = groups.agg(
        mean=("error", "mean"),
        median=("error", "median"),
        worst=("error", "max"),
        bias=("bias", "mean"),
        pairs=("error", "count"),
    ).reset_index()
    return frame.sort_values(["programs", "uarchs", "mean"], ascending=[True, True, False], ignore_index=True)


def terminal_table(table: pd.DataFrame) -> pd.DataFrame:
    """`summary` or `by` for the terminal: errors in per cent, what they are over as programs × machines."""
    found = table.copy()
    for column in found.columns.intersection(["mean", "median", "p90", "worst", "bias", "worst_program"]):
        found[column] = found[column].map("{:.1%}".format)
    if "program_count" not in found:
        return found
    judged = found["program_count"].map(str) + " × " + found["machine_count"].map(str)
    pairs = found.pop("pairs")  # more than the product where a program has several windows
    return found.drop(columns=["program_count", "machine_count"]).assign(judged=judged, pairs=pairs)


def to_json(pairs: pd.DataFrame) -> dict[str, Any]:
    """The `--json` document (docs/reference/file-formats.md)."""
    return {"summary": summary(pairs).to_dict(orient="records"), "pairs": pairs.to_dict(orient="records")}
