"""Fitting a machine that the model never saw: to whole-program times, as of a real computer, or to labels."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from perfvec.evaluate import labelled_segments
from perfvec.machines.machine_vector import FORMAT, SUFFIX, MachineVector
from perfvec.machines.posterior import Observations, Posterior, fit, fit_segments, mean_prior, wholes
from perfvec.machines.times import gather, read_times
from perfvec.model import Model
from perfvec.representation.vector import ProgramVector
from perfvec.training.data import pair_files
from support.errors import InputError
from support.kinds import require_output
from support.text import nearest
from tracegen.formats.latency import LatencyFile
from tracegen.formats.trace import Trace
from uarch.configuration import Machine, configuration_key
from uarch.machine_files import load_machine

Resolve = Callable[[Model, Sequence[str]], list[ProgramVector]]


@dataclass(frozen=True)
class Fitted:
    """A fitted machine, how it fits each program, and what to be warned of."""

    machine: MachineVector
    posterior: Posterior
    # program, seconds, fitted, deviation, left_out (seconds; the last: predicted from the other programs' times);
    # prior_error, left_out_error (fractions)
    table: pd.DataFrame

    @property
    def warnings(self) -> list[str]:
        return self.posterior.warnings()

    def to_json(self) -> dict[str, Any]:
        """The `--json` document."""
        return {
            "uarch": self.machine.name,
            "frequency_ghz": self.machine.frequency_ghz,
            "noise": self.machine.noise,
            **self.machine.provenance,
            "times": self.table.to_dict(orient="records"),
            "warnings": self.warnings,
        }


def fit_times(
    times: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    load_model: Callable[[], Model],
    resolve: Resolve,
    uarch: str | None = None,
    frequency_ghz: float | None = None,
    name: str | None = None,
) -> Fitted:
    """Fit to the times file `times` (`perfvec.machines.times.read_times`) and write the machine vector to `output`.

    `uarch` names a preset or file that describes the machine, wholly or roughly: the prior. `resolve(model, targets)`
    gives the vectors of traces and vector files. Raises InputError.
    """
    unit, lines = read_times(times)
    machine = load_machine(uarch) if uarch else None
    frequency = frequency_ghz if frequency_ghz is not None else machine.frequency_ghz if machine else None
    if frequency is None:
        raise InputError("at what clock did it run? give --frequency-ghz, or --uarch with a machine like it")
    if not 0 < frequency < 100:
        raise InputError(f"--frequency-ghz {frequency:g} must be a number of GHz above 0 and below 100")
    model = load_model()
    vectors = resolve(model, [line.target for line in lines])
    observed, programs = gather(lines, vectors, frequency * 1e9 if unit == "seconds" else 1.0)
    prior, source = _prior(model, machine)
    posterior = fit(observed, partial(mean_prior, model) if prior is None else prior, leave_out=True)
    made_of = {
        "times": Path(times).name,
        "sha256": hashlib.sha256(Path(times).read_bytes()).hexdigest(),
        "traces": sorted({vector.trace_digest for vector in vectors}),
    }
    label = name or (machine.name if machine else _stem(output))
    return _finish(model, observed, programs, posterior, label, frequency, machine, source, made_of, output)


def fit_labels(
    model: Model,
    traces: str | os.PathLike[str],
    latencies: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    uarch: str | None = None,
    name: str | None = None,
    progress: bool = True,
) -> Fitted:
    """Fit to latency files of one machine (`uarch` picks one by its name where they hold several) and write it.

    Raises InputError.
    """
    segments: dict[str, list[tuple[NDArray[np.float64], NDArray[np.float64]]]] = {}
    names: dict[str, str] = {}
    machine: Machine | None = None
    pairs = list(pair_files(Path(traces), Path(latencies)))
    for trace_path, latency_path in tqdm(pairs, desc="represent", unit="file", disable=None if progress else True):
        with Trace(trace_path) as trace, LatencyFile(latency_path) as labels:
            row = _row(labels, uarch)
            here = labels.machines[row]
            if machine is not None and configuration_key(here) != configuration_key(machine):
                raise InputError(f"{latency_path}: its {here.name!r} is not that of {pairs[0][1]}; fit one machine")
            machine = here
            vectors, cycles = labelled_segments(model, trace, labels)
            segments.setdefault(trace.digest, []).append((vectors, cycles[row]))
            names[trace.digest] = trace.name
    assert machine is not None
    parts = [(index, *part) for index, own in enumerate(segments.values()) for part in own]
    observed = Observations(
        np.concatenate([vectors for _, vectors, _ in parts]),
        np.concatenate([cycles for _, _, cycles in parts]),
        np.concatenate([np.full(len(cycles), index) for index, _, cycles in parts]),
    )
    prior, source = _prior(model, machine)
    posterior = fit_segments(model, observed, prior)
    return _finish(
        model,
        observed,
        list(names.values()),
        posterior,
        name or machine.name,
        machine.frequency_ghz,
        machine,
        source,
        {"traces": sorted(segments)},
        output,
    )


def _row(labels: LatencyFile, uarch: str | None) -> int:
    names = [machine.name for machine in labels.machines]
    if uarch is None:
        if len(names) != 1:
            raise InputError(f"{labels.path}: labels {len(names)} machines; pick one: --uarch {names[0]}")
        return 0
    if uarch not in names:
        raise InputError(f"{labels.path}: labels no machine {uarch!r}{nearest(uarch, names)}")
    return names.index(uarch)


def _prior(model: Model, machine: Machine | None) -> tuple[NDArray[np.float64] | None, str]:
    """The vector of a machine that is known, and where it is from; none without one (or without an encoder)."""
    known = {configuration_key(one) for one in (*model.machines, *model.fitted_machines)}
    if machine is None or (model.encoder is None and configuration_key(machine) not in known):
        return None, "mean of the table"
    vectors, sources = model.machine_vectors([machine])
    return vectors[0], sources[0]


def require_name(output: str | os.PathLike[str]) -> None:
    """Raise InputError unless a machine vector can be written at `output` and will be known by its name."""
    if not Path(output).name.endswith(SUFFIX):
        raise InputError(f"{output}: name the machine vector *{SUFFIX}")
    require_output(output, FORMAT)


def _stem(output: str | os.PathLike[str]) -> str:
    return Path(output).name.removesuffix(SUFFIX)


def _finish(
    model: Model,
    observed: Observations,
    programs: Sequence[str],
    posterior: Posterior,
    name: str,
    frequency: float,
    machine: Machine | None,
    prior: str,
    made_of: dict[str, Any],
    output: str | os.PathLike[str],
) -> Fitted:
    provenance = {
        "prior": prior,
        "machine": machine.to_dict() if machine is not None else None,
        "programs": len(programs),
        "prior_deviation": posterior.prior_deviation,
        "degrees": posterior.degrees,
        "prior_error": float(np.abs(posterior.prior_errors).mean()),
        "left_out_error": float(np.abs(posterior.left_out_errors).mean()),
        **made_of,
    }
    fitted = MachineVector(name, frequency, model.digest, posterior.mean, posterior.factor, posterior.noise, provenance)
    fitted.save(output)
    totals, cycles = wholes(observed)
    second = frequency * 1e9
    seconds = cycles / second
    frame = pd.DataFrame(
        {
            "program": list(programs),
            "seconds": seconds,
            "fitted": fitted.cycles(totals) / second,
            "deviation": fitted.deviation(totals) / second,
            "left_out": seconds * (1 + posterior.left_out_errors),
            "prior_error": posterior.prior_errors,
            "left_out_error": posterior.left_out_errors,
        }
    )
    return Fitted(fitted, posterior, frame)
