"""Errors of the timing model against gem5 on the labelled windows, as Markdown tables (a tool, not a test):

    python benchmarks/uarch/compare_gem5.py ../shared/gem5-x86 --programs perl lua k_chase --machines u001 u000

Caches see everything before the window's warm-up, the core the 50,000 instructions of warm-up and the window.

Set PERFVEC_UNSEALED=1 for data without a seal.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy.stats import kendalltau
from tqdm import tqdm

from perfvec.training.split import folds
from tracegen.formats.trace import Trace
from uarch.configuration import machine_from_dict
from uarch.gem5.simulated import as_simulated
from uarch.timing.simulation import Simulation

LEVELS = ("l1i", "l1d", "l2", "l3")
COLUMNS = {
    "mispredicts": "mispredictions",
    "l1i_misses": "l1i_misses",
    "l1d_accesses": "l1d_accesses",
    "l1d_misses": "l1d_misses",
    "l2_misses": "l2_misses",
    "l3_misses": "l3_misses",
}


def with_merged(counters: dict[str, float]) -> dict[str, float]:
    """gem5 counts an access to a line that is on its way as a miss."""
    merged = {f"{level}_misses": counters[f"{level}_misses"] + counters[f"{level}_merged"] for level in LEVELS}
    return counters | merged


def windows(folder: Path, program: str, wanted: set[str]) -> list[dict[str, Any]]:
    """One row for each machine and window of a program."""
    trace = Trace(folder / f"{program}.trace.h5")
    instructions = trace.static
    rows = []
    for path in sorted(folder.glob(f"{program}*.latency.h5")):
        if not re.fullmatch(rf"{re.escape(program)}(-\d+)?", path.name.split(".")[0]):
            continue
        with h5py.File(path) as file:
            start, warmup = int(file.attrs["start"]), int(file.attrs["warmup"])
            machines = [as_simulated(machine_from_dict(json.loads(text)), trace.isa)[0] for text in file["uarch"][:]]
            chosen = [k for k, machine in enumerate(machines) if not wanted or machine.name in wanted]
            latency = file["latency"][:][chosen]
            columns = list(file["counters"].attrs["columns"]) if "counters" in file else []
            counters = file["counters"][:][chosen] if columns else np.empty((len(chosen), 0))
        length = latency.shape[1]
        before = list(trace.chunks(1 << 18, 0, start - warmup))
        (warm,) = trace.chunks(warmup, start - warmup, start)
        (window,) = trace.chunks(length, start, start + length)
        for k, which in enumerate(chosen):
            simulation = Simulation(machines[which], instructions)
            for chunk in before:
                simulation.warm(chunk)
            simulation.reset_counters()
            simulation.run(warm)
            measured = simulation.run(window)
            rows.append(
                {
                    "window": path.name.split(".")[0],
                    "machine": machines[which],
                    "gem5": latency[k].sum() / length,
                    "ours": measured.sum(dtype=np.int64) / length,
                    "latency": measured,
                    "gem5_latency": latency[k],
                    "gem5_counters": dict(zip(columns, counters[k], strict=True)),
                    "counters": with_merged(simulation.counters),
                }
            )
    return rows


def measured(folder: Path, program: str, wanted: set[str]) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in row.items() if "latency" not in key} for row in windows(folder, program, wanted)
    ]


def agreement(rows: list[dict[str, Any]]) -> float:
    """Kendall's rank correlation of the machines' times, on average over the windows."""
    by_window: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        period = 1 / row["machine"].frequency_ghz
        by_window.setdefault(row["window"], []).append((row["gem5"] * period, row["ours"] * period))
    found = [kendalltau(*zip(*pairs, strict=True)).statistic for pairs in by_window.values() if len(pairs) > 2]
    return float(np.mean(found)) if found else float("nan")


def line(name: str, rows: list[dict[str, Any]]) -> str:
    """A row of a Markdown table."""
    ratio = np.array([row["ours"] / row["gem5"] for row in rows])
    error = np.abs(ratio - 1)
    return (
        f"| {name} | {len(rows)} | {np.median(error):.1%} | {error.mean():.1%} | {np.quantile(error, 0.9):.1%}"
        f" | {error.max():.0%} | {np.median(ratio) - 1:+.1%} | {agreement(rows):.3f} |"
    )


def counts(rows: list[dict[str, Any]], gem5: str, ours: str) -> str:
    """A row for a counter, of the pairs where gem5 counts at least 500."""
    chosen = [row for row in rows if row["gem5_counters"][gem5] >= 500]
    ratio = np.array([row["counters"][ours] / row["gem5_counters"][gem5] for row in chosen])
    error = np.abs(ratio - 1)
    within = np.mean(error <= 0.05)
    return f"| {gem5} | {len(chosen)} | {np.median(ratio):.3f} | {np.median(error):.1%} | {within:.0%} |"


def report(rows: list[dict[str, Any]]) -> str:
    def grouped(title: str, key: Callable[[dict[str, Any]], str]) -> list[str]:
        heads = f"\n| {title} | pairs | median | mean | 90th percentile | worst | bias | Kendall |\n|{'---|' * 8}"
        groups: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            groups.setdefault(key(row), []).append(row)
        return [heads, *(line(name, groups[name]) for name in sorted(groups))]

    text = grouped("core", lambda row: row["machine"].core)
    text.append(line("**all**", rows))
    text += grouped("predictor", lambda row: row["machine"].branch_predictor.kind)
    text += grouped("memory", lambda row: getattr(row["machine"].memory, "model", "simple"))
    text += grouped("window", lambda row: row["window"])
    text += grouped("machine", lambda row: row["machine"].name)
    predicted = [row for row in rows if row["machine"].core == "out-of-order"]
    if not all(row["gem5_counters"] for row in rows):  # labels of `perfvec label --simulator gem5` have none
        return "\n".join(text)
    text.append("\n| counter | pairs | median ratio | median error | within 5 % |\n|---|---|---|---|---|")
    for gem5, ours in COLUMNS.items():
        text.append(counts(predicted if gem5 == "mispredicts" else rows, gem5, ours))
    return "\n".join(text)


def held_out(rows: list[dict[str, Any]], count: int, machines: int) -> list[dict[str, Any]]:
    """The pairs that the model's folds judge: of each fold its programs, on the machines that it held out."""
    names = sorted({row["machine"].name for row in rows})
    programs = folds({re.sub(r"-\d+$", "", row["window"]) for row in rows}, count)
    found: list[dict[str, Any]] = []
    for k, own in enumerate(programs, 1):
        held = {names[at] for at in np.random.default_rng(k).permutation(len(names))[:machines]}
        found += [row for row in rows if re.sub(r"-\d+$", "", row["window"]) in own and row["machine"].name in held]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--programs", nargs="*", default=[])
    parser.add_argument("--machines", nargs="*", default=[])
    parser.add_argument("--hold-machines", type=int, help="judge also the pairs of five folds that held so many")
    parser.add_argument("--workers", type=int, default=2, help="programs side by side")
    parser.add_argument("--keep", type=Path, help="folder for what each program gave; what is there is not run again")
    parser.add_argument("--each", action="store_true", help="a line for each pair, with counters (ours/gem5)")
    arguments = parser.parse_args()
    programs = arguments.programs or sorted(p.name.split(".")[0] for p in arguments.folder.glob("*.trace.h5"))
    rows: list[dict[str, Any]] = []
    keep: Path | None = arguments.keep
    if keep is not None:
        keep.mkdir(exist_ok=True)
        for path in [keep / f"{program}.json" for program in programs]:
            if path.exists():
                rows += [{**row, "machine": machine_from_dict(row["machine"])} for row in json.loads(path.read_text())]
                programs.remove(path.stem)
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
        jobs = {pool.submit(measured, arguments.folder, name, set(arguments.machines)): name for name in programs}
        for job in tqdm(as_completed(jobs), total=len(jobs), unit="program"):
            rows += job.result()
            if keep is not None:
                found = [{**row, "machine": row["machine"].to_dict()} for row in job.result()]
                (keep / f"{jobs[job]}.json").write_text(json.dumps(found))
    if arguments.each:
        for row in rows:
            counters = "  ".join(
                f"{name} {row['counters'][ours]:.0f}/{row['gem5_counters'][name]:.0f}"
                for name, ours in COLUMNS.items()
                if name in row["gem5_counters"]
            )
            print(f"{row['window']:10s} {row['machine'].name} CPI {row['ours']:7.3f} {row['gem5']:7.3f}  {counters}")
    print(report(rows))
    if arguments.hold_machines:
        print(line("unseen programs and machines", held_out(rows, 5, arguments.hold_machines)))


if __name__ == "__main__":
    main()
