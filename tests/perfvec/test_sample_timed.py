"""Sampled vectors of a model that reads reference machines, which run afterwards, on the units drawn alone."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch

from perfvec.model import FoundationModel, Model
from perfvec.representation import sample as sampling
from perfvec.representation.pool import Listed, Pool
from perfvec.representation.represent import OVERLAP, represent
from perfvec.representation.sample import represent_sampled, represent_stream_sampled
from perfvec.representation.signatures import Reservoir
from tests.conftest import INSTRUCTIONS, VARIABLES
from tests.environment import environment
from tests.uarch.programs import Instruction, Program
from tracegen.decode import decode
from tracegen.features import timed
from tracegen.features.default import DEFAULT
from tracegen.features.timed import NAMES, TIMED, references
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import UNIT
from tracegen.qemu import Execution, stream
from tracegen.qemu import trace as trace_program
from tracegen.suite.inputs import compile_c
from uarch.configuration import DramMemory, SimpleMemory
from uarch.constraints import dram_models
from uarch.instructions import Flag

FIRST = len(DEFAULT.columns)
CUT = UNIT * 40 + 100


@pytest.fixture(scope="module")
def model():
    """Machines whose predicted cycles are the reference machines' own: each reads one column."""
    foundation = FoundationModel(TIMED, len(NAMES), architecture="mlp", width=16, layers=1, skip_connection=True)
    begin = TIMED.static_width + np.cumsum([0, *(column.width for column in TIMED.columns)])
    places = [int(begin[column]) for column in range(FIRST, len(TIMED.columns), 3)]
    with torch.no_grad():
        for weight in foundation.architecture.parameters():
            weight.zero_()
        for row, place in enumerate(places):
            foundation.skip_connection.weight[row, place] = 16.0  # the column has a sixteenth of the cycles
        foundation.head.weight.copy_(torch.eye(len(NAMES), 16))
    return Model(foundation.eval(), tuple(reference.machine for reference in references()), (), digest="reading")


@pytest.fixture
def small(monkeypatch):
    """Few strata and units, and a pool of half of them, for traces of 58 units."""
    monkeypatch.setattr(sampling, "LEAST", 4)
    monkeypatch.setattr(sampling, "PILOT", 8)
    monkeypatch.setattr(sampling, "UNITS_A_STRATUM", 20)
    monkeypatch.setattr(sampling, "SIMULATED", 30)


@pytest.fixture
def steady(monkeypatch):
    """Reference machines whose memory takes the same time always: none has a DRAM."""
    memory = SimpleMemory(latency_ns=80, bandwidth_gbs=25.6)
    machines = tuple(replace(one, machine=replace(one.machine, memory=memory)) for one in references())
    monkeypatch.setattr(timed, "references", lambda: machines)


def cycles_of_refresh(machine):
    """Cycles that a read waits for a refresh, at most."""
    memory = machine.memory
    return dram_models()[memory.model]["t_rfc"] * machine.frequency_ghz if isinstance(memory, DramMemory) else 0.0


def apart(seed):
    """Slots for twelve units at random; without a seed, for some that are listed."""
    return Listed(np.array([0, 1, 9, 20, 21, 33, 39])) if seed is None else Reservoir(12, seed)


def pool_of(data, model, slots, size=7001):
    """The pool of a trace, its static instructions and its whole chunk."""
    with Trace(data.traces / "qsort.trace.h5") as trace:
        instructions = decode(trace.address, trace.code, trace.isa)
        pool = Pool(model, instructions, slots)
        for chunk in trace.chunks(size, stop=CUT):
            pool.observe(chunk)
        return pool, instructions, next(trace.chunks(CUT, stop=CUT))


@pytest.mark.parametrize("size", [700, 7001])
def test_where_all_units_are_kept_their_columns_are_those_of_the_whole_run(data, model, size):
    pool, instructions, whole = pool_of(data, model, Reservoir(1000, 0), size)
    stored = TIMED.extractor(instructions).extract(whole)
    total = pool.represent(np.arange(pool.units)).sum(axis=0) + pool.represent_remainder()
    for slot, unit in enumerate(pool.unit.tolist()):
        begin = max(unit * UNIT - OVERLAP, 0)
        missing = OVERLAP - (unit * UNIT - begin)
        assert (pool.stored[slot, missing:] == stored[begin : (unit + 1) * UNIT]).all()
    exact = represent(model, data.traces / "qsort.trace.h5", max_instructions=CUT, progress=False).vector
    assert np.allclose(total, exact, rtol=0.01)


