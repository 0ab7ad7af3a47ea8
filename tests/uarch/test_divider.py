"""A divider that takes operations out of order: by hand, and against a set of its busy cycles."""

from hypothesis import given
from hypothesis import strategies as st

from uarch.timing._core import parts


def test_operations_follow_one_another():
    divider = parts.OutOfOrderDivider()
    assert [divider.reserve(10, 5) for _ in range(3)] == [10, 15, 20]


def test_a_younger_operation_goes_first_while_an_older_one_waits():
    divider = parts.OutOfOrderDivider()
    assert divider.reserve(100, 5) == 100
    assert divider.reserve(0, 9) == 0


def test_the_unit_is_not_idle_because_a_gap_is_short():
    """A root of 9 cycles is ready at 18, before an older division, ready at 23, that was booked already."""
    divider = parts.OutOfOrderDivider()
    assert divider.reserve(23, 5) == 23
    assert divider.reserve(18, 9) == 18  # 18 to 22, then 28 to 31
    assert divider.reserve(18, 1) == 32


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 40)), max_size=60))
def test_an_operation_takes_the_first_idle_cycles(operations):
    divider, busy = parts.OutOfOrderDivider(), set()
    for ready, duration in operations:
        idle = [cycle for cycle in range(ready, ready + 4000) if cycle not in busy][:duration]
        assert divider.reserve(ready, duration) == idle[0]
        busy |= set(idle)
