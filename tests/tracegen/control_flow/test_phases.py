"""Basic-block vectors against a count by hand, clustering with known answers, SimPoint's files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.errors import InputError
from tracegen.control_flow.basic_blocks import BlockVectors, directions
from tracegen.control_flow.phases import choose, phases, strip, write_simpoints
from tracegen.decode import decode
from tracegen.formats.trace import Trace, TraceWriter
from tracegen.statistics.kmeans import bic, kmeans
from uarch.instructions import Flag


def by_hand(trace: Trace, interval: int) -> dict[tuple[int, int], int]:
    """(interval, leader) → instructions, one instruction after the other."""
    instructions = decode(trace.address, trace.code, trace.isa)
    counts: dict[tuple[int, int], int] = {}
    leader = None
    for chunk in trace.chunks():
        taken = chunk.taken(instructions)
        for k, here in enumerate(chunk.static_id.tolist()):
            leader = here if leader is None else leader
            key = ((chunk.start + k) // interval, leader)
            counts[key] = counts.get(key, 0) + 1
            if taken[k] or instructions.flags[here] & int(Flag.BRANCH):
                leader = None
    return counts


@pytest.mark.slow
@pytest.mark.parametrize(("interval", "size"), [(1000, 1 << 18), (777, 1001), (100_000, 64)])
def test_vectors_are_those_counted_by_hand(data, interval, size):
    with Trace(data.traces / "qsort.trace.h5") as trace:
        instructions = decode(trace.address, trace.code, trace.isa)
        blocks = BlockVectors(instructions, interval, sparse=True)
        for chunk in trace.chunks(size):
            blocks.observe(chunk)
        counts = blocks.counts()
        expected = by_hand(trace, interval)
        found = dict(
            zip(
                zip(counts.interval.tolist(), counts.leader.tolist(), strict=True),
                counts.instructions.tolist(),
                strict=True,
            )
        )
        assert found == expected
        towards = directions(trace.address)
        projected = np.zeros((-(-len(trace) // interval), towards.shape[1]))
        for (here, leader), count in expected.items():
            projected[here] += count * towards[leader]
        sizes = np.minimum(interval, len(trace) - np.arange(len(projected)) * interval)
        assert np.allclose(blocks.projected(), projected / sizes[:, None], atol=1e-4)


def test_a_projection_does_not_depend_on_the_order_of_instructions():
    address = np.array([0x401000, 0x7F0000001234, 8], np.uint64)
    assert (directions(address)[::-1] == directions(address[::-1])).all()
    many = directions(np.arange(20_000, dtype=np.uint64) * np.uint64(4))
    assert abs(many.mean()) < 0.01 and abs(many.var() - 1 / 3) < 0.01
    assert np.abs(np.corrcoef(many.T) - np.eye(many.shape[1])).max() < 0.05


def groups(count: int, each: int, spread: float) -> np.ndarray:
    random = np.random.default_rng(count)
    centre = np.stack([np.arange(count) * 3.0, np.arange(count) % 2 * 5.0], axis=1)
    return (centre.repeat(each, axis=0) + random.normal(0, spread, (count * each, 2))).astype(np.float32)


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_the_criterion_finds_the_number_of_groups(count):
    points = groups(count, 40, 0.05)
    found = choose(points, 20)
    assert len(found.centre) == count
    assert (found.size == 40).all()


def test_groups_within_groups_are_told_apart():
    random = np.random.default_rng(0)
    centre = np.array([[0, 0], [1, 0], [20, 0], [21, 0]]).repeat(40, axis=0)
    assert len(choose((centre + random.normal(0, 0.05, centre.shape)).astype(np.float32), 8).centre) == 4


def test_equal_points_are_one_cluster():
    found = choose(np.ones((30, 4), np.float32))
    assert len(found.centre) == 1 and np.isfinite(bic(found))


@settings(max_examples=30)
@given(st.integers(1, 8), st.integers(2, 60), st.integers(0, 1000))
def test_every_point_is_with_its_nearest_centre(k, count, seed):
    points = np.random.default_rng(seed).integers(0, 5, (count, 3)).astype(np.float32)
    found = kmeans(points, k, seed=seed)
    square = ((points[:, None] - found.centre[None]) ** 2).sum(axis=2)
    assert np.allclose(found.distance, square.min(axis=1))
    assert (found.size > 0).all() and found.size.sum() == count
    again = kmeans(points, k, seed=seed)
    assert (again.label == found.label).all()


def test_the_files_are_simpoints(data, tmp_path):
    found = phases(data.traces / "qsort.trace.h5", interval=5000, progress=False)
    paths = write_simpoints(found, tmp_path / "q")
    assert [path.name for path in paths] == ["q.simpoints", "q.weights", "q.bb"]
    points, weights, vectors = (path.read_text().splitlines() for path in paths)
    assert [line.split() for line in points] == [[str(p), str(k)] for k, p in enumerate(found.point)]
    assert sum(float(line.split()[0]) for line in weights) == pytest.approx(1, abs=1e-4)
    assert len(vectors) == len(found.phase) == 12
    for line in vectors:
        assert line.startswith("T:") and line.endswith(" ")
        assert sum(int(entry.split(":")[2]) for entry in line[1:].split()) == 5000
        assert all(int(entry.split(":")[1]) >= 1 for entry in line[1:].split())
    assert found.phase[0] == 0 and (found.phase[found.point] == np.arange(len(found.point))).all()
    assert len(strip(found)) == 12


def test_an_interval_longer_than_the_trace_is_one_line(data):
    with pytest.raises(InputError, match="less than an interval"):
        phases(data.traces / "qsort.trace.h5", interval=10**9, progress=False)


def test_a_short_trace_is_one_interval(tmp_path):
    path, nothing = tmp_path / "short.trace.h5", np.empty(0, np.uint64)
    with TraceWriter(path, isa="x86-64", program="short", command=["short"], source="test") as writer:
        writer.static(np.arange(124, dtype=np.uint64), np.tile(np.array([0x90] + 15 * [0], np.uint8), (124, 1)))
        writer.append(
            np.arange(124, dtype=np.uint32), nothing, nothing, nothing.astype(np.uint8), nothing.astype(np.uint8)
        )
    found = phases(path, progress=False)
    assert (found.interval, found.phase.tolist(), found.point.tolist(), strip(found)) == (124, [0], [0], "A")
