"""Arithmetic over fields as users write it, for costs, objectives and constraints: `2*l1d.size_kib + l2.size_kib`.

Python's own parser reads the text, which is never run: numbers, names, + - * / **, parentheses and the functions below
become a formula (`uarch.formula`), and all else is an error.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from support.errors import InputError
from support.text import nearest, show
from uarch.formula import Formula, evaluate, names

_DEEPEST = 100
_LONGEST = 500  # letters: a formula is never deeper than its text is long
_OPERATIONS: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
_FUNCTIONS = {"min": ("minimum", 2), "max": ("maximum", 2), "log2": ("log2", 1), "sqrt": ("sqrt", 1)}


@dataclass(frozen=True)
class Expression:
    """A parsed expression; `what` (`--cost`) begins its errors."""

    what: str
    text: str
    formula: Formula
    positions: Mapping[str, int]  # of each name's first letter, counted from 1

    @property
    def names(self) -> list[str]:
        """The names it holds, each once, in their order."""
        return list(dict.fromkeys(names(self.formula)))

    def check_names(self, known: Collection[str]) -> None:
        """Raises InputError for the first name that is not `known`, with the nearest one that is."""
        for name in self.names:
            if name not in known:
                hint = nearest(name, known)
                same_end = [other for other in known if other.split(".")[-1] == name.split(".")[-1]]
                if not hint and same_end:
                    hint = f" (did you mean {' or '.join(same_end)}?)"
                raise InputError(f"{self.what}, position {self.positions[name]}: no field {show(name)}{hint}")

    def replaced(self, name: str, by: Expression) -> Expression:
        """The expression with another one in the place of a name."""
        formula = _replaced(self.formula, name, by.formula)
        return Expression(self.what, self.text, formula, {**by.positions, **self.positions})

    def value(self, values: Mapping[str, Any]) -> Any:
        """Its value of the names' values: numbers, or arrays of one shape. Not finite where there is none."""
        with np.errstate(all="ignore"):
            return evaluate(self.formula, values)


def parse(text: str, what: str = "--cost") -> Expression:
    """The expression of a text. Raises InputError, which names the position (counted from 1)."""
    if len(text) > _LONGEST:
        raise InputError(f"{what}: {len(text):,} letters; an expression has at most {_LONGEST:,}")
    line = "".join(" " if letter.isspace() else letter for letter in text)
    indent = len(line) - len(line.lstrip())
    reader = _Reader(what, indent)
    if indent == len(line):
        raise reader.error("it is empty", 0)
    odd = next((at for at, letter in enumerate(line) if not letter.isascii() or letter in "#\\\0"), None)
    if odd is not None:
        raise reader.error(f"{show(line[odd])} is no part of an expression", odd - indent)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python's, as for 1if
            root = ast.parse(line[indent:], mode="eval").body
    except (RecursionError, MemoryError):
        raise reader.error(f"more than {_DEEPEST} operations within one another", 0) from None
    except SyntaxError as error:
        raise reader.error(str(error.msg), (error.offset or 1) - 1) from None
    return Expression(what, text, reader.formula(root, 0), reader.positions)


def _replaced(formula: Formula, name: str, by: Formula) -> Formula:
    if isinstance(formula, tuple):
        return formula[0], *(_replaced(part, name, by) for part in formula[1:])
    return by if formula == name else formula


class _Reader:
    """Turns Python's syntax tree into a formula."""

    def __init__(self, what: str, indent: int) -> None:
        self.what, self.indent = what, indent
        self.positions: dict[str, int] = {}

    def error(self, problem: str, offset: int) -> InputError:
        return InputError(
            f"{self.what}, position {self.indent + offset + 1}: {problem}; write arithmetic over fields, as "
            "2*l1d.size_kib + l2.size_kib, with + - * / ** ( ) min max log2 sqrt"
        )

    def formula(self, node: ast.expr, depth: int) -> Formula:
        """The formula of a node. `depth` counts what lies around it, but for what it is the left operand of."""
        if depth > _DEEPEST:
            raise self.error(f"more than {_DEEPEST} operations within one another", node.col_offset)
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return _float(value)
            case ast.Name() | ast.Attribute() if (name := _dotted(node)) is not None:
                self.positions.setdefault(name, self.indent + node.col_offset + 1)
                return name
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.formula(operand, depth + 1)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return "-", 0.0, self.formula(operand, depth + 1)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                return _OPERATIONS[type(op)], self.formula(left, depth), self.formula(right, depth + 1)
            case ast.Call(func=ast.Name(id=function), args=arguments, keywords=[]):
                return self._call(node, function, arguments, depth)
        raise self.error("this is no arithmetic", node.col_offset)

    def _call(self, node: ast.expr, function: str, arguments: list[ast.expr], depth: int) -> Formula:
        if function not in _FUNCTIONS:
            raise self.error(f"no function {show(function)}{nearest(function, _FUNCTIONS)}", node.col_offset)
        name, least = _FUNCTIONS[function]
        if (least == 1) != (len(arguments) == 1) or not arguments:
            wanted = "one argument" if least == 1 else "at least two arguments"
            raise self.error(f"{function} takes {wanted}, not {len(arguments)}", node.col_offset)
        return name, *(self.formula(argument, depth + 1) for argument in arguments)


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else None
