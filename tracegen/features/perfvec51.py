"""The schema `perfvec-51`: the 51 features of PerfVec (arXiv 2310.16792, table I), kept for comparison.

15 operation features, 28 register features (class and index of 8 sources and 6 destinations), 2 of execution behaviour
(fault, branch taken), 4 stack distances at cache-line granularity (instruction fetch, data, loads, stores), and the
global and local branch entropy. Where a machine's micro-code would tell (squash or serialise after), the nearest
property of the decoded instruction stands in. A fault is not visible in a user-mode trace other than a system call.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tracegen import branch_entropy
from tracegen.features.schema import Column, Extractor, Schema
from tracegen.stack_distance import StackDistance, StackState, touch
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

LINE_BITS = 6
_FAR = 1 << 24  # stored for a first reference: farther than any cache reaches
_ENTROPY_STEPS = 1 << 16
_FAULT, _TAKEN, _FETCH, _DATA, _LOAD, _STORE, _GLOBAL, _LOCAL = range(8)

_OPERATION_NAMES = (
    "operation", "microcoded", "conditional_branch", "unconditional_branch", "direct_branch", "indirect_branch", "call",
    "return", "squash_after", "serialize_after", "serialize_before", "atomic", "store_conditional", "memory_barrier",
    "non_speculative",
)  # fmt: skip
_SCALES = (1.0, 1.0, 2.0**-10, 2.0**-10, 2.0**-10, 2.0**-10, 1.0 / _ENTROPY_STEPS, 1.0 / _ENTROPY_STEPS)
_NAMES = ("fault", "taken", "fetch", "data", "load", "store", "global_entropy", "local_entropy")


@njit(inline="always")
def _bounded(distance: np.int64) -> np.uint32:
    return np.uint32(np.int64(_FAR) if distance < 0 or distance > _FAR else distance)


@njit(cache=True)
def _distances(
    fetch: StackState,
    data: StackState,
    loads: StackState,
    stores: StackState,
    static_id: NDArray[np.uint32],
    address: NDArray[np.uint64],
    access_offset: NDArray[np.int64],
    access_address: NDArray[np.uint64],
    is_store: NDArray[np.uint8],
    out: NDArray[np.uint32],
) -> None:
    """The first access of each kind counts, as in the peer's one-access-an-instruction traces."""
    bits = np.uint64(LINE_BITS)
    for k in range(len(static_id)):
        out[k, _FETCH] = _bounded(touch(fetch, address[static_id[k]] >> bits))
        for access in range(access_offset[k], access_offset[k + 1]):
            line = access_address[access] >> bits
            both = _bounded(touch(data, line))
            if access == access_offset[k]:
                out[k, _DATA] = both
            if is_store[access]:
                out[k, _STORE] = max(out[k, _STORE], _bounded(touch(stores, line)))
            else:
                out[k, _LOAD] = max(out[k, _LOAD], _bounded(touch(loads, line)))


class _PerfVecExtractor:
    def __init__(self, instructions: StaticInstructions) -> None:
        self._instructions = instructions
        self._stacks = [StackDistance() for _ in range(4)]
        self._branches = branch_entropy.initial_state(len(instructions))

    def grow(self, instructions: StaticInstructions) -> None:
        self._instructions = instructions
        self._branches = branch_entropy.grow(self._branches, len(instructions))

    def extract(self, chunk: Chunk) -> NDArray[np.uint32]:
        program = self._instructions
        n, accesses = len(chunk), len(chunk.address)
        out = np.zeros((n, len(_NAMES)), np.uint32)
        taken = chunk.taken(program)
        out[:, _FAULT] = (program.flags[chunk.static_id] & int(Flag.SYSCALL)) != 0
        out[:, _TAKEN] = taken
        fetch, data, loads, stores = (stack.reserve(max(n, accesses)) for stack in self._stacks)
        _distances(
            fetch,
            data,
            loads,
            stores,
            chunk.static_id,
            program.address,
            chunk.access_offset,
            chunk.address,
            chunk.is_store,
            out,
        )
        probability = np.full((n, 3), np.nan, np.float32)
        branch_entropy.observe(
            self._branches, chunk.static_id, chunk.next_static_id, taken, program.flags, program.address,
            program.length, probability, np.zeros(n, np.uint8),
        )  # fmt: skip
        conditional = np.flatnonzero(~np.isnan(probability[:, 0]))
        for column, way in ((_GLOBAL, 2), (_LOCAL, 1)):
            entropy = branch_entropy.shannon_entropy(probability[conditional, way])
            out[conditional, column] = np.rint(entropy * _ENTROPY_STEPS).astype(np.uint32)
        return out


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
                instructions.operation / len(Operation), instructions.micro_operations > 4, conditional,
                branch & ~conditional, branch & ~indirect, branch & indirect, has(Flag.CALL), has(Flag.RETURN),
                has(Flag.SYSCALL), serializing, serializing, has(Flag.ATOMIC), has(Flag.STORE_CONDITIONAL),
                has(Flag.BARRIER), serializing | has(Flag.SYSCALL) | has(Flag.ATOMIC),
            ],
            axis=1,
        ).astype(np.float32)  # fmt: skip
        registers = np.concatenate([instructions.sources, instructions.destinations], axis=1)
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
    columns=tuple(Column(name, scale=scale) for name, scale in zip(_NAMES, _SCALES, strict=True)),
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
