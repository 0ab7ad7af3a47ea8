"""Primitive sequences: known rows by hand, both vocabularies in one, mistakes told with their place."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracegen.tensor.primitives import (
    ARGUMENTS,
    PRIMITIVES,
    WIDTH,
    WORDS,
    Primitive,
    StepError,
    encode,
    from_ansor,
    from_metaschedule,
    rows,
)

BASE = len(PRIMITIVES)

TRACE = [
    [
        ["GetSBlock", [], ["matmul", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l2", "l3", "l4"]],
        ["SamplePerfectTile", ["l2"], [3, 64], ["v5", "v6", "v7"]],
        ["Split", ["l2", "v5", "v6", "v7"], [True, False], ["l8", "l9", "l10"]],
        ["SampleCategorical", [], [[0, 16, 64, 512], [0.25] * 4], ["v11"]],
        ["Annotate", ["b0", "v11"], ["meta_schedule.unroll_explicit"], []],
        ["SampleComputeLocation", ["b0"], [], ["l12"]],
        ["ComputeAt", ["b0", "l12"], [True, -1], []],
        ["CacheWrite", ["b0", []], [0, "global"], ["b13"]],
        ["EnterPostproc", [], [], []],
        ["Parallel", ["l8"], [], []],
    ],
    [[2, [4, 8, 2]], [4, 2], [6, -2]],
]


def test_ansor_steps_are_named_and_keep_their_numbers():
    found = from_ansor(
        [
            ["SP", 3, 1, 1000, [50], 1],
            ["RE", 3, [0, 2, 1]],
            ["FU", 6, [0, 1]],
            ["AN", 6, 0, 3],
            ["AN", 6, 1, 8],
            ["PR", 1, 0, "auto_unroll_max_step$512"],
            ["CHR", 1, "shared", [2]],
            ["CA", 2, 4, 5],
            ["CI", 9],
            ["FFSP", 3, 0, [1, 0], 1, 1],
        ]
    )
    assert found == [
        Primitive("split", (3, 1, 1000, 50, 1)),
        Primitive("reorder", (3, 0, 2, 1)),
        Primitive("fuse", (6, 0, 1)),
        Primitive("parallel", (6, 0)),
        Primitive("bind", (6, 1), "threadIdx.y"),
        Primitive("annotate", (1, 0, 512), "auto_unroll_max_step"),
        Primitive("cache_read", (1, 2), "shared"),
        Primitive("compute_at", (2, 4, 5)),
        Primitive("compute_inline", (9,)),
        Primitive("follow_fused_split", (3, 0, 1, 0, 1, 1)),
    ]


def test_a_trace_gives_what_changes_the_program_with_decisions_in_place():
    assert from_metaschedule(TRACE) == [
        Primitive("split", (2, 4, 8, 2, 1, 0)),
        Primitive("annotate", (0, 64), "meta_schedule.unroll_explicit"),
        Primitive("compute_at", (0, -2, 1, -1)),
        Primitive("cache_write", (0, 0), "global"),
        Primitive("enter_postproc", ()),
        Primitive("parallel", (8,)),
    ]


def test_a_row_is_one_hot_word_count_and_logarithms():
    row = rows(json.dumps([["AN", 7, 0, 6]]), "ansor")
    assert row.shape == (1, WIDTH)
    expected = np.zeros(WIDTH, np.float32)
    expected[PRIMITIVES.index("bind")] = 1
    expected[BASE] = WORDS.index("threadIdx.x") + 1
    expected[BASE + 1] = 2
    expected[BASE + 2] = 3  # log2(1 + 7)
    np.testing.assert_array_equal(row[0], expected)
    assert encode([Primitive("split", (-3,))])[0, BASE + 2] == -2


def test_long_arguments_are_cut_but_counted():
    row = rows([["RE", 1, list(range(40))]], "ansor")[0]
    assert row[BASE + 1] == 41
    assert row[-1] == np.float32(math.log2(ARGUMENTS - 1))  # stage, then 0, 1, …


def test_every_instruction_of_tvm_that_changes_a_program_is_known(tvm):
    kinds = tvm.s_tir.schedule.InstructionKind
    from tracegen.tensor import primitives

    for name in (*primitives.OF_TVM, *(primitives.QUERIES - {"GetBlock"}), *primitives.SAMPLES):
        kinds.get(name)
    assert len(set(PRIMITIVES)) == len(PRIMITIVES)


@pytest.mark.parametrize(
    ("steps", "match", "step"),
    [
        ([["XX", 1]], "step 0: unknown step 'XX'; one of AN, FU", "XX"),
        ([["CI", 1], ["CI"]], "step 1: CI has 0 fields; 1 are expected", "CI"),
        ([["CI", "1"]], "step 0: CI has '1' where an integer is expected", "CI"),
        ([["CI", True]], "True where an integer", "CI"),
        ([["CI", 1.5]], "1.5 where an integer", "CI"),
        ([["CI", 1 << 70]], "where an integer", "CI"),
        ([["RE", 1, [0, "a"]]], "where a list of integers", "RE"),
        ([["AN", 1, 0, 12]], "AN has annotation 12; 0 to 11 exist", "AN"),
        ([["AN", 1, 0, -1]], "AN has annotation -1", "AN"),
        ([7], "step 0 is 7", "?"),
        ({"a": 1}, "the steps are", "steps"),
        ([["CI", 1]] * 5000, "5,000 steps", "steps"),
        ("[[", "no JSON", "steps"),
        ('[["CI", NaN]]', "NaN is no number", "steps"),
    ],
)
def test_a_wrong_step_is_told_with_its_place(steps, match, step):
    with pytest.raises(StepError, match=match) as error:
        rows(steps, "ansor")
    assert error.value.step == step


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda trace: trace[0].append(["Teleport", [], [], []]), "unknown instruction 'Teleport'"),
        (lambda trace: trace[1].pop(0), "Split uses v5, for which no decision is recorded"),
        (lambda trace: trace[1].__setitem__(1, [4, 9]), "SampleCategorical decided 9"),
        (lambda trace: trace[1].__setitem__(0, [2, [4, 8]]), "SamplePerfectTile decided"),
        (lambda trace: trace[0].append(["Parallel", ["loop"], [], []]), "Parallel has 'loop'"),
        (lambda trace: trace[0].append(["Parallel"]), "instruction 11 is"),
        (lambda trace: trace.append(1), "the trace is"),
        (lambda trace: trace[1].append([1]), "a decision is"),
    ],
)
def test_a_wrong_instruction_is_told_with_its_place(change, match):
    trace = json.loads(json.dumps(TRACE))
    change(trace)
    with pytest.raises(StepError, match=match):
        rows(trace, "metaschedule")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["SP", "AN", "b0", "v5", "Split"]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=30,
)


@pytest.mark.slow
@settings(max_examples=100)
@given(JSON, st.sampled_from(["ansor", "metaschedule"]))
def test_any_json_gives_finite_rows_or_one_line(value, kind):
    try:
        table = rows(value, kind)
    except StepError as error:
        assert "\n" not in str(error)
        return
    assert np.isfinite(table).all() and table.shape[1] == WIDTH


@pytest.mark.slow
@settings(max_examples=100)
@given(st.data())
def test_a_changed_trace_gives_finite_rows_or_one_line(data):
    """One value anywhere in a real trace is replaced."""
    trace = json.loads(json.dumps(TRACE))
    place = trace
    while isinstance(place, list) and place:
        parent, index = place, data.draw(st.integers(0, len(place) - 1))
        place = place[index]
        if data.draw(st.integers(0, 3)) == 0:
            break
    parent[index] = data.draw(JSON)
    try:
        assert np.isfinite(rows(trace, "metaschedule")).all()
    except StepError as error:
        assert "\n" not in str(error)
