"""The stratified estimate against enumeration, allocation against the textbook, sampled vectors of real traces."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from analysis.questions import predict as prediction
from perfvec.representation import sample as sampling
from perfvec.representation import signatures
from perfvec.representation.pool import Listed, Pool
from perfvec.representation.represent import OVERLAP, represent
from perfvec.representation.sample import (
    Sample,
    parse_half_width,
    represent_sampled,
    represent_stream_sampled,
    stratify,
)
from perfvec.representation.signatures import Reservoir
from perfvec.representation.stratified import allocate, estimate, suffices
from perfvec.representation.vector import Sampling, load_vector
from support.errors import InputError
from tracegen.decode import decode
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import UNIT
from tracegen.qemu import Execution, stream
from tracegen.qemu import trace as trace_program


def test_all_samples_together_are_unbiased_and_so_is_their_variance():
    """Two strata of 4 and 3 units, two drawn of each: all 18 samples, equally likely."""
    random = np.random.default_rng(1)
    strata = [random.normal(5, 2, (4, 2)), random.normal(-1, 3, (3, 2))]
    size = np.array([4, 3])
    found = [
        estimate(size, [strata[0][list(a)], strata[1][list(b)]])
        for a in combinations(range(4), 2)
        for b in combinations(range(3), 2)
    ]
    truth = strata[0].sum(axis=0) + strata[1].sum(axis=0)
    totals = np.array([each.total for each in found])
    assert np.allclose(totals.mean(axis=0), truth)
    expected = (totals - truth).T @ (totals - truth) / len(totals)
    covariance = np.mean([each.factors.T @ each.factors for each in found], axis=0)
    assert np.allclose(covariance, expected, rtol=1e-5)


def test_a_triangular_factor_keeps_the_covariance():
    units = np.random.default_rng(2).normal(0, 1, (50, 3))
    many = estimate(np.array([1000]), [units])
    assert many.factors.shape == (3, 3)
    expected = 1000**2 * (1 - 50 / 1000) * np.cov(units.T) / 50
    assert np.allclose(many.factors.T @ many.factors, expected, rtol=1e-4)


def test_what_is_known_wholly_has_no_variance():
    found = estimate(np.array([3]), [np.ones((3, 2))])
    assert len(found.factors) == 0 and (found.total == 3).all()


def test_one_stratum_is_the_textbook_interval():
    """t quantile of 9 degrees of freedom, mean of ten."""
    units = np.arange(10.0)[:, None]
    found = estimate(np.array([1000]), [units])
    widths = Sampling(1, 1000, 10, found.factors, found.factor_stratum, found.freedom).half_width(np.array([[1.0]]))
    assert widths[0] == pytest.approx(2.262157 * 1000 * np.sqrt(0.99 * units.var(ddof=1) / 10), rel=1e-5)


def test_allocation_to_one_machine_is_neymans():
    size, variance = np.array([10_000, 20_000, 30_000]), np.array([[1.0], [4.0], [0.25]])
    count = allocate(size, variance, np.array([1e5]), np.full(3, 2))
    share = size * np.sqrt(variance[:, 0])
    assert np.allclose(count / count.sum(), share / share.sum(), rtol=0.01)
    assert (size**2 * (1 - count / size) / count) @ variance[:, 0] <= 1e5


def test_allocation_reaches_every_machine_and_no_stratum_gives_more_than_it_has():
    random = np.random.default_rng(3)
    size, variance = random.integers(2, 500, 12), random.exponential(1, (12, 5)) ** 2
    wanted = ((size**2) @ variance) / 300
    count = allocate(size, variance, wanted, np.full(12, 2))
    assert ((size**2 * (1 - count / size) / count) @ variance <= wanted * 1.0001).all()
    assert ((count >= 2) & (count <= size)).all()


def test_allocation_within_what_there_is_goes_to_the_other_strata_or_is_known_not_to_suffice():
    size, variance, wanted = np.array([10_000, 20_000, 30_000]), np.array([[1.0], [4.0], [0.25]]), np.array([1e6])
    free = allocate(size, variance, wanted, np.full(3, 2))
    most = np.array([10_000, free[1] - free[1] // 4, 30_000])
    bound = allocate(size, variance, wanted, np.full(3, 2), most)
    assert bound[1] == most[1] and bound[0] > free[0] and bound[2] > free[2]
    assert suffices(size, variance, wanted, bound) and suffices(size, variance, wanted, free)
    few = allocate(size, variance, wanted, np.full(3, 2), np.full(3, 100))
    assert (few == 100).all() and not suffices(size, variance, wanted, few)


class OneMachine:
    """A model of one machine, whose prediction is the vector's only number."""

    digest = "m"

    def table(self):
        return np.ones((1, 1))