def nearly(found, expected, allowed=0.0):
    """Tell whether [units, machines] cycles are the expected ones, nearly: most units to a two-hundredth.

    A unit begins without what was in flight: a few have two misses of the memory more or less.
    """
    beyond = np.maximum(np.abs(found - expected) - allowed, 0.0)
    off = beyond / expected
    in_all = np.abs(found.sum(axis=0) - expected.sum(axis=0)) - len(found) * allowed
    return (
        (np.median(off, axis=0) <= 0.005).all()
        and (off > 0.03).mean() < 0.04
        and (in_all <= 0.03 * expected.sum(axis=0)).all()
    )


def columns_apart(data, model, slots):
    """A pool of units apart, its columns, those of the whole run, and [units, machines] cycles by either."""
    pool, instructions, whole = pool_of(data, model, slots)
    stored = TIMED.extractor(instructions).extract(whole)
    assert not pool.complete
    found = pool.represent(np.arange(len(pool.unit)))[:, : len(NAMES)]
    assert pool.complete
    rows = np.concatenate([stored[unit * UNIT : (unit + 1) * UNIT] for unit in pool.unit.tolist()])
    kept = pool.stored[: len(pool.unit), OVERLAP:].reshape(-1, len(TIMED.columns))
    cycles = np.minimum(TIMED.columns[FIRST].table[:, 0] * 16, 4096)[rows[:, FIRST::3]]
    return pool, kept, rows, found, cycles.reshape(len(pool.unit), UNIT, -1).sum(axis=1)


