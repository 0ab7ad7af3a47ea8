"""What the front end knows when it meets a branch: direction, target buffer, return stack, indirect targets.

As in gem5's out-of-order core:

- a branch taken by prediction goes where the BTB says (direct-mapped, 16-bit tags, address by 4 bytes, so that two
  branches in 4 bytes are one to it); without an entry it is taken for not taken. An entry is made when a direct branch
  taken went elsewhere than expected; decode notices that for an unconditional branch, and for one predicted taken;
- a return asks the stack, any other indirect branch a table of 256 sets of 2 targets, indexed by address, the last 13
  directions and the last 3 indirect targets, which learns the targets of mispredicted branches;
- what a predictor learns at retirement, younger branches do not know that are fetched before. The core says when a
  branch is fetched and when it retires; one without such times learns at once. Most to the predictors whose histories
  move at retirement, this is worth half of their mispredictions.

Branches of wrong paths leave nothing here but in the perceptron's history. gem5's count of mispredictions has those of
wrong paths too, more of them the longer a branch waits for its data and the larger the reorder buffer is, and those of
branches inside its microcode (divisions, repeated string instructions, byte shifts of vectors).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import Machine
from uarch.instructions import Flag
from uarch.jit import compiled, merged, out_of_line
from uarch.timing.predictors import dispatch, perceptron
from uarch.timing.predictors.dispatch import KIND, NONE, PERCEPTRON, new_predictor
from uarch.timing.predictors.state import IN_FLIGHT, Predictor, next_random
from uarch.timing.reference import by_reference

RIGHT, DECODE_REDIRECT, EXECUTE_REDIRECT = range(3)
SETS, WAYS, TAG_BITS, DIRECTIONS = 256, 2, 16, 13
# Places in `scalars`.
TOP, PATH, BRANCHES, MISPREDICTIONS, RECENT, RANDOM, OLDEST, WAITING, BTB_SHIFT = range(9)
# Fields of a branch in flight.
ADDRESS, TARGET, TAKEN, CONDITIONALLY, DIRECTLY, RETIRED = range(6)

CONDITIONAL, INDIRECT = int(Flag.CONDITIONAL), int(Flag.INDIRECT)
CALL, RETURN = int(Flag.CALL), int(Flag.RETURN)
NOWHERE = -1


@by_reference
class Branches(NamedTuple):
    btb: NDArray[np.int64]  # [entries, 2] tag, target
    stack: NDArray[np.int64]  # return addresses, circular
    targets: NDArray[np.int64]  # [SETS, WAYS, 2] tag, target
    in_flight: NDArray[np.int64]  # [IN_FLIGHT, 6] circular: fetched, not yet learnt
    scalars: NDArray[np.int64]
    predictor: Predictor


def new_branches(machine: Machine) -> Branches:
    configuration = machine.branch_predictor
    entries = max(configuration.btb_entries, 1)
    scalars = np.zeros(16, np.int64)
    scalars[RANDOM], scalars[BTB_SHIFT] = 0x1234567, 2 + (entries.bit_length() - 1)
    return Branches(
        np.full((entries, 2), NOWHERE, np.int64),
        np.full(max(configuration.ras_entries, 1), NOWHERE, np.int64),
        np.full((SETS, WAYS, 2), NOWHERE, np.int64),
        np.zeros((IN_FLIGHT, 6), np.int64),
        scalars,
        new_predictor(configuration.kind, configuration.entries),
    )


@out_of_line
def branch(
    state: Branches, pc: int, fall_through: int, target: int, flags: int, fetched: int = 0, retired: int = -1
) -> int:
    """Whether the branch at `pc`, which goes to `target`, goes where the front end expected; learns from it.

    `fetched` and `retired` are cycles, or left out: what it teaches is known to the branches fetched after it retired.
    """
    scalars = state.scalars
    scalars[BRANCHES] += 1
    taken = 1 if target != fall_through else 0
    if state.predictor.parameters[KIND] == NONE:  # fetches on: every taken branch is a surprise
        scalars[MISPREDICTIONS] += taken
        return EXECUTE_REDIRECT if taken == 1 else RIGHT
    _learn(state, fetched)
    conditional, direct = 1 if flags & CONDITIONAL else 0, 0 if flags & INDIRECT else 1
    which = (scalars[OLDEST] + scalars[WAITING]) & (IN_FLIGHT - 1)
    predicted = dispatch.predict(state.predictor, which, pc, taken, conditional)

    entry, tag = state.btb[(pc >> 2) & (len(state.btb) - 1)], (pc >> scalars[BTB_SHIFT]) & ((1 << TAG_BITS) - 1)
    expected = entry[1] if predicted == 1 and entry[0] == tag else NOWHERE
    if flags & RETURN:
        top = state.stack[scalars[TOP]]
        expected = top if top != NOWHERE else expected
        scalars[TOP] = len(state.stack) - 1 if scalars[TOP] == 0 else scalars[TOP] - 1
    elif direct == 0:
        expected = _indirect(state, pc, target, expected)
    if flags & CALL:
        scalars[TOP] = 0 if scalars[TOP] == len(state.stack) - 1 else scalars[TOP] + 1
        state.stack[scalars[TOP]] = fall_through
    scalars[RECENT] = ((scalars[RECENT] << 1) | taken) & ((1 << DIRECTIONS) - 1)

    outcome = RIGHT
    if direct == 0 or taken == 0 or expected == NOWHERE:
        if (fall_through if expected == NOWHERE else expected) != target:
            outcome = DECODE_REDIRECT if direct == 1 and conditional == 0 else EXECUTE_REDIRECT
    elif expected != target:
        outcome = DECODE_REDIRECT
    if outcome != RIGHT and taken == 1 and direct == 1:
        entry[0], entry[1] = tag, target

    mine = state.in_flight[which]
    mine[ADDRESS], mine[TARGET], mine[TAKEN] = pc, target, taken
    mine[CONDITIONALLY], mine[DIRECTLY], mine[RETIRED] = conditional, direct, retired
    scalars[WAITING] += 1
    if outcome == EXECUTE_REDIRECT:
        scalars[MISPREDICTIONS] += 1
    return outcome


@compiled
def retires(state: Branches, cycle: int) -> None:
    """The branch that came last retires at `cycle`, not when it told `branch`."""
    scalars = state.scalars
    state.in_flight[(scalars[OLDEST] + scalars[WAITING] - 1) & (IN_FLIGHT - 1), RETIRED] = cycle


@compiled
def strayed(state: Branches, pc: int) -> None:
    """An unconditional branch on a wrong path is fetched. gem5 restores all histories then but the perceptron's."""
    if state.predictor.parameters[KIND] == PERCEPTRON:
        perceptron.pass_by(state.predictor, pc)


