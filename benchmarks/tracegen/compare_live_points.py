"""Live-points against the simulation of every instruction (a tool, not a test):

    python benchmarks/tracegen/compare_live_points.py T.trace.h5… --instructions 50000000 --sampled 8

Of each trace: the error of the estimated cycles on presets (all by default) and some sampled machines, what of it is
cold state (the counted units, as they are in the whole run, against these), whether the 95 % intervals hold, and the
error of one-field changes of `base`, in points, with their intervals and those of the other machines against `base`.
`--truth FOLDER` keeps the simulations of every instruction, so that a comparison that was stopped goes on, and the next
one begins with them.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analysis.programs.changes import half_widths
from support.files import atomic_path
from tracegen.formats.trace import Trace
from tracegen.live_points import UNITS
from tracegen.live_points.live_points import UNIT
from tracegen.live_points.record import of_trace
from tracegen.live_points.simulate import LivePointsSimulator
from uarch.configuration import Machine, configuration_key, replace_field, replace_fields
from uarch.constraints import REPLACEMENT_POLICIES
from uarch.instructions import Chunk
from uarch.machine_files import load_machine, preset_names
from uarch.space import sample
from uarch.timing.simulation import SIMULATOR
from uarch.timing.simulations import Simulations

CHANGES = {
    "l1d.size_kib": 64,
    "l1i.size_kib": 64,
    "l2.size_kib": 1024,
    "l3.size_kib": 8192,
    "pipeline.rob_entries": 96,
    "pipeline.issue_width": 4,
    "branch_predictor.kind": "bimode",
    "l2.latency": 12,
    "functional_units.load_ports": 1,
}


def changed(*, policies: bool) -> list[Machine]:
    """`base` with each of CHANGES, or with each replacement policy in all its caches."""
    base = load_machine("base")
    if policies:
        caches = ("l1i.replacement", "l1d.replacement", "l2.replacement", "l3.replacement")
        return [replace_fields(base, dict.fromkeys(caches, kind) | {"name": kind}) for kind in REPLACEMENT_POLICIES[1:]]
    return [replace(replace_field(base, field, value), name=f"{field}={value}") for field, value in CHANGES.items()]


def cycles_by_unit(
    path: Path, machines: list[Machine], units: int, threads: int, folder: Path | None
) -> NDArray[np.int64]:
    """[K, units] cycles of each unit in the whole run; those of all units of the trace are kept in the folder."""
    if folder is None:
        return _simulated_by_unit(path, machines, units, threads)
    folder.mkdir(parents=True, exist_ok=True)
    with Trace(path) as trace:
        digest, every = trace.digest, len(trace) // UNIT
    files = [folder / f"{_key(digest, machine)}.npy" for machine in machines]
    left = [k for k, file in enumerate(files) if not file.exists()]
    for first in range(0, len(left), 2 * threads):
        some = left[first : first + 2 * threads]
        found = _simulated_by_unit(path, [machines[k] for k in some], every, threads)
        for k, row in zip(some, found, strict=True):
            with atomic_path(files[k]) as temporary, temporary.open("wb") as stream:
                np.save(stream, row)
    return np.stack([np.load(file)[:units] for file in files])


def _key(digest: str, machine: Machine) -> str:
    return hashlib.sha256(f"{digest} {configuration_key(machine)} {SIMULATOR}".encode()).hexdigest()[:24]


def _simulated_by_unit(path: Path, machines: list[Machine], units: int, threads: int) -> NDArray[np.int64]:
    with Trace(path) as trace:
        instructions = trace.static
        with Simulations(machines, instructions, threads) as running:
            parts = [_of_units(running, chunk) for chunk in trace.chunks(stop=units * UNIT)]
    return np.concatenate(parts, axis=1)


def _of_units(running: Simulations, chunk: Chunk) -> NDArray[np.int64]:
    """[K, units of the chunk] cycles. Those beyond the most that a latency tells are of the instructions that took so
    many, which are strings, by their accesses.
    """
    before = np.array([simulation.counters["cycles"] for simulation in running.each])
    latency = running.run(chunk)
    cycles = latency.reshape(len(latency), -1, UNIT).sum(axis=2, dtype=np.int64)
    after = np.array([simulation.counters["cycles"] for simulation in running.each])
    for row, each, more in zip(cycles, latency, (after - before).astype(np.int64) - cycles.sum(axis=1), strict=True):
        if more > 0:
            long = np.flatnonzero(each == each.max())
            share = np.cumsum(np.diff(chunk.access_offset)[long] + 1.0)
            row += np.bincount(long // UNIT, np.diff(np.rint(more * share / share[-1]), prepend=0), len(row)).astype(
                int
            )
    return cycles


def compare(path: Path, machines: list[Machine], arguments: argparse.Namespace) -> list[NDArray[np.float64]]:
    begin = time.perf_counter()
    points = of_trace(
        path, units=arguments.units, max_instructions=arguments.instructions, seed=arguments.seed, progress=False
    )
    made = time.perf_counter() - begin
    simulator = LivePointsSimulator(points)
    begin = time.process_time()
    for machine in machines:
        simulator.outcomes(machine)
    branches, begin = time.process_time() - begin, time.process_time()
    found = simulator.simulate(machines, 1)
    each = (time.process_time() - begin) / len(machines)
    true = cycles_by_unit(path, machines, points.units, arguments.threads, arguments.truth)
    whole = true.sum(axis=1) * points.instructions_per_unit
    error, width = found.cycles / whole - 1, found.half_width / found.cycles
    counted = points.pieces.unit[points.pieces.counted].astype(np.int64)
    cold = points.sample.totals(found.units) / points.sample.totals(true[:, counted].astype(np.float64)) - 1
    base = [machine.name for machine in machines].index("base")
    ratio = found.cycles / found.cycles[base]
    change = 100 * (ratio - whole / whole[base])
    half = half_widths(np.log(ratio), found.deviations, found.deviations[base], 0.95)
    holds = np.abs(np.log(ratio * whole[base] / whole)) <= half
    of_change = np.column_stack([change, 100 * ratio * np.sinh(half), holds])
    first = len(machines) - arguments.changes
    changes, others = of_change[first:], np.delete(of_change[:first], base, axis=0)
    print(
        f"\n{points.summary}; made at {points.instructions / made / 1e6:.1f} M instructions/s; "
        f"{each * 1e3:.0f} ms a machine, branches {branches * 1e3:.0f} ms in all"
    )
    print(f"{'machine':28} {'CPI':>7} {'error':>8} {'cold':>8} {'95 %':>7}")
    for k, machine in enumerate(machines):
        inside = "" if abs(error[k]) <= width[k] else "  outside"
        print(
            f"{machine.name:28} {whole[k] / points.instructions:7.3f} {error[k]:+8.2%} {cold[k]:+8.2%} "
            f"{width[k]:7.2%}{inside}"
        )
    _shown(error, cold, width, changes, others)
    return [error, cold, width, changes, others]


def _shown(error: NDArray, cold: NDArray, width: NDArray, changes: NDArray, others: NDArray) -> None:
    held = np.mean(np.abs(error) <= width)
    print(
        f"|error| mean {np.abs(error).mean():.2%}, 95th percentile {np.quantile(np.abs(error), 0.95):.2%}; cold state "
        f"{np.abs(cold).mean():.2%}; intervals hold {held:.0%}"
    )
    for name, off, half, inside in (("changes", *changes.T), ("other machines against base", *others.T)):
        if not len(off):
            continue
        print(f"{name} off by {np.abs(off).mean():.2f} points, ±{half.mean():.2f}, which hold {inside.mean():.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path, nargs="+")
    parser.add_argument("--instructions", type=int, default=50_000_000, help="of each trace, at most")
    parser.add_argument("--presets", nargs="+", default=preset_names(), help="base among them")
    parser.add_argument("--sampled", type=int, default=8, help="machines of the default space")
    parser.add_argument("--policies", action="store_true", help="change base's replacement policies, and nothing else")
    parser.add_argument("--units", type=int, default=UNITS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2, help="of the simulation of every instruction")
    parser.add_argument("--truth", type=Path, help="folder that keeps the simulations of every instruction")
    arguments = parser.parse_args()
    changes = changed(policies=arguments.policies)
    arguments.changes = len(changes)
    sampled = sample(arguments.sampled, seed=27) if arguments.sampled else []
    machines = [*map(load_machine, arguments.presets), *sampled, *changes]
    all_of = [compare(path, machines, arguments) for path in arguments.traces]
    print("\nall:")
    _shown(*(np.concatenate(parts) for parts in zip(*all_of, strict=True)))


if __name__ == "__main__":
    main()
