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

`observe` gives a number to every executed branch as it passes, in bounded memory: its contexts live in tables of 2^18
hashed entries, where two that fall together share counts. `HistoryEntropy` is the published metric of a whole program,
with exact contexts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.jit import compiled, kernel
from uarch.instructions import LAST, Flag, StaticInstructions

_LOCAL_MASK = np.uint32((1 << 10) - 1)  # of so many outcomes
_GLOBAL_MASK = np.uint64((1 << 14) - 1)
TABLE_BITS = 18
_LIMIT = 512  # counts are halved here, so that a context follows a change of behaviour
_PAIRS = (_LIMIT + 1) * (_LIMIT + 2) // 2  # pairs of counts that can be
_RAS = 64  # return addresses remembered
_CONDITIONAL, _INDIRECT = int(Flag.CONDITIONAL), int(Flag.INDIRECT)
_BRANCH, _CALL, _RETURN = int(Flag.BRANCH), int(Flag.CALL), int(Flag.RETURN)
_HISTORY, _TOP = range(2)

# Bits of the target column.
TAKEN, SAME_TARGET, HISTORY_TARGET, RETURN_KNOWN = 1, 2, 4, 8
NO_COLUMN = -1


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


def probabilities() -> NDArray[np.float32]:
    """The estimate of being taken for every pair of counts, in the order in which `observe` numbers the pairs."""
    total = np.repeat(np.arange(_LIMIT + 1), np.arange(1, _LIMIT + 2))
    taken = np.arange(_PAIRS) - total * (total + 1) // 2
    return ((taken + 0.5) / (total + 1.0)).astype(np.float32)


class Sites(NamedTuple):
    """Part of the static instructions that `observe` reads."""

    flags: NDArray[np.uint16]  # [S]
    address: NDArray[np.uint64]  # [S]
    through: NDArray[np.uint64]  # [S] address behind the instruction


def sites_of(instructions: StaticInstructions) -> Sites:
    """The columns of `observe`."""
    address = np.ascontiguousarray(instructions.address)
    return Sites(np.ascontiguousarray(instructions.flags), address, address + instructions.length)


@compiled
def _context(branch: np.uint64, history: np.uint64) -> np.int64:
    mixed = (branch * np.uint64(0x9E3779B97F4A7C15)) ^ ((history + np.uint64(1)) * np.uint64(0xC2B2AE3D27D4EB4F))
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return np.int64(mixed >> np.uint64(64 - TABLE_BITS))


@compiled
def _learn(counts: NDArray[np.uint16], entry: np.int64, taken: np.int64) -> np.int64:
    """The number of the entry's pair of counts before it counts `taken`."""
    not_taken, yes = np.int64(counts[entry, 0]), np.int64(counts[entry, 1])
    total = not_taken + yes
    not_taken += 1 - taken
    yes_now = yes + taken
    if total >= _LIMIT:
        not_taken >>= 1
        yes_now >>= 1
    counts[entry, 0] = np.uint16(not_taken)
    counts[entry, 1] = np.uint16(yes_now)
    return total * (total + 1) // 2 + yes


@compiled
def goes_elsewhere(sites: Sites, here: np.uint32, following: np.uint32) -> bool:
    """Return whether the next instruction is not the one behind this one (no for the last one of a trace)."""
    return bool(following != LAST and sites.address[following] != sites.through[here])


@kernel
def observe(
    state: BranchState,
    sites: Sites,
    static_id: NDArray[np.uint32],
    next_static_id: NDArray[np.uint32],
    places: NDArray[np.int32],
    codes: NDArray[np.integer],
    columns: tuple[int, int, int],
    target_column: int,
    out: NDArray[np.integer],
) -> None:
    """Fill, of every executed branch, `columns` of `out` [n, …] (bias, local, global: for conditional branches, what
    `codes` [2, pairs] has for its outcome and the pair of counts of its context, see `probabilities`) and
    `target_column` with the bits above. NO_COLUMN leaves one out. All branches are at `places`, ascending, others too.
    """
    scalars = state.scalars
    history, top = scalars[_HISTORY], scalars[_TOP]
    ras = np.uint64(_RAS)
    bias_column, local_column, global_column = columns
    for place in range(len(places)):
        index = places[place]
        here = static_id[index]
        flag = sites.flags[here]
        if not flag & _BRANCH:
            continue
        following = next_static_id[index]
        outcome = np.int64(goes_elsewhere(sites, here, following))
        bits = outcome
        if flag & _CONDITIONAL:
            site = sites.address[here]  # not its number, which depends on what else is executed
            own = state.local_history[here]
            if bias_column != NO_COLUMN:
                out[index, bias_column] = codes[outcome, _learn(state.bias, np.int64(here), outcome)]
            out[index, local_column] = codes[outcome, _learn(state.local, _context(site, np.uint64(own)), outcome)]
            out[index, global_column] = codes[outcome, _learn(state.globally, _context(site, history), outcome)]
            state.local_history[here] = ((own << np.uint32(1)) | np.uint32(outcome)) & _LOCAL_MASK
            history = ((history << np.uint64(1)) | np.uint64(outcome)) & _GLOBAL_MASK
        if target_column == NO_COLUMN:
            continue
        if outcome:
            if state.last_target[here] == following:
                bits |= SAME_TARGET
            state.last_target[here] = following
            if flag & _INDIRECT:
                entry = _context(sites.address[here], history)
                if state.history_target[entry] == following:
                    bits |= HISTORY_TARGET
                state.history_target[entry] = following
            if flag & _RETURN:
                top = (top - np.uint64(1)) % ras
                if state.returns[top] == sites.address[following]:
                    bits |= RETURN_KNOWN
            elif flag & _CALL:
                state.returns[top] = sites.through[here]
                top = (top + np.uint64(1)) % ras
        out[index, target_column] = bits
    scalars[_HISTORY] = history
    scalars[_TOP] = top


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
