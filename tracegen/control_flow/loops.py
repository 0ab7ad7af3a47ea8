"""Natural loops of the executed control flow.

A back edge goes to an instruction that dominates it; its natural loop is what reaches it without passing that header,
and loops with one header are one (Aho, Lam, Sethi & Ullman, *Compilers*, 2nd ed., §9.6.6). Dominators by Cooper, Harvey
& Kennedy, *A Simple, Fast Dominance Algorithm* (Rice University, 2001). The graph has only edges that the trace took,
within one function; a call that returns goes on behind itself, one that throws where that is caught. A cycle with two
entries (irreducible; Havlak, TOPLAS 1997) is none.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracegen.control_flow.edges import NO_EDGES, Edges
from uarch.instructions import Flag, StaticInstructions

_CALL, _RETURN, _SYSCALL = int(Flag.CALL), int(Flag.RETURN), int(Flag.SYSCALL)


@dataclass(frozen=True)
class Loops:
    """L loops, and of each static instruction the innermost that it is in."""

    header: NDArray[np.int64]  # [L] static id
    latch: NDArray[np.int64]  # [L] source of the back edge that was taken most often
    parent: NDArray[np.int64]  # [L] the loop around it, -1 for none
    depth: NDArray[np.int64]  # [L] 1 for an outermost loop
    entries: NDArray[np.int64]  # [L] times control came to the header from outside, at least 1
    innermost: NDArray[np.int64]  # [S] -1 outside loops


def find_loops(
    instructions: StaticInstructions, edges: Edges, function: NDArray[np.integer], landings: Edges = NO_EDGES
) -> Loops:
    """The loops in `edges`; `function` [S] numbers each instruction's function, loops do not cross functions.

    `landings`, from calls that were left to where control came in their function, count where nothing else goes to.
    """
    flags = instructions.flags
    through = instructions.address + instructions.length
    calling, returning = (flags[edges.source] & _CALL) != 0, (flags[edges.source] & _RETURN) != 0
    # Behind a signal control is back where it was interrupted, and that is no entry.
    resuming = ((flags[edges.source] & _SYSCALL) != 0) & (through[edges.source] != instructions.address[edges.target])
    inside = ~(calling | returning | resuming) & (function[edges.source] == function[edges.target])
    entered = np.unique(edges.target[calling])
    # A call goes on behind itself where something returned there.
    before, after = np.maximum(edges.target - 1, 0), edges.target
    returned = returning & ((flags[before] & _CALL) != 0) & (through[before] == instructions.address[after])
    returned &= function[before] == function[after]
    behind, place = np.unique(after[returned], return_inverse=True)
    times = np.bincount(place, edges.times[returned], len(behind)).astype(np.int64)
    pads = ~np.isin(landings.target, np.concatenate([edges.target[inside], behind, entered]))
    source = np.concatenate([edges.source[inside], behind - 1, landings.source[pads]])
    target = np.concatenate([edges.target[inside], behind, landings.target[pads]])
    count = np.concatenate([edges.times[inside], times, landings.times[pads]])
    arrived = np.bincount(edges.target[~resuming], edges.times[~resuming], len(instructions)).astype(np.int64)

    executed = np.unique(np.concatenate([edges.source, edges.target, source]))
    lowest = executed[np.unique(function[executed], return_index=True)[1]]  # a function without a call begins there
    block, members = _blocks(len(instructions), executed, source, target, np.union1d(entered, lowest))
    successors: list[list[int]] = [[] for _ in members]
    predecessors: list[list[int]] = [[] for _ in members]
    last = np.array([chain[-1] for chain in members], np.int64)
    leaving = source == last[block[source]]  # all others stay in their block
    for u, v in zip(block[source[leaving]].tolist(), block[target[leaving]].tolist(), strict=True):
        successors[u].append(v)
        predecessors[v].append(u)
    roots = [b for b in range(len(members)) if not predecessors[b]]
    roots += sorted(set(block[entered].tolist()) - set(roots))
    order, dominator = _dominators(successors, predecessors, roots)

    bodies: dict[int, set[int]] = {}
    taken: dict[int, dict[int, int]] = defaultdict(dict)
    for u, v, number in zip(source[leaving].tolist(), target[leaving].tolist(), count[leaving].tolist(), strict=True):
        tail, head = int(block[u]), int(block[v])
        if _dominates(head, tail, order, dominator):
            _add_body(bodies.setdefault(head, {head}), tail, predecessors)
            taken[head][u] = number
    return _nest(arrived, members, bodies, taken)


def _blocks(
    statics: int,
    executed: NDArray[np.int64],
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    entered: NDArray[np.int64],
) -> tuple[NDArray[np.int64], list[list[int]]]:
    """Basic blocks: the block of each instruction [S] (-1: never executed), and each block's instructions in order."""
    in_degree, out_degree = np.bincount(target, minlength=statics), np.bincount(source, minlength=statics)
    follower = np.full(statics, -1, np.int64)
    follower[source] = target
    leader = np.zeros(statics, bool)
    leader[executed] = in_degree[executed] != 1
    leader[target[out_degree[source] != 1]] = True
    leader[entered] = True
    block = np.full(statics, -1, np.int64)
    members: list[list[int]] = []

    def grow(first: int) -> None:
        chain, at = [], first
        while at >= 0 and block[at] < 0 and (at == first or not leader[at]):
            block[at] = len(members)
            chain.append(at)
            at = int(follower[at]) if out_degree[at] == 1 else -1
        members.append(chain)

    for first in np.flatnonzero(leader).tolist():
        grow(first)
    for first in executed[block[executed] < 0].tolist():  # cycles that nothing enters
        if block[first] < 0:
            grow(first)
    return block, members


