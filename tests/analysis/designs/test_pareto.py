"""Pareto fronts against brute force."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.designs.pareto import front, front_over_fields, front_over_points

_FEW = st.integers(0, 5)


@settings(max_examples=100)
@given(st.lists(st.tuples(_FEW, _FEW), min_size=1, max_size=30))
def test_two_quantities(points):
    array = np.array(points, float)
    found = front(array[:, 0], array[:, 1])
    for index, (x, y) in enumerate(points):
        beaten = any(
            (a <= x and b <= y and (a, b) != (x, y)) or ((a, b) == (x, y) and other < index)
            for other, (a, b) in enumerate(points)
        )
        assert found[index] == (not beaten)


def test_nothing_is_no_point_of_the_front():
    assert front(np.array([np.nan, 1.0]), np.array([0.0, 1.0])).tolist() == [False, True]


@settings(max_examples=100)
@given(st.lists(st.tuples(_FEW, _FEW, _FEW, st.sampled_from("ab")), min_size=1, max_size=25))
def test_time_over_fields(points):
    seconds, x, y, kind = (np.array(column) for column in zip(*points, strict=True))
    found = front_over_fields(seconds.astype(float), [x, y], [kind])
    kinds = [np.unique(kind, return_inverse=True)[1]]
    assert front_over_points(seconds.astype(float), [x, y], kinds).tolist() == found.tolist()
    for index, (s, a, b, k) in enumerate(points):
        beaten = any(
            k2 == k and s2 <= s and a2 <= a and b2 <= b and ((s2, a2, b2) != (s, a, b) or other < index)
            for other, (s2, a2, b2, k2) in enumerate(points)
        )
        assert found[index] == (not beaten)
