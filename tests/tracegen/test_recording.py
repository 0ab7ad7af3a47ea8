"""Units of a run that are recorded: those that are wanted, each after the one before it, and the run's end."""

import numpy as np
import pytest

from perfvec.representation.signatures import keys
from tests.uarch.programs import Instruction, Program, mixed
from tracegen.live_points.live_points import UNIT
from tracegen.live_points.recording import Recording
from uarch.instructions import Flag, Operation

RUN = mixed(7, 24 * UNIT + 300)
WHOLE = RUN.chunk()


def recorded(**options):
    recording = Recording(RUN.static(), **options)
    for begin in range(0, len(WHOLE), 5000):
        recording.observe(WHOLE.part(begin, min(begin + 5000, len(WHOLE))))
    return recording


@pytest.mark.parametrize("units", [[0, 1, 5, 22], [23], list(range(24))])
def test_listed_units_come_with_the_ones_before_them(units):
    pieces = recorded(listed=units).finish(np.array(units))
    assert pieces.unit[pieces.counted].tolist() == units
    assert set(pieces.unit.tolist()) == {*units, *(unit - 1 for unit in units if unit)}
    sequences = list(pieces.sequences())
    assert np.concatenate([chunk.static_id for _, chunk in sequences]).tolist() == pieces.static_id.tolist()
    assert np.concatenate([chunk.address for _, chunk in sequences]).tolist() == pieces.address.tolist()
    for first, chunk in sequences:
        begin = int(pieces.unit[first]) * UNIT
        assert chunk.start == begin and first + len(chunk) // UNIT <= len(pieces)
        assert (chunk.static_id == WHOLE.static_id[begin : begin + len(chunk)]).all()
    begins = [first for first, _ in sequences]
    gaps = np.flatnonzero(np.diff(pieces.line_offset)).tolist()
    assert set(gaps) <= set(begins)  # between the pieces of a sequence there is nothing


def test_the_units_with_the_lowest_keys_are_there():
    units = np.sort(np.argsort(keys(np.arange(24), 5))[:4])
    pieces = recorded(capacity=4, seed=5).finish(units)
    assert (pieces.unit[pieces.counted] == units).all()


def test_the_last_instructions_are_the_runs_end():
    last, expected = recorded(listed=[3]).last(1500), WHOLE.part(len(WHOLE) - 1500, len(WHOLE))
    assert last.start == expected.start and (last.next_static_id == expected.next_static_id).all()
    assert (np.diff(last.access_offset) == np.diff(expected.access_offset)).all()
    assert (last.address == expected.address).all() and (last.is_store == expected.is_store).all()


def test_misses_of_gaps_are_the_last_accesses_to_data_not_touched_lately():
    load = Instruction(Operation.NONE, destinations=(1,), flags=Flag.LOAD)
    program = Program([load, load])
    for turn in range(8 * UNIT):  # one instruction walks through new lines, the other stays
        program.execute(turn % 2, ((1 << 32) + (turn * 64 if turn % 2 else 0), 8, 0))
    recording = Recording(program.static(), listed=[7])
    recording.observe(program.chunk())
    pieces = recording.finish(np.array([7]))
    misses = len(pieces.miss)
    assert pieces.unit.tolist() == [6, 7] and pieces.miss_offset.tolist() == [0, misses, misses]
    assert (pieces.miss == 1).all() and pieces.miss_far.all()
    turns = np.arange(1, 6 * UNIT, 2)[-1024:]
    assert pieces.miss_address.tolist() == ((1 << 32) + turns * 64).tolist()
