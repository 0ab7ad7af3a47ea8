"""An index of a lowered program as a sum of terms: which loops move it, by how much, and how many values it takes.

Loops that a schedule fused are taken apart again by divisions and remainders in the indices. Those are terms of their
own here, of as many values as the division or remainder has, so that the affine rest of the index keeps its strides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tracegen.tensor.loop_nest import Term
from tracegen.tensor.program import children

_DEEPEST = 64  # expressions


@dataclass(frozen=True)
class Form:
    """`moves`: {loop: change of the index from one step of it to the next}; `affine`: no term is a guess."""

    terms: tuple[Term, ...] = ()
    moves: Mapping[int, float] = field(default_factory=dict)
    affine: bool = True

    @property
    def span(self) -> float:
        """Values from the smallest to the largest."""
        return 1 + sum(abs(term.factor) * (term.count - 1) for term in self.terms)

    @property
    def loops(self) -> frozenset[int]:
        return frozenset[int]().union(*(term.loops for term in self.terms))

    def plus(self, other: Form) -> Form:
        moves = dict(self.moves)
        for loop, by in other.moves.items():
            moves[loop] = moves.get(loop, 0.0) + by
        return Form(self.terms + other.terms, moves, self.affine and other.affine)

    def times(self, factor: float) -> Form:
        terms = tuple(Term(term.loops, term.count, term.factor * factor) for term in self.terms)
        return Form(terms, {loop: by * factor for loop, by in self.moves.items()}, self.affine)


def index_form(node: Any, loops: Mapping[int, tuple[int, float]], scopes: Mapping[int, Any], depth: int = 0) -> Form:
    """The form of an index. `loops`: {variable: (loop, its extent)}; `scopes`: what other variables stand for."""
    from tvm.ir.expr import Var
    from tvm.tirx.expr import Add, Cast, FloorDiv, FloorMod, IntImm, Mul, Sub

    def inner(part: Any) -> Form:
        return index_form(part, loops, scopes, depth + 1)

    if isinstance(node, IntImm):
        return Form()
    if isinstance(node, Var):
        if node.id_ in loops:
            loop, extent = loops[node.id_]
            return Form((Term(frozenset((loop,)), extent, 1.0),), {loop: 1.0})
        return inner(scopes[node.id_]) if node.id_ in scopes and depth < _DEEPEST else Form()
    if depth < _DEEPEST:
        if isinstance(node, Cast):
            return inner(node.value)
        if isinstance(node, (Add, Sub)):
            return inner(node.a).plus(inner(node.b).times(1.0 if isinstance(node, Add) else -1.0))
        if isinstance(node, Mul):
            for constant, other in ((node.a, node.b), (node.b, node.a)):
                if isinstance(constant, IntImm):
                    return inner(other).times(float(constant.value))
        if isinstance(node, (FloorDiv, FloorMod)) and isinstance(node.b, IntImm) and node.b.value > 0:
            return _divided(inner(node.a), int(node.b.value), isinstance(node, FloorMod))
    parts = [inner(part) for part in children(node)] if depth < _DEEPEST else []
    reached = frozenset[int]().union(*(part.loops for part in parts))
    return Form((Term(reached, math.inf, 1.0),) if reached else (), {}, False)


def _divided(form: Form, divisor: int, remainder: bool) -> Form:
    """The quotient, or the remainder, as one term; a step of a loop moves it as it does where nothing is carried."""
    if not form.terms:
        return form
    whole = form.span if math.isinf(form.span) else math.ceil(form.span / divisor)
    count = min(divisor, form.span) if remainder else whole
    moves = {loop: math.fmod(by, divisor) if remainder else math.trunc(by / divisor) for loop, by in form.moves.items()}
    return Form((Term(form.loops, float(count), 1.0),), moves, False)
