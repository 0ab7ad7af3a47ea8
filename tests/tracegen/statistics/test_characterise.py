"""The microarchitecture-independent profile of programs whose profile is known."""

import json
from itertools import pairwise

import numpy as np
import pytest

from analysis.questions.characterise import shown_number
from tests.command import succeeding
from tests.tracegen.features.test_features_file import write_trace
from tests.uarch.programs import Instruction, Program
from tracegen.decode import decode
from tracegen.formats.trace import Trace
from tracegen.statistics.characterise import Characteriser, characterise, rows
from uarch.instructions import Flag, Operation

LOAD = Instruction(Operation.NONE, flags=Flag.LOAD)
STORE = Instruction(Operation.NONE, sources=[1], flags=Flag.STORE)


def profile(program, **options):
    counts = Characteriser(program.static(), **options)
    counts.observe(program.chunk())
    return counts.document()


@pytest.mark.slow
def test_mix_and_footprint_by_hand():
    program = Program([LOAD, STORE, Instruction(Operation.INT_MUL), Instruction(Operation.FP_ADD, flags=Flag.FLOAT)])
    for k in range(10):
        program.execute(0, (0x1000 + 64 * k, 8, 0))
        program.execute(1, (0x103C, 8, 1))  # across two lines
    program.execute(2)
    found = profile(program)
    assert found["instructions"] == 21
    assert found["mix"]["loads"] == pytest.approx(10 / 21)
    assert found["mix"]["int_mul"] == pytest.approx(1 / 21)
    assert found["mix"]["floating_point"] == 0
    footprint = found["footprint"]
    assert (footprint["static_instructions"], footprint["loads"], footprint["stores"]) == (3, 10, 10)
    assert (footprint["data_lines"], footprint["data_pages"], footprint["instruction_lines"]) == (10, 1, 1)


def test_a_sweep_over_a_hundred_lines_needs_a_cache_of_128():
    program = Program([LOAD])
    for k in range(1000):
        program.execute(0, (0x10000 + 64 * (k % 100), 8, 0))
    misses = profile(program)["lru_miss_ratio"]["data_lines"]
    assert misses["64"] == 1.0
    assert misses["128"] == pytest.approx(0.1)  # first references


def test_miss_ratios_are_those_of_an_lru_cache():
    rng = np.random.default_rng(8)
    lines = np.minimum(rng.geometric(0.02, 3000), 200).tolist()
    program = Program([LOAD])
    for line in lines:
        program.execute(0, (64 * line, 8, 0))
    misses = profile(program)["lru_miss_ratio"]["data_lines"]
    for size in (1, 4, 32, 64):
        cache, missed = [], 0
        for line in lines:
            missed += line not in cache
            cache = [line, *(other for other in cache if other != line)][:size]
        assert misses[str(size)] == pytest.approx(missed / len(lines))


def test_a_chain_has_no_parallelism():
    program = Program([Instruction(sources=[1], destinations=[1])])
    for _ in range(500):
        program.execute(0)
    found = profile(program)
    assert all(value == pytest.approx(1.0) for value in found["ideal_ipc"].values())
    assert found["producer_within"]["register"]["1"] == 1.0


def test_independent_instructions_fill_the_window():
    program = Program([Instruction(destinations=[1])])
    for _ in range(2048):
        program.execute(0)
    assert profile(program)["ideal_ipc"] == {str(w): float(w) for w in (16, 32, 64, 128, 256, 512)}


def test_a_load_waits_for_the_store_to_its_word():
    load = Instruction(Operation.NONE, destinations=[1], flags=Flag.LOAD)
    program = Program([load, STORE, Instruction()])
    for _ in range(300):
        program.execute(0, (0x2000, 8, 0))
        program.execute(1, (0x2004, 4, 1))
        program.execute(2)
    found = profile(program)
    assert found["ideal_ipc"]["512"] == pytest.approx(1.5)  # load, store, load, … one after another; the third beside
    assert found["producer_within"]["memory"] == {"1": 0.0, "2": 1.0}


def test_branches_by_hand():
    branch = Instruction(Operation.BRANCH, flags=Flag.BRANCH | Flag.CONDITIONAL)
    program = Program([branch, Instruction(), Instruction()])
    for _ in range(1000):
        for which in (0, 2, 0, 1, 2):  # taken, then not
            program.execute(which)
    found = profile(program)["branches"]
    assert found["taken"] == pytest.approx(0.5)
    entropy = {(row["kind"], row["length"]): row["shannon"] for row in found["entropy"]}
    assert entropy["global", 0] == pytest.approx(1.0)
    assert entropy["global", 2] < 0.01
    assert entropy["local", 2] < 0.01


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    return write_trace(tmp_path_factory.mktemp("trace") / "loop.trace.h5", iterations=5000)


def test_any_chunking_gives_the_same_profile(loop):
    whole = characterise(loop, progress=False)
    with Trace(loop) as trace:
        parts = Characteriser(decode(trace.address, trace.code, trace.isa))
        for chunk in trace.chunks(1789):
            parts.observe(chunk)
    assert {key: whole[key] for key in parts.document()} == parts.document()


def test_a_profile_is_consistent(loop):
    found = characterise(loop, max_instructions=20_000, progress=False)
    assert found["instructions"] == 20_000
    assert found["mix"]["loads"] == pytest.approx(0.2)
    for curve in found["lru_miss_ratio"].values():
        assert all(larger <= smaller for smaller, larger in pairwise(curve.values()))
    ipc = list(found["ideal_ipc"].values())
    assert ipc == sorted(ipc)
    table = list(rows(found))
    assert len(table) == len({row[:2] for row in table})


def test_a_large_count_has_separators():
    numbers = [2e6, 979_303.0, 25_001.0, 0.235098, 2e-6]
    assert list(map(shown_number, numbers)) == ["2,000,000", "979,303", "25,001", "0.2351", "0.000002"]


@pytest.mark.slow
def test_the_command_prints_the_profile(loop, tmp_path):
    printed = succeeding("characterise", loop, "--json", "--csv", tmp_path / "profile.csv")
    assert json.loads(printed)["branches"]["taken"] == pytest.approx(4999 / 5000)
    assert (tmp_path / "profile.csv").read_text().startswith("group,measure,value,unit\nsize,instructions,25001")
