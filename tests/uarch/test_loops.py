"""Small loops, one mechanism each, beside the cycles that stock gem5 took for them (`loops/gem5.json`)."""

import shutil

import pytest

from benchmarks.uarch.gem5_loops import all_loops, all_machines, compared

LOOPS = [loop for loop in all_loops() if loop.skip <= 100_000]  # the others take long to trace


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-x86_64 is not installed")
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_as_many_cycles_as_gem5(loop):
    """Within what `loops.yaml` says of the loop: 5 % or a cycle a round, where it says nothing."""
    far = []
    for pair in compared([loop], all_machines()):
        within = loop.within if pair.machine.core == "out-of-order" else loop.within_in_order
        if abs(pair.ours - pair.gem5) > max(within * pair.gem5, 1.01):
            far.append(f"{pair.machine.name}: {pair.ours:.2f}, gem5 {pair.gem5:.2f}")
    assert not far, "; ".join(far)
