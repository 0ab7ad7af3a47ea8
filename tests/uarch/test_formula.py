"""Formulas without NumPy (as in gem5's Python) give what they give with it."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from uarch.configuration import flatten
from uarch.constraints import RELATIONS
from uarch.formula import evaluate, is_power_of_two, names
from uarch.space import sample

ROOT = Path(__file__).parents[2]
FORMULAS = [
    *(relation.condition for relation in RELATIONS),
    *(("power of two", number) for number in (0, 1, 3, 0.5, 64, 2.0**40, math.nan)),
    *(
        (kind, a, b)
        for kind in ("+", "-", "*", "/", "min", "<=", ">", "!=", "and", "or")
        for a, b in ((1.5, 2), (2, 1.5), (0, 0), (-1, 0), ("gone", 3), (3, "gone"), ("l3.size_kib", "l2.size_kib"))
    ),
    *(("log2", number) for number in (0, 1, 10, -1)),
    ("not", "gone"),
    ("has", "l3.size_kib"),
    ("else", "l3.size_kib", 7),
    ("is", "core", "in-order"),
    ("choose", "core", ["in-order", "out-of-order"], [1, 2], 3),
]


def rows() -> list[dict]:
    """Machines as flat mappings, and some that break the rules."""
    machines = [flatten(machine.to_dict()) for machine in [*sample(6, seed=3), *sample(6, seed=3, space="embedded")]]
    return machines + [row | {"pipeline.rob_entries": 4, "l2.associativity": 3} for row in machines]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_without_numpy_the_numbers_are_the_same():
    code = """import json, sys
sys.modules["numpy"] = None
sys.path.insert(0, sys.argv[1])
from uarch.formula import evaluate, is_power_of_two, names
rows, formulas = json.load(sys.stdin)
tuples = lambda item: tuple(map(tuples, item)) if isinstance(item, list) else item
print(json.dumps([[float(evaluate(tuples(formula), row)) for formula in formulas] for row in rows]))"""
    given = json.dumps([rows(), FORMULAS])
    done = subprocess.run([sys.executable, "-c", code, ROOT], input=given, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    for row, numbers in zip(rows(), found, strict=True):
        for formula, number in zip(FORMULAS, numbers, strict=True):
            wanted = float(evaluate(formula, row))
            assert number == wanted or (math.isnan(number) and math.isnan(wanted)), formula


def test_powers_of_two_are_whole():
    assert is_power_of_two(np.array([0.25, 0.5, 1, 2, 3, 0])).tolist() == [False, False, True, True, False, False]


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (3, []),
        ("a", ["a"]),
        (("+", "a", ("min", 1, "b", "a")), ["a", "b", "a"]),
        (("is", "core", "in-order"), ["core"]),
        (("has", "a"), ["a"]),
        (("choose", "kind", ("x", "y"), (1, 2), ("log2", "a")), ["kind", "a"]),
    ],
)
def test_names_are_those_that_are_read(formula, expected):
    assert list(names(formula)) == expected
