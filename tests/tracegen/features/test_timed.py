"""The schema `timed`: its quantisation and its reference machines, which see what was executed and nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from support.errors import InputError
from tests.uarch.programs import Instruction, Program
from tracegen.features import get_schema
from tracegen.features.default import DEFAULT
from tracegen.features.timed import (
    EACH,
    MEAN_LENGTHS,
    NAMES,
    SIMULATOR,
    TIMED,
    digest,
    latency_codes,
    latency_values,
    mean_values,
    references,
)
from uarch.instructions import Flag, Operation, Temporary
from uarch.machine_files import preset_names
from uarch.timing import simulation
from uarch.timing.simulation import Simulation

# SHA-256 of the reference machines' file; another one is another version of the schema.
DIGEST = "7f82631f7c96c81113854f9785c8931d8b7a0c76f39a27271da84f68552b0f04"
FIRST = len(DEFAULT.columns)


def loop(turns, seed=0):
    """A loop of loads at random lines, a chain, and a branch that is taken as a coin falls: 6 instructions a turn."""
    rows = [
        {"flags": Flag.LOAD, "operation": Operation.NONE, "destinations": [1], "sources": [2]},
        {"sources": [1, 3], "destinations": [3]},
        {"sources": [3], "destinations": [4], "operation": Operation.INT_MUL},
        {"flags": Flag.BRANCH | Flag.CONDITIONAL, "operation": Operation.BRANCH, "sources": [4]},
        {"sources": [2], "destinations": [2]},
        {"flags": Flag.BRANCH | Flag.CONDITIONAL, "operation": Operation.BRANCH, "sources": [2]},
        {"destinations": [5]},
    ]
    program = Program([Instruction(**row) for row in rows])
    generator = np.random.default_rng(seed)
    for _ in range(turns):
        program.execute(0, (int(generator.integers(1 << 20)) << 6, 8, 0))
        for number in [1, 2, 3, 4, 5] if generator.random() < 0.5 else [1, 2, 3, 5]:
            program.execute(number)
    program.execute(6)
    return program


def test_the_quantisation_is_the_documented_one():
    codes, values = latency_codes(), latency_values()
    assert (codes[:32] == np.arange(32)).all()
    assert [int(codes[latency]) for latency in (32, 64, 100, 1000, 4096)] == [32, 52, 65, 131, 172]
    assert np.abs(values[codes[1:]] / np.arange(1, len(codes)) - 1).max() < 0.018
    assert (np.diff(codes.astype(int)) >= 0).all()
    assert values[[172, 179, 186, 255]] == pytest.approx([4096, 8192, 16384, 4096 * 2 ** (83 / 7)])
    assert (np.diff(values) > 0).all() and 15.1e6 < values[-1] < 15.3e6
    assert mean_values()[[0, 13, 26]].tolist() == [0.0, 1 / 16, 3 / 16]


def test_the_reference_machines_are_fixed():
    assert digest() == DIGEST, "another list of reference machines is another version of the schema"
    assert tuple(reference.machine.name for reference in references()) == NAMES
    assert not set(NAMES) & set(preset_names())
    assert simulation.SIMULATOR == SIMULATOR, "another simulator makes other features: another version of the schema"
    assert len(TIMED.columns) == FIRST + EACH * len(NAMES)


def test_columns_are_the_simulators_latencies_and_their_means():
    program = loop(300)
    static, chunk = program.static(), program.chunk()
    stored = TIMED.extractor(static).extract(chunk)
    assert (stored[:, :FIRST] == DEFAULT.extractor(static).extract(chunk)).all()
    for number, reference in enumerate(references()):
        latency = Simulation(reference.machine, static, reference.ideal, taken_path_only=True).run(chunk).astype(int)
        at = FIRST + EACH * number
        assert (stored[:, at] == latency_codes()[latency]).all()
        for which, length in enumerate(MEAN_LENGTHS):
            sums = np.cumsum(np.concatenate([np.zeros(length, int), latency]))
            mean = (sums[length:] - sums[:-length]) / length
            expected = np.rint(13 * np.log2(1 + 16 * mean))
            assert np.abs(stored[:, at + 1 + which] - expected).max() <= 1  # of ties
            assert (stored[:, at + 1 + which] == expected).mean() > 0.99


@pytest.mark.parametrize("count", [100, 5000, 70_000, 3_000_000])
def test_a_long_string_is_told_by_its_latency(count):
    """One instruction that stores so many bytes, among others."""
    rows = [{"destinations": [1]}, {"flags": Flag.STORE | Flag.STRING, "operation": Operation.NONE, "sources": [2]}]
    program = Program([Instruction(**row) for row in rows])
    program.execute(0)
    program.execute(1, *[((1 << 20) + k, 1, 1) for k in range(count)])
    program.execute(0)
    static, chunk = program.static(), program.chunk()
    stored = TIMED.extractor(static).extract(chunk)
    for number, reference in enumerate(references()):
        latency = Simulation(reference.machine, static, reference.ideal, taken_path_only=True).run(chunk)
        told = latency_values()[stored[:, FIRST + EACH * number]]
        assert told == pytest.approx(np.minimum(latency, latency_values()[-1]), rel=0.052)
        linear = TIMED.columns[FIRST + EACH * number].table[stored[1, FIRST + EACH * number], 0]
        assert linear == pytest.approx(told[1] / 16, rel=1e-6)
        assert latency[1] > count / 8


def test_known_answers():
    stored = TIMED.extractor(loop(300).static()).extract(loop(300).chunk())
    sums = {name: int(stored[:, FIRST + EACH * k].astype(np.int64).sum()) for k, name in enumerate(NAMES)}
    assert sums == KNOWN


KNOWN = {  # of `embedded 20`; sums of codes
    "in-order": 26303,
    "small": 16909,
    "middle": 18790,
    "large": 23679,
    "dataflow": 479,
    "data": 3234,
    "branches": 2787,
    "instructions": 555,
}


def test_the_ideal_machines_isolate_a_mechanism():
    program = loop(400)
    latency = latency_values()[TIMED.extractor(program.static()).extract(program.chunk())[:, FIRST::EACH]].sum(axis=0)
    cycles = dict(zip(NAMES, latency, strict=True))
    assert cycles["dataflow"] < cycles["branches"]  # half of the branches are a surprise
    assert cycles["branches"] < cycles["data"]  # every load misses
    assert cycles["instructions"] < cycles["branches"]  # one line of code
    assert cycles["data"] < cycles["small"] < cycles["in-order"]  # where misses overlap, and where they do not


@pytest.mark.parametrize("size", [1, 7, 997])
def test_any_chunking_gives_the_same_columns(size):
    program = loop(300)
    static, chunk = program.static(), program.chunk()
    whole = TIMED.extractor(static).extract(chunk)
    parts = TIMED.extractor(static)
    found = [parts.extract(chunk.part(begin, begin + size)) for begin in range(0, len(chunk), size)]
    assert (np.concatenate(found) == whole).all()


def test_the_halves_are_the_whole():
    program = loop(300)
    whole, halves = TIMED.extractor(program.static()), TIMED.extractor(program.static())
    expected = whole.extract(program.chunk())
    stored = halves.begin(program.chunk())
    halves.finish(program.chunk(), stored)
    assert (stored == expected).all()


def test_instructions_that_are_not_known_yet_change_nothing():
    program = loop(300)
    static, chunk = program.static(), program.chunk()
    whole = TIMED.extractor(static).extract(chunk)
    few = type(static)(**{name: getattr(static, name)[:6] for name in columns_of(static)}, isa=static.isa)
    growing = TIMED.extractor(few)
    begin = growing.extract(chunk.part(0, len(chunk) - 3))
    growing.grow(static)
    end = growing.extract(chunk.part(len(chunk) - 3, len(chunk)))
    assert (np.concatenate([begin, end]) == whole).all()


def columns_of(static):
    return [name for name, value in vars(static).items() if isinstance(value, np.ndarray)]


def test_the_core_takes_no_other_instructions_for_those_it_has():
    program = loop(10)
    static = program.static()
    running = Simulation(references()[0].machine, static, taken_path_only=True)
    fewer = type(static)(**{name: getattr(static, name)[:3] for name in columns_of(static)}, isa=static.isa)
    with pytest.raises(ValueError, match="not the first of these"):
        running.grow(fewer)


def test_a_column_can_be_hidden():
    hidden = get_schema("timed~large")
    assert hidden.stored == TIMED.identity
    with pytest.raises(InputError, match="no column 'huge'"):
        get_schema("timed~huge")


def test_columns_are_those_that_models_were_trained_on():
    """gem5's temporary register, for which loads of bytes wait, changes the simulator's times, not the columns."""
    program = loop(100)
    chunk, before = program.chunk(), program.static()
    loads = (before.flags & Flag.LOAD) != 0
    static = replace(before, temporary=loads * np.uint8(Temporary.LOADED | Temporary.MERGED))
    assert (TIMED.extractor(static).extract(chunk) == TIMED.extractor(before).extract(chunk)).all()
    machine = references()[NAMES.index("middle")].machine
    assert (Simulation(machine, static).run(chunk) != Simulation(machine, before).run(chunk)).any()
