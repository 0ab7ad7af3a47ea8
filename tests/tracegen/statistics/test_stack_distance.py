"""Stack distances against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracegen.statistics.stack_distance import COLD, StackDistance


def brute_force(lines):
    stack, out = [], []
    for line in lines:
        if line in stack:
            depth = stack.index(line)
            stack.pop(depth)
        else:
            depth = COLD
        stack.insert(0, line)
        out.append(depth)
    return out


def test_known_distances():
    assert StackDistance().measure(np.array([7, 7, 8, 9, 7, 8, 8, 9], np.uint64)).tolist() == [
        -1,
        0,
        -1,
        -1,
        2,
        2,
        0,
        2,
    ]


@settings(max_examples=60)
@given(
    lines=st.lists(st.integers(0, 40) | st.integers(0, 2**64 - 2), max_size=400),
    cuts=st.lists(st.integers(0, 400), max_size=4),
)
def test_equals_brute_force_in_any_chunking(lines, cuts):
    stream = np.array(lines, np.uint64)
    stack = StackDistance()
    parts = [stack.measure(part) for part in np.split(stream, sorted(min(cut, len(lines)) for cut in cuts))]
    assert np.concatenate(parts).tolist() == brute_force(lines)
    assert stack.distinct == len(set(lines))


def test_equals_brute_force_over_many_renumberings():
    rng = np.random.default_rng(1)
    lines = np.concatenate([rng.integers(0, limit, 3000) for limit in (3, 2000, 50, 700)]).astype(np.uint64)
    stack = StackDistance()
    measured = np.concatenate([stack.measure(part) for part in np.array_split(lines, 97)])
    assert measured.tolist() == brute_force(lines.tolist())


@pytest.mark.parametrize("period", [5000, 300_000])  # the longer one's slots are in more than one region
def test_cyclic_stream_has_its_period_as_distance(period):
    distances = StackDistance().measure(np.tile(np.arange(period, dtype=np.uint64), 4))
    assert (distances[:period] == COLD).all()
    assert (distances[period:] == period - 1).all()


def test_equals_brute_force_where_every_level_of_the_tree_counts():
    # Distances by the definition with a set of the lines in between, on a stream that spans many groups of slots.
    rng = np.random.default_rng(4)
    lines = np.concatenate([np.arange(30_000), rng.integers(0, 30_000, 40_000), np.arange(30_000)]).astype(np.uint64)
    found = StackDistance().measure(lines)
    last = {}
    for index, line in enumerate(lines.tolist()):
        if index % 997 == 0 and line in last:
            assert found[index] == len(set(lines[last[line] + 1 : index].tolist()))
        last[line] = index


def test_memory_is_that_of_the_distinct_lines():
    stack = StackDistance()
    stack.measure(np.tile(np.arange(5000, dtype=np.uint64), 200))
    few = sum(array.nbytes for array in stack.reserve(1))
    assert few < 64 * 5000 + 20_000
