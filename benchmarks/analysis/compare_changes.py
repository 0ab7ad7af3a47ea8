"""Errors of predicted *changes*: one field of a machine at a time, the encoder's answer beside the simulator's (a
tool, not a test):

    python benchmarks/analysis/compare_changes.py demo-out/gzip.trace.h5 demo-out/sort.trace.h5 --base base
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from perfvec.model import load_model
from perfvec.representation.represent import represent
from support.errors import InputError
from tracegen.formats.trace import Trace
from uarch.configuration import Machine, get_field, replace_field
from uarch.machine_files import load_machine
from uarch.timing.simulations import simulated_cycles

FACTORS = (0.25, 0.5, 2, 4)
FIELDS = (
    "l1i.size_kib",
    "l1d.size_kib",
    "l2.size_kib",
    "l1d.latency",
    "l2.latency",
    "l1d.mshrs",
    "pipeline.rob_entries",
    "pipeline.issue_width",
    "functional_units.load_ports",
    "functional_units.int_alu",
    "frequency_ghz",
)
KINDS = ("local", "bimode", "tournament", "tage", "ltage", "tage-sc-l")


def changed(base: Machine) -> list[Machine]:
    """`base`, and every machine of one other value that can be."""
    found = [base]
    values = [(field, get_field(base, field) * factor) for field in FIELDS for factor in FACTORS]
    values += [("branch_predictor.kind", kind) for kind in KINDS if kind != base.branch_predictor.kind]
    for field, value in values:
        whole = isinstance(get_field(base, field), int) and not isinstance(value, str)
        try:
            found.append(replace_field(base, field, max(int(value), 1) if whole else value))
        except InputError:
            continue
    return [replace(machine, name=f"{number}") for number, machine in enumerate(found)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--base", default="base")
    arguments = parser.parse_args()
    model, machines = load_model(), changed(load_machine(arguments.base))
    assert model.encoder is not None
    predicted, simulated = [], []
    for path in arguments.traces:
        cycles = model.encoder.vectors(machines) @ represent(model, path, progress=False).vector
        predicted.append(cycles[1:] / cycles[0] - 1)
        with Trace(path) as trace:
            cycles = simulated_cycles(machines, trace.static, trace.chunks())
        simulated.append(cycles[1:] / cycles[0] - 1)
    of_model, of_simulator = 100 * np.concatenate(predicted), 100 * np.concatenate(simulated)
    still = np.abs(of_simulator) < 1
    print(f"{len(of_model)} changes of one field of {arguments.base}, in points (per cent of the base's cycles):")
    error, correlation = np.abs(of_model - of_simulator).mean(), np.corrcoef(of_model, of_simulator)[0, 1]
    print(f"  mean |change| {np.abs(of_simulator).mean():.1f}, mean error {error:.1f}, correlation {correlation:.2f}")
    false = np.abs(of_model[still]).mean()
    print(f"  where the simulator says less than one point ({still.sum()}): {false:.1f} predicted")


if __name__ == "__main__":
    main()
