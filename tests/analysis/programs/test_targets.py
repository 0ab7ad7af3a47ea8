"""Programs of a question, and what their vectors cost."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.programs.span import Span
from analysis.programs.targets import RATE, target_of, target_of_vector
from analysis.questions.simulate import simulate
from perfvec.representation.represent import represent
from support.errors import InputError
from tracegen.formats.trace import Trace
from tracegen.live_points.live_points import save
from tracegen.live_points.record import of_trace
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation


def test_a_trace_is_represented_where_there_is_time(data):
    path = data.traces / "qsort.trace.h5"
    target = target_of(data.model, path, progress=False)
    needed = target.instructions / RATE
    assert target.represented_within(1.01 * needed) and not target.represented_within(0.99 * needed)
    assert "vector" not in vars(target)  # to ask costs nothing
    assert target.vector.instructions == target.instructions
    assert target.represented_within(0.0)


def test_a_vector_is_there_and_live_points_may_have_none(data, tmp_path):
    path = data.traces / "qsort.trace.h5"
    vector = represent(data.model, path, progress=False)
    assert target_of_vector(data.model, vector, path).represented_within(0.0)
    without = tmp_path / "qsort.livepoints.h5"
    save(of_trace(path, progress=False), without)
    assert not target_of(data.model, without).represented_within(1e9)


def test_a_part_of_a_run_has_no_vector_but_its_beginning(data, tmp_path):
    path = data.traces / "qsort.trace.h5"
    later = target_of(data.model, path, span=Span(20_000, 5_000), progress=False)
    assert later.instructions == 5_000 and not later.represented_within(1e9)
    with pytest.raises(InputError, match="for --start every point must be simulated"):
        _ = later.vector
    vector = represent(data.model, path, max_instructions=30_000, progress=False)
    for first in (
        target_of(data.model, path, span=Span(count=30_000), progress=False),
        target_of(data.model, path, 30_000, progress=False),
        target_of_vector(data.model, represent(data.model, path, progress=False), path, Span(count=30_000)),
    ):
        assert first.instructions == 30_000 and np.array_equal(first.vector.vector, vector.vector)
    assert target_of(data.model, path, 22_000, Span(20_000), progress=False).instructions == 2_000
    with pytest.raises(InputError, match="no instruction is timed"):
        target_of(data.model, path, 20_000, Span(20_000), progress=False)
    with pytest.raises(InputError, match="give the trace"):
        target_of_vector(data.model, vector, None, Span(count=10))


def test_the_vector_beside_live_points_must_be_of_their_run(data, tmp_path):
    path = data.traces / "qsort.trace.h5"
    save(of_trace(path, progress=False), tmp_path / "q.livepoints.h5")
    represent(data.model, path, max_instructions=10_000, progress=False).save(tmp_path / "q.vector.npz")
    with pytest.raises(InputError, match="so of another run"):
        _ = target_of(data.model, tmp_path / "q.livepoints.h5").vector
    own = represent(data.model, path, progress=False)
    replace(own, trace_digest="0" * 64, program="/bin/other").save(tmp_path / "q.vector.npz")
    with pytest.raises(InputError, match="is of /bin/other"):
        _ = target_of(data.model, tmp_path / "q.livepoints.h5").vector
    own.save(tmp_path / "q.vector.npz")
    assert target_of(data.model, tmp_path / "q.livepoints.h5").vector.instructions > 10_000


def test_a_vector_that_is_there_is_so_however_its_program_is_simulated(data):
    target = target_of(data.model, data.traces / "qsort.trace.h5", progress=False)
    other = target.simulated_by(target.simulable).simulated_by(target.simulable)
    assert not other.represented_within(0.0)
    vector = target.vector
    assert other.represented_within(0.0) and other.vector is vector


def test_instructions_that_take_no_time_are_told(data):
    """The second of two that retire in one cycle takes none."""
    path, machine = data.traces / "qsort.trace.h5", load_machine("golden-cove")
    with Trace(path) as trace:
        latency = Simulation(machine, trace.static).run(next(trace.chunks(2_000, stop=2_000)))
    at = int(np.flatnonzero(latency == 0)[-1])
    with pytest.raises(InputError, match="1 timed instructions retire in the cycle of the one before them; time more"):
        target_of(data.model, path, span=Span(at, 1), progress=False).simulable.simulate([machine])
    with pytest.raises(InputError, match="1 timed instructions retire in the cycle"):
        simulate([path], [machine], Span(at, 1), progress=False)
