"""Distances between producers and consumers: through registers, through memory, and along the critical path.

All distances count executed instructions and depend on the program alone. The critical path is that of an ideal
dataflow machine (unlimited width and window) with the times of `NOMINAL_CYCLES`, so an instruction's lag
behind the front of the dataflow tells how much slack it has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.jit import compiled, kernel
from support.prefetch import prefetch
from tracegen.statistics.quantise import Codes, code_of
from uarch.instructions import MAX_DESTINATIONS, MAX_SOURCES, NO_REGISTER, Flag, Operation, StaticInstructions

_NEVER = -(1 << 62)  # the producer of what none was seen of
HISTORY_CYCLES = 4096  # lags are measured against at most so many nominal cycles of history
_STORE_TABLE_BITS = 16  # 8-byte words with a recent store; a newer store in the same place replaces an older one
NOMINAL_CYCLES = np.ones(len(Operation), np.int64)  # nominal cycles of each operation
for _operation, _cycles in {
    Operation.NONE: 0,
    Operation.INT_MUL: 3,
    Operation.INT_DIV: 12,
    Operation.FP_ADD: 3,
    Operation.FP_MUL: 4,
    Operation.FP_FMA: 4,
    Operation.FP_DIV: 12,
    Operation.FP_SQRT: 16,
    Operation.FP_MISC: 30,
    Operation.SIMD_MUL: 4,
    Operation.SIMD_FP_ADD: 3,
    Operation.SIMD_FP_MUL: 4,
    Operation.SIMD_FP_FMA: 4,
    Operation.SIMD_FP_DIV: 12,
    Operation.SIMD_FP_SQRT: 16,
    Operation.CRYPTO: 3,
}.items():
    NOMINAL_CYCLES[_operation] = _cycles
_LOAD_CYCLES = 3


_READY = 128  # where the second half of `registers` begins
_CYCLES_BYTE = 6  # of the second word of a row of `rows_of`
_AHEAD = 8  # accesses whose stores are looked up ahead of time
_WORD, _INDEX, _STORED = 0, 1, 2


class DependencyState(NamedTuple):
    """Producers after the instructions seen so far."""

    registers: NDArray[np.int64]  # [2·128] the last instruction that wrote each (_NEVER before), their completions
    front: NDArray[np.int64]  # [1] latest completion so far
    stores: NDArray[np.int64]  # [4·2^16] by fours: 8-byte word + 1 (0: free), the last that stored it, its completion


def initial_state() -> DependencyState:
    """Nothing executed yet."""
    registers = np.zeros(2 * _READY, np.int64)
    registers[:_READY] = _NEVER
    return DependencyState(registers, np.zeros(1, np.int64), np.zeros(4 << _STORE_TABLE_BITS, np.int64))


def rows_of(instructions: StaticInstructions) -> NDArray[np.uint64]:
    """[S, 2] what `observe` reads of each static instruction, in bytes: 8 sources; 6 destinations, nominal cycles."""
    rows = np.zeros((len(instructions), 16), np.uint8)
    rows[:, :MAX_SOURCES] = instructions.sources
    rows[:, 8 : 8 + MAX_DESTINATIONS] = instructions.destinations
    loads = (instructions.flags & int(Flag.LOAD)) != 0
    rows[:, 8 + _CYCLES_BYTE] = NOMINAL_CYCLES[instructions.operation] + np.where(loads, _LOAD_CYCLES, 0)
    return rows.view("<u8").astype(np.uint64, copy=False)


@compiled
def _place(word: np.uint64) -> np.int64:
    return np.int64((word * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - _STORE_TABLE_BITS)) << 2


@compiled
def _distance_code(distance: np.int64, codes: Codes) -> np.uint8:
    """0 where there is no producer."""
    return code_of(distance, codes) if distance < -_NEVER else np.uint8(0)


@kernel
def observe(
    state: DependencyState,
    start: int,
    rows: NDArray[np.uint64],
    static_id: NDArray[np.uint32],
    access_offset: NDArray[np.int64],
    access_address: NDArray[np.uint64],
    is_store: NDArray[np.uint8],
    codes: Codes,
    columns: tuple[int, int, int, int],
    out: NDArray[np.uint8],
) -> None:
    """Fill `columns` of `out`, for each of n instructions from index `start` on, with the quantised

    - distances to the producers of the two most recently written distinct sources (0 without),
    - distance to the store that its nearest load reads from (0 where no recent store wrote the word),
    - nominal cycles that its completion is behind the front of the dataflow (0: it is the front).

    Access m is `access_address[m]`, `is_store[m]`; instruction k makes those of `access_offset[k]` to
    `access_offset[k+1]`, counted from `access_offset[0]`.
    """
    nearest, second, forwarded, lag = columns
    registers, stores = state.registers, state.stores
    front = state.front[0]
    first_access = access_offset[0]
    accesses_end = np.int64(0)
    for k in range(len(static_id)):
        index = np.int64(start + k)
        sources, others = rows[static_id[k], 0], rows[static_id[k], 1]
        first, other = np.int64(_NEVER), np.int64(_NEVER)
        begin = max(front - HISTORY_CYCLES, np.int64(0))
        for _ in range(MAX_SOURCES):
            register = np.int64(sources & np.uint64(255))
            if register == NO_REGISTER:
                break
            sources >>= np.uint64(8)
            writer = registers[register]
            if writer > first:
                first, other = writer, first
            elif other < writer < first:
                other = writer
            begin = max(begin, registers[_READY + register])
        out[k, nearest] = _distance_code(index - first, codes)
        out[k, second] = _distance_code(index - other, codes)
        accesses_begin, accesses_end = accesses_end, access_offset[k + 1] - first_access
        writes = False
        source_store = np.int64(_NEVER)
        for access in range(accesses_begin, accesses_end):
            if access + _AHEAD < len(access_address):
                prefetch(stores, _place(access_address[access + _AHEAD] >> np.uint64(3)))
            if is_store[access]:
                writes = True
                continue
            word = access_address[access] >> np.uint64(3)
            place = _place(word)
            if stores[place + _WORD] == np.int64(word) + 1:
                source_store = max(source_store, stores[place + _INDEX])
                begin = max(begin, stores[place + _STORED])
        out[k, forwarded] = _distance_code(index - source_store, codes)
        done = begin + np.int64((others >> np.uint64(8 * _CYCLES_BYTE)) & np.uint64(255))
        if writes:
            for access in range(accesses_begin, accesses_end):
                if is_store[access]:
                    word = access_address[access] >> np.uint64(3)
                    place = _place(word)
                    stores[place + _WORD] = np.int64(word) + 1
                    stores[place + _INDEX] = index
                    stores[place + _STORED] = done
        for _ in range(MAX_DESTINATIONS):
            register = np.int64(others & np.uint64(255))
            if register == NO_REGISTER:
                break
            others >>= np.uint64(8)
            registers[register] = index
            registers[_READY + register] = done
        front = max(front, done)
        out[k, lag] = code_of(front - done, codes)
    state.front[0] = front