def _dominators(
    successors: list[list[int]], predecessors: list[list[int]], roots: list[int]
) -> tuple[list[int], list[int]]:
    """Return each block's place in reverse postorder (from 1 on) and immediate dominator (-1: only the start).

    Blocks that no root reaches get the first of them, in address order, as a further root.
    """
    blocks = len(successors)
    postorder: list[int] = []
    seen = [False] * blocks
    starts = set()
    for root in [*roots, *range(blocks)]:
        if seen[root]:
            continue
        starts.add(root)
        seen[root] = True
        stack = [(root, iter(successors[root]))]
        while stack:
            at, following = stack[-1]
            after = next((v for v in following if not seen[v]), None)
            if after is None:
                postorder.append(at)
                stack.pop()
            else:
                seen[after] = True
                stack.append((after, iter(successors[after])))
    starts.update(roots)
    order = [0] * blocks
    for place, at in enumerate(reversed(postorder), 1):
        order[at] = place
    unknown, start = -2, -1
    dominator = [unknown] * blocks

    def common(a: int, b: int) -> int:
        while a != b:
            if a == start or b == start:
                return start
            if order[a] > order[b]:
                a = dominator[a]
            else:
                b = dominator[b]
        return a

    changed = True
    while changed:
        changed = False
        for at in reversed(postorder):
            found = start if at in starts else unknown
            for before in predecessors[at]:
                if dominator[before] != unknown:
                    found = before if found == unknown else common(found, before)
            if found != dominator[at]:
                dominator[at] = found
                changed = True
    return order, dominator


def _dominates(head: int, at: int, order: list[int], dominator: list[int]) -> bool:
    while at >= 0 and order[at] > order[head]:
        at = dominator[at]
    return at == head


def _add_body(body: set[int], tail: int, predecessors: list[list[int]]) -> None:
    waiting = [tail]
    while waiting:
        at = waiting.pop()
        if at not in body:
            body.add(at)
            waiting.extend(predecessors[at])


def _nest(
    arrived: NDArray[np.int64], members: list[list[int]], bodies: dict[int, set[int]], taken: dict[int, dict[int, int]]
) -> Loops:
    """Loops of bodies in blocks by header; `arrived` [S]: times control came to each instruction from anywhere."""
    heads = sorted(bodies, key=lambda head: (len(bodies[head]), head))  # an inner loop is smaller than its outer one
    innermost = np.full(len(arrived), -1, np.int64)
    around: dict[int, list[int]] = defaultdict(list)
    for number, head in enumerate(heads):
        for at in bodies[head]:
            around[at].append(number)
    for at, numbers in around.items():
        innermost[members[at]] = numbers[0]
    parent = np.full(len(heads), -1, np.int64)
    for number, head in enumerate(heads):
        parent[number] = next((outer for outer in around[head] if outer > number), -1)
    depth = np.ones(len(heads), np.int64)
    for number in range(len(heads) - 1, -1, -1):
        if parent[number] >= 0:
            depth[number] = depth[parent[number]] + 1
    header = np.array([members[head][0] for head in heads], np.int64)
    repeats = np.array([sum(taken[head].values()) for head in heads], np.int64)
    return Loops(
        header=header,
        latch=np.array([max(taken[head], key=lambda u: taken[head][u]) for head in heads], np.int64),
        parent=parent,
        depth=depth,
        entries=np.maximum(arrived[header] - repeats, 1),  # what runs was entered, seen or not
        innermost=innermost,
    )
