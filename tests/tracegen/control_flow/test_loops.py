"""Executed edges and natural loops of graphs written by hand."""

import numpy as np

from tests.uarch.programs import Instruction, Program
from tracegen.control_flow.edges import EdgeCounter, Edges
from tracegen.control_flow.loops import find_loops
from uarch.instructions import Flag

BRANCH = Instruction(flags=Flag.BRANCH | Flag.CONDITIONAL)
CALL = Instruction(flags=Flag.BRANCH | Flag.CALL)
RETURN = Instruction(flags=Flag.BRANCH | Flag.RETURN)
PLAIN = Instruction()


def loops_of(instructions, executed, function=None, part=None, landings=()):
    program = Program(list(instructions))
    for number in executed:
        program.execute(number)
    static, chunk = program.static(), program.chunk()
    counter = EdgeCounter(len(static))
    for begin in range(0, len(chunk), part or len(chunk)):
        counter.observe(chunk.part(begin, min(begin + (part or len(chunk)), len(chunk))))
    landed = Edges(*np.array(landings, np.int64).reshape(-1, 3).T)
    return find_loops(static, counter.edges(), np.array(function or [0] * len(instructions)), landed)


def test_edges_are_counted_across_parts():
    program = Program([PLAIN] * 3)
    for number in (0, 1, 0, 1, 2):
        program.execute(number)
    for part in (1, 2, 5):
        counter = EdgeCounter(3)
        for begin in range(0, 5, part):
            counter.observe(program.chunk().part(begin, min(begin + part, 5)))
        edges = counter.edges()
        assert list(zip(edges.source.tolist(), edges.target.tolist(), edges.times.tolist(), strict=True)) == [
            (0, 1, 2),
            (1, 0, 1),
            (1, 2, 1),
        ]


def test_straight_code_has_no_loop():
    found = loops_of([PLAIN] * 4, [0, 1, 2, 3])
    assert len(found.header) == 0
    assert found.innermost.tolist() == [-1] * 4


def test_nested_loops_and_their_iterations():
    # 0; outer 1 … 4, inner 2 … 3; 5
    inner = [2, 3] * 3
    found = loops_of([PLAIN, PLAIN, PLAIN, BRANCH, BRANCH, PLAIN], [0, *([1, *inner, 4] * 2), 5], part=3)
    assert found.header.tolist() == [2, 1]
    assert found.latch.tolist() == [3, 4]
    assert found.depth.tolist() == [2, 1]
    assert found.parent.tolist() == [1, -1]
    assert found.entries.tolist() == [2, 1]
    assert found.innermost.tolist() == [-1, 1, 0, 0, 1, -1]


def test_two_back_edges_to_one_header_are_one_loop():
    found = loops_of([PLAIN, BRANCH, BRANCH, PLAIN], [0, 1, 0, 1, 2, 0, 1, 2, 3])
    assert found.header.tolist() == [0]
    assert found.entries.tolist() == [1]
    assert found.innermost.tolist() == [0, 0, 0, -1]


def test_the_latch_is_the_back_edge_taken_most_often():
    found = loops_of([PLAIN, BRANCH, BRANCH, PLAIN], [0, 1, 0, 1, 0, 1, 2, 0, 1, 2, 3])
    assert (found.header.tolist(), found.latch.tolist(), found.entries.tolist()) == ([0], [1], [1])


def test_a_call_into_a_cycle_is_an_entry_of_it():
    # 1 … 2 goes round twice; it is entered at 1 by way of 0, and at 2 by the second call
    code = [PLAIN, PLAIN, BRANCH, RETURN, CALL, CALL, PLAIN]
    found = loops_of(code, [4, 0, 1, 2, 1, 2, 3, 5, 2, 1, 2, 3, 6], [1, 1, 1, 1, 2, 2, 2])
    assert len(found.header) == 0


def test_a_loop_of_one_instruction():
    found = loops_of([PLAIN, BRANCH, PLAIN], [0, 1, 1, 1, 2])
    assert found.header.tolist() == found.latch.tolist() == [1]
    assert found.entries.tolist() == [1]


