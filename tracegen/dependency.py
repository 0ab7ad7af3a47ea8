"""Distances between producers and consumers: through registers, through memory, and along the critical path.

All distances count executed instructions and depend on the program alone. The critical path is that of an ideal
dataflow machine (unlimited width and window) with the nominal operation times of `_NOMINAL`, so an instruction's lag
behind the front of the dataflow tells how much slack it has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uarch.instructions import NO_REGISTER, REGISTERS, Flag, Operation

NONE = -1  # no producer seen
WINDOW = 4096  # lags are measured against at most so many nominal cycles of history
_STORE_TABLE_BITS = 16  # 8-byte words with a recent store; a newer store in the same place replaces an older one
_LOAD = int(Flag.LOAD)

_NOMINAL = np.ones(len(Operation), np.int64)  # nominal cycles of each operation
for _operation, _cycles in {
    Operation.NONE: 0, Operation.INT_MUL: 3, Operation.INT_DIV: 12, Operation.FP_ADD: 3, Operation.FP_MUL: 4,
    Operation.FP_FMA: 4, Operation.FP_DIV: 12, Operation.FP_SQRT: 16, Operation.FP_MISC: 30, Operation.SIMD_MUL: 4,
    Operation.SIMD_FP_ADD: 3, Operation.SIMD_FP_MUL: 4, Operation.SIMD_FP_FMA: 4, Operation.SIMD_FP_DIV: 12,
    Operation.SIMD_FP_SQRT: 16, Operation.CRYPTO: 3,
}.items():  # fmt: skip
    _NOMINAL[_operation] = _cycles
_LOAD_CYCLES = 3


class DependencyState(NamedTuple):
    """Producers after the instructions seen so far."""

    writer: NDArray[np.int64]  # [REGISTERS] index of the last instruction that wrote it, NONE before
    ready: NDArray[np.int64]  # [REGISTERS] its completion on the dataflow machine
    front: NDArray[np.int64]  # [1] latest completion so far
    store_word: NDArray[np.uint64]  # [2^16] 8-byte word + 1, 0 where free
    store_index: NDArray[np.int64]  # [2^16] index of the instruction that stored it
    store_ready: NDArray[np.int64]  # [2^16]


def initial_state() -> DependencyState:
    """Nothing executed yet."""
    size = 1 << _STORE_TABLE_BITS
    return DependencyState(
        writer=np.full(REGISTERS, NONE, np.int64),
        ready=np.zeros(REGISTERS, np.int64),
        front=np.zeros(1, np.int64),
        store_word=np.zeros(size, np.uint64),
        store_index=np.zeros(size, np.int64),
        store_ready=np.zeros(size, np.int64),
    )


@njit(inline="always")
def _place(word: np.uint64) -> np.int64:
    return np.int64((word * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - _STORE_TABLE_BITS))


@njit(cache=True)
def observe(
    state: DependencyState,
    start: int,
    static_id: NDArray[np.uint32],
    access_offset: NDArray[np.int64],
    access_address: NDArray[np.uint64],
    is_store: NDArray[np.uint8],
    operation: NDArray[np.uint8],
    flags: NDArray[np.uint16],
    sources: NDArray[np.uint8],
    destinations: NDArray[np.uint8],
    nominal: NDArray[np.int64],
    nearest: NDArray[np.int64],
    second: NDArray[np.int64],
    forwarded: NDArray[np.int64],
    lag: NDArray[np.int64],
) -> None:
    """Fill, for each of n instructions from index `start` on:

    `nearest`, `second`: distance to the producers of the two most recently written distinct sources (NONE without);
    `forwarded`: distance to the store that its nearest load reads from (NONE where no recent store wrote the word);
    `lag`: nominal cycles that its completion is behind the front of the dataflow (0: it is the front).
    """
    front = state.front[0]
    for k in range(len(static_id)):
        index = start + k
        here = static_id[k]
        first = np.int64(NONE)
        other = np.int64(NONE)
        begin = max(front - WINDOW, np.int64(0))
        for register in sources[here]:
            if register == NO_REGISTER:
                break
            writer = state.writer[register]
            if writer > first:
                first, other = writer, first
            elif other < writer < first:
                other = writer
            begin = max(begin, state.ready[register])
        nearest[k] = index - first if first != NONE else NONE
        second[k] = index - other if other != NONE else NONE
        source_store = np.int64(NONE)
        for access in range(access_offset[k], access_offset[k + 1]):
            if not is_store[access]:
                word = access_address[access] >> np.uint64(3)
                place = _place(word)
                if state.store_word[place] == word + np.uint64(1):
                    source_store = max(source_store, state.store_index[place])
                    begin = max(begin, state.store_ready[place])
        forwarded[k] = index - source_store if source_store != NONE else NONE
        done = begin + nominal[operation[here]]
        if flags[here] & _LOAD:
            done += _LOAD_CYCLES
        for access in range(access_offset[k], access_offset[k + 1]):
            if is_store[access]:
                word = access_address[access] >> np.uint64(3)
                place = _place(word)
                state.store_word[place] = word + np.uint64(1)
                state.store_index[place] = index
                state.store_ready[place] = done
        for register in destinations[here]:
            if register == NO_REGISTER:
                break
            state.writer[register] = index
            state.ready[register] = done
        front = max(front, done)
        lag[k] = front - done
    state.front[0] = front


def nominal_cycles() -> NDArray[np.int64]:
    """Nominal cycles of each Operation on the dataflow machine."""
    return _NOMINAL.copy()
