"""Which predictor a machine has, as a number, so that the cores are compiled once and not once per predictor."""

from __future__ import annotations

from collections.abc import Callable

from uarch.jit import merged, number
from uarch.timing.predictors import bimode, local, ltage, perceptron, tage, tage_sc_l, tournament
from uarch.timing.predictors.state import Predictor, new_state

KIND = 0  # place in `parameters`
NONE, LOCAL, BIMODE, TOURNAMENT, TAGE, LTAGE, TAGE_SC_L, PERCEPTRON = range(8)
_KINDS: dict[str, tuple[int, Callable[[int], Predictor]]] = {
    "none": (NONE, lambda entries: new_state()),
    "local": (LOCAL, local.new),
    "bimode": (BIMODE, bimode.new),
    "tournament": (TOURNAMENT, tournament.new),
    "tage": (TAGE, tage.new),
    "ltage": (LTAGE, ltage.new),
    "tage-sc-l": (TAGE_SC_L, tage_sc_l.new),
    "perceptron": (PERCEPTRON, perceptron.new),
}


def new_predictor(kind: str, entries: int) -> Predictor:
    number, new = _KINDS[kind]
    state = new(entries)
    state.parameters[KIND] = number
    return state


@merged
def predict(state: Predictor, which: int, pc: int, taken: int, conditional: int) -> int:
    """The prediction for the branch at `pc`, noted in row `which`; `taken`, what it will do, enters the histories."""
    kind, row, predicted = state.parameters[KIND], state.notes[which], 1
    if conditional == 1:
        if kind == LOCAL:
            predicted = local.predict(state, pc)
        elif kind == BIMODE:
            predicted = bimode.predict(state, row, pc)
        elif kind == TOURNAMENT:
            predicted = tournament.predict(state, row, pc)
        elif kind in (TAGE, LTAGE):
            predicted = tage.predict(state, row, pc)
            if kind == LTAGE:
                predicted = ltage.predict(state, row, pc, predicted)
        elif kind == TAGE_SC_L:
            predicted = tage_sc_l.predict(state, row, number(pc))
        elif kind == PERCEPTRON:
            predicted = perceptron.predict(state, row, number(pc))
    if kind in (TAGE, LTAGE):
        tage.pass_by(state, pc, taken)
    elif kind == BIMODE:
        bimode.pass_by(state, row, taken, conditional)
    elif kind == TOURNAMENT:
        tournament.pass_by(state, row, pc, taken, conditional)
    elif kind == PERCEPTRON and conditional == 0:
        perceptron.pass_by(state, pc)
    return predicted


@merged
def learn(state: Predictor, which: int, pc: int, taken: int, target: int, conditional: int, direct: int) -> None:
    """The branch predicted in row `which` retires, having gone to `target`."""
    kind, row = state.parameters[KIND], state.notes[which]
    if kind == LOCAL:
        local.learn(state, pc, taken)
    elif kind == BIMODE:
        bimode.learn(state, row, pc, taken)
    elif kind == TOURNAMENT:
        tournament.learn(state, row, taken)
    elif kind == TAGE_SC_L:
        tage_sc_l.learn(state, row, pc, taken, target, conditional, direct)
    elif conditional == 1:
        if kind == PERCEPTRON:
            perceptron.learn(state, row, pc, taken, target)
        else:
            if kind == LTAGE:
                ltage.learn(state, row, pc, taken)
            tage.learn(state, row, pc, taken)
