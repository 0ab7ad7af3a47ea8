"""Passes that visit only some places give what they give when they visit every instruction."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.uarch.programs import Instruction, Program
from tracegen.control_flow import basic_blocks
from tracegen.control_flow.basic_blocks import BlockVectors
from tracegen.control_flow.straight_line import Places, find, successors
from tracegen.features import SCHEMAS, default, perfvec51
from uarch.instructions import LAST, Chunk, Flag, StaticInstructions

KINDS = [
    Flag(0),
    Flag(0),
    Flag(0),
    Flag.BRANCH,
    Flag.BRANCH | Flag.CONDITIONAL,
    Flag.BRANCH | Flag.CALL,
    Flag.BRANCH | Flag.INDIRECT | Flag.RETURN,
]


@st.composite
def runs(draw) -> tuple[StaticInstructions, Chunk]:
    """Instructions in any order, some of which overlap or have a gap behind them, and a walk that mostly goes on to
    the one behind, but may go anywhere, behind a branch or not.
    """
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    count = draw(st.integers(1, 60))
    program = Program(
        [
            Instruction(flags=KINDS[random.integers(len(KINDS))], length=int(random.integers(1, 16)))
            for _ in range(count)
        ]
    )
    here = 0
    for _ in range(draw(st.integers(1, 400))):
        accesses = [
            (int(random.integers(0, 3000)), int(random.integers(0, 70)), int(random.integers(2)))
            for _ in range(random.choice([0, 0, 0, 1, 2]))
        ]
        program.execute(here, *accesses)
        here = (here + 1) % count if random.random() < 0.8 else int(random.integers(count))
    static, chunk = program.static(), program.chunk()
    address = static.address + np.cumsum(random.choice([0, 0, 0, 0, 5], count)).astype(np.uint64)
    address[1:] -= (random.random(count - 1) < 0.1) & (address[1:] - address[:-1] > 1)
    order = random.permutation(count) if draw(st.booleans()) else np.arange(count)
    number = np.argsort(order).astype(np.uint32)
    following = np.where(chunk.next_static_id == LAST, LAST, number[np.minimum(chunk.next_static_id, count - 1)])
    columns = {
        name: value[order] if isinstance(value, np.ndarray) else value
        for name, value in vars(replace(static, address=address)).items()
    }
    return StaticInstructions(**columns), replace(
        chunk, static_id=number[chunk.static_id], next_static_id=following.astype(np.uint32)
    )


def everywhere(_: object, chunk: Chunk) -> Places:
    every = np.arange(len(chunk), dtype=np.int32)
    return Places(every, every)


@given(runs())
@settings(max_examples=60)
def test_the_places_are_those_of_the_definition(run):
    static, chunk = run
    ends, fetches = [], []
    before = None
    for k, here in enumerate(chunk.static_id.tolist()):
        first, behind = int(static.address[here]), int(static.address[here]) + int(static.length[here])
        following = chunk.next_static_id[k]
        if before is None or ends[-1:] == [k - 1] or len({(b - 1) // 64 for b in (first, first + 1, behind)}) > 1:
            fetches.append(k)
        goes_on = following != LAST and static.address[following] == behind
        if static.flags[here] & int(Flag.BRANCH) or not goes_on:
            ends.append(k)
        before = here
    found = find(successors(static), chunk)
    assert (found.ends.tolist(), found.fetches.tolist()) == (ends, fetches)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMAS)
@given(runs(), st.integers(1, 400))
@settings(max_examples=40)
def test_features_are_those_of_a_visit_to_every_instruction(name, run, size):
    static, chunk = run
    few, every = SCHEMAS[name].extractor(static), SCHEMAS[name].extractor(static)
    parts = [chunk.part(begin, begin + size) for begin in range(0, len(chunk), size)]
    parts = [replace(part, access_offset=part.access_offset - part.access_offset[0]) for part in parts]
    found = np.concatenate([few.extract(part) for part in parts])
    with patch.object(default, "find", everywhere), patch.object(perfvec51, "find", everywhere):
        assert (found == every.extract(chunk)).all()


@given(runs(), st.integers(1, 50))
@settings(max_examples=40)
def test_blocks_are_those_of_a_visit_to_every_instruction(run, interval):
    static, chunk = run
    few = BlockVectors(static, interval, sparse=True)
    few.observe(chunk)
    with patch.object(basic_blocks, "find", everywhere):
        every = BlockVectors(static, interval, sparse=True)
        every.observe(chunk)
    assert (few.projected() == every.projected()).all()
    for one, other in zip(vars(few.counts()).values(), vars(every.counts()).values(), strict=True):
        assert (one == other).all()
