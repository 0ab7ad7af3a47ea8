"""The calling-context tree of a trace: for each executed instruction, its function and the calls that led there.

As in Ammons, Ball & Larus, *Exploiting hardware performance counters with flow and context sensitive profiling* (PLDI
1997, §4), from a shadow stack that calls and returns move. A return goes to the frame that expects its address and
drops those above, so that longjmp and exceptions leave none behind. Where control enters another function by neither,
it is a frame below that is gone back to (longjmp into it), or the innermost frame becomes that function (tail call,
linkage stub, signal handler): an instruction's node is always of the function that it is in.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from support.jit import cached
from uarch.instructions import LAST, Chunk, Flag, StaticInstructions

MOST_NODES = 1 << 15  # calls that would make more are charged to their caller
MOST_DEPTH = 200  # likewise
_CALL, _RETURN = int(Flag.CALL), int(Flag.RETURN)
_PARENT, _FUNCTION, _DEPTH, _CHILD, _SIBLING = range(5)


class CallTree:
    """Fed with a trace's chunks; `observe` gives each instruction's node. Node 0 is the root and has no function.

    `function` [S] numbers the functions. `entry` [S] marks where a jump from another function is never a way back to a
    frame, as where it begins. A function that calls itself stays in its node.
    """

    def __init__(
        self, instructions: StaticInstructions, function: NDArray[np.integer], entry: NDArray[np.bool_]
    ) -> None:
        self._address = instructions.address
        self._through = instructions.address + instructions.length
        self._flags = instructions.flags
        self._function = function.astype(np.int32)
        self._entry = entry
        self._nodes = np.full((MOST_NODES, 5), -1, np.int32)
        self._nodes[0, _DEPTH] = 0
        self._return = np.zeros(1024, np.uint64)
        self._frames = np.zeros((1024, 2), np.int32)  # node, function
        self._state = np.array([1, -1], np.int64)  # nodes, top of the stack

    def observe(self, chunk: Chunk) -> NDArray[np.int64]:
        """[n] the node of each instruction of the next chunk."""
        deepest = self._state[1] + 2 + int(np.count_nonzero(self._flags[chunk.static_id] & _CALL))
        if deepest > len(self._return):
            more = max(int(deepest), 2 * len(self._return)) - len(self._return)
            self._return = np.pad(self._return, (0, more))
            self._frames = np.pad(self._frames, ((0, more), (0, 0)))
        node = np.empty(len(chunk), np.int64)
        _walk(
            chunk.static_id,
            chunk.next_static_id,
            self._address,
            self._through,
            self._flags,
            self._function,
            self._entry,
            self._nodes,
            self._return,
            self._frames,
            self._state,
            node,
        )
        return node

    def tree(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Parent [K] (-1 for the root; a parent comes before its children) and function [K] of each node."""
        nodes = self._nodes[: self._state[0]].astype(np.int64)
        return nodes[:, _PARENT], nodes[:, _FUNCTION]


@cached()
def _child(nodes: NDArray[np.int32], state: NDArray[np.int64], node: int, function: int) -> int:
    """The node of `function` called from `node`, made where there is none yet."""
    if nodes[node, _FUNCTION] == function:
        return node
    at = nodes[node, _CHILD]
    while at >= 0:
        if nodes[at, _FUNCTION] == function:
            return at
        at = nodes[at, _SIBLING]
    new = state[0]
    if new == len(nodes) or nodes[node, _DEPTH] == MOST_DEPTH:
        return node
    state[0] += 1
    nodes[new, _PARENT] = node
    nodes[new, _FUNCTION] = function
    nodes[new, _DEPTH] = nodes[node, _DEPTH] + 1
    nodes[new, _SIBLING] = nodes[node, _CHILD]
    nodes[node, _CHILD] = new
    return new


@cached()
def _enter(
    nodes: NDArray[np.int32], frames: NDArray[np.int32], state: NDArray[np.int64], top: int, function: int
) -> None:
    """The frame at `top` is one of `function` now."""
    caller = frames[top - 1, 0] if top > 0 else 0
    frames[top, 0] = _child(nodes, state, caller, function)
    frames[top, 1] = function
    state[1] = top


@cached(nogil=True)
def _walk(
    static_id: NDArray[np.uint32],
    next_static_id: NDArray[np.uint32],
    address: NDArray[np.uint64],
    through: NDArray[np.uint64],
    flags: NDArray[np.uint16],
    function: NDArray[np.int32],
    entry: NDArray[np.bool_],
    nodes: NDArray[np.int32],
    expected: NDArray[np.uint64],
    frames: NDArray[np.int32],
    state: NDArray[np.int64],
    node: NDArray[np.int64],
) -> None:
    if state[1] < 0:
        _enter(nodes, frames, state, 0, function[static_id[0]])
    for k in range(len(static_id)):
        here, following = static_id[k], next_static_id[k]
        top = state[1]
        node[k] = frames[top, 0]
        if following == LAST:
            return
        there = function[following]
        if flags[here] & _CALL:
            expected[top + 1] = through[here]
            _enter(nodes, frames, state, top + 1, there)
            continue
        back = top
        if flags[here] & _RETURN:
            while back > 0 and expected[back] != address[following]:
                back -= 1
            if back > 0:
                back -= 1
                state[1] = back
                if frames[back, 1] != there:
                    _enter(nodes, frames, state, back, there)
                continue
            back = top
        if there == frames[top, 1]:
            continue
        if not entry[following]:
            while back >= 0 and frames[back, 1] != there:
                back -= 1
        else:
            back = -1
        if back >= 0:
            state[1] = back
        else:
            _enter(nodes, frames, state, top, there)