class OneNumber:
    """A pool of units whose vectors have one number each; nothing is left behind the last unit."""

    remainder, take_all = 0, np.empty(0, np.int64)

    def represent_remainder(self):
        return np.zeros(1)


@pytest.mark.slow
def test_intervals_of_skewed_strata_cover():
    """Log-normal units in strata with unequal means: the procedure as a whole, 60 times."""
    random = np.random.default_rng(5)
    label = random.integers(0, 12, 12_000).astype(np.int32)
    values = np.exp(random.normal(0, 0.5, 12_000)) * (1 + label)

    class Values(OneNumber):
        units, instructions, unit = 12_000, 12_000 * UNIT, np.arange(12_000)

        def represent(self, slots):
            return values[slots][:, None]

    strata = sampling.Strata(label, np.bincount(label))
    inside, share = 0, 0.0
    for seed in range(60):
        drawn = Sample(OneMachine(), Values(), seed=seed, strata=strata)
        drawn.reach(0.02, progress=False)
        vector = drawn.vector("", "", "")
        width = vector.sampling.half_width(np.ones((1, 1)))[0]
        assert width <= 0.02 * vector.vector[0]
        inside += abs(vector.vector[0] - values.sum()) <= width
        share += drawn.count.sum() / 12_000
    assert inside >= 53  # of 60; 57 are expected
    assert share / 60 < 0.2


def test_units_without_signatures_have_the_variance_of_the_first_phase():
    """1,000 of 4,000 units, all drawn, whose variance is 1: 4,000² · (1 − 1/4) / 1,000."""

    class Values(OneNumber):
        units, instructions, unit = 4000, 4000 * UNIT, np.arange(1000)

        def represent(self, slots):
            return np.where(slots % 2, 1.0, -1.0)[:, None]

    strata = sampling.Strata(np.zeros(1000, np.int32), np.array([1000]))
    drawn = Sample(OneMachine(), Values(), strata=strata)
    drawn.draw(1000, progress=False)
    factors = drawn.estimate().factors
    assert (factors.T @ factors).item() == pytest.approx(12_000)


@pytest.mark.slow
@pytest.mark.parametrize(("there", "apart"), [(12, True), (6, True), (5, False)])
def test_rare_units_are_strata_of_their_own_where_the_pool_has_six(there, apart):
    """300 of 50,000 units far from all others, `there` of them among 2,000 in the pool."""
    random = np.random.default_rng(9)
    signatures = np.eye(6)[random.integers(0, 6, 50_000)] * 4 + random.normal(0, 0.5, (50_000, 6))
    rare = np.arange(300) * 166
    signatures[rare] = random.normal(12, 0.2, (300, 6))
    usual = np.setdiff1d(np.arange(50_000), rare)
    pooled = np.sort(np.concatenate([rare[:there], random.choice(usual, 2000 - there, replace=False)]))
    strata = stratify(signatures.astype(np.float32), pooled)
    assert (np.bincount(strata.label) == strata.size).all() and strata.size.sum() == 50_000
    assert np.bincount(strata.label[pooled], minlength=len(strata.size)).min() >= 6
    alone = np.setdiff1d(np.unique(strata.label[rare]), np.unique(strata.label[usual]))
    assert len(alone) == apart


