"""How often the exact vector's prediction lies in the interval of the sampled one, and what sampling costs.

    python tests/perfvec/coverage_of_intervals.py TRACE… [--instructions N] [--seeds S] [--half-width W] [--pool K]

Every unit of each trace is represented once; the sampling, its random pool included, is then repeated with S seeds on
these vectors and compared with the exact vector (representation/represent.py) on every machine of the model's table. A
unit that is drawn costs UNIT and OVERLAP instructions of the model. With --of-units the exact vector is the
sum of all units' vectors, which differs by the warm-up alone and takes half as long.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from perfvec.model import load_model
from perfvec.representation.pool import UNIT, Pool, Reservoir
from perfvec.representation.represent import OVERLAP, represent
from perfvec.representation.sample import Sample
from perfvec.representation.vector import ProgramVector
from tracegen.decode import decode
from tracegen.trace import Trace


class Known:
    """A pool of another pool's units, of which all vectors are known."""

    def __init__(self, pool: Pool, vectors: np.ndarray, signatures: np.ndarray, unit: np.ndarray) -> None:
        self._vectors, self._signatures, self._remainder = vectors[:-1], signatures, vectors[-1]
        self.unit, self.units = unit, pool.units
        self.instructions, self.remainder = pool.instructions, pool.remainder

    def signatures(self) -> np.ndarray:
        return self._signatures

    def represent(self, slots: np.ndarray) -> np.ndarray:
        return self._vectors[self.unit[slots]]

    def represent_remainder(self) -> np.ndarray:
        return self._remainder


def known(model, path: str, instructions: int, cache: Path, of_units: bool) -> tuple[Pool, np.ndarray, np.ndarray]:
    """All units in a pool, their vectors (and the remainder's, last), the exact vector."""
    with Trace(path) as trace:
        total = min(instructions, len(trace))
        pool = Pool(model, decode(trace.address, trace.code, trace.isa), Reservoir(total, 0))
        for chunk in trace.chunks(stop=total):
            pool.observe(chunk)
        file = cache / f"{trace.digest[:16]}-{model.digest[:16]}-{total}-{UNIT}{'-u' * of_units}.npz"
        if not file.exists():
            vectors = np.concatenate([pool.represent(np.arange(pool.units)), [pool.represent_remainder()]])
            exact = vectors.sum(axis=0) if of_units else represent(model, trace, max_instructions=total).vector
            np.savez(file, vectors=vectors, exact=exact)
        with np.load(file) as stored:
            return pool, stored["vectors"], stored["exact"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--instructions", type=int, default=2_000_000)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--half-width", type=float, default=0.02)
    parser.add_argument("--pool", type=int, default=0, help="Units in the pool; all by default.")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "perfvec-coverage")
    parser.add_argument("--of-units", action="store_true", help="Judge by the sum of all units' vectors.")
    options = parser.parse_args()
    options.cache.mkdir(exist_ok=True)
    model = load_model()
    table = model.table()
    rows = []
    for path in options.traces:
        pool, vectors, exact = known(model, path, options.instructions, options.cache, options.of_units)
        signatures = pool.signatures()
        truth = table @ exact
        inside, share, width, error = [], [], [], []
        spent = time.process_time()
        for seed in range(options.seeds):
            units = np.arange(pool.units)
            if options.pool:
                units = np.sort(np.random.default_rng([seed, 3]).choice(units, options.pool, replace=False))

            def collect(listed, units=units, pool=pool, vectors=vectors, signatures=signatures):
                return Known(pool, vectors, signatures, listed._units)

            sample = Sample(model, Known(pool, vectors, signatures, units), seed=seed, collect=collect)
            sample.reach(options.half_width, progress=False)
            found: ProgramVector = sample.vector("", "", "")
            prediction = table @ found.vector
            half = found.sampling.half_width(table) if found.sampling else np.full(len(table), 1e-4) * prediction
            inside.append(np.abs(prediction - truth) <= half)
            share.append(sample.count.sum() * (UNIT + OVERLAP) / pool.instructions)
            width.append(half / prediction)
            error.append(np.abs(prediction / truth - 1))
        covered = np.mean(inside, axis=0)
        rows.append(
            {
                "trace": Path(path).name.removesuffix(".trace.h5"), "units": pool.units,
                "warm-up bias": f"{np.abs(table @ vectors.sum(axis=0) / truth - 1).max():.3%}",
                "model runs over": f"{np.mean(share):.1%}", "coverage": f"{covered.mean():.1%}",
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
