"""Times of whole runs on this computer, beside their vectors."""

import numpy as np
import pandas as pd
import pytest

from analysis.real_computers import suite_times
from perfvec.machines.times import read_times
from perfvec.representation.vector import load_vector
from support.errors import InputError
from tracegen.formats.trace import Trace
from tracegen.qemu import Execution, trace
from tracegen.suite import timing
from tracegen.suite.host_clock import clock_ghz
from tracegen.suite.host_time import HostTime, host_time
from tracegen.suite.workloads import Workload


def test_median_and_its_error_by_hand():
    times = HostTime(user=(1.0, 2.0, 3.0, 4.0, 100.0), system=(0.0,) * 5)
    assert times.seconds == 3.0
    assert times.uncertainty == pytest.approx(1.2533 * (4 - 2) / 1.349 / np.sqrt(5))


@pytest.mark.slow
def test_time_is_that_of_the_program():
    spin = "i=0; while [ $i -lt {} ]; do i=$((i+1)); done"
    short, long = (host_time(["sh", "-c", spin.format(n)], repeats=3) for n in (20_000, 200_000))
    assert len(short.user) == 3
    assert long.seconds + sum(long.system) / 3 > 3 * short.seconds


def test_the_clock_is_one_of_a_processor():
    assert 0.3 < clock_ghz(repeats=1) < 10


def test_a_fit_is_shown_by_its_errors():
    table = pd.DataFrame(
        {
            "program": ["a", "b"],
            "seconds": [1.0, 2.0],
            "fitted": [1.1, 1.9],
            "deviation": 0.1,
            "left_out": [1.2, 1.8],
            "prior_error": [0.5, -0.5],
            "left_out_error": [0.2, -0.1],
        }
    )
    text = suite_times.shown(table)
    assert "predicted from the others: mean 15.0%, median 15.0%" in text
    assert "by the prior: mean 50.0%" in text
    assert max(map(len, text.splitlines())) <= 80
    points, bars = suite_times.plot(table).panels
    assert np.asarray(points.marks[1].y).tolist() == [1.5, 1.0]
    assert list(bars.marks[0].category) == ["a", "b"]  # the largest error first
    assert np.asarray(bars.marks[0].value).tolist() == [20.0, -10.0]
    assert suite_times.sections(table)[0].table is table


def test_processes_that_it_waits_for_are_noticed():
    assert host_time(["sh", "-c", "/bin/true; :"], repeats=1).children
    assert not host_time(["/bin/true"], repeats=1).children


def test_what_fails_is_told():
    with pytest.raises(InputError, match="status 3"):
        host_time(["sh", "-c", "exit 3"])
    with pytest.raises(InputError, match="cannot run"):
        host_time(["/no/such/program"])
    assert host_time(["sh", "-c", "exit 3"], repeats=1, status=(3,)).user[0] >= 0


def test_what_takes_no_time_is_left_out(tmp_path, monkeypatch):
    """A short run's time may be the kernel's mode alone, by where a tick fell."""
    workload = Workload("w", "kernel", ("{kernel}", "300"), "test", kernel="qsort")
    monkeypatch.setattr(timing, "select", lambda names: [workload])
    monkeypatch.setattr(timing, "host_time", lambda *_, **__: HostTime((0.0, 0.0, 0.001), (0.001, 0.001, 0.0)))
    frame, failures = timing.time_workloads(["w"], tmp_path, repeats=3, progress=False)
    assert frame.empty and "too short for the kernel's clock" in failures["w"]


@pytest.mark.slow
def test_what_is_timed_is_what_is_represented(data, tmp_path, monkeypatch):
    def workload(name, argument, status=0):
        return Workload(name, "kernel", ("{kernel}", argument), "test", kernel="qsort", status=(status,))

    # Some ticks of the kernel long, so that not all of one fall into its own mode.
    known = {
        "small": workload("small", "120000"),
        "large": workload("large", "240000"),
        "odd": workload("odd", "300", 9),
    }
    for module in (suite_times, timing):
        monkeypatch.setattr(module, "select", lambda names, set_name=None: [known[name] for name in names])
    found, failures = suite_times.time_suite(data.model, list(known), tmp_path, repeats=3, progress=False)
    assert found["program"].tolist() == ["small", "large"]
    assert list(failures) == ["odd"]
    unit, times = read_times(tmp_path / suite_times.TIMES)
    assert unit == "seconds"
    assert [time.value for time in times] == pytest.approx(found["seconds"].tolist())
    program = tmp_path / "inputs" / "kernel-qsort"
    trace(Execution([str(program), "120000"], stdout=2), tmp_path / "t.trace.h5", progress=False)
    with Trace(tmp_path / "t.trace.h5") as whole:  # environments differ by a few instructions
        assert load_vector(times[0].target).instructions == pytest.approx(len(whole), rel=0.01)
    before = (tmp_path / "small.vector.npz").stat().st_mtime_ns
    suite_times.time_suite(data.model, ["small"], tmp_path, repeats=1, progress=False)
    assert (tmp_path / "small.vector.npz").stat().st_mtime_ns == before
    found, _ = suite_times.time_suite(data.model, ["large"], tmp_path / "units", repeats=1, units=30, progress=False)
    vector = load_vector(tmp_path / "units" / "large.vector.npz")
    assert vector.sampling.units_represented == 30
    assert vector.instructions == pytest.approx(load_vector(times[1].target).instructions, rel=0.01)
