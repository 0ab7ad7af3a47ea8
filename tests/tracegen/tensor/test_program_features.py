"""Statement features and the compact AST of kernels whose loops are known: every number by hand. Needs TVM."""

from __future__ import annotations

import numpy as np
import pytest

from support.errors import InputError
from tracegen.tensor import compact_ast as ast_module
from tracegen.tensor import loop_nest, statements
from tracegen.tensor.compact_ast import COLUMNS, compact_ast
from tracegen.tensor.statements import operator_class, statement_features

M, N, K = 8, 16, 32
PAPERS = len(COLUMNS) - len(loop_nest.COLUMNS)  # columns of CDMPP's kind; the others have a test of their own


@pytest.fixture(scope="module")
def te(tvm):
    return tvm.te


def module(te, *tensors):
    import tvm

    return tvm.IRModule({"main": te.create_prim_func(list(tensors))})


@pytest.fixture(scope="module")
def matmul(te):
    """C[8,16] = A[8,32]·B[32,16]; i parallel, j split by 4, the inner four vectorized below k; unrolled up to 64."""
    from tvm.s_tir import Schedule

    a, b = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
    k = te.reduce_axis((0, K), name="k")
    schedule = Schedule(module(te, a, b, te.compute((M, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")))
    block = schedule.get_sblock("C")
    i, j, k = schedule.get_loops(block)
    outer, inner = schedule.split(j, [None, 4])
    schedule.reorder(i, outer, k, inner)
    schedule.vectorize(inner)
    schedule.parallel(i)
    schedule.annotate(i, "pragma_auto_unroll_max_step", 64)
    schedule.decompose_reduction(block, k)
    return schedule.mod


def numbers(row, columns):
    """{column: count} of what is not 0, the logarithm undone."""
    return {
        name: round(float(2 ** np.float64(value) - 1), 2) for name, value in zip(columns, row, strict=True) if value
    }


def test_columns_are_named_once():
    assert len(statements.COLUMNS) == len(set(statements.COLUMNS)) == 164
    assert len(COLUMNS) == len(set(COLUMNS)) == ast_module.WIDTH


def test_statement_features_of_a_matmul_by_hand(matmul):
    (table,) = statement_features([matmul])
    assert table.shape == (1, 164)  # the update: TVM leaves out stores of a constant
    row = dict(zip(statements.COLUMNS, table[0], strict=True))

    def count(name):
        return 2 ** row[name] - 1

    executions = M * N * K
    for name in ("float_add_sub", "float_mul", "outer_product"):
        assert count(name) == pytest.approx(executions, rel=2e-3)
    assert count("float_mad") == count("float_div_mod") == 0
    for loop, extent in (("vectorize", 4), ("parallel", M)):
        for what, value in (("number", 1), ("product", extent), ("innermost", extent)):
            assert count(f"{loop}_{what}") == pytest.approx(value, rel=2e-3)
        assert row[f"{loop}_position_mixed"] == 1
    assert row["unroll_position_none"] == 1 and row["is_gpu"] == 0
    assert count("loops") == pytest.approx(4, rel=2e-3)
    assert count("auto_unroll_max_step") == pytest.approx(64, rel=2e-3)
    # Of three buffers by size: B [32,16] read 8 times over, C [8,16] read and written, A [8,32] read 16 times over.
    found = {}
    for buffer in range(3):
        access = next(kind for kind in ("read_write", "read", "write") if row[f"buffer{buffer}_{kind}"] == 1)
        assert count(f"buffer{buffer}_bytes") == pytest.approx(4 * executions, rel=2e-3)
        unique = round(count(f"buffer{buffer}_unique_bytes"))
        lines = 4 * executions / 64 / {2048: 1, 512: 1, 1024: 4}[unique]  # A stands still in the innermost loop of 4
        assert count(f"buffer{buffer}_lines") == pytest.approx(lines, rel=2e-3)
        found[unique] = access
        assert count(f"buffer{buffer}_reuse_count") == pytest.approx({2048: M, 512: K, 1024: 4}[unique], rel=2e-3)
        assert count(f"buffer{buffer}_stride") == pytest.approx({2048: 1, 512: 1, 1024: 0}[unique], abs=1e-3)
    assert found == {2048: "read", 512: "read_write", 1024: "read"}
    assert not any(row[f"buffer{buffer}_bytes"] for buffer in (3, 4))


def test_statement_features_of_a_gpu_kernel_know_its_threads(te):
    from tvm.s_tir import Schedule

    a = te.placeholder((64, 128), name="A")
    schedule = Schedule(module(te, a, te.compute((64, 128), lambda i, j: a[i, j] + 1.0, name="B")))
    i, j = schedule.get_loops(schedule.get_sblock("B"))
    schedule.bind(i, "blockIdx.x")
    schedule.bind(j, "threadIdx.x")
    (table,) = statement_features([schedule.mod], {"kind": "cuda"})
    row = dict(zip(statements.COLUMNS, table[0], strict=True))
    assert row["is_gpu"] == 1
    assert 2 ** row["block_x"] - 1 == pytest.approx(64, rel=2e-3)
    assert 2 ** row["thread_x"] - 1 == pytest.approx(128, rel=2e-3)
    values, position = compact_ast(schedule.mod)
    (leaf,) = (numbers(row, COLUMNS) for row in values)
    assert (leaf["block_product"], leaf["thread_product"], leaf["executions"]) == (64, 128, 64 * 128)
    assert position.tolist() == [2]


def test_compact_ast_of_a_matmul_by_hand(matmul):
    values, position = compact_ast(matmul)
    # pre-order: i 0, j_outer 1, j_inner of the initialisation 2, its store 3, k 4, j_inner 5, the update's store 6
    assert position.tolist() == [3, 6]
    first, second = (numbers(row[:PAPERS], COLUMNS[:PAPERS]) for row in values)
    nest = {
        "parallel_loops": 1,
        "parallel_product": M,
        "parallel_innermost": M,
        "vectorized_loops": 1,
        "vectorized_product": 4,
        "vectorized_innermost": 4,
        "pragma_unroll": 64,
        "bytes_stored": 4,
    }
    store = {"present": 1, "element_bytes": 4, "distinct_bytes": 4 * M * N, "stride": 1, "affine": 1, "argument": 1}
    assert first == nest | {
        "int_add_sub": 1,
        "int_mul": 1,
        "buffers": 1,
        "serial_loops": 1,
        "serial_product": 4,
        "serial_innermost": 4,
        "executions": M * N,
        "depth": 3,
        "extent0": 4,
        "extent1": 4,
        "extent2": M,
        "access0_reuse": 1,
        **{f"access0_{name}": value for name, value in store.items()},
    }
    load = {"present": 1, "element_bytes": 4, "affine": 1, "argument": 1}
    accesses = {  # the store, C, A, B
        0: store | {"reuse": K},
        1: store | {"reuse": K},
        2: load | {"distinct_bytes": 4 * M * K, "reuse": N, "still": 1},
        3: load | {"distinct_bytes": 4 * K * N, "reuse": M, "stride": 1},
    }
    assert second == nest | {
        "float_add_sub": 1,
        "float_mul": 1,
        "int_add_sub": 3,
        "int_mul": 3,
        "loads": 3,
        "bytes_loaded": 12,
        "buffers": 3,
        "serial_loops": 2,
        "serial_product": 4 * K,
        "serial_innermost": K,
        "executions": M * N * K,
        "depth": 4,
        "accumulates": 1,
        "extent0": 4,
        "extent1": K,
        "extent2": 4,
        "extent3": M,
        **{f"access{k}_{name}": value for k, access in accesses.items() for name, value in access.items()},
    }


def counts(row):
    return dict(zip(COLUMNS, np.exp2(row.astype(np.float64)) - 1, strict=True))


def test_the_loop_nest_of_a_matmul_by_hand(matmul):
    """The update's loops are j_inner 4, k 32, j_outer 4, i 8, innermost first; C is stored, A and B are loaded."""
    first, second = (counts(row) for row in compact_ast(matmul)[0])
    wanted = {
        # distinct bytes of C, A and B
        "tile0": 16 + 4 + 16,
        "tile1": 16 + 128 + 512,
        "tile2": 64 + 128 + 2048,
        "tile3": 512 + 1024 + 2048,
        "tile7": 3584,
        "stride0_0": 4,
        "stride0_1": 0,
        "stride0_2": 16,
        "stride0_3": 64,
        "stride1_0": 0,
        "stride1_1": 4,
        "stride1_2": 0,
        "stride1_3": 128,
        "stride2_0": 4,
        "stride2_1": 64,
        "stride2_2": 16,
        "stride2_3": 0,
        "stride3_0": 0,
        # j_inner fits 512 bytes, so from step to step of k what is touched again stays: the 656 of k, 4 · 8 times
        "traffic512": 656 * 32,
        "traffic2048": 2240 * 8,
        "traffic8192": 3584,
        "traffic33554432": 3584,
        # 64 copies of vectors of 4 are allowed: k's 32 fit, j_outer's 4 times as many do not
        "unrolled": 32,
        "unrolled_stored": 16,
        "unrolled_bytes": 656,
        # inside of k: four sums, fed by one element of A and four of B, 32 times
        "accumulated": 16,
        "accumulated_loads": 20,
        "accumulation": 32,
        "operations": 2 * M * N * K,
        "issued": M * N * K / 4,
        "odd_lanes": 1,
        "odd_innermost": 1,
    }
    assert {name: second[name] for name in wanted} == pytest.approx(wanted, rel=1e-4, abs=1e-4)
    wanted = {"tile0": 16, "tile1": 64, "tile2": 512, "traffic512": 512, "unrolled": 32, "accumulation": 0}
    assert {name: first[name] for name in wanted} == pytest.approx(wanted, rel=1e-4, abs=1e-4)


def test_a_fused_loop_keeps_its_strides(te):
    """Fusing makes indices of divisions and remainders: a step of the fused loop moves by an element all the same."""
    from tvm.s_tir import Schedule

    a = te.placeholder((8, 12), name="A")
    schedule = Schedule(module(te, a, te.compute((12, 8), lambda i, j: a[j, i], name="B")))
    schedule.fuse(*schedule.get_loops(schedule.get_sblock("B")))
    (leaf,) = (counts(row) for row in compact_ast(schedule.mod)[0])
    wanted = {
        "stride0_0": 4,
        "stride1_0": 4 * 12,
        "tile0": 2 * 4 * 96,
        "access1_distinct_bytes": 4 * 96,
        "odd_innermost": 3,
    }
    assert {name: leaf[name] for name in wanted} == pytest.approx(wanted, rel=1e-4)


def test_what_is_done_once_to_a_weight_is_no_leaf(te):
    """A schedule may rewrite a weight's layout; `build` leaves that out of what is measured."""
    from tvm.s_tir import Schedule

    a, b = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
    k = te.reduce_axis((0, K), name="k")
    program = module(te, a, b, te.compute((M, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C"))
    schedule = Schedule(program)
    copy = schedule.cache_read(schedule.get_sblock("C"), 1, "global")
    assert len(compact_ast(schedule.mod)[0]) == 3  # the copy, the initialisation, the update
    schedule.annotate(copy, "meta_schedule.layout_rewrite_preproc", True)
    assert len(compact_ast(schedule.mod)[0]) == 2


def test_a_condition_and_a_column_walk_are_seen(te):
    """A transposed copy strides by rows; padding is a condition in the value, division makes an index not affine."""
    a = te.placeholder((16, 32), name="A")
    turned = module(te, a, te.compute((32, 16), lambda i, j: a[j, i], name="B"))
    (leaf,) = (numbers(row, COLUMNS) for row in compact_ast(turned)[0])
    assert (leaf["access0_stride"], leaf["access1_stride"]) == (1, 32)
    assert leaf["access1_distinct_bytes"] == 4 * 16 * 32
    halved = module(te, a, te.compute((16, 64), lambda i, j: a[i, j // 2], name="B"))
    (leaf,) = (numbers(row, COLUMNS) for row in compact_ast(halved)[0])
    assert "access1_affine" not in leaf and leaf["int_div_mod"] == 1
    assert leaf["access1_distinct_bytes"] == 4 * 16 * 32  # of an index that is not affine, the whole dimension
    odd = module(te, a, te.compute((16, 33), lambda i, j: a[i, j // 2], name="B"))
    (leaf,) = (numbers(row, COLUMNS) for row in compact_ast(odd)[0])
    assert leaf["access1_distinct_bytes"] == 4 * 16 * 17
    padded = module(te, a, te.compute((16, 33), lambda i, j: te.if_then_else(j < 32, a[i, j], 0.0), name="B"))
    (leaf,) = (numbers(row, COLUMNS) for row in compact_ast(padded)[0])
    assert leaf["int_compare"] == 1 and leaf["float_call"] == 1


def test_a_split_that_does_not_divide_is_a_condition(te):
    from tvm.s_tir import Schedule

    a = te.placeholder((33,), name="A")
    schedule = Schedule(module(te, a, te.compute((33,), lambda i: a[i] + 1.0, name="B")))
    schedule.split(*schedule.get_loops(schedule.get_sblock("B")), [None, 4])
    values, position = compact_ast(schedule.mod)
    assert numbers(values[0], COLUMNS)["conditions"] == 1
    assert position.tolist() == [3]  # behind two loops and the condition


def test_functions_are_walked_one_after_another(te):
    import tvm

    a = te.placeholder((32,), name="A")
    one = te.create_prim_func([a, te.compute((32,), lambda i: a[i] + 1.0, name="B")])
    assert compact_ast(tvm.IRModule({"first": one, "second": one}))[1].tolist() == [1, 3]


def test_what_just_fits_stays_in_a_cache_and_is_unrolled():
    """128 floats, touched again in each of four steps of the outer loop."""
    dimension = loop_nest.Dimension(1, 128, (loop_nest.Term(frozenset((0,)), 128, 1),), ((0, 1),))
    access = loop_nest.Access(0, 4, (dimension,))
    row = loop_nest.loop_nest([128, 4], [access], lanes=1, unroll=128, operations=0)
    found = dict(zip(loop_nest.COLUMNS, row, strict=True))
    assert (found["traffic512"], found["unrolled"]) == (512, 128)


def test_a_database_is_read_with_features(tmp_path, te):
    """TVM writes the database; what is read has the features of the very schedules, and FLOPs."""
    import json

    from tvm.s_tir import Schedule
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo
    from tvm.s_tir.meta_schedule.database import JSONDatabase, TuningRecord
    from tvm.target import Target

    from tracegen.tensor import primitives
    from tracegen.tensor.dataset import Dataset
    from tracegen.tensor.read import read

    a, b = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
    k = te.reduce_axis((0, K), name="k")
    program = module(te, a, b, te.compute((M, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C"))
    database = JSONDatabase(work_dir=str(tmp_path), module_equality="structural")
    workload, modules = database.commit_workload(program), []
    for factor in (2, 8):
        schedule = Schedule(program)
        i, j, _ = schedule.get_loops(schedule.get_sblock("C"))
        schedule.vectorize(schedule.split(j, [None, factor])[1])
        schedule.parallel(i)
        modules.append(schedule.mod)
        arguments = ArgInfo.from_entry_func(program, remove_preproc=False)
        target = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1})
        database.commit_tuning_record(TuningRecord(schedule.trace, workload, [factor * 1e-5], target, arguments))
    tally = read([tmp_path], tmp_path / "d.tensor.h5", features=True, progress=False)
    assert (tally.records, tally.problems) == (2, {})
    with Dataset(tmp_path / "d.tensor.h5") as data:
        assert data.tasks["flops"][0] == 2 * M * N * K and data.tasks["operator"][0] == "dense"
        for index, wanted in enumerate(modules):
            np.testing.assert_array_equal(data.features("statements", [index])[0], statement_features([wanted])[0])
            np.testing.assert_array_equal(data.features("ast", [index])[0], compact_ast(wanted)[0])
        assert data.features("primitives")[0].shape == (3, primitives.WIDTH)  # split, vectorize, parallel
        trace = json.loads(data.steps([1])[0])
    lines = (tmp_path / "database_tuning_record.json").read_text().splitlines()
    trace[0][2][0] = "Reorder"  # where it does not fit: told with its line, not stored
    record = json.loads(lines[1])
    record[1][0] = trace
    (tmp_path / "database_tuning_record.json").write_text(lines[0] + "\n" + json.dumps(record) + "\n")
    tally = read([tmp_path], tmp_path / "e.tensor.h5", features=True, progress=False)
    assert tally.records == 1 and tally.problems == {"features": 1} and ":2: TVM cannot" in tally.notes()[0]


def test_what_tvm_cannot_lower_is_one_line(monkeypatch, matmul):
    monkeypatch.setattr(ast_module, "MAX_LEAVES", 1)
    with pytest.raises(InputError, match="more than 1 leaves"):
        compact_ast(matmul)


def product(te, left, right, out, index):
    a, b = te.placeholder(left, name="A"), te.placeholder(right, name="B")
    return module(te, a, b, te.compute(out, index(a, b), name="C"))


def test_the_operator_is_told_from_the_program(te):
    from tvm import tirx

    def axis(extent):
        return te.reduce_axis((0, extent))

    k, r, s = axis(8), axis(3), axis(3)
    kinds = {
        "dense": product(te, (4, 8), (8, 6), (4, 6), lambda a, b: lambda i, j: te.sum(a[i, k] * b[k, j], axis=k)),
        "batch_matmul": product(
            te, (2, 4, 8), (2, 8, 6), (2, 4, 6), lambda a, b: lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k)
        ),
        "conv": product(
            te,
            (8, 10, 10),
            (4, 8, 3, 3),
            (4, 8, 8),
            lambda a, b: lambda c, y, x: te.sum(a[k, y + r, x + s] * b[c, k, r, s], axis=[k, r, s]),
        ),
        "depthwise_conv": product(
            te,
            (8, 10, 10),
            (8, 3, 3),
            (8, 8, 8),
            lambda a, b: lambda c, y, x: te.sum(a[c, y + r, x + s] * b[c, r, s], axis=[r, s]),
        ),
    }
    a = te.placeholder((8, 10, 10), name="A")
    kinds["pooling"] = module(
        te, a, te.compute((8, 5, 5), lambda c, y, x: te.max(a[c, y * 2 + r, x * 2 + s], axis=[r, s]), name="P")
    )
    kinds["reduction"] = module(te, a, te.compute((8, 10), lambda c, y: te.sum(a[c, y, k], axis=k), name="R"))
    kinds["elementwise"] = module(te, a, te.compute((8, 10, 10), lambda *i: tirx.exp(a(*i)), name="E"))
    place = te.placeholder((7,), "int32", name="I")
    kinds["other"] = module(te, a, place, te.compute((7, 10), lambda i, j: a[0, place[i], j], name="G"))
    total = te.compute((8, 10), lambda c, y: te.sum(a[c, y, k], axis=k), name="S")
    kinds["normalization"] = module(te, a, te.compute((8, 10, 10), lambda c, y, x: a[c, y, x] / total[c, y], name="D"))
    from tvm import topi

    x, w = te.placeholder((1, 8, 5, 5), name="X"), te.placeholder((8, 4, 3, 3), name="W")
    kinds["transposed_conv"] = module(te, x, w, topi.nn.conv2d_transpose_nchw(x, w, (2, 2), (1, 1), "float32", (0, 0)))
    assert {name: operator_class(kind) for name, kind in kinds.items()} == {name: name for name in kinds}
