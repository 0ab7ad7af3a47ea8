"""The calling-context tree of runs written by hand: calls, returns, longjmp, tail calls, limits."""

import numpy as np
import pytest

from tests.uarch.programs import Instruction, Program
from tracegen.control_flow import call_tree
from tracegen.control_flow.call_tree import CallTree
from uarch.instructions import Flag

PLAIN, JUMP = Instruction(), Instruction(flags=Flag.BRANCH | Flag.INDIRECT)
CALL, RETURN = Instruction(flags=Flag.BRANCH | Flag.CALL), Instruction(flags=Flag.BRANCH | Flag.RETURN)
# Four functions of four instructions: plain, call, jump, return; function k is 4k-4 … 4k-1.
CODE = [PLAIN, CALL, JUMP, RETURN] * 4


def walked(executed, part=None, unknown=None):
    """Return the tree and each executed instruction's node; `unknown` is a function of which no way back to a frame
    can be told.
    """
    program = Program(CODE)
    for number in executed:
        program.execute(number)
    static, chunk = program.static(), program.chunk()
    place = np.arange(len(CODE))
    tree = CallTree(static, place // 4 + 1, (place % 4 == 0) | (place // 4 + 1 == unknown))
    part = part or len(chunk)
    return tree, np.concatenate(
        [tree.observe(chunk.part(b, min(b + part, len(chunk)))) for b in range(0, len(chunk), part)]
    )


def stacks_of(executed, part=None, unknown=None):
    """Return the functions of each executed instruction from the outermost on, as text."""
    tree, nodes = walked(executed, part, unknown)
    parent, function = tree.tree()

    def stack(node):
        return "" if node == 0 else stack(parent[node]) + str(function[node])

    return [stack(node) for node in nodes.tolist()]


@pytest.mark.parametrize("part", [None, 1, 3])
def test_calls_and_returns(part):
    run = [0, 1, 4, 5, 8, 11, 6, 7, 2, 1, 8, 11, 2]
    assert stacks_of(run, part) == ["1", "1", "12", "12", "123", "123", "12", "12", "1", "1", "13", "13", "1"]


def test_a_return_to_an_outer_frame_drops_those_between():
    # 1 calls 2 calls 3, whose return goes behind 1's call
    assert stacks_of([1, 4, 5, 8, 11, 2]) == ["1", "12", "12", "123", "123", "1"]


def test_longjmp_goes_back_to_the_frame_that_it_lands_in():
    # a jump from 3 into the middle of 1, which then calls 4 and gets its return
    assert stacks_of([1, 4, 5, 8, 10, 3 - 2, 12, 15, 2]) == ["1", "12", "12", "123", "123", "1", "14", "14", "1"]


@pytest.mark.parametrize("part", [None, 1])
def test_landings_are_from_the_call_that_was_left(part, monkeypatch):
    # twice a jump from 3, by way of 2, to the end of 1, which called at its second instruction; then one from 2
    run = [0, *[1, 4, 5, 8, 10, 3, 0] * 2, 1, 4, 6, 3]
    tree, _ = walked(run, part)
    assert np.transpose(tree.landings()).tolist() == [[1, 3, 3]]
    again = [*run, 0, 1, 4, 6, 2]
    assert np.transpose(walked(again, part)[0].landings()).tolist() == [[1, 3, 3], [1, 2, 1]]
    monkeypatch.setattr(call_tree, "MOST_LANDINGS", 1)
    assert np.transpose(walked(again, part)[0].landings()).tolist() == [[1, 3, 3]]


def test_a_tail_call_takes_the_place_of_its_caller():
    assert stacks_of([1, 4, 6, 8, 11, 2]) == ["1", "12", "12", "13", "13", "1"]


def test_a_tail_call_of_an_outer_function_is_no_way_back_to_it():
    # 3 jumps to where 1 begins
    assert stacks_of([1, 4, 5, 8, 10, 0]) == ["1", "12", "12", "123", "123", "121"]


def test_a_jump_into_code_without_symbols_is_a_tail_call():
    # 1, as a stripped library, calls 2, which calls a stub 3 that jumps to another function of the library
    run = [1, 4, 5, 8, 10, 2, 3, 6, 7, 2]
    assert stacks_of(run, unknown=1) == ["1", "12", "12", "123", "123", "121", "121", "12", "12", "1"]
    assert stacks_of(run)[5] == "1"


def test_a_trace_that_begins_within_a_function_returns_beyond_its_start():
    assert stacks_of([8, 11, 6, 7, 2]) == ["3", "3", "2", "2", "1"]


def test_recursion_stays_in_its_node_and_unwinds():
    assert stacks_of([1, 0, 1, 0, 1, 4, 7, 2, 3, 2, 3, 2]) == ["1"] * 5 + ["12", "12"] + ["1"] * 5


def test_what_is_too_many_or_too_deep_is_charged_to_the_caller(monkeypatch):
    # 1 and 2 call each other without end
    deep = stacks_of([1, 4, 5, 0] * 500)
    assert max(map(len, deep)) == call_tree.MOST_DEPTH
    monkeypatch.setattr(call_tree, "MOST_NODES", 3)
    assert set(stacks_of([1, 4, 5, 8, 9, 12])) == {"1", "12"}
