"""The cost language against Python's own arithmetic, and what it says of anything else."""

import ast
import math
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.errors import InputError
from uarch.expression import parse

_NUMBERS = st.floats(0.01, 100).map(lambda value: f"{value:.4g}")
_LEAVES = st.one_of(_NUMBERS, st.sampled_from(["a", "b"]))
_TEXTS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", " - ", "*", "/", " ** "]), inner).map("".join),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"-{text}"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        st.tuples(st.sampled_from(["sqrt", "log2"]), inner).map(lambda t: f"{t[0]}(1 + ({t[1]})**2)"),
    ),
    max_leaves=8,
)
_NAMES = {"a": 3.0, "b": 0.5}
_FUNCTIONS = {"min": min, "max": max, "sqrt": math.sqrt, "log2": math.log2}
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}


def pythons(node):
    """The value of an expression as Python's own grammar reads it."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return _NAMES[node.id]
        case ast.UnaryOp():
            return _OPERATORS[type(node.op)](pythons(node.operand))
        case ast.BinOp():
            return _OPERATORS[type(node.op)](pythons(node.left), pythons(node.right))
        case ast.Call():
            return _FUNCTIONS[node.func.id](*map(pythons, node.args))
    raise TypeError(ast.dump(node))


@settings(max_examples=100)
@given(_TEXTS)
def test_values_are_python_s(text):
    try:
        expected = pythons(ast.parse(text, mode="eval").body)
    except (ZeroDivisionError, OverflowError, ValueError):
        return
    if isinstance(expected, complex) or not math.isfinite(expected) or len(text) > 500:
        return
    found = float(parse(text).value({"a": 3.0, "b": 0.5}))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12) or not math.isfinite(found)


def test_arrays_give_arrays():
    value = parse("max(l1d.size_kib, 2) * 2**x").value(
        {"l1d.size_kib": np.array([1.0, 4.0]), "x": np.array([0.0, 3.0])}
    )
    assert value.tolist() == [2.0, 32.0]


def test_names_each_once():
    assert parse("l1d.size_kib + 2*l2.size_kib - l1d.size_kib").names == ["l1d.size_kib", "l2.size_kib"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "position 1: it is empty"),
        ("1 +", "invalid syntax"),
        ("1 2", "syntax"),
        ("(1", "position 1"),
        ("1)", "position 2"),
        ("2 * * 3", "position 5"),
        ("__import__('os')", "no function"),
        ("__import__(1)", "no function '__import__'"),
        ("mix(1, 2)", "did you mean min"),
        ("min(1)", "at least two"),
        ("sqrt(1, 2)", "one argument"),
        ("2 + a[0]", "position 5: this is no arithmetic"),
        ("a = 1", "position 3"),
        ("1 if a else 2", "this is no arithmetic"),
        ("2 * 'a'", "position 5"),
        ("True", "this is no arithmetic"),
        ("1 # 2", "position 3"),
        ("min(a=1)", "this is no arithmetic"),
        ("a.b(1)", "this is no arithmetic"),
        ("2 * é", "position 5"),
        ("a\0", "position 2"),
        ("1;2", "position 2"),
        ("x:=1", "position 2"),
        ("(" * 240 + "1" + ")" * 240, "position"),
        ("-" * 300 + "1", "within one another"),
        ("1+" * 400 + "1", "at most"),
    ],
)
def test_what_is_not_arithmetic_is_told_by_position(text, says):
    with pytest.raises(InputError) as raised:
        parse(text)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_longest_chain_has_a_value():
    assert parse("+".join(["1"] * 250)).value({}) == 250


def test_another_expression_in_the_place_of_a_name():
    whole = parse("cost * time - cost").replaced("cost", parse("2*l1d.size_kib"))
    assert whole.names == ["l1d.size_kib", "time"]
    assert whole.value({"l1d.size_kib": 3.0, "time": 5.0}) == 24


def test_an_unknown_name_has_a_near_one():
    with pytest.raises(InputError, match=r"position 5: no field 'l1d.sise_kib' \(did you mean l1d.size_kib\?\)"):
        parse("2 * l1d.sise_kib").check_names(["l1d.size_kib", "l2.size_kib"])


def test_a_name_beside_one_that_was_replaced_keeps_its_position():
    found = parse("cost + l9.size").replaced("cost", parse("l2.size"))
    assert found.names == ["l2.size", "l9.size"]
    with pytest.raises(InputError, match=r"position 8: no field 'l9\.size'"):
        found.check_names(["l2.size"])
