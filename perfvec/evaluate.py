"""The accuracy protocol (DESIGN.md): predicted against simulated cycles of labelled stretches.

A program is seen when its trace's digest trained the model; a machine is seen when its configuration did. An unseen
machine is judged twice: with a vector fitted in closed form to the *seen* programs' labels, and zero-shot by the
encoder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from perfvec.data import WARMUP, pair_files
from perfvec.model import Model, configuration_key
from perfvec.precision import native_bf16
from perfvec.represent import LANES, STRETCH, lane_sums
from tracegen.decode import decode
from tracegen.latency import LatencyFile
from tracegen.trace import Trace
from uarch.configuration import Machine

FIT_WINDOW = 20_000  # instructions of a window when a machine is fitted
_RIDGE = 1e-3


@dataclass(frozen=True)
class _Stretch:
    """A labelled stretch: lane sums of its representation and the lanes' cycles on every machine."""

    program: str
    seen: bool
    machines: list[Machine]
    vectors: NDArray[np.float64]  # [lanes, d]
    cycles: NDArray[np.float64]  # [U, lanes]


def evaluate(
    model: Model, traces: str | os.PathLike[str], latencies: str | os.PathLike[str], *, progress: bool = True
) -> pd.DataFrame:
    """One row per (labelled stretch, machine, way to its vector).

    Columns: `program`, `uarch`, `programs` (seen or unseen), `uarchs` (seen, fitted or zero-shot), `predicted_cycles`,
    `simulated_cycles`, `error` (fraction of the simulated cycles).
    """
    pairs = list(pair_files(Path(traces), Path(latencies)))
    digests = {program.digest for program in model.programs}
    stretches = []
    for trace_path, latency_path in tqdm(pairs, desc="represent", unit="file", disable=None if progress else True):
        with Trace(trace_path) as trace, LatencyFile(latency_path) as labels:
            stretches.append(_stretch(model, trace, labels, trace.digest in digests))
    return _judge(model, stretches)


def _stretch(model: Model, trace: Trace, labels: LatencyFile, seen: bool) -> _Stretch:
    instructions = decode(trace.address, trace.code, trace.isa)
    schema = model.schema
    extractor = schema.extractor(instructions)
    static = schema.static(instructions)
    bf16 = native_bf16()
    begin, end = labels.start, labels.start + len(labels)
    lead = min(WARMUP, begin)
    for chunk in trace.chunks(stop=begin - lead):
        extractor.extract(chunk)
    vectors, cycles = [], []
    ids, stored = np.empty(0, np.uint32), np.empty((0, len(schema.columns)), schema.dtype)
    for chunk in trace.chunks(size=STRETCH, start=begin - lead, stop=end):
        ids = np.concatenate([ids, chunk.static_id])
        stored = np.concatenate([stored, extractor.extract(chunk)])
        count = len(ids) - lead
        lanes = max(1, min(LANES, count // 1000))
        vectors.append(lane_sums(model.foundation, static, ids, stored, lead, lanes=lanes, bf16=bf16))
        position = chunk.start + len(chunk) - count - begin
        length = -(-count // lanes)
        latency = labels.read(position, position + count)
        cycles.append(np.add.reduceat(latency, np.arange(0, count, length), axis=1, dtype=np.float64))
        vectors[-1] = vectors[-1][: cycles[-1].shape[1]]
        lead = min(WARMUP, len(ids))
        ids, stored = ids[-lead:], stored[-lead:]
    return _Stretch(trace.name, seen, labels.machines, np.concatenate(vectors), np.concatenate(cycles, axis=1))


def fit_vector(
    vectors: NDArray[np.float64], cycles: NDArray[np.float64], prior: NDArray[np.float64]
) -> NDArray[np.float64]:
    """[d] vector m that minimises Σ (R·m / y − 1)² + ridge·‖m − prior‖² for R = `vectors` [W, d], y = `cycles` [W].

    The ridge is relative to the mean square of R / y, so it does not depend on units.
    """
    scaled = vectors / cycles[:, None]
    gram = scaled.T @ scaled
    ridge = _RIDGE * np.trace(gram) / len(gram)
    return prior + np.linalg.solve(gram + ridge * np.eye(len(gram)), scaled.T @ (1.0 - scaled @ prior))


def _judge(model: Model, stretches: Sequence[_Stretch]) -> pd.DataFrame:
    table = model.table()
    known = {configuration_key(machine): row for row, machine in enumerate(model.machines)}
    fitted: dict[str, NDArray[np.float64] | None] = {}
    rows: list[dict[str, Any]] = []
    for stretch in stretches:
        total = stretch.vectors.sum(axis=0)
        for index, machine in enumerate(stretch.machines):
            key = configuration_key(machine)
            ways: dict[str, NDArray[np.float64]] = {}
            if key in known:
                ways["seen"] = table[known[key]]
            else:
                if model.encoder is not None:
                    ways["zero-shot"] = model.encoder.vectors([machine])[0]
                if key not in fitted:
                    fitted[key] = _fit_to_seen(model, stretches, machine, key, ways.get("zero-shot"))
                if (vector := fitted[key]) is not None:
                    ways["fitted"] = vector
            simulated = float(stretch.cycles[index].sum())
            for way, vector in ways.items():
                predicted = float(total @ vector)
                rows.append(
                    {
                        "program": stretch.program, "uarch": machine.name,
                        "programs": "seen" if stretch.seen else "unseen", "uarchs": way,
                        "predicted_cycles": predicted, "simulated_cycles": simulated,
                        "error": abs(predicted - simulated) / simulated,
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)


def _fit_to_seen(
    model: Model, stretches: Sequence[_Stretch], machine: Machine, key: str, prior: NDArray[np.float64] | None
) -> NDArray[np.float64] | None:
    """The machine's vector from the seen programs' labels, None where there are none."""
    vectors, cycles = [], []
    for stretch in stretches:
        rows = [k for k, other in enumerate(stretch.machines) if configuration_key(other) == key]
        if stretch.seen and rows:
            vectors.append(stretch.vectors)
            cycles.append(stretch.cycles[rows[0]])
    if not vectors:
        return None
    start = prior if prior is not None else model.table().mean(axis=0)
    return fit_vector(np.concatenate(vectors), np.maximum(np.concatenate(cycles), 1.0), start)


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """Mean, median, 90th percentile and worst error by seen/unseen programs and kind of machine vector."""
    groups = pairs.groupby(["programs", "uarchs"], sort=True)["error"]
    return groups.agg(
        mean="mean", median="median", p90=lambda error: error.quantile(0.9), worst="max", pairs="count"
    ).reset_index()


def to_json(pairs: pd.DataFrame) -> dict[str, Any]:
    """The `--json` document of DESIGN."""
    return {"summary": summary(pairs).to_dict(orient="records"), "pairs": pairs.to_dict(orient="records")}
