"""Further machines of the table: their vectors fitted to labels in closed form, with the foundation model frozen.

A machine that joins so costs labels of some programs and one linear regression (perfvec.machines.posterior) and no
training.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from perfvec.evaluate import labelled_segments
from perfvec.machines.posterior import fit_segments, observations
from perfvec.model import Model, TrainingProgram
from perfvec.training.data import pair_files
from support.errors import InputError
from tracegen.formats.latency import LatencyFile
from tracegen.formats.trace import Trace
from uarch.configuration import Machine, configuration_key


def require_trained(
    programs: Iterable[TrainingProgram], traces: str | os.PathLike[str], latencies: str | os.PathLike[str]
) -> None:
    """Raise InputError where a latency file is of none of these programs: the model's errors on programs that it has
    not seen would no longer be that.
    """
    seen = {program.digest for program in programs}
    for trace_path, path in pair_files(Path(traces), Path(latencies)):
        with Trace(trace_path) as trace:
            if trace.digest not in seen:
                raise InputError(f"{path}: labels {trace.name!r}, which did not train the model; leave it out")


def fit_table(
    model: Model, traces: str | os.PathLike[str], latencies: str | os.PathLike[str], *, progress: bool = True
) -> Model:
    """`model` with the machines of these latency files, as far as they did not train it, in `fitted_machines`, beside
    those that are there.

    Raises InputError as `require_trained` does.
    """
    require_trained(model.programs, traces, latencies)
    trained = {configuration_key(machine) for machine in model.machines}
    machines: dict[str, Machine] = {}
    segments: dict[str, list[tuple[str, np.ndarray, np.ndarray]]] = {}
    pairs = list(pair_files(Path(traces), Path(latencies)))
    for trace_path, path in tqdm(pairs, desc="fit machines", unit="file", disable=None if progress else True):
        with Trace(trace_path) as trace, LatencyFile(path) as labels:
            vectors, cycles = labelled_segments(model, trace, labels)
            for row, machine in enumerate(labels.machines):
                if (key := configuration_key(machine)) not in trained:
                    machines.setdefault(key, machine)
                    segments.setdefault(key, []).append((trace.digest, vectors, cycles[row]))
    prior = model.encoder.vectors(list(machines.values())) if model.encoder is not None and machines else None
    fitted = np.zeros((len(machines), model.foundation.width))
    for index, parts in enumerate(segments.values()):
        fitted[index] = fit_segments(model, observations(parts), None if prior is None else prior[index]).mean
    every = tuple(machines.values())
    if model.fitted_vectors is not None:
        old = [row for row, machine in enumerate(model.fitted_machines) if configuration_key(machine) not in machines]
        every = (*(model.fitted_machines[row] for row in old), *every)
        fitted = np.concatenate([model.fitted_vectors[old], fitted])
    return replace(model, fitted_machines=every, fitted_vectors=fitted)
