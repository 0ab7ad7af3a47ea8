"""What the front end knows when it meets a branch: direction, target buffer, return stack, indirect targets.

As in gem5: a taken branch whose target is not in the BTB is taken for not taken; a return asks the stack, any other
indirect branch a cache of targets indexed by address and the path of recent targets (512
entries, gem5's 256 sets of 2).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import Machine
from uarch.instructions import Flag
from uarch.timing.compiled import number, out_of_line
from uarch.timing.predictors import dispatch
from uarch.timing.predictors.dispatch import KIND, NONE, new_predictor
from uarch.timing.predictors.state import Predictor

RIGHT, DECODE_REDIRECT, EXECUTE_REDIRECT = range(3)
INDIRECT_ENTRIES, PATH_LENGTH_BITS = 512, 9
# Places in `scalars`.
TOP, PATH, BRANCHES, MISPREDICTIONS = range(4)

CONDITIONAL, INDIRECT = int(Flag.CONDITIONAL), int(Flag.INDIRECT)
CALL, RETURN = int(Flag.CALL), int(Flag.RETURN)


class Branches(NamedTuple):
    btb: NDArray[np.int64]  # [entries] address of the branch whose target is there
    stack: NDArray[np.int64]  # return addresses, circular
    targets: NDArray[np.int64]  # [INDIRECT_ENTRIES, 2] tag, target
    scalars: NDArray[np.int64]
    predictor: Predictor


def new_branches(machine: Machine) -> Branches:
    configuration = machine.branch_predictor
    return Branches(
        np.full(max(configuration.btb_entries, 1), -1, np.int64),
        np.zeros(max(configuration.ras_entries, 1), np.int64),
        np.full((INDIRECT_ENTRIES, 2), -1, np.int64),
        np.zeros(4, np.int64),
        new_predictor(configuration.kind, configuration.entries),
    )


@out_of_line
def branch(state: Branches, pc: int, fall_through: int, target: int, flags: int) -> int:
    """Whether the branch at `pc`, which goes to `target`, goes where the front end expected; learns from it."""
    scalars = state.scalars
    scalars[BRANCHES] += 1
    taken = 1 if target != fall_through else 0
    if state.predictor.parameters[KIND] == NONE:  # fetches on: every taken branch is a surprise
        scalars[MISPREDICTIONS] += taken
        return EXECUTE_REDIRECT if taken == 1 else RIGHT
    entry = (pc >> 2) & (len(state.btb) - 1)
    known = state.btb[entry] == pc
    outcome = RIGHT
    if flags & CONDITIONAL:
        predicted = dispatch.predict_update(state.predictor, number(pc), number(taken))
        if predicted == 1 and not known:
            predicted = 0
        if predicted != taken:
            outcome = EXECUTE_REDIRECT
    else:
        dispatch.observe(state.predictor, number(pc))
        if flags & RETURN:
            scalars[TOP] -= 1
            if scalars[TOP] < 0:
                scalars[TOP] = len(state.stack) - 1
            if state.stack[scalars[TOP]] != target:
                outcome = EXECUTE_REDIRECT
        elif flags & INDIRECT:
            path = scalars[PATH]
            row = state.targets[(pc ^ (pc >> 9) ^ path ^ (path >> 9) ^ (path >> 18)) & (INDIRECT_ENTRIES - 1)]
            tag = (pc ^ (path << 1)) & 0xFFFF
            if row[0] != tag or row[1] != target:
                outcome = EXECUTE_REDIRECT
            row[0], row[1] = tag, target
            scalars[PATH] = ((path << PATH_LENGTH_BITS) ^ (target >> 2)) & 0x7FFFFFF
        elif not known:
            outcome = DECODE_REDIRECT
    if flags & CALL:
        state.stack[scalars[TOP]] = fall_through
        scalars[TOP] += 1
        if scalars[TOP] == len(state.stack):
            scalars[TOP] = 0
    if taken == 1:
        state.btb[entry] = pc
    if outcome == EXECUTE_REDIRECT:
        scalars[MISPREDICTIONS] += 1
    return outcome
