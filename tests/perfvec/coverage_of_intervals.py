"""How often the exact vector's prediction lies in the interval of the sampled one, and what sampling costs.

    python tests/perfvec/coverage_of_intervals.py TRACE… [--instructions N] [--thin K] [--seeds S] [--half-width W]

Every unit of each trace is represented once; the sampling, its random pool included, is then repeated with S seeds on
these vectors and compared with the exact vector (representation/represent.py) on every machine of the model's table. A
unit that is drawn costs UNIT and OVERLAP instructions of the model. With --of-units the exact vector is the
sum of all units' vectors, which differs by the warm-up alone and takes half as long.

Of a program of a billion instructions that would take hours. With --thin K the program is K of its units, drawn at
random from the whole run: strata, pool, sample and the exact vector, their sum, are of these. They lie in the phases
that the whole has, in the same shares; what is rarer than one unit in K is not among them. Vectors are kept in
--cache as they come, so that a killed run continues.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from perfvec.model import Model, load_model
from perfvec.representation.pool import UNIT, Pool
from perfvec.representation.represent import OVERLAP, represent
from perfvec.representation.sample import Sample
from perfvec.representation.signatures import Reservoir
from perfvec.representation.vector import ProgramVector
from tracegen.decode import decode
from tracegen.features.schema import extracted
from tracegen.files import atomic_path
from tracegen.trace import Trace

PIECE = 1024  # units kept together


class Known:
    """A pool of the units with these numbers."""

    def __init__(self, population: Population, unit: np.ndarray) -> None:
        self._vectors, self._remainder = population.vectors[:-1], population.vectors[-1]
        self._signatures = population.signatures
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
            pool = Pool(model, decode(trace.address, trace.code, trace.isa), Reservoir(thin or total, 0))
            for chunk, stored in extracted(pool.extractor, trace.chunks(stop=total)):
                pool.observe(chunk, stored)
            slots = np.argsort(pool.unit)
            if thin:  # in any order: what a killed run leaves is a thinner program
                slots = np.random.default_rng(thin).permutation(slots)
            kept, signatures = pool.signatures()
            signatures = signatures[np.searchsorted(kept, pool.unit[slots])]
            remainder = np.zeros(model.foundation.width) if thin else pool.represent_remainder()
            vectors = np.concatenate([represented(pool, slots, options.cache / name), [remainder]])
            if thin or options.of_units:
                exact = vectors.sum(axis=0)
            else:
                exact = represent(model, trace, max_instructions=total).vector
            left = 0 if thin else pool.remainder
            np.savez(
                file, signatures=signatures, vectors=vectors, exact=exact, units=len(slots),
                instructions=len(slots) * UNIT + left, remainder=left,
            )  # fmt: skip
        with np.load(file) as stored:
            counts = (int(stored[name]) for name in ("units", "instructions", "remainder"))
            return Population(*counts, stored["signatures"], stored["vectors"], stored["exact"])


def represented(pool: Pool, slots: np.ndarray, kept: Path) -> np.ndarray:
    """[n, d] the vectors of the units in these slots, by pieces that are files in `kept`."""
    kept.mkdir(exist_ok=True)
    pieces = []
    for begin in tqdm(range(0, len(slots), PIECE), desc="units", unit_scale=PIECE, disable=None):
        file = kept / f"{begin}.npy"
        if not file.exists():
            with atomic_path(file) as temporary, temporary.open("wb") as opened:
                np.save(opened, pool.represent(slots[begin : begin + PIECE]))
        pieces.append(np.load(file))
    return np.concatenate(pieces) if pieces else np.empty((0, pool.represent_remainder().shape[0]))


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
        inside, share, width, error = [], [], [], []
        spent = time.process_time()
        for seed in range(options.seeds):
            units = np.arange(population.units)
            if 0 < options.pool < len(units):
                units = np.sort(np.random.default_rng([seed, 3]).choice(units, options.pool, replace=False))

            def collect(listed, population=population):
                return Known(population, listed._units)

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
                "trace": Path(path).name.removesuffix(".trace.h5"), "units": population.units,
                "warm-up bias": f"{np.abs(table @ population.vectors.sum(axis=0) / truth - 1).max():.3%}",
                "drawn": f"{np.mean(share):.0f}", "coverage": f"{covered.mean():.1%}",
                "worst machine": f"{covered.min():.1%}", "half-width": f"{np.median(width):.2%}",
                "mean error": f"{np.mean(error):.2%}",
                "seconds a sampling": f"{(time.process_time() - spent) / options.seeds:.2f}",
            }
        )  # fmt: skip
        print(pd.DataFrame(rows[-1:]).to_string(index=False), flush=True)
    print(pd.DataFrame(rows).to_string(index=False))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