@merged
def _learn(state: Branches, fetched: int) -> None:
    """The predictor learns the branches that retired before a fetch in cycle `fetched`."""
    scalars = state.scalars
    while scalars[WAITING] > 0:
        which = scalars[OLDEST]
        mine = state.in_flight[which]
        if mine[RETIRED] >= fetched and scalars[WAITING] < IN_FLIGHT:
            return
        dispatch.learn(
            state.predictor, which, mine[ADDRESS], mine[TAKEN], mine[TARGET], mine[CONDITIONALLY], mine[DIRECTLY]
        )
        scalars[OLDEST] = (which + 1) & (IN_FLIGHT - 1)
        scalars[WAITING] -= 1
    scalars[OLDEST] = 0  # the notes of a few branches stay in the host's cache


@merged
def _indirect(state: Branches, pc: int, target: int, otherwise: int) -> int:
    """Where the indirect branch is expected to go; learns where it goes."""
    scalars = state.scalars
    path, which = scalars[PATH], (pc >> 2) ^ scalars[RECENT]
    for back in range(3):  # 10 bits of each of the last three targets, the latest lowest
        which ^= ((path >> (20 * back)) & 0xFFFFF) >> (2 + 2 * back)
    chosen, tag = state.targets[which & (SETS - 1)], (pc >> 2) & ((1 << TAG_BITS) - 1)
    expected, hit = otherwise, -1
    for way in range(WAYS):
        if hit < 0 and chosen[way, 0] == tag:
            expected, hit = chosen[way, 1], way
    if expected != target:
        if hit < 0:
            hit = next_random(scalars, RANDOM) & (WAYS - 1)
        chosen[hit, 0], chosen[hit, 1] = tag, target
    scalars[PATH] = ((path << 20) | (target & 0xFFFFF)) & 0xFFFFFFFFFFFFFFF
    return expected
