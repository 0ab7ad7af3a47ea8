"""Units that are kept of a run of any length."""

import numpy as np
import pytest

from perfvec.representation.signatures import Reservoir, UnitSignatures, keys
from tracegen.decode import decode
from tracegen.formats.trace import Trace

ALL = np.arange(40)


def held_of(reservoir, steps):
    held = np.full(8, -1)
    for first in range(0, 40, steps):
        for unit, slot in enumerate(reservoir.slots(first, steps), first):
            if slot >= 0:
                held[slot] = unit
    return held


def test_a_reservoir_gives_every_unit_the_same_chance():
    hits = np.zeros(40)
    for seed in range(3000):
        hits[held_of(Reservoir(8, seed), 10)] += 1
    assert hits.sum() == 8 * 3000
    assert np.abs(hits / 3000 - 0.2).max() < 0.04  # five standard deviations


def test_keys_have_no_pattern():
    found = keys(np.arange(100_000), 0) / 2.0**64
    assert np.abs(np.histogram(found, 20, (0, 1))[0] - 5000).max() < 350  # five standard deviations
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(found, keys(np.arange(100_000), 1) / 2.0**64)[0, 1]) < 0.02


@pytest.mark.parametrize("steps", [1, 8, 40])
def test_a_reservoir_holds_the_lowest_keys_however_they_come(steps):
    lowest = np.argsort(keys(ALL, 3))[:8]
    assert set(held_of(Reservoir(8, 3), steps)) == set(lowest)


@pytest.mark.slow
@pytest.mark.parametrize("size", [64, 1000, 60_000])
def test_of_a_long_run_the_units_with_the_lowest_keys_stay(data, size):
    """Whatever was thrown away on the way; 64 instructions a unit, of which the mean is their number."""

    def signatures(most):
        with Trace(data.traces / "qsort.trace.h5") as trace:
            found = UnitSignatures(decode(trace.address, trace.code, trace.isa), 64, 5, most)
            units = 0
            for chunk in trace.chunks(size):
                count = (chunk.start + len(chunk)) // 64 - units
                found.add(chunk, np.arange(units, units + count, dtype=np.float32)[:, None])
                units += count
        return found

    every, some = signatures(1 << 20), signatures(100)
    numbers, table = every.table(1)
    assert (numbers == np.arange(60_000 // 64)).all() and np.isfinite(table).all()
    kept, fewer = some.table(1)
    assert (kept == np.sort(np.argsort(keys(numbers, 5))[:100])).all()
    assert fewer.shape == (100, table.shape[1])
    assert (some.rows[0] == every.rows[0][kept]).all()
    assert (every.rows[0][:, 0] == numbers).all()


def test_a_run_shorter_than_a_unit_has_none(data):
    with Trace(data.traces / "qsort.trace.h5") as trace:
        found = UnitSignatures(decode(trace.address, trace.code, trace.isa), 1 << 30, 0)
        numbers, table = found.table(1)
        assert len(numbers) == len(table) == 0
        for chunk in trace.chunks():
            found.add(chunk, np.empty((0, 1), np.float32))
        numbers, table = found.table(1)
    assert len(numbers) == len(table) == 0