@pytest.mark.slow
def test_intervals_hold_where_only_a_part_of_the_units_has_signatures():
    """Two phases: 2,000 of 40,000 units have signatures, 1,000 of these are in the pool; 100 times."""
    random = np.random.default_rng(8)
    kind = random.integers(0, 3, 40_000)
    signatures = np.stack([kind * 3.0 + random.normal(0, 0.1, 40_000), random.normal(size=40_000)], axis=1)
    values = 10 + 8.0 * kind + 3 * signatures[:, 1] + random.normal(0, 1, 40_000)

    class Values(OneNumber):
        units, instructions = 40_000, 40_000 * UNIT

        def __init__(self, seed):
            order = np.random.default_rng(seed).permutation(40_000)
            self.kept, self.unit = np.sort(order[:2000]), order[:1000]

        def signatures(self):
            return self.kept, signatures[self.kept].astype(np.float32)

        def represent(self, slots):
            return values[self.unit[slots]][:, None]

    inside, errors = 0, []
    for seed in range(100):
        drawn = Sample(OneMachine(), Values(seed), seed=seed)
        drawn.reach(0.02, progress=False)
        vector = drawn.vector("", "", "")
        assert np.allclose(vector.interval_vectors.sum(axis=0), vector.vector)
        assert vector.interval_instructions.sum() == 40_000 * UNIT
        assert len(vector.interval_vectors) == 32  # of about 64 signatures
        width = vector.sampling.half_width(np.ones((1, 1)))[0]
        assert width <= 0.02 * vector.vector[0]
        errors.append(vector.vector[0] / values.sum() - 1)
        inside += abs(vector.vector[0] - values.sum()) <= width
    assert inside >= 87  # of 100; 95 are expected
    assert np.std(errors) < 1.25 * 0.02 / 1.98  # as the interval says


@pytest.fixture
def small(monkeypatch):
    """Few strata and units, for traces of 58 units."""
    monkeypatch.setattr(sampling, "LEAST", 4)
    monkeypatch.setattr(sampling, "PILOT", 8)
    monkeypatch.setattr(sampling, "UNITS_A_STRATUM", 20)


def pool_of(data, slots=None):
    with Trace(data.traces / "qsort.trace.h5") as trace:
        pool = Pool(data.model, decode(trace.address, trace.code, trace.isa), slots or Reservoir(1000, 0))
        for chunk in trace.chunks(7001):
            pool.observe(chunk)
    return pool


