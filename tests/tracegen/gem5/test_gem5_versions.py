"""Output of gem5 v23 that has another form in v24: runs of v23.0.0.1 in `data/gem5/v23`, made as those beside it."""

import numpy as np
import pytest

from tests.tracegen.gem5 import gem5_runs
from tracegen.formats.latency import LatencyFile
from tracegen.formats.trace import Trace
from tracegen.gem5.reader import import_gem5
from uarch.gem5.config import import_config

V23, V24 = gem5_runs.DATA / "v23" / "aarch64", gem5_runs.DATA / "aarch64"


def imported(run, folder):
    """(report, trace, latencies [n])"""
    folder.mkdir()
    done = import_gem5(
        [run], folder / "t.trace.h5", latency=folder / "t.latency.h5", program=V24 / "touch", progress=False
    )
    with LatencyFile(folder / "t.latency.h5") as file:
        return done, Trace(folder / "t.trace.h5"), file.read(0, len(file))[0]


@pytest.mark.parametrize("core", gem5_runs.CORES)
def test_a_run_of_v23_is_that_of_v24(core, tmp_path):
    """v23 prints vector registers whole (256 bytes) and some ticks of O3PipeView as 0; instructions, accesses and ticks
    of retirement of this program are the same.
    """
    assert gem5_runs.lines(core, V23) != gem5_runs.lines(core, V24)
    done, trace, latency = imported(V23 / core, tmp_path / "23")
    _, wanted, wanted_latency = imported(V24 / core, tmp_path / "24")
    assert done.checked
    np.testing.assert_array_equal(latency, wanted_latency)
    np.testing.assert_array_equal(trace.address, wanted.address)
    np.testing.assert_array_equal(trace.code, wanted.code)
    (ours,), (theirs,) = trace.chunks(size=1 << 20), wanted.chunks(size=1 << 20)
    for name in ("static_id", "address", "size", "is_store", "access_offset"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    with LatencyFile(tmp_path / "23" / "t.latency.h5") as file:
        assert file.simulator == "gem5 23.0.0.1"


@pytest.mark.parametrize("core", gem5_runs.CORES)
def test_a_configuration_of_v23_is_the_machine_that_ran(core):
    """The tables of targets are sizes of v23.0's predictor, and objects of v24's."""
    machine = gem5_runs.machine_that_ran(core)
    found, notes = import_config(V23 / core / "config.json", base=machine)
    assert found == machine
    assert notes == import_config(V24 / core / "config.json", base=machine)[1]
