"""Distances between producers and consumers: through registers, through memory, and along the critical path.

All distances count executed instructions and depend on the program alone. The critical path is that of an ideal
dataflow machine (unlimited width and window) with the nominal operation times of `_NOMINAL`, so an instruction's lag
behind the front of the dataflow tells how much slack it has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracegen.quantise import Codes, code_of
from uarch.instructions import (
    MAX_DESTINATIONS,
    MAX_SOURCES,
    NO_REGISTER,
    REGISTERS,
    Flag,
    Operation,
    StaticInstructions,
)
from uarch.timing.compiled import compiled, kernel

NONE = -1  # no producer seen
WINDOW = 4096  # lags are measured against at most so many nominal cycles of history
_STORE_TABLE_BITS = 16  # 8-byte words with a recent store; a newer store in the same place replaces an older one
_NOMINAL = np.ones(len(Operation), np.int64)  # nominal cycles of each operation
for _operation, _cycles in {
    Operation.NONE: 0, Operation.INT_MUL: 3, Operation.INT_DIV: 12, Operation.FP_ADD: 3, Operation.FP_MUL: 4,
    Operation.FP_FMA: 4, Operation.FP_DIV: 12, Operation.FP_SQRT: 16, Operation.FP_MISC: 30, Operation.SIMD_MUL: 4,
    Operation.SIMD_FP_ADD: 3, Operation.SIMD_FP_MUL: 4, Operation.SIMD_FP_FMA: 4, Operation.SIMD_FP_DIV: 12,
    Operation.SIMD_FP_SQRT: 16, Operation.CRYPTO: 3,
}.items():  # fmt: skip
    _NOMINAL[_operation] = _cycles
_LOAD_CYCLES = 3


_DESTINATIONS_AT, _CYCLES, _COLUMNS = MAX_SOURCES, MAX_SOURCES + MAX_DESTINATIONS, 16  # of a row of `rows_of`
_WRITER, _READY = 0, 1
_WORD, _INDEX, _STORED = 0, 1, 2


class DependencyState(NamedTuple):
    """Producers after the instructions seen so far."""

    registers: NDArray[np.int64]  # [REGISTERS, 2] the last instruction that wrote it (NONE before), its completion
    front: NDArray[np.int64]  # [1] latest completion so far
    stores: NDArray[np.int64]  # [2^16, 4] 8-byte word + 1 (0: free), the instruction that stored it, its completion


def initial_state() -> DependencyState:
    """Nothing executed yet."""
    registers = np.zeros((REGISTERS, 2), np.int64)
    registers[:, _WRITER] = NONE
    return DependencyState(registers, np.zeros(1, np.int64), np.zeros((1 << _STORE_TABLE_BITS, 4), np.int64))


def rows_of(instructions: StaticInstructions) -> NDArray[np.uint8]:
    """[S, 16] what `observe` reads of each static instruction: sources, destinations, nominal cycles."""
    rows = np.zeros((len(instructions), _COLUMNS), np.uint8)
    rows[:, :_DESTINATIONS_AT] = instructions.sources
    rows[:, _DESTINATIONS_AT:_CYCLES] = instructions.destinations
    loads = (instructions.flags & int(Flag.LOAD)) != 0
    rows[:, _CYCLES] = _NOMINAL[instructions.operation] + np.where(loads, _LOAD_CYCLES, 0)
    return rows


@compiled
def _place(word: np.uint64) -> np.int64:
    return np.int64((word * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - _STORE_TABLE_BITS))


@kernel
def observe(
    state: DependencyState,
    start: int,
    rows: NDArray[np.uint8],
    static_id: NDArray[np.uint32],
    access_offset: NDArray[np.int64],
    access_address: NDArray[np.uint64],
    is_store: NDArray[np.uint8],
    codes: Codes,
    columns: tuple[int, int, int, int],
    out: NDArray[np.uint8],
) -> None:
    """Fill `columns` of `out`, for each of n instructions from index `start` on, with the quantised

    - distances to the producers of the two most recently written distinct sources (NONE without),
    - distance to the store that its nearest load reads from (NONE where no recent store wrote the word),
    - nominal cycles that its completion is behind the front of the dataflow (0: it is the front).

    Access m is `access_address[m]`, `is_store[m]`; instruction k makes those of `access_offset[k]` to
    `access_offset[k+1]`, counted from `access_offset[0]`.
    """
    nearest, second, forwarded, lag = columns
    registers, stores = state.registers, state.stores
    front = state.front[0]
    first_access = access_offset[0]
    for k in range(len(static_id)):
        index = start + k
        here = static_id[k]
        first = np.int64(NONE)
        other = np.int64(NONE)
        begin = max(front - WINDOW, np.int64(0))
        for source in range(MAX_SOURCES):
            register = rows[here, source]
            if register == NO_REGISTER:
                break
            writer = registers[register, _WRITER]
            if writer > first:
                first, other = writer, first
            elif other < writer < first:
                other = writer
            begin = max(begin, registers[register, _READY])
        out[k, nearest] = code_of(index - first, codes) if first != NONE else np.uint8(0)
        out[k, second] = code_of(index - other, codes) if other != NONE else np.uint8(0)
        accesses_begin, accesses_end = access_offset[k] - first_access, access_offset[k + 1] - first_access
        writes = False
        if accesses_begin != accesses_end:
            source_store = np.int64(NONE)
            for access in range(accesses_begin, accesses_end):
                if is_store[access]:
                    writes = True
                    continue
                word = access_address[access] >> np.uint64(3)
                place = _place(word)
                if stores[place, _WORD] == np.int64(word) + 1:
                    source_store = max(source_store, stores[place, _INDEX])
                    begin = max(begin, stores[place, _STORED])
            out[k, forwarded] = code_of(index - source_store, codes) if source_store != NONE else np.uint8(0)
        else:
            out[k, forwarded] = np.uint8(0)
        done = begin + rows[here, _CYCLES]
        if writes:
            for access in range(accesses_begin, accesses_end):
                if is_store[access]:
                    word = access_address[access] >> np.uint64(3)
                    place = _place(word)
                    stores[place, _WORD] = np.int64(word) + 1
                    stores[place, _INDEX] = index
                    stores[place, _STORED] = done
        for destination in range(_DESTINATIONS_AT, _CYCLES):
            register = rows[here, destination]
            if register == NO_REGISTER:
                break
            registers[register, _WRITER] = index
            registers[register, _READY] = done
        front = max(front, done)
        out[k, lag] = code_of(front - done, codes)
    state.front[0] = front


def nominal_cycles() -> NDArray[np.int64]:
    """Nominal cycles of each Operation on the dataflow machine, without its loads' LOAD_CYCLES."""
    return _NOMINAL.copy()
