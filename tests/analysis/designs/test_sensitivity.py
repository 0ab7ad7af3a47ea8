"""First-order indices of functions whose indices are known."""

import itertools

import numpy as np
import pandas as pd
import pytest

from analysis.designs.sensitivity import first_order, sensitivity


def test_an_additive_function_on_a_grid():
    rows = [(a, b, c, 3.0 * a + b) for a, b, c in itertools.product(range(4), range(4), ["x", "y"])]
    frame = pd.DataFrame(rows, columns=["a", "b", "c", "seconds"]).assign(program="p")
    found = sensitivity(frame, ["c", "b", "a"], "seconds", exact=True).set_index("field")
    assert found.index.tolist() == ["a", "b", "c"]
    assert found["first_order"].tolist() == pytest.approx([0.9, 0.1, 0.0])
    assert found.loc["a", "best"] == 0
    assert found.loc["a", "range"] == pytest.approx((9 + 1.5) / 1.5)


def test_ishigami_from_a_sample():
    """Ishigami & Homma 1990, a = 7, b = 0.1: S = 0.3139, 0.4424, 0."""
    x = np.random.default_rng(0).uniform(-np.pi, np.pi, (20_000, 3))
    y = np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])
    frame = pd.DataFrame(x, columns=["x1", "x2", "x3"]).assign(program="p", seconds=y)
    found = sensitivity(frame, ["x1", "x2", "x3"], "seconds", exact=False).set_index("field")["first_order"]
    assert found["x1"] == pytest.approx(0.3139, abs=0.02)
    assert found["x2"] == pytest.approx(0.4424, abs=0.02)
    assert found["x3"] == pytest.approx(0.0, abs=0.01)


def test_what_chance_would_explain_is_taken_off_a_sample():
    """Means 0.5 and 4.5 explain 16 of 17; one class more than one takes a half of the rest off, for four points."""
    y, place = np.array([0.0, 1.0, 4.0, 5.0]), np.array([0, 0, 1, 1])
    assert first_order(y, place, exact=True) == pytest.approx(16 / 17)
    assert first_order(y, place, exact=False) == pytest.approx(16 / 17 - 1 / 17 / 2)


def test_the_best_of_a_search_is_its_best_points():
    """Two slow points with 8 hide in the mean that the fastest one has 8 too; of 11 there is none."""
    frame = pd.DataFrame({"width": [4, 4, 8, 8, 8, 14], "seconds": [2.0, 2.1, 1.9, 9.0, 9.0, 2.2], "program": "p"})
    assert sensitivity(frame, ["width"], "seconds", exact=False, searched=True)["best"].tolist() == [8]
    assert sensitivity(frame, ["width"], "seconds", exact=True)["best"].tolist() == [4]


def test_the_best_of_a_sample_is_a_value_that_occurs():
    """Twelve values in three classes: the middle of the least, 2.5, is no number of registers."""
    registers = np.repeat(np.arange(1, 13), 2)
    frame = pd.DataFrame({"registers": registers, "seconds": 1.0 + registers, "program": "p"})
    (row,) = sensitivity(frame, ["registers"], "seconds", exact=False).to_dict(orient="records")
    assert row["best"] == 2


def test_absent_values_are_a_class():
    frame = pd.DataFrame({"l3": [np.nan] * 40 + [1.0] * 40, "seconds": [2.0] * 40 + [1.0] * 40, "program": "p"})
    (row,) = sensitivity(frame, ["l3"], "seconds", exact=False).to_dict(orient="records")
    assert row["first_order"] == pytest.approx(1.0)
    assert row["best"] == 1.0


def test_nothing_matters_where_nothing_varies():
    frame = pd.DataFrame({"a": [1, 2], "seconds": [0.1, 0.1], "program": "p"})
    assert sensitivity(frame, ["a"], "seconds", exact=True)["first_order"].tolist() == [0.0]
