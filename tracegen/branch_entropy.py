"""Predictability of branches, independent of any predictor: how surprising each outcome is in its context.

A context is a branch together with a history of outcomes: none (its bias), its own last outcomes (local history) or
the last outcomes of all conditional branches (global history). In every context the outcomes seen so far estimate the
probability p that the branch is taken (Krichevsky & Trofimov, IEEE Trans. Inf. Theory 1981: half a count added to
each side), before the outcome itself is counted. From p follow

- the Shannon entropy −p·log2 p − (1−p)·log2(1−p), bits (Yokota et al., *Introducing entropies for representing
  program behavior and branch predictor performance*, 2007, §3: branch history entropy),
- the linear branch entropy 2·min(p, 1−p), the miss rate of the best static choice, doubled (De Pestel et al.,
  *Micro-architecture independent branch behavior characterization*, ISPASS 2015, eq. 2),
- the surprise −log2 p(outcome), bits; its mean over a context is the Shannon entropy.

Contexts live in tables of 2^18 hashed entries, so memory is bounded; two contexts that fall together share counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uarch.instructions import LAST, Flag

LOCAL_HISTORY = 10  # outcomes
GLOBAL_HISTORY = 14
TABLE_BITS = 18
_LIMIT = 512  # counts are halved here, so that a context follows a change of behaviour
_RAS = 64  # return addresses remembered
_CONDITIONAL, _INDIRECT = int(Flag.CONDITIONAL), int(Flag.INDIRECT)
_BRANCH, _CALL, _RETURN = int(Flag.BRANCH), int(Flag.CALL), int(Flag.RETURN)

# Bits of the target column.
TAKEN, SAME_TARGET, HISTORY_TARGET, RETURN_KNOWN = 1, 2, 4, 8


class BranchState(NamedTuple):
    """Counts and histories after the branches seen so far."""

    scalars: NDArray[np.uint64]  # global history, top of the return stack
    local_history: NDArray[np.uint32]  # [S]
    bias: NDArray[np.uint16]  # [S, 2] not taken, taken
    local: NDArray[np.uint16]  # [2^18, 2]
    globally: NDArray[np.uint16]  # [2^18, 2]
    last_target: NDArray[np.uint32]  # [S] static id of the last target
    history_target: NDArray[np.uint32]  # [2^18] the same by global history
    returns: NDArray[np.uint64]  # return addresses


def initial_state(instructions: int) -> BranchState:
    """No branch seen; `instructions` is the number of static instructions."""
    size = 1 << TABLE_BITS
    return BranchState(
        scalars=np.zeros(2, np.uint64),
        local_history=np.zeros(instructions, np.uint32),
        bias=np.zeros((instructions, 2), np.uint16),
        local=np.zeros((size, 2), np.uint16),
        globally=np.zeros((size, 2), np.uint16),
        last_target=np.full(instructions, LAST, np.uint32),
        history_target=np.full(size, LAST, np.uint32),
        returns=np.zeros(_RAS, np.uint64),
    )


def grow(state: BranchState, instructions: int) -> BranchState:
    """The same state, for more static instructions."""
    return state._replace(
        local_history=grown(state.local_history, instructions),
        bias=grown(state.bias, instructions),
        last_target=grown(state.last_target, instructions, LAST),
    )


def grown(values: NDArray[Any], rows: int, fill: Any = 0) -> NDArray[Any]:
    """`values` [S, …] with `rows` rows, the new ones filled."""
    return np.concatenate([values, np.full((rows - len(values), *values.shape[1:]), fill, values.dtype)])


@njit(inline="always")
def _context(branch: np.uint64, history: np.uint64) -> np.int64:
    mixed = (branch * np.uint64(0x9E3779B97F4A7C15)) ^ ((history + np.uint64(1)) * np.uint64(0xC2B2AE3D27D4EB4F))
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return np.int64(mixed >> np.uint64(64 - TABLE_BITS))


@njit(inline="always")
def _learn(counts: NDArray[np.uint16], entry: np.int64, taken: np.int64) -> float:
    """Probability that the entry gives to being taken, before it counts `taken`."""
    not_taken, yes = counts[entry, 0], counts[entry, 1]
    probability = (yes + 0.5) / (not_taken + yes + 1.0)
    counts[entry, taken] += np.uint16(1)
    if not_taken + yes >= _LIMIT:
        counts[entry, 0] >>= np.uint16(1)
        counts[entry, 1] >>= np.uint16(1)
    return probability


@njit(cache=True)
def observe(
    state: BranchState,
    static_id: NDArray[np.uint32],
    next_static_id: NDArray[np.uint32],
    taken: NDArray[np.uint8],
    flags: NDArray[np.uint16],
    address: NDArray[np.uint64],
    length: NDArray[np.uint8],
    probability: NDArray[np.float32],
    target: NDArray[np.uint8],
) -> None:
    """Fill `probability` [n, 3] (bias, local, global: of being taken, NaN unless conditional) and `target` [n] bits."""
    history = state.scalars[0]
    top = state.scalars[1]
    ras = np.uint64(_RAS)
    for index in range(len(static_id)):
        here = static_id[index]
        flag = flags[here]
        if not flag & _BRANCH:
            continue
        outcome = np.int64(taken[index])
        bits = np.uint8(outcome)
        if flag & _CONDITIONAL:
            site = address[here]  # not its number, which depends on what else is executed
            probability[index, 0] = _learn(state.bias, np.int64(here), outcome)
            own = state.local_history[here]
            probability[index, 1] = _learn(state.local, _context(site, np.uint64(own)), outcome)
            probability[index, 2] = _learn(state.globally, _context(site, history), outcome)
            state.local_history[here] = ((own << np.uint32(1)) | np.uint32(outcome)) & np.uint32(
                (1 << LOCAL_HISTORY) - 1
            )
            history = ((history << np.uint64(1)) | np.uint64(outcome)) & np.uint64((1 << GLOBAL_HISTORY) - 1)
        following = next_static_id[index]
        if outcome:
            if state.last_target[here] == following:
                bits |= np.uint8(SAME_TARGET)
            state.last_target[here] = following
            if flag & _INDIRECT:
                entry = _context(address[here], history)
                if state.history_target[entry] == following:
                    bits |= np.uint8(HISTORY_TARGET)
                state.history_target[entry] = following
            if flag & _RETURN:
                top = (top - np.uint64(1)) % ras
                if state.returns[top] == address[following]:
                    bits |= np.uint8(RETURN_KNOWN)
            elif flag & _CALL:
                state.returns[top] = address[here] + np.uint64(length[here])
                top = (top + np.uint64(1)) % ras
        target[index] = bits
    state.scalars[0] = history
    state.scalars[1] = top


def shannon_entropy(probability: NDArray[np.floating]) -> NDArray[np.float64]:
    """Bits, of outcomes with this probability (0 where it is NaN)."""
    p = np.clip(np.nan_to_num(np.asarray(probability, np.float64)), 0.0, 1.0)
    q = 1.0 - p
    return -(p * np.log2(np.where(p > 0, p, 1.0)) + q * np.log2(np.where(q > 0, q, 1.0)))


def linear_entropy(probability: NDArray[np.floating]) -> NDArray[np.float64]:
    """2·min(p, 1−p) (0 where p is NaN)."""
    p = np.nan_to_num(np.asarray(probability, np.float64))
    return 2.0 * np.minimum(p, 1.0 - p)


def surprise(probability: NDArray[np.floating], taken: NDArray[np.uint8]) -> NDArray[np.float32]:
    """−log2 p(outcome), bits (0 where p is NaN)."""
    p = np.where(taken.astype(bool), probability, 1.0 - probability)
    return -np.log2(np.where(np.isnan(p), 1.0, p)).astype(np.float32)
