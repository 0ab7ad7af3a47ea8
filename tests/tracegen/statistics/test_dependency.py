"""Producers and lags against a plain account of registers and words."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.uarch.programs import Instruction, Program
from tracegen.statistics import dependency
from tracegen.statistics.quantise import code_tables, quantise
from uarch.instructions import MAX_DESTINATIONS, MAX_SOURCES, Flag, Operation

REGISTERS = st.integers(0, 9)
INSTRUCTIONS = st.builds(
    Instruction,
    operation=st.sampled_from([Operation.INT_ALU, Operation.FP_DIV, Operation.NONE]),
    sources=st.lists(REGISTERS, max_size=MAX_SOURCES, unique=True),
    destinations=st.lists(REGISTERS, max_size=MAX_DESTINATIONS, unique=True),
    flags=st.sampled_from([Flag(0), Flag.LOAD]),
)
ACCESSES = st.lists(st.tuples(st.integers(0, 7).map(lambda word: 8 * word), st.just(8), st.integers(0, 1)), max_size=2)


def by_hand(program: Program) -> list[list[int]]:
    """[n][4] nearest and second producer, forwarding store (−1: none), lag."""
    writer: dict[int, int] = {}
    ready: dict[int, int] = {}
    stored: dict[int, tuple[int, int]] = {}
    front, rows = 0, []
    nominal = dependency.NOMINAL_CYCLES
    for k, number in enumerate(program.ids):
        here = program.instructions[number]
        producers = sorted({writer[r] for r in here.sources if r in writer}, reverse=True)
        accesses = [access for access in program.accesses if access[0] == k]
        read = [stored[word] for _, word, _, store in accesses if not store and word in stored]
        oldest = max(front - dependency.HISTORY_CYCLES, 0)
        begin = max([oldest, *(ready.get(r, 0) for r in here.sources), *(t for _, t in read)])
        done = begin + int(nominal[here.operation]) + 3 * bool(here.flags & Flag.LOAD)
        for r in here.destinations:
            writer[r], ready[r] = k, done
        stored |= {word: (k, done) for _, word, _, store in accesses if store}
        front = max(front, done)
        near = [k - p for p in producers[:2]] + [-1, -1]
        rows.append(
            [*near[:2], max([k - index for index, _ in read if index == max(read)[0]], default=-1), front - done]
        )
    return rows


@given(st.lists(INSTRUCTIONS, min_size=1, max_size=12), st.lists(ACCESSES, min_size=1, max_size=80), st.randoms())
@settings(max_examples=60)
def test_distances_and_lags_are_those_of_the_definition(instructions, accesses, random):
    program = Program(instructions)
    for each in accesses:
        program.execute(random.randrange(len(instructions)), *each)
    chunk = program.chunk()
    out = np.zeros((len(chunk), 4), np.uint8)
    dependency.observe(
        dependency.initial_state(),
        0,
        dependency.rows_of(program.static()),
        chunk.static_id,
        chunk.access_offset,
        chunk.address,
        chunk.is_store,
        code_tables(),
        (0, 1, 2, 3),
        out,
    )
    assert (out == quantise(np.array(by_hand(program)))).all()
