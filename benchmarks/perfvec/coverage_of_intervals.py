"""Coverage of sampled vectors' intervals by the exact vector's prediction, and the cost of sampling.

    python benchmarks/perfvec/coverage_of_intervals.py TRACE… [--instructions N] [--thin K] [--seeds S] [--half-width W]

Every unit of each trace is represented once; the sampling, its random pool included, is then repeated with S seeds on
these vectors and compared with the exact vector (representation/represent.py) on every machine of the model's table. A
unit that is drawn costs UNIT and OVERLAP instructions of the model. With --of-units the exact vector is the
sum of all units' vectors, which differs by the warm-up alone and takes half as long.

Of a program of a billion instructions that takes half an hour to some hours on two cores. With --thin K the program is
K of its units, drawn at random from the whole run: strata, pool, sample and the exact vector, their sum, are of these.
They lie in the phases that the whole has, in the same shares; what is rarer than one unit in K is not among them.
Vectors are kept in --cache as they come, so that a killed run continues.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from perfvec.model import Model, load_model
from perfvec.representation.pool import Listed, Pool
from perfvec.representation.represent import OVERLAP, represent
from perfvec.representation.sample import Sample
from perfvec.representation.signatures import Reservoir
from perfvec.representation.vector import ProgramVector
from support.files import atomic_path
from tracegen.features.schema import extracted
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import UNIT

PART = 1024  # units kept together
A_PASS = 200 * PART  # units whose features are in memory, 4.6 GB


class Known:
    """A pool of the units with these numbers."""

    def __init__(self, population: Population, unit: np.ndarray) -> None:
        self._vectors, self._remainder = population.vectors[:-1], population.vectors[-1]
        self._signatures = population.signatures
        self.take_all = np.empty(0, np.int64)
        self.unit, self.units = unit, population.units
        self.instructions, self.remainder = population.instructions, population.remainder

    def signatures(self) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(self.units), self._signatures

    def represent(self, slots: np.ndarray) -> np.ndarray:
        return self._vectors[self.unit[slots]]

    def represent_remainder(self) -> np.ndarray:
        return self._remainder


@dataclass
class Population:
    """Units that are all represented."""

    units: int
    instructions: int
    remainder: int
    signatures: np.ndarray  # [units, …]
    vectors: np.ndarray  # [units + 1, d], the last one the remainder's
    exact: np.ndarray  # [d]


def known(model: Model, path: str, options: argparse.Namespace) -> Population:
    """The units of a trace, from the cache as far as they are there."""
    with Trace(path) as trace:
        total, thin = min(options.instructions or len(trace), len(trace)), options.thin
        name = f"{trace.digest[:16]}-{model.digest[:16]}-{total}-{thin}-{UNIT}-{OVERLAP}{'-u' * options.of_units}"
        file = options.cache / f"{name}.npz"
        if not file.exists():
            instructions = trace.static

            def observed(slots: Reservoir | Listed) -> Pool:
                pool = Pool(model, instructions, slots)
                chunks = extracted(pool.extractor, trace.chunks(stop=total))
                for chunk, stored in tqdm(chunks, desc="features", unit="chunk", disable=None):
                    pool.observe(chunk, stored)
                return pool

            whole = observed(Reservoir(thin or 1, 0))
            kept, signatures = whole.signatures()
            if thin:  # in any order: what a killed run leaves is a thinner program
                slots = np.random.default_rng(thin).permutation(np.argsort(whole.unit))
                signatures = signatures[np.searchsorted(kept, whole.unit[slots])]
                vectors = represented(whole, slots, options.cache / name)
                remainder, left = np.zeros(model.foundation.width), 0
            else:
                parts = [
                    represented_pass(observed, begin, min(begin + A_PASS, whole.units), options.cache / name)
                    for begin in range(0, whole.units, A_PASS)
                ]
                vectors = np.concatenate(parts) if parts else np.empty((0, model.foundation.width), np.float32)
                remainder, left = whole.represent_remainder(), whole.remainder
            of_units = vectors.sum(axis=0, dtype=np.float64) + remainder
            vectors = np.concatenate([vectors, [remainder.astype(vectors.dtype)]])
            exact = of_units if thin or options.of_units else represent(model, trace, max_instructions=total).vector
            np.savez(
                file,
                signatures=signatures,
                vectors=vectors,
                exact=exact,
                units=len(vectors) - 1,
                instructions=(len(vectors) - 1) * UNIT + left,
                remainder=left,
            )
        with np.load(file) as stored:
            counts = (int(stored[name]) for name in ("units", "instructions", "remainder"))
            return Population(*counts, stored["signatures"], stored["vectors"], stored["exact"])


def represented(pool: Pool, slots: np.ndarray, kept: Path, *, first: int = 0) -> np.ndarray:
    """[n, d] the vectors of the units in these slots, by parts that are files in `kept`, from part `first` on."""
    kept.mkdir(exist_ok=True)
    parts = []
    for begin in tqdm(range(0, len(slots), PART), desc="units", unit_scale=PART, disable=None):
        file = kept / f"{first + begin}.npy"
        if not file.exists():
            with atomic_path(file) as temporary, temporary.open("wb") as opened:
                np.save(opened, pool.represent(slots[begin : begin + PART]).astype(np.float32))
        parts.append(np.load(file))
    return np.concatenate(parts) if parts else np.empty((0, pool.represent_remainder().shape[0]), np.float32)


def represented_pass(observed: Callable[[Listed], Pool], begin: int, end: int, kept: Path) -> np.ndarray:
    """[end - begin, d] the vectors of these units, whose features a pass over the run collects if it must."""
    files = [kept / f"{part}.npy" for part in range(begin, end, PART)]
    if all(file.exists() for file in files):
        return np.concatenate([np.load(file) for file in files])
    pool = observed(Listed(np.arange(begin, end)))
    return represented(pool, np.arange(end - begin), kept, first=begin)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--instructions", type=int, default=2_000_000, help="Of each trace; 0: all.")
    parser.add_argument("--thin", type=int, default=0, help="Units drawn at random that stand for the program.")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--half-width", type=float, default=0.02)
    parser.add_argument("--pool", type=int, default=0, help="Units in the pool; all by default.")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "perfvec-coverage")
    parser.add_argument("--of-units", action="store_true", help="Judge by the sum of all units' vectors.")
    options = parser.parse_args()
    options.cache.mkdir(exist_ok=True, parents=True)
    model = load_model()
    table = model.table()
    rows = []
    for path in options.traces:
        population = known(model, path, options)
        truth = table @ population.exact
        of_units = table @ population.vectors.sum(axis=0, dtype=np.float64)
        inside, share, width, error = [], [], [], []
        spent = time.process_time()
        for seed in range(options.seeds):
            units = np.arange(population.units)
            if 0 < options.pool < len(units):
                units = np.sort(np.random.default_rng([seed, 3]).choice(units, options.pool, replace=False))

            def collect(listed, population=population):
                return Known(population, listed.units)

            sample = Sample(model, Known(population, units), seed=seed, collect=collect)
            sample.reach(options.half_width, progress=False)
            found: ProgramVector = sample.vector("", "", "")
            prediction = table @ found.vector
            half = found.sampling.half_width(table) if found.sampling else np.full(len(table), 1e-4) * prediction
            inside.append(np.abs(prediction - truth) <= half)
            share.append(sample.count.sum())
            width.append(half / prediction)
            error.append(np.abs(prediction / truth - 1))
        covered = np.mean(inside, axis=0)
        rows.append(
            {
                "trace": Path(path).name.removesuffix(".trace.h5"),
                "units": population.units,
                "warm-up bias": f"{np.abs(of_units / truth - 1).max():.3%}",
                "drawn": f"{np.mean(share):.0f}",
                "coverage": f"{covered.mean():.1%}",
                "worst machine": f"{covered.min():.1%}",
                "half-width": f"{np.median(width):.2%}",
                "mean error": f"{np.mean(error):.2%}",
                "seconds a sampling": f"{(time.process_time() - spent) / options.seeds:.2f}",
            }
        )
        print(pd.DataFrame(rows[-1:]).to_string(index=False), flush=True)
    print(pd.DataFrame(rows).to_string(index=False))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