def test_a_loop_goes_on_behind_a_call_and_does_not_hold_what_it_calls():
    # 0 … 2 is a loop with a call of 4 … 5
    found = loops_of(
        [PLAIN, CALL, BRANCH, RETURN, PLAIN, RETURN], [0, 1, 4, 5, 2, 0, 1, 4, 5, 2, 3], [1, 1, 1, 1, 2, 2]
    )
    assert found.header.tolist() == [0]
    assert found.innermost.tolist() == [0, 0, 0, -1, -1, -1]


def test_recursion_is_no_loop():
    found = loops_of([PLAIN, CALL, PLAIN, RETURN], [0, 1, 0, 1, 0, 1, 2, 3, 2, 3])
    assert len(found.header) == 0


def test_a_cycle_with_two_entries_is_no_loop():
    # 0 goes to 1 or 3; 1 → 2 → 3 → 1 has both as entries
    found = loops_of([BRANCH, PLAIN, PLAIN, BRANCH, BRANCH], [0, 1, 2, 3, 1, 2, 3, 4, 0, 3, 1, 2, 3, 4])
    assert 1 not in found.header.tolist()
    assert 3 not in found.header.tolist()
    assert 0 in found.header.tolist()  # the cycle around it, by way of 4


def test_a_trace_that_begins_within_a_loop():
    found = loops_of([PLAIN, PLAIN, BRANCH], [1, 2, 0, 1, 2, 0, 1, 2])
    assert len(found.header) == 1
    assert found.innermost.tolist() == [0, 0, 0]


def test_a_loop_that_goes_on_behind_a_call_is_entered_once():
    """The code of `while (g()) h()`: from the call of h on to the test, of which a call is a part."""
    found = loops_of([PLAIN, PLAIN, CALL, BRANCH, PLAIN, RETURN], [0, 3, 1, 2, 5, 3, 1, 2, 5, 3, 4], [1, 1, 1, 1, 1, 2])
    assert found.entries.tolist() == [1]


def test_a_call_that_never_returns_does_not_go_on_behind_itself():
    # 1 jumps over the call 2 of 6 to the loop 3 … 4, and 4 to 2 in the end
    code = [PLAIN, BRANCH, CALL, PLAIN, BRANCH, RETURN, PLAIN]
    found = loops_of(code, [0, 1, 3, 4, 3, 4, 2, 6], [1, 1, 1, 1, 1, 1, 2])
    assert found.header.tolist() == [3]
    assert (found.entries.tolist(), found.depth.tolist()) == ([1], [1])
    assert found.innermost.tolist() == [-1, -1, -1, 0, 0, -1, -1]


def test_a_loop_holds_the_landing_pad_of_a_call_within_it():
    # The loop 1 … 3 calls 6; once 7 jumps to the pad 5, which goes on at 3.
    code = [PLAIN, PLAIN, CALL, BRANCH, RETURN, BRANCH, PLAIN, BRANCH, RETURN]
    again, thrown = [1, 2, 6, 8, 3], [1, 2, 6, 7, 5, 3]
    found = loops_of(code, [0, *again, *thrown, *again, 4], [1] * 6 + [2] * 3, landings=[(2, 5, 1)])
    assert (found.header.tolist(), found.entries.tolist()) == ([1], [1])
    assert found.innermost.tolist() == [-1, 0, 0, 0, -1, 0, -1, -1, -1]


def test_a_landing_where_a_call_returned_is_no_edge():
    # 0 is setjmp's call, 2 that of 5, from where longjmp goes behind the former, once
    code = [CALL, PLAIN, CALL, RETURN, RETURN, BRANCH]
    found = loops_of(code, [0, 4, 1, 2, 5, 1, 3], [1] * 4 + [2, 3], landings=[(2, 1, 1)])
    assert len(found.header) == 0


def test_a_signal_does_not_enter_the_loop_that_it_interrupts():
    # The handler 4 … 5 comes between 2 and 1 of the loop, twice.
    system_call = Instruction(flags=Flag.SYSCALL)
    code = [PLAIN, PLAIN, BRANCH, PLAIN, PLAIN, system_call]
    signal = [4, 5]
    for function in ([1, 1, 1, 1, 2, 2], [1] * 6):
        found = loops_of(code, [0, 1, 2, *signal, 1, 2, 1, 2, *signal, 1, 2, 3], function)
        assert (found.header.tolist(), found.entries.tolist()) == ([1], [1])