def test_units_apart_know_the_steps_of_divides(model):
    """They take as long as in the whole run, which is told that each `div` takes 67 steps, not the 7 assumed."""
    code = np.zeros((3, 16), np.uint8)
    for row, text in enumerate(("31d2", "48f7f6", "ebf9")):  # xor edx, edx; div rsi; jmp
        code[row, : len(text) // 2] = list(bytes.fromhex(text))
    static, program = decode(np.array([0x1000, 0x1002, 0x1005], np.uint64), code, "x86-64"), Program([])
    for number in range(40 * UNIT):
        program.execute(number % 3)
    silent = program.chunk()
    divides = np.arange(1, len(silent), 3, dtype=np.uint64)
    told = replace(silent, division_instruction=divides, division_steps=np.full(len(divides), 67, np.uint8))

    def cycles(chunk):
        rows = TIMED.extractor(static).extract(chunk)[9 * UNIT : 10 * UNIT, FIRST::3]
        return TIMED.columns[FIRST].table[:, 0][rows].sum(axis=0) * 16

    pool = Pool(model, static, Listed(np.array([9])))
    pool.observe(told)
    (found,) = pool.represent(np.arange(1))
    slow = [NAMES.index(name) for name in ("in-order", "small", "middle", "large")]
    assert found[slow] == pytest.approx(cycles(told)[slow], rel=0.02)
    assert (cycles(told)[slow] > 2 * cycles(silent)[slow]).all()


@pytest.mark.parametrize("seed", [None, 3])
def test_units_apart_have_nearly_the_columns_of_the_whole_run(data, model, steady, seed):
    _, kept, rows, found, expected = columns_apart(data, model, apart(seed))
    assert (kept[:, :FIRST] == rows[:, :FIRST]).all()
    assert (kept[:, FIRST:] == rows[:, FIRST:]).mean() > 0.95
    assert nearly(found, expected)


@pytest.mark.parametrize("seed", [None, 3])
def test_on_a_dram_a_unit_has_a_refresh_more_or_less(data, model, seed):
    """A DRAM refreshes at multiples of a time, and gaps take none: other units than in the whole run wait for it.

    Two stretches of equal length, wherever they begin, differ by one such multiple at most, and so by one wait of tRFC.
    """
    _, kept, rows, found, expected = columns_apart(data, model, apart(seed))
    assert (kept[:, FIRST:] == rows[:, FIRST:]).mean() > 0.9
    refresh = np.array([cycles_of_refresh(reference.machine) for reference in references()])
    assert nearly(found, expected, refresh)
    assert (refresh == 0).any()  # among the machines are some that have nothing to wait for


def test_signatures_are_of_the_columns_that_every_instruction_has(data, model):
    timed, *_ = pool_of(data, model, Reservoir(12, 0))
    default, *_ = pool_of(data, data.model, Reservoir(12, 0))
    assert all((one == other).all() for one, other in zip(timed.signatures(), default.signatures(), strict=True))


def test_a_sampled_vector_is_near_the_exact_one(data, model, small):
    trace = data.traces / "qsort.trace.h5"
    found = represent_sampled(model, trace, half_width=0.3, progress=False)
    exact = represent(model, trace, progress=False)
    table = model.table()
    assert found.sampling.units_represented < found.sampling.units == 58
    assert np.allclose(found.interval_vectors.sum(axis=0), found.vector)
    error = np.abs(table @ found.vector - table @ exact.vector)
    assert (error <= found.sampling.half_width(table) + 0.02 * (table @ exact.vector)).all()


def test_another_pass_brings_what_the_pool_lacks(data, model, small):
    vector = represent_sampled(model, data.traces / "qsort.trace.h5", half_width=1e-6, progress=False)
    assert vector.sampling is None  # all 58 units
    exact = represent(model, data.traces / "qsort.trace.h5", progress=False)
    assert np.allclose(model.table() @ vector.vector, model.table() @ exact.vector, rtol=0.05)


@pytest.mark.slow
def test_a_stream_is_sampled_as_its_trace(data, model, small, tmp_path):
    """The pool is enough for both here: of a trace another pass brings what it lacks, a stream has gone by."""
    command, path = [str(data.traces.parent / "qsort"), "3000"], tmp_path / "q.trace.h5"
    execution = Execution(command, stdout=subprocess.DEVNULL, env=environment(VARIABLES), max_instructions=INSTRUCTIONS)
    trace_program(execution, path, progress=False)
    with stream(execution) as running:
        streamed = represent_stream_sampled(model, running, half_width=0.95, progress=False)
    traced = represent_sampled(model, path, half_width=0.95, progress=False)
    assert streamed.instructions == traced.instructions
    assert streamed.sampling.units_represented == traced.sampling.units_represented <= sampling.SIMULATED
    assert np.allclose(model.table() @ streamed.vector, model.table() @ traced.vector, rtol=1e-6)


@pytest.mark.slow
def test_a_streams_pool_is_that_of_its_trace(data, model, tmp_path):
    """Its static instructions are numbered by their first execution, and known no earlier."""
    command, path = [str(data.traces.parent / "qsort"), "3000"], tmp_path / "q.trace.h5"
    execution = Execution(command, stdout=subprocess.DEVNULL, env=environment(VARIABLES), max_instructions=INSTRUCTIONS)
    trace_program(execution, path, progress=False)
    with stream(execution) as running:
        streamed = Pool(model, running.instructions, Reservoir(12, 0))
        for chunk in running.chunks(7001):
            streamed.grow(running.instructions)
            streamed.observe(chunk)
        rows = streamed.represent(np.arange(len(streamed.unit)))
    with Trace(path) as trace:
        traced = Pool(model, decode(trace.address, trace.code, trace.isa), Reservoir(12, 0))
        for chunk in trace.chunks():
            traced.observe(chunk)
    assert (rows == traced.represent(np.arange(len(traced.unit)))).all()
    assert (streamed.unit == traced.unit).all()
    assert (streamed.stored[: len(rows), OVERLAP:] == traced.stored[: len(rows), OVERLAP:]).all()


CLEARS = """
static char area[1 << 18];
static unsigned values[1 << 12];
int main(void) {
    unsigned sum = 1;
    for (int k = 0; k < 100000; ++k) values[(sum >> 9) & 4095] += sum = sum * 1664525 + 1013904223;
    void *at = area;
    unsigned long n = sizeof area;
    asm volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(1) : "memory");
    for (int k = 0; k < 100000; ++k) sum ^= values[k & 4095] + k;
    return sum == 1;
}
"""


@pytest.mark.slow
def test_a_string_operation_that_takes_half_of_the_time_is_in_every_sample(model, tmp_path):
    """One unit of a thousand, which a random sample has or not."""
    (tmp_path / "clears.c").write_text(CLEARS)
    compile_c(tmp_path / "clears.c", tmp_path / "clears", ["-O1", "-static"])
    execution, path = Execution([str(tmp_path / "clears")], env=environment(VARIABLES)), tmp_path / "c.trace.h5"
    trace_program(execution, path, progress=False)
    exact = represent(model, path, progress=False)
    cycles = model.table() @ exact.vector
    units = model.table() @ exact.interval_vectors.T
    assert units.max(axis=1)[0] > 0.4 * cycles[0]  # in order
    for seed in range(3):
        found = represent_sampled(model, path, half_width=0.05, seed=seed, progress=False)
        assert found.sampling.units_represented < 0.7 * found.sampling.units
        assert np.allclose(model.table() @ found.vector, cycles, rtol=0.05)
        assert np.allclose(found.interval_vectors.sum(axis=0), found.vector)
        assert np.argmax(found.interval_vectors @ model.table()[0]) == np.argmax(units[0])
    with stream(execution) as running:
        streamed = represent_stream_sampled(model, running, half_width=0.05, progress=False)
    assert np.allclose(model.table() @ streamed.vector, cycles, rtol=0.05)
    with stream(execution) as running:
        some = represent_stream_sampled(model, running, units=64, progress=False)
    assert model.table()[0] @ some.vector == pytest.approx(cycles[0], rel=0.2)


def stored_strings(units, heavy):
    """Units of additions, of which those in `heavy` store 20,000 times."""
    run = Program([Instruction(destinations=(1,)), Instruction(flags=Flag.STORE | Flag.STRING, sources=(2,))])
    accesses = [(0x100000 + k, 1, 1) for k in range(20_000)]
    for unit in range(units):
        for place in range(UNIT):
            run.execute(1, *accesses) if unit in heavy and place == 7 else run.execute(0)
    return run


def test_units_that_are_taken_stay_when_others_were_represented_before(data):
    """A glance at a running program's CPI comes while the reservoir still draws and drops units."""
    heavy, run = [3, 11, 30], stored_strings(40, [3, 11, 30])
    pool = Pool(data.model, run.static(), Reservoir(4, 0))
    for begin in range(0, 40 * UNIT, 8 * UNIT):
        pool.observe(run.chunk(begin, begin + 8 * UNIT))
        pool.represent(np.arange(len(pool.unit)))
    pool.represent_remainder()
    assert pool.take_all.tolist() == heavy
    assert set(heavy) <= set(pool.unit.tolist()) and 4 <= len(pool.unit) <= 7
    whole = Pool(data.model, run.static(), Listed(np.arange(40)))
    whole.observe(run.chunk())
    vectors = whole.represent(np.arange(40))
    assert np.allclose(pool.represent(np.arange(len(pool.unit))), vectors[pool.unit], rtol=1e-5)


def test_the_first_unit_of_a_chunk_may_be_taken_without_its_warm_up(model):
    run = stored_strings(24, [16])
    pool = Pool(model, run.static(), Reservoir(2, 0))
    for begin in range(0, 24 * UNIT, 8 * UNIT):
        pool.observe(run.chunk(begin, begin + 8 * UNIT))
    pool.represent_remainder()
    (slot,) = np.flatnonzero(pool.unit == 16)
    assert (pool.stored[slot, :OVERLAP, FIRST:] == 0).all()  # not another unit's
    assert pool.stored[slot, OVERLAP:, FIRST:].any()


@pytest.mark.slow
@pytest.mark.parametrize("length", [700, UNIT])
def test_a_stream_of_nothing_to_draw_is_known(model, length, monkeypatch):
    """A run shorter than a unit, and one whose only unit is taken."""
    run = stored_strings(1, [0])

    class Running:
        instructions, program, isa, digest, interrupted = run.static(), "p", "x86-64", "d", False

        def chunks(self):
            yield run.chunk(0, length)

    found = represent_stream_sampled(model, Running(), units=8, progress=False)
    assert np.isfinite(found.vector).all() and (model.table() @ found.vector).min() > 0


def test_a_run_of_less_than_a_unit_is_sampled_whole(data, model):
    path = data.traces / "matmul.trace.h5"
    with Trace(path) as trace:
        instructions = trace.static
        some = Pool(model, instructions, Listed(np.arange(0)))
        for chunk in trace.chunks(stop=500):
            some.observe(chunk)
        found = some.represent_remainder()
    exact = represent(model, path, max_instructions=500, progress=False).vector
    assert found == pytest.approx(exact, rel=1e-3)
