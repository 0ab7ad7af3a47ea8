"""Results against the unscheduled program's: how far is far, rearranged weights, and a wrong program found out."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tracegen.tensor.candidates import Candidate, trace_json
from tracegen.tensor.collect import collect, work_file
from tracegen.tensor.dataset import Dataset, Outcome
from tracegen.tensor.finish import finish
from tracegen.tensor.journal import Journal
from tracegen.tensor.layout import Layout, layouts_of, rearranged
from tracegen.tensor.measure import arguments
from tracegen.tensor.operators import operator_tasks
from tracegen.tensor.plan import Plan
from tracegen.tensor.reference import TOLERANCE, Reference, computed, outputs

MATMUL = "matmul:16x16x16"


def deviation(found, expected):
    return Reference({0: np.array(expected, np.float32)}).deviation({0: np.array(found, np.float32)})


def test_deviation_is_relative_to_the_element_or_where_that_is_small_to_all():
    expected = [7.0, 1.0, 5.0, 5.0]  # root mean square 5
    assert deviation(expected, expected) == 0
    assert deviation([7.7, 1.0, 5.0, 5.0], expected) == pytest.approx(0.1)
    assert deviation([7.0, 2.0, 5.0, 5.0], expected) == pytest.approx(0.2)
    assert deviation([7.7, 2.0, 5.0, 5.0], expected) == pytest.approx(0.2)


def test_what_is_no_number_must_be_none_in_both():
    assert deviation([1, math.nan], [1, 2]) == math.inf
    assert deviation([1, 2], [1, math.nan]) == math.inf
    assert deviation([1, math.inf], [1, -math.inf]) == math.inf
    assert deviation([1, math.nan, math.inf], [1, math.nan, math.inf]) == 0


def test_integers_must_be_equal():
    reference = Reference({0: np.array([1_000_000, 2], np.int64)})
    assert reference.deviation({0: np.array([1_000_000, 2])}) == 0
    assert reference.deviation({0: np.array([1_000_001, 2])}) == math.inf


def test_the_unscheduled_program_is_the_product(tvm):
    (task,) = operator_tasks(MATMUL)
    assert outputs(task.module()) == [2]
    a, b, _ = arguments(task.arguments)
    assert Reference({2: a @ b}).deviation(computed(task).outputs) < 1e-6


def test_a_weight_goes_where_the_layout_says():
    weight = np.arange(12.0).reshape(2, 6)
    rows, columns = np.ogrid[:2, :6]

    def index(values):
        return np.asarray(values, np.int64).shape, np.asarray(values, np.int64).tobytes()

    tiled = Layout(0, (3, 2, 2), (index(columns // 2), index(rows), index(columns % 2)), (index(rows), index(columns)))
    (found,) = rearranged([weight], [tiled])
    np.testing.assert_array_equal(found, weight.reshape(2, 3, 2).transpose(1, 0, 2))


def test_layouts_are_told_from_the_scheduled_program(tvm):
    from tvm.s_tir import Schedule

    (task,) = operator_tasks(MATMUL)
    schedule = Schedule(task.module())
    block = schedule.get_sblock(_block(task))
    copied = schedule.cache_read(block, 1, "global")
    schedule.annotate(copied, "meta_schedule.layout_rewrite_preproc", True)
    schedule.transform_layout(block, ("read", 1), lambda i, j: [j // 8, i, j % 8])
    (layout,) = layouts_of(schedule.mod)
    assert (layout.argument, layout.shape) == (1, (2, 16, 8))
    weight = np.arange(256.0).reshape(16, 16)
    np.testing.assert_array_equal(layout.rearranged(weight), weight.reshape(16, 2, 8).transpose(1, 0, 2))


def test_wrong_results_are_recorded_as_invalid(tvm, tmp_path: Path):
    """A schedule that lets the program read its second matrix transposed, without anyone transposing it."""
    from tvm.s_tir import Schedule

    (task,) = operator_tasks(MATMUL)
    schedule = Schedule(task.module())
    schedule.transform_layout(schedule.get_sblock(_block(task)), ("read", 1), lambda i, j: [j, i])
    output = tmp_path / "wrong.tensor.h5"
    with Journal(work_file(output)) as journal:
        journal.network(f"operator:{MATMUL}", [task])
        journal.schedule(task.key, Candidate(trace_json(schedule), "by hand"))
        journal.schedule(task.key, Candidate(trace_json(Schedule(task.module())), "by hand"))
    plan = Plan(operators=(MATMUL,), devices=("x86-64-v2", "sim:base"), schedules=0, budget_s=0.02, again=0)
    journal = collect(plan, output, progress=False)
    finish(output, features=False, progress=False)
    for device in plan.devices:
        wrong, right = journal.records[0, device], journal.records[1, device]
        assert (wrong.error, wrong.seconds) == ("invalid", None)
        assert float(wrong.message.rpartition(" ")[2]) > 100 * TOLERANCE
        assert right.seconds is not None and right.deviation is not None and right.deviation < 1e-6
    with Dataset(output) as data:
        table = data.table(failed=True).sort_values(["device", "schedule"])
        assert table["error"].tolist() == [Outcome.INVALID, Outcome.OK] * 2
        assert data.provenance["compared"]["records"] == 4


def _block(task) -> str:
    """The name of the only block that computes."""
    from tvm.s_tir import Schedule

    schedule = Schedule(task.module())
    (block,) = schedule.get_child_blocks(schedule.get_sblock("root"))
    return schedule.get(block).name_hint
