"""Programs of a question, and what their vectors cost."""

from analysis.programs.targets import RATE, target_of, target_of_vector
from perfvec.representation.represent import represent
from tracegen.live_points.live_points import save
from tracegen.live_points.record import of_trace


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
