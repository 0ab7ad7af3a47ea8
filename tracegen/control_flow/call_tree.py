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
from tracegen.control_flow.edges import Edges
from uarch.instructions import LAST, Chunk, Flag, StaticInstructions

MOST_NODES = 1 << 15  # calls that would make more are charged to their caller
MOST_DEPTH = 200  # likewise
MOST_LANDINGS = 1 << 12  # others are not told
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
        self._frames = np.zeros((1024, 3), np.int32)  # node, function, the call that made it
        self._landed = np.zeros((MOST_LANDINGS, 3), np.int64)  # call, where control came to, times
        self._state = np.array([1, -1, 0], np.int64)  # nodes, top of the stack, landings

    def observe(self, chunk: Chunk) -> NDArray[np.int64]:
        """[n] the node of each instruction of the next chunk."""
        deepest = self._state[1] + 2 + int(np.count_nonzero(self._flags[chunk.static_id] & _CALL))
        if deepest > len(self._frames):
            more = max(int(deepest), 2 * len(self._frames)) - len(self._frames)
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
            self._frames,
            self._landed,
            self._state,
            node,
        )
        return node

    def tree(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Parent [K] (-1 for the root; a parent comes before its children) and function [K] of each node."""
        nodes = self._nodes[: self._state[0]].astype(np.int64)
        return nodes[:, _PARENT], nodes[:, _FUNCTION]

    def landings(self) -> Edges:
        """From the calls that were left by longjmp or an exception to where control came in their function."""
        return Edges(*self._landed[: self._state[2]].T.copy())


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


@cached()
def _land(landed: NDArray[np.int64], state: NDArray[np.int64], call: int, there: int) -> None:
    at = 0
    while at < state[2] and (landed[at, 0] != call or landed[at, 1] != there):
        at += 1
    if at < len(landed):
        landed[at, 0], landed[at, 1] = call, there
        landed[at, 2] += 1
        state[2] = max(state[2], at + 1)


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
    frames: NDArray[np.int32],
    landed: NDArray[np.int64],
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
            frames[top + 1, 2] = here
            _enter(nodes, frames, state, top + 1, there)
            continue
        back = top
        if flags[here] & _RETURN:
            while back > 0 and through[frames[back, 2]] != address[following]:
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
            _land(landed, state, frames[back + 1, 2], following)
            state[1] = back
        else:
            _enter(nodes, frames, state, top, there)