def test_all_units_add_up_to_the_exact_vector(data):
    pool = pool_of(data)
    assert (pool.units, pool.remainder) == (60_000 // UNIT, 60_000 % UNIT)
    total = pool.represent(np.arange(pool.units)).sum(axis=0) + pool.represent_remainder()
    exact = represent(data.model, data.traces / "qsort.trace.h5", progress=False).vector
    table = data.model.table()
    assert np.allclose(table @ total, table @ exact, rtol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("size", [300, 1024, 1100, 7001, 20_000, 1 << 18])
def test_units_and_means_are_those_of_the_whole_run_in_any_chunking(data, size):
    with Trace(data.traces / "qsort.trace.h5") as trace:
        instructions = decode(trace.address, trace.code, trace.isa)
        whole = next(trace.chunks(len(trace)))
        stored = data.model.schema.extractor(instructions).extract(whole)
        pool = Pool(data.model, instructions, Reservoir(1000, 0))
        for chunk in trace.chunks(size):
            pool.observe(chunk)
    means = stored[: pool.units * UNIT].reshape(pool.units, UNIT, -1).mean(axis=1).astype(np.float32)
    assert (np.concatenate(pool.unit_signatures.rows)[:, : means.shape[1]] == means).all()
    for slot, unit in enumerate(pool.unit.tolist()):
        begin = max(unit * UNIT - OVERLAP, 0)
        missing = OVERLAP - (unit * UNIT - begin)
        assert (pool.stored[slot, missing:] == stored[begin : (unit + 1) * UNIT]).all()
        assert (pool.ids[slot, missing:] == whole.static_id[begin : (unit + 1) * UNIT]).all()


@pytest.mark.slow
def test_a_run_of_more_units_than_signatures_stays_near_the_exact_vector(data, small, monkeypatch):
    monkeypatch.setattr(signatures, "MOST", 40)
    monkeypatch.setattr(sampling, "CAPACITY", 30)
    trace = data.traces / "qsort.trace.h5"
    found = represent_sampled(data.model, trace, half_width=0.2, progress=False)
    exact = represent(data.model, trace, progress=False)
    table = data.model.table()
    assert found.sampling.units == 58 and found.instructions == exact.instructions
    assert np.allclose(found.interval_vectors.sum(axis=0), found.vector)
    error = np.abs(table @ found.vector - table @ exact.vector)
    assert (error <= 2 * found.sampling.half_width(table)).all()


def test_a_listed_unit_is_the_same_as_in_the_whole_pool(data):
    chosen = np.array([0, 3, 57])
    some = pool_of(data, Listed(chosen))
    assert (some.unit == chosen).all()
    assert np.allclose(some.represent(np.arange(3)), pool_of(data).represent(chosen), atol=1e-3)


@pytest.mark.slow
def test_a_wide_interval_takes_a_part_and_a_narrow_one_all(data, small, tmp_path):
    trace = data.traces / "qsort.trace.h5"
    wide = represent_sampled(data.model, trace, half_width=0.5, progress=False)
    assert wide.sampling is not None and wide.sampling.units_represented < wide.sampling.units == 58
    assert wide.interval_instructions.sum() == wide.instructions == 60_000
    assert np.allclose(wide.interval_vectors.sum(axis=0), wide.vector)
    wide.save(tmp_path / "w.vector.npz")
    again = load_vector(tmp_path / "w.vector.npz").sampling
    assert again is not None and (again.covariance() == wide.sampling.covariance()).all()
    assert (again.half_width(data.model.table()) <= 0.5 * data.model.table() @ wide.vector).all()
    narrow = represent_sampled(data.model, trace, half_width=1e-6, progress=False)
    assert narrow.sampling is None
    exact = represent(data.model, trace, progress=False)
    assert np.allclose(data.model.table() @ narrow.vector, data.model.table() @ exact.vector, rtol=0.01)


def test_another_pass_brings_what_the_pool_lacks(data, small, monkeypatch):
    monkeypatch.setattr(sampling, "CAPACITY", 30)
    vector = represent_sampled(data.model, data.traces / "qsort.trace.h5", half_width=1e-6, progress=False)
    assert vector.sampling is None  # all 58 units


@pytest.mark.slow
def test_the_same_seed_gives_the_same_vector(data, small):
    trace = data.traces / "matmul.trace.h5"
    one, other = (represent_sampled(data.model, trace, half_width=0.3, seed=4, progress=False) for _ in range(2))
    assert (one.vector == other.vector).all()


@pytest.mark.slow
def test_a_stream_is_sampled_as_its_trace(data, small, tmp_path):
    command, path = [str(data.traces.parent / "qsort"), "3000"], tmp_path / "q.trace.h5"
    execution = Execution(command, stdout=subprocess.DEVNULL, max_instructions=60_000)
    trace_program(execution, path, progress=False)
    with stream(execution) as running:
        streamed = represent_stream_sampled(data.model, running, half_width=0.3, progress=False)
    traced = represent_sampled(data.model, path, half_width=0.3, progress=False)
    assert streamed.instructions == traced.instructions
    table = data.model.table()
    assert np.allclose(table @ streamed.vector, table @ traced.vector, rtol=1e-3)


def test_tiny_strata_join_their_neighbours():
    signatures = np.concatenate([np.zeros((200, 3)), np.full((200, 3), 5.0), np.full((3, 3), 5.5)]).astype(np.float32)
    strata = stratify(signatures, np.arange(0, 403, 8))
    assert strata.size.sum() == 403 and strata.size.min() > 100


def test_predictions_carry_the_interval(data, small):
    vector = represent_sampled(data.model, data.traces / "qsort.trace.h5", half_width=0.5, progress=False)
    exact = replace(vector, program="exact", sampling=None)
    frame = prediction.predict(data.model, [vector, exact], data.machines[:1])
    first, second = prediction.to_json(frame)["predictions"]
    low, high = first["interval"]
    assert low < first["cycles"] < high and second["interval"] is None
    assert list(prediction.terminal_table(frame)["90%"])[1] == ""


@pytest.mark.parametrize("text", ["x", "0", "100%", "-1%", "nan", ""])
def test_a_wrong_half_width_is_one_line(text):
    with pytest.raises(InputError, match="half-width"):
        parse_half_width(text)
    assert parse_half_width("2%") == parse_half_width("0.02") == 0.02
