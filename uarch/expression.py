"""Arithmetic over fields, as a cost, an objective or a side of a constraint: `2*l1d.size_kib + l2.size_kib`, parsed and
never run as code.

sum      = product { ("+" | "-") product }
product  = signed { ("*" | "/") signed }
signed   = ("+" | "-") signed | power
power    = primary [ "**" signed ]            (as in Python: -2**2 is -(2**2), and 2**3**2 is 2**(3**2))
primary  = number | name | function "(" sum { "," sum } ")" | "(" sum ")"
function = min | max (two or more arguments) | log2 | sqrt (one)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, NoReturn

import numpy as np

from support.errors import InputError
from support.text import nearest, show

_DEEPEST = 100
_LONGEST = 500  # letters: a tree is never deeper than its text is long
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*(?:\.\w+)*)"
    r"|(?P<sign>\*\*|[-+*/(),]))",
    re.ASCII,
)
_FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "min": (np.minimum, 2), "max": (np.maximum, 2), "log2": (np.log2, 1), "sqrt": (np.sqrt, 1),
}  # fmt: skip
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "**": np.float_power,
}  # fmt: skip


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Name:
    name: str
    position: int  # of its first letter, counted from 1


@dataclass(frozen=True)
class Operation:
    """Two operands, or one that is negated (`left` is then the number 0)."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Call:
    function: str
    arguments: tuple[Node, ...]


Node = Number | Name | Operation | Call


@dataclass(frozen=True)
class Expression:
    """A parsed expression; `what` (`--cost`) begins its errors."""

    what: str
    text: str
    root: Node

    @property
    def names(self) -> list[str]:
        """The names it holds, each once, in their order."""
        return list(dict.fromkeys(node.name for node in _walk(self.root) if isinstance(node, Name)))

    def check_names(self, known: Collection[str]) -> None:
        """Raises InputError for the first name that is not `known`, with the nearest one that is."""
        for node in _walk(self.root):
            if isinstance(node, Name) and node.name not in known:
                hint = nearest(node.name, known)
                same_end = [name for name in known if name.split(".")[-1] == node.name.split(".")[-1]]
                if not hint and same_end:
                    hint = f" (did you mean {' or '.join(same_end)}?)"
                raise InputError(f"{self.what}, position {node.position}: no field {show(node.name)}{hint}")

    def replaced(self, name: str, by: Expression) -> Expression:
        """The expression with another one in the place of a name."""
        return Expression(self.what, self.text, _replaced(self.root, name, by.root))

    def value(self, values: Mapping[str, Any]) -> Any:
        """Its value of the names' values: numbers, or arrays of one shape. Not finite where there is none."""
        with np.errstate(all="ignore"):
            return _value(self.root, values)


def parse(text: str, what: str = "--cost") -> Expression:
    """The expression of a text. Raises InputError, which names the position (counted from 1)."""
    if len(text) > _LONGEST:
        raise InputError(f"{what}: {len(text):,} letters; an expression has at most {_LONGEST:,}")
    return Expression(what, text, _Parser(text, what).whole())


def _walk(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, Operation):
        yield from _walk(node.left)
        yield from _walk(node.right)
    elif isinstance(node, Call):
        for argument in node.arguments:
            yield from _walk(argument)


def _replaced(node: Node, name: str, by: Node) -> Node:
    if isinstance(node, Name):
        return by if node.name == name else node
    if isinstance(node, Operation):
        return Operation(node.sign, _replaced(node.left, name, by), _replaced(node.right, name, by))
    if isinstance(node, Call):
        return Call(node.function, tuple(_replaced(argument, name, by) for argument in node.arguments))
    return node


def _value(node: Node, values: Mapping[str, Any]) -> Any:
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Name):
        return values[node.name]
    if isinstance(node, Operation):
        return _OPERATIONS[node.sign](_value(node.left, values), _value(node.right, values))
    function, _ = _FUNCTIONS[node.function]
    arguments = [_value(argument, values) for argument in node.arguments]
    return function(arguments[0]) if len(arguments) == 1 else reduce(function, arguments)


class _Parser:
    """Recursive descent over the tokens (position, kind, text)."""

    def __init__(self, text: str, what: str) -> None:
        self.text, self.what = text, what
        self.tokens: list[tuple[int, str, str]] = []
        self.at = self.depth = 0
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                start = position + len(text[position:]) - len(text[position:].lstrip())
                raise self._error(f"{show(text[start])} is no part of an expression", start)
            kind = str(match.lastgroup)
            self.tokens.append((match.start(kind), kind, match[kind]))
            position = match.end()

    def whole(self) -> Node:
        root = self._sum()
        if self.at < len(self.tokens):
            self._fail(f"{show(self.tokens[self.at][2])} where an operator or the end belongs")
        return root

    def _fail(self, problem: str, position: int | None = None) -> NoReturn:
        raise self._error(problem, position)

    def _error(self, problem: str, position: int | None = None) -> InputError:
        if position is None:
            position = self.tokens[self.at][0] if self.at < len(self.tokens) else len(self.text)
        return InputError(
            f"{self.what}, position {position + 1}: {problem}; write arithmetic over fields, as 2*l1d.size_kib + "
            "l2.size_kib, with + - * / ** ( ) min max log2 sqrt"
        )

    def _take(self, *signs: str) -> str | None:
        if self.at < len(self.tokens) and self.tokens[self.at][1] == "sign" and self.tokens[self.at][2] in signs:
            self.at += 1
            return self.tokens[self.at - 1][2]
        return None

    def _sum(self) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            self._fail(f"more than {_DEEPEST} operations within one another")
        node = self._product()
        while sign := self._take("+", "-"):
            node = Operation(sign, node, self._product())
        self.depth -= 1
        return node

    def _product(self) -> Node:
        node = self._signed()
        while sign := self._take("*", "/"):
            node = Operation(sign, node, self._signed())
        return node

    def _signed(self) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            self._fail(f"more than {_DEEPEST} operations within one another")
        sign = self._take("+", "-")
        node = self._power() if sign is None else self._signed()
        self.depth -= 1
        return node if sign in (None, "+") else Operation("-", Number(0.0), node)

    def _power(self) -> Node:
        node = self._primary()
        return Operation("**", node, self._signed()) if self._take("**") else node

    def _primary(self) -> Node:
        if self._take("("):
            node = self._sum()
            self._close()
            return node
        if self.at >= len(self.tokens):
            self._fail("a number or a field is missing" if self.tokens else "it is empty")
        position, kind, text = self.tokens[self.at]
        if kind == "sign":
            self._fail(f"{show(text)} where a number or a field belongs")
        self.at += 1
        if kind == "number":
            return Number(float(text))
        if self._take("("):
            return self._call(text, position)
        return Name(text, position + 1)

    def _call(self, function: str, position: int) -> Node:
        if function not in _FUNCTIONS:
            self._fail(f"no function {show(function)}{nearest(function, _FUNCTIONS)}", position)
        arguments = [self._sum()]
        while self._take(","):
            arguments.append(self._sum())
        self._close()
        least = _FUNCTIONS[function][1]
        if (least == 1) != (len(arguments) == 1):
            wanted = "one argument" if least == 1 else "at least two arguments"
            self._fail(f"{function} takes {wanted}, not {len(arguments)}", position)
        return Call(function, tuple(arguments))

    def _close(self) -> None:
        if not self._take(")"):
            self._fail("a closing ) is missing")
