"""Which predictor a machine has, as a number, so that the cores are compiled once and not once per predictor."""

from __future__ import annotations

from collections.abc import Callable

from uarch.timing.compiled import number, out_of_line
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


@out_of_line
def predict_update(state: Predictor, pc: int, taken: int) -> int:
    """The prediction for the conditional branch at `pc`, whose outcome is then learnt."""
    kind = state.parameters[KIND]
    predicted = 0
    if kind == LOCAL:
        predicted = local.predict(state, pc)
        local.update(state, pc, taken)
    elif kind == BIMODE:
        predicted = bimode.predict(state, pc)
        bimode.update(state, pc, taken)
    elif kind == TOURNAMENT:
        predicted = tournament.predict(state, pc)
        tournament.update(state, pc, taken)
    elif kind == TAGE:
        predicted = tage.predict(state, pc)
        tage.update(state, pc, taken)
    elif kind == LTAGE:
        predicted = ltage.predict(state, pc)
        ltage.update(state, pc, taken)
    elif kind == TAGE_SC_L:
        predicted = tage_sc_l.predict(state, pc)
        tage_sc_l.update(state, pc, taken)
    elif kind == PERCEPTRON:
        predicted = perceptron.predict(state, pc)
        perceptron.update(state, pc, taken)
    return predicted


@out_of_line
def observe(state: Predictor, pc: int) -> None:
    """An unconditional branch passes: predictors with global history shift it in."""
    kind = state.parameters[KIND]
    if kind == BIMODE:
        bimode.observe(state, pc, number(1))
    elif kind == TOURNAMENT:
        tournament.observe(state, pc, number(1))
    elif kind in (TAGE, LTAGE):
        tage.observe(state, pc, number(1))
    elif kind == TAGE_SC_L:
        tage_sc_l.observe(state, pc, number(1))
    elif kind == PERCEPTRON:
        perceptron.observe(state, pc, number(1))
