"""Recording: what lies between units, against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.tracegen.live_points.example import columns
from tests.uarch.programs import Instruction, Program, mixed
from tracegen.live_points import _core
from tracegen.live_points.divisions import DivisionCounter
from tracegen.live_points.live_points import UNIT
from uarch.instructions import Flag, Operation
from uarch.timing import _core as timing


def _expected_lines(static, chunk, begin, end):
    """Lines of instructions begin … end, one by one."""
    lines: dict[tuple[int, bool], bool] = {}

    def touch(line, code, store):
        stored = lines.pop((line, code), False)
        lines[line, code] = stored or store

    for k in range(begin, end):
        row = int(chunk.static_id[k])
        first = int(static.address[row])
        for line in range(first >> 6, ((first + int(static.length[row]) - 1) >> 6) + 1):
            touch(line, True, False)
        for m in range(chunk.access_offset[k], chunk.access_offset[k + 1]):
            address, size = int(chunk.address[m]), max(int(chunk.size[m]), 1)
            for line in range(address >> 6, ((address + size - 1) >> 6) + 1):
                touch(line, False, bool(chunk.is_store[m]))
    return [line << _core.LINE_SHIFT | code * _core.CODE | store * _core.DIRTY for (line, code), store in lines.items()]


def test_the_recorder_writes_touches_as_simulations_read_them():
    assert _core.LINE_SHIFT == timing.TOUCHED_SHIFT
    assert (_core.CODE, _core.DIRTY) == (timing.TOUCHED_CODE, timing.TOUCHED_DIRTY)


class _Branches:
    """The branches of a chunk, and which of them are of use."""

    def __init__(self, static, chunk):
        self.place = np.flatnonzero(static.flags[chunk.static_id] & Flag.BRANCH)
        self.row, self.following = chunk.static_id[self.place], chunk.next_static_id[self.place]
        known = np.minimum(self.following, len(static) - 1)
        taken = (self.following < len(static)) & (static.address[known] != (static.address + static.length)[self.row])
        self.taken = taken & ((static.flags[self.row] & Flag.INDIRECT) == 0)  # directly
        self.before, latest = [], {}  # the last one of the same branch after the same 16 directions
        directions = 0
        for k, (row, direction) in enumerate(zip(self.row.tolist(), taken.tolist(), strict=True)):
            mixed = (row + 1) * 0x9E3779B97F4A7C15 ^ directions * 0xBF58476D1CE4E5B9
            slot = (mixed ^ (mixed % (1 << 64) >> 32)) % (1 << 20)  # what falls together is one
            self.before.append(latest.get(slot, -1))
            latest[slot] = k
            directions = (directions << 1 | direction) & 0xFFFF

    def of_use(self, begin, end, most):
        """Numbers of branches before `begin` that are kept for those until `end`."""
        kept = set(range(max(0, begin - most // 3), begin))
        earlier = [before for before in self.before[begin:end] if before < begin]
        for _ in range(16):
            for last in earlier:
                for k in range(last, max(last - 512, -1), -1):
                    if len(kept) == most:
                        return kept
                    kept.add(k)
            earlier = [self.before[last] if last >= 0 else -1 for last in earlier]
        return kept

    def last_taken(self, begin, end):
        """(row, following) of the direct branches that instructions begin … end took, where each was taken last."""
        last = {}
        for k in np.flatnonzero(self.taken & (self.place >= begin) & (self.place < end)).tolist():
            last.pop(int(self.row[k]), None)
            last[int(self.row[k])] = int(self.following[k])
        return list(last.items())


def _near_reads(chunk):
    """(place, load, store, whether of the same bytes) of each read of what a store less than 24 instructions before it
    wrote, in blocks of 16 bytes; of a store once.
    """
    stores: dict[int, tuple[int, int, range]] = {}
    found = []
    for k in range(len(chunk)):
        for m in range(chunk.access_offset[k], chunk.access_offset[k + 1]):
            first, size = int(chunk.address[m]), max(int(chunk.size[m]), 1)
            last = None
            for block in range(first >> 4, ((first + size - 1) >> 4) + 1):
                touched = range(max(first, block * 16), min(first + size, block * 16 + 16))
                if chunk.is_store[m]:
                    stores[block % 1024] = block, k, touched  # those of the last 1,024 are known
                    continue
                known, at, written = stores.get(block % 1024, (-1, 0, range(0)))
                store = int(chunk.static_id[at])
                if known == block and k - at < 24 and store != last:
                    last = store
                    found.append((k, int(chunk.static_id[k]), store, bool(set(touched) & set(written))))
    return found


def _known(near, end):
    """Stores that each load had read from before a place, four at most: times, and times of the same bytes."""
    known: dict[int, list[list[int]]] = {}
    for place, reader, store, same in near:
        if place >= end:
            break
        pairs = known.setdefault(reader, [])
        for pair in pairs:
            if pair[0] == store:
                pair[1], pair[2] = pair[1] + 1, pair[2] + same
                break
        else:
            if len(pairs) == 4:
                pairs[min(range(4), key=lambda k: pairs[k][1])] = [store, 1, same]
            else:
                pairs.append([store, 1, same])
    return known


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "capacity", "size", "most"),
    [(1, 3, 1 << 14, 50), (2, 2, 700, 600), (3, 100, 5000, 50), (4, 1, 1024, 900), (5, 2, 3000, 4000)],
)
def test_gaps_are_the_lines_between_pieces_and_the_branches_of_use(seed, capacity, size, most):
    run = mixed(seed, 40 * UNIT + 300)
    static, whole = run.static(), run.chunk()
    recorder = _core.Recorder(capacity=capacity, signatures=8, branches=most, seed=seed)
    recorder.grow(*columns(static))
    for begin in range(0, len(whole), size):
        part = whole.part(begin, min(begin + size, len(whole)))
        recorder.observe(
            part.static_id, part.next_static_id, part.access_offset, part.address, part.size, part.is_store
        )
    assert (recorder.units, recorder.instructions) == (40, len(whole))
    held = recorder.held()
    assert min(capacity, 40) <= len(held) <= max(2 * capacity, 2)
    keep = held[:: 2 if len(held) > 4 else 1]
    recorder.keep(keep.tolist())
    pieces = recorder.pieces()
    assert np.array_equal(pieces["unit"][pieces["counted"]], keep)
    branches, units = _Branches(static, whole), pieces["unit"].tolist()
    near, near_in_all = _near_reads(whole), 0
    of_use: set[int] = set()  # to all units
    for k, unit in enumerate(units):
        if pieces["counted"][k]:
            warmed = k > 0 and units[k - 1] == unit - 1
            first, last = np.searchsorted(branches.place, [(unit - warmed) * UNIT, (unit + 1) * UNIT]).tolist()
            of_use |= branches.of_use(first, last, most)
    at, access, astray_in_all = 0, 0, 0
    flags = np.uint64(_core.DIRTY | _core.NEAR | _core.BELOW)
    for k, unit in enumerate(units):
        lines = _expected_lines(static, whole, at, unit * UNIT)
        touched = pieces["line"][slice(*pieces["line_offset"][k : k + 2])]
        below, code = (touched & _core.BELOW) != 0, (touched & _core.CODE) != 0
        last = {line: n for n, line in enumerate((touched & ~flags).tolist()) if not below[n]}
        final = np.isin(np.arange(len(touched)), list(last.values()))
        assert (touched & ~(np.uint64(_core.NEAR) | code * np.uint64(_core.MISPREDICTED)))[final].tolist() == lines
        seen = touched[below] & ~np.uint64(_core.BELOW)
        assert len(set(seen.tolist())) == len(seen)
        for line in seen.tolist():  # before it is touched for the last time, which only a first level sees
            assert touched[last[line]] & _core.NEAR
            assert last[line] > np.flatnonzero(below & (touched == line | _core.BELOW))[0]
        astray = touched[~final & ~below]  # before the last touch
        assert len(set(astray.tolist())) == len(astray)
        assert ((astray & flags) == _core.NEAR | _core.MISPREDICTED).all() and code[~final & ~below].all()
        astray_in_all += len(astray) + int((touched[final & code] & _core.MISPREDICTED != 0).sum())
        misses = slice(*pieces["miss_offset"][k : k + 2])
        assert (np.diff(pieces["miss_place"][misses].astype(np.int64)) >= 0).all()
        for address, place in zip(
            pieces["miss_address"][misses].tolist(), pieces["miss_place"][misses].tolist(), strict=True
        ):
            assert address >> 6 in touched >> np.uint64(_core.LINE_SHIFT)
            assert place <= len(touched)
        inside = [n for n in sorted(of_use) if at <= branches.place[n] < unit * UNIT]
        here = slice(*pieces["branch_offset"][k : k + 2])
        assert pieces["branch"][here].tolist() == branches.row[inside].tolist()
        assert pieces["branch_following"][here].tolist() == branches.following[inside].tolist()
        here = slice(*pieces["taken_offset"][k : k + 2])
        taken = zip(pieces["taken"][here].tolist(), pieces["taken_following"][here].tolist(), strict=True)
        assert list(taken) == branches.last_taken(at, unit * UNIT)
        known = _known(near, unit * UNIT)
        loads = _loads(whole, unit * UNIT, (unit + 1) * UNIT)
        here = slice(*pieces["near_offset"][k : k + 2])
        names = ("near_load", "near_store", "near_times", "near_same_bytes")
        told = list(zip(*(pieces[name][here].tolist() for name in names), strict=True))
        assert told == sorted((one, *pair) for one in loads for pair in known.get(one, ()))
        near_in_all += len(told)
        at = (unit + 1) * UNIT
        executed = whole.part(unit * UNIT, at)
        assert np.array_equal(pieces["static_id"][k * UNIT : (k + 1) * UNIT], executed.static_id)
        count = int(pieces["accesses"][k * UNIT : (k + 1) * UNIT].sum())
        assert np.array_equal(pieces["address"][access : access + count], executed.address)
        access += count
    assert all(unit == 0 or unit - 1 in pieces["unit"] for unit in keep.tolist())  # each has its warm-up
    assert astray_in_all > 0 or capacity == 100  # which leaves no gaps
    assert near_in_all > 0


def _loads(chunk, begin, end):
    """The instructions that load there."""
    places = [slice(*chunk.access_offset[k : k + 2]) for k in range(begin, end)]
    return {int(chunk.static_id[begin + k]) for k, one in enumerate(places) if not chunk.is_store[one].all()}


def test_what_loads_read_is_forgotten_after_250_000_of_them():
    run = Program([Instruction(flags=Flag.STORE), Instruction(flags=Flag.LOAD), Instruction(flags=Flag.LOAD)])
    for unit in range(490):
        for _ in range(UNIT // 2):
            run.execute(0, (0x1000, 8, 1))
            run.execute(1 if unit in (3, 480, 489) else 2, (0x1000, 8, 0))
    whole = run.chunk()
    recorder = _core.Recorder(capacity=1, signatures=8, branches=8, seed=1, listed=[480, 489])
    recorder.grow(*columns(run.static()))
    recorder.observe(
        whole.static_id, whole.next_static_id, whole.access_offset, whole.address, whole.size, whole.is_store
    )
    recorder.keep([480, 489])
    pieces = recorder.pieces()
    assert pieces["unit"].tolist() == [479, 480, 488, 489]
    assert pieces["near_load"].tolist() == [2, 1, 2]  # the 250,000th load is in unit 488
    assert pieces["near_offset"].tolist() == [0, 1, 2, 3, 3]
    assert pieces["near_store"].tolist() == [0, 0, 0]
    assert pieces["near_times"].tolist() == pieces["near_same_bytes"].tolist() == [478 * 512, 512, 486 * 512]


@pytest.mark.slow
def test_signatures_are_a_simple_random_sample_that_holds_the_units():
    run = mixed(5, 64 * UNIT)
    recorder = _core.Recorder(capacity=4, signatures=16, branches=8, seed=9)
    recorder.grow(*columns(run.static()))
    whole = run.chunk()
    recorder.observe(
        whole.static_id, whole.next_static_id, whole.access_offset, whole.address, whole.size, whole.is_store
    )
    numbers, rows = recorder.signatures()
    assert 16 <= len(numbers) <= 32 and len(rows) == len(numbers)
    assert set(recorder.held().tolist()) <= set(numbers.tolist())
    loads_and_stores = rows[:, 6:8].sum(axis=1)  # of each unit, known from the chunk
    for unit, count in zip(numbers.tolist(), loads_and_stores.tolist(), strict=True):
        offset = whole.access_offset[[unit * UNIT, (unit + 1) * UNIT]]
        assert count == offset[1] - offset[0]


def gap_before_unit_29(program, kept):
    """The lines before the warm-up of unit 30, the last of those kept: of one, the others were dissolved."""
    whole = program.chunk()
    recorder = _core.Recorder(capacity=64, signatures=8, branches=8, seed=1, listed=kept if len(kept) > 1 else [])
    recorder.grow(*columns(program.static()))
    recorder.observe(
        whole.static_id, whole.next_static_id, whole.access_offset, whole.address, whole.size, whole.is_store
    )
    recorder.keep(kept)
    pieces = recorder.pieces()
    assert pieces["unit"].tolist()[-2:] == [29, 30]
    return pieces["line"][slice(*pieces["line_offset"][-3:-1])]


@pytest.mark.parametrize("kept", [[5, 30], [30]], ids=["recorded", "dissolved"])
def test_a_line_in_constant_use_is_old_below_the_first_level(kept):
    """One load walks through lines, one reads the same line all the time: between it and its next touch a first level
    misses nothing of it, so that only the first touch of the run, and the first one for a long time, is seen below.
    """
    loads = Instruction(Operation.NONE, destinations=(1,), flags=Flag.LOAD)
    program, hot, other, first = Program([loads, loads]), 0x10000000, 0x10000040, 0x20000000
    pause = range(20 * UNIT, 25 * UNIT)  # without the line
    for turn in range(32 * UNIT // 2):
        program.execute(0, (other if 2 * turn in pause else hot, 8, 0))
        program.execute(1, (first + 64 * turn, 8, 0))
    gap = gap_before_unit_29(program, kept)
    line = hot >> 6 << _core.LINE_SHIFT
    here = np.flatnonzero(gap & ~np.uint64(15) == line)
    assert (gap[here] & np.uint64(15)).tolist() == [_core.BELOW, _core.NEAR]
    walked = (gap >> np.uint64(_core.LINE_SHIFT) << np.uint64(6)).astype(np.int64)
    around = [walked[here[0] - 1], walked[here[0] + 1]]  # lines of the walk, when it came back
    assert abs(around[0] - (first + 32 * 25 * UNIT)) <= 64 and abs(around[1] - around[0]) <= 64
    assert here[1] >= len(gap) - 4
    assert not (gap[walked >= first] & np.uint64(_core.NEAR | _core.BELOW)).any()


@pytest.mark.parametrize("kept", [[5, 30], [30]], ids=["recorded", "dissolved"])
def test_code_is_touched_where_its_branch_was_mispredicted_last(kept):
    """An indirect jump to a load that walks through lines, once to another one: so it is mispredicted twice, and
    predicted ever after.
    """
    jump = Instruction(Operation.BRANCH, flags=Flag.BRANCH | Flag.INDIRECT)
    load = Instruction(Operation.NONE, destinations=(1,), flags=Flag.LOAD)
    program, first, once = Program([jump, load, load]), 0x20000000, 20 * UNIT // 2
    for turn in range(32 * UNIT // 2):
        program.execute(0)
        program.execute(1 + (turn == once), (first + 64 * turn, 8, 0))
    gap = gap_before_unit_29(program, kept)
    code = np.flatnonzero(gap & np.uint64(_core.CODE))
    late = code[code > 100]  # not the first touch of all, which dissolved pieces still have
    assert (gap[late] & np.uint64(15)).tolist() == [
        _core.CODE | _core.MISPREDICTED | _core.NEAR,
        _core.CODE | _core.NEAR,
    ]
    walked = (gap[late[0] - 1] >> np.uint64(_core.LINE_SHIFT)) << np.uint64(6)
    assert abs(int(walked) - (first + 64 * once)) <= 128 and late[1] >= len(gap) - 2


def test_the_units_with_the_most_accesses_count():
    """Sixteen of 43 units with many accesses count, those with the most; others are as likely as ever."""
    unit = np.arange(300)
    accesses = np.where(unit % 7 == 3, 20_000 + 13 * unit, 1)  # of the first instruction of each unit
    run = mixed(5, UNIT)
    recorder = _core.Recorder(capacity=8, signatures=64, branches=8, seed=9)
    recorder.grow(*columns(run.static()))
    ids = np.zeros(UNIT, np.uint32)
    for one in accesses.tolist():
        offset = np.concatenate([[0], np.full(UNIT, one)]).astype(np.int64)
        recorder.observe(
            ids, ids, offset, np.arange(one, dtype=np.uint64), np.ones(one, np.uint8), np.ones(one, np.uint8)
        )
    heavy = np.flatnonzero(accesses > 1)
    assert recorder.take_all().tolist() == heavy[-16:].tolist()
    held = recorder.held()
    assert set(heavy[-16:]) <= set(held.tolist())
    assert 8 - 2 <= len(held) - np.isin(held, heavy[-16:]).sum() <= 16  # of those drawn some are among the heavy
    recorder.keep(held.tolist())
    pieces, before = recorder.pieces(), -1
    for k, own in enumerate(pieces["unit"].tolist()):
        lines = pieces["line"][slice(*pieces["line_offset"][k : k + 2])]
        most = max(accesses[before + 1 : own], default=0)  # of the gap: bytes from address 0 on
        assert {int(line) >> _core.LINE_SHIFT for line in lines if not line & _core.CODE} == set(
            range((most + 63) // 64)
        )
        before = own


@pytest.mark.parametrize("at_once", [True, False])
def test_of_units_with_as_many_accesses_the_first_ones_count(at_once):
    accesses = np.full(40, 1 << 17)
    accesses[[3, 30]] = 1 << 14, 1 << 18
    members = _core.TakeAll()
    if at_once:
        members.see(100, accesses)
    else:
        for unit, count in enumerate(accesses.tolist(), 100):
            members.see(unit, np.array([count]))
    assert members.units().tolist() == sorted([130, *(unit for unit in range(100, 116) if unit != 103)])


def test_the_steps_of_a_divide_are_the_nearest_to_their_mean():
    program = Program([Instruction(Operation.INT_DIV)])
    for _ in range(3):
        program.execute(0)
    divisions = np.arange(3, dtype=np.uint64)
    counter = DivisionCounter()
    counter.add(replace(program.chunk(), division_instruction=divisions, division_steps=np.array([3, 4, 4], np.uint8)))
    assert counter.steps().steps.tolist() == [4]
