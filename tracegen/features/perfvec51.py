"""The schema `perfvec-51`: the 51 features of PerfVec (arXiv 2310.16792, table I), kept for comparison.

15 operation features, 28 register features (class and index of 8 sources and 6 destinations), 2 of execution behaviour
(fault, branch taken), 4 stack distances at cache-line granularity (instruction fetch, data, loads, stores), and the
global and local branch entropy. Where a machine's micro-code would tell (squash or serialise after), the nearest
property of the decoded instruction stands in. A fault is not visible in a user-mode trace other than a system call.
The entropies are those that the paper describes, over global and local history; the peer's published code computes a
branch's entropy from its own last eight outcomes and calls it global.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.jit import compiled, kernel
from tracegen.control_flow.straight_line import LINE_BITS, find, successors
from tracegen.features.schema import Column, Extractor, Schema, flags_as_one
from tracegen.statistics import branch_entropy
from tracegen.statistics.branch_entropy import NO_COLUMN, Sites, goes_elsewhere
from tracegen.statistics.stack_distance import StackDistance, StackState, has_room, prefetch_line, touch
from uarch.instructions import (
    FLAGS_REGISTER,
    MAX_DESTINATIONS,
    MAX_SOURCES,
    NO_REGISTER,
    VECTOR_REGISTERS,
    Chunk,
    Flag,
    Operation,
    StaticInstructions,
)

_FAR = 1 << 24  # stored for a first reference: farther than any cache reaches
_ENTROPY_STEPS = 1 << 16
_PART = 1 << 14  # instructions that both passes see before the next ones
_AHEAD = 8  # accesses whose lines are looked up ahead of time
_SYSCALL = int(Flag.SYSCALL)
_FAULT, _TAKEN, _FETCH, _DATA, _LOAD, _STORE, _GLOBAL, _LOCAL = range(8)

_OPERATION_NAMES = (
    "operation",
    "microcoded",
    "conditional_branch",
    "unconditional_branch",
    "direct_branch",
    "indirect_branch",
    "call",
    "return",
    "squash_after",
    "serialize_after",
    "serialize_before",
    "atomic",
    "store_conditional",
    "memory_barrier",
    "non_speculative",
)
_SCALES = (1.0, 1.0, 2.0**-10, 2.0**-10, 2.0**-10, 2.0**-10, 1.0 / _ENTROPY_STEPS, 1.0 / _ENTROPY_STEPS)
_NAMES = ("fault", "taken", "fetch", "data", "load", "store", "global_entropy", "local_entropy")


@compiled
def _bounded(distance: np.int64) -> np.uint32:
    return np.uint32(np.int64(_FAR) if distance < 0 or distance > _FAR else distance)


@kernel
def _distances(
    fetch: StackState,
    data: StackState,
    loads: StackState,
    stores: StackState,
    sites: Sites,
    static_id: NDArray[np.uint32],
    next_static_id: NDArray[np.uint32],
    access_offset: NDArray[np.int64],
    access_address: NDArray[np.uint64],
    is_store: NDArray[np.uint8],
    begin: int,
    out: NDArray[np.uint32],
) -> int:
    """Behaviour and distances; the first access of each kind counts, as in the peer's one-access-an-instruction
    traces. Where it stopped.
    """
    bits = np.uint64(LINE_BITS)
    base = access_offset[0]
    for k in range(begin, len(static_id)):
        first, last = access_offset[k] - base, access_offset[k + 1] - base
        accesses = last - first
        if not (
            has_room(fetch, 1) and has_room(data, accesses) and has_room(loads, accesses) and has_room(stores, accesses)
        ):
            return k
        here = static_id[k]
        out[k, _FAULT] = np.uint32((sites.flags[here] & _SYSCALL) != 0)
        out[k, _TAKEN] = np.uint32(goes_elsewhere(sites, here, next_static_id[k]))
        out[k, _FETCH] = _bounded(touch(fetch, sites.address[here] >> bits))
        for access in range(first, last):
            if access + _AHEAD < len(access_address):
                prefetch_line(data, access_address[access + _AHEAD] >> bits)
            line = access_address[access] >> bits
            both = _bounded(touch(data, line))
            if access == first:
                out[k, _DATA] = both
            if is_store[access]:
                out[k, _STORE] = max(out[k, _STORE], _bounded(touch(stores, line)))
            else:
                out[k, _LOAD] = max(out[k, _LOAD], _bounded(touch(loads, line)))
    return len(static_id)


def _entropies() -> NDArray[np.uint32]:
    """[2, pairs of counts] the entropy of the probability estimated from them, whatever the outcome."""
    entropy = branch_entropy.shannon_entropy(branch_entropy.probabilities())
    return np.tile(np.rint(entropy * _ENTROPY_STEPS).astype(np.uint32), (2, 1))


class _PerfVecExtractor:
    def __init__(self, instructions: StaticInstructions) -> None:
        self._stacks = [StackDistance() for _ in range(4)]
        self._branches = branch_entropy.initial_state(len(instructions))
        self._read(instructions)
        self._entropies = _entropies()

    def _read(self, instructions: StaticInstructions) -> None:
        self._sites = branch_entropy.sites_of(instructions)
        self._successors = successors(instructions)

    def grow(self, instructions: StaticInstructions) -> None:
        self._branches = branch_entropy.grow(self._branches, len(instructions))
        self._read(instructions)

    def extract(self, chunk: Chunk) -> NDArray[np.uint32]:
        out = np.zeros((len(chunk), len(_NAMES)), np.uint32)
        for begin in range(0, len(chunk), _PART):
            self._extract(chunk.part(begin, begin + _PART), out[begin : begin + _PART])
        return out

    def begin(self, chunk: Chunk) -> NDArray[np.uint32]:
        return self.extract(chunk)

    def finish(self, chunk: Chunk, stored: NDArray[Any]) -> None:
        """Nothing is left to do."""

    def _extract(self, part: Chunk, out: NDArray[np.uint32]) -> None:
        static_id, following, offset = part.static_id, part.next_static_id, part.access_offset
        fetch, data, loads, stores = self._stacks
        done = 0
        while done < len(part):
            accesses = int(offset[done + 1] - offset[done])
            done = _distances(
                fetch.reserve(1),
                data.reserve(accesses),
                loads.reserve(accesses),
                stores.reserve(accesses),
                self._sites,
                static_id,
                following,
                offset,
                part.address,
                part.is_store,
                done,
                out,
            )
        branch_entropy.observe(
            self._branches,
            self._sites,
            static_id,
            following,
            find(self._successors, part).ends,
            self._entropies,
            (NO_COLUMN, _LOCAL, _GLOBAL),
            NO_COLUMN,
            out,
        )


class PerfVec51Schema(Schema):
    """See the module's description."""

    def static(self, instructions: StaticInstructions) -> NDArray[np.float32]:
        flags = instructions.flags

        def has(flag: Flag) -> NDArray[np.bool_]:
            return (flags & int(flag)) != 0

        branch, conditional, indirect = has(Flag.BRANCH), has(Flag.CONDITIONAL), has(Flag.INDIRECT)
        serializing = has(Flag.SERIALIZING)
        operation = np.stack(
            [
                instructions.operation / len(Operation),
                instructions.micro_operations > 4,
                conditional,
                branch & ~conditional,
                branch & ~indirect,
                branch & indirect,
                has(Flag.CALL),
                has(Flag.RETURN),
                has(Flag.SYSCALL),
                serializing,
                serializing,
                has(Flag.ATOMIC),
                has(Flag.STORE_CONDITIONAL),
                has(Flag.BARRIER),
                serializing | has(Flag.SYSCALL) | has(Flag.ATOMIC),
            ],
            axis=1,
        ).astype(np.float32)
        registers = np.concatenate(
            [flags_as_one(instructions.sources), flags_as_one(instructions.destinations)], axis=1
        )
        used = registers != NO_REGISTER
        kind = 1.0 + (registers >= VECTOR_REGISTERS) + (registers >= FLAGS_REGISTER)
        index = registers % VECTOR_REGISTERS / VECTOR_REGISTERS
        pairs = np.stack([np.where(used, kind / 3.0, 0.0), np.where(used, index, 0.0)], axis=2)
        return np.concatenate([operation, pairs.reshape(len(instructions), -1).astype(np.float32)], axis=1)

    def extractor(self, instructions: StaticInstructions) -> Extractor:
        return _PerfVecExtractor(instructions)


PERFVEC_51 = PerfVec51Schema(
    name="perfvec-51",
    version=1,
    dtype="u4",
    columns=tuple(
        Column(name, scale=scale, where="conditional_branch" if name.endswith("_entropy") else None)
        for name, scale in zip(_NAMES, _SCALES, strict=True)
    ),
    static_names=(
        *_OPERATION_NAMES,
        *(
            f"{role}{slot}.{part}"
            for role, slots in (("source", MAX_SOURCES), ("destination", MAX_DESTINATIONS))
            for slot in range(slots)
            for part in ("class", "index")
        ),
    ),
)
