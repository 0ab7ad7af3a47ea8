"""Graphs of kernels on streams: an example by hand, and what holds for every graph."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.tensor.streams import levels, list_schedule
from support.errors import InputError

# a (2 s) → c (1 s) ─┐
# b (3 s) → d (2 s) ─┴→ e (1 s)
SECONDS = [2.0, 3.0, 1.0, 2.0, 1.0]
BEFORE = [(), (), (0,), (1,), (2, 3)]


def test_one_stream_is_the_sum():
    assert list_schedule(SECONDS, BEFORE, 1).makespan == 9.0


def test_two_streams_by_hand():
    found = list_schedule(SECONDS, BEFORE, 2)
    # b has the longest way to the end (6 s) and goes first; c follows a at once, d waits for b, e for both
    assert found.start.tolist() == [0.0, 0.0, 2.0, 3.0, 5.0]
    assert found.end.tolist() == [2.0, 3.0, 3.0, 5.0, 6.0]
    assert found.stream.tolist()[:3] == [1, 0, 1]


def test_levels_by_hand():
    assert levels(SECONDS, BEFORE).tolist() == [4.0, 6.0, 2.0, 3.0, 1.0]


def test_the_longest_path_goes_first():
    # x is short and leads to a long kernel; on one stream it must not matter, on two it hides y and z
    found = list_schedule([1.0, 4.0, 4.0, 8.0], [(), (), (), (0,)], 2)
    assert found.start[0] == 0.0
    assert found.makespan == 9.0


def test_a_kernel_cannot_wait_for_a_later_one():
    with pytest.raises(InputError, match="kernel 0 waits for kernel 1"):
        list_schedule([1.0, 1.0], [(1,), ()], 1)


def test_no_stream_is_refused():
    with pytest.raises(InputError, match="at least one"):
        list_schedule([1.0], [()], 0)


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 12))
    seconds = draw(st.lists(st.integers(0, 9).map(float), min_size=count, max_size=count))
    before = [tuple(draw(st.sets(st.integers(0, kernel - 1), max_size=3))) if kernel else () for kernel in range(count)]
    return seconds, before


@given(graphs(), st.integers(1, 4))
def test_order_streams_and_grahams_bound(graph, streams):
    seconds, before = graph
    found = list_schedule(seconds, before, streams)
    for kernel, others in enumerate(before):
        assert all(found.end[other] <= found.start[kernel] for other in others)
    for stream in range(streams):
        mine = sorted(zip(found.start[found.stream == stream], found.end[found.stream == stream], strict=True))
        assert all(first[1] <= second[0] for first, second in pairwise(mine))
    longest, work = levels(seconds, before).max(), sum(seconds)
    assert found.makespan >= max(longest, work / streams) - 1e-9
    assert found.makespan <= work / streams + (1 - 1 / streams) * longest + 1e-9


def test_engines_by_hand():
    """a and b compute, c and d copy: with one engine of each, copies run beside the other computation."""
    engines = ["compute", "compute", "copy", "copy", "compute"]
    one = list_schedule(SECONDS, BEFORE, {"compute": 1, "copy": 1}, engines)
    # b (6 s to the end) computes first, then a; d copies from 3, c from 5, e computes from 6
    assert one.start.tolist() == [3.0, 0.0, 5.0, 3.0, 6.0]
    assert one.stream.tolist() == [0, 0, 1, 1, 0]
    two = list_schedule(SECONDS, BEFORE, {"compute": 2, "copy": 1}, engines)
    assert two.start.tolist() == [0.0, 0.0, 2.0, 3.0, 5.0]


def test_an_engine_without_streams_is_refused():
    with pytest.raises(InputError, match="0 streams of engine 'copy'"):
        list_schedule([1.0], [()], {"compute": 1}, ["copy"])


@given(graphs(), st.integers(1, 3), st.integers(1, 3), st.data())
def test_no_engine_runs_more_than_its_streams_and_none_idles_while_its_kernels_wait(graph, compute, copy, data):
    seconds, before = graph
    engines = [data.draw(st.sampled_from(["compute", "copy"])) for _ in seconds]
    numbers = {"compute": compute, "copy": copy}
    found = list_schedule(seconds, before, numbers, engines)
    for kernel, others in enumerate(before):
        assert all(found.end[other] <= found.start[kernel] for other in others)
        assert (found.stream[kernel] < compute) == (engines[kernel] == "compute")
    for now in found.start:
        for engine, number in numbers.items():
            mine = [k for k in range(len(seconds)) if engines[k] == engine]
            busy = sum(found.start[k] <= now < found.end[k] for k in mine)
            waiting = any(found.start[k] > now and all(found.end[other] <= now for other in before[k]) for k in mine)
            assert busy <= number
            assert not waiting or busy == number
    assert found.makespan >= max(levels(seconds, before))
