"""Ansor's statement features: 164 numbers for every store of a scheduled program; and the operator class of a task.

They are TVM's `PerStoreFeature` (Ansor: Zheng et al., OSDI 2020), which lowers the program and looks at each statement
that stores to a buffer, innermost statements in program order. Counts and sizes are sign(x)·log2(1 + |x|); what says a
kind is one-hot. `COLUMNS` names all 164, in these groups:

| columns | group | of one statement |
|---|---|---|
| 0–15 | arithmetic | executions of each kind of operation, floating point, integer, boolean, select |
| 16–26, 27–37, 38–48 | vectorize, unroll, parallel | loops so annotated: their number, product, the innermost's extent, its position |
| 49–56 | GPU | whether its loops are bound to a GPU's threads, and the extents of blocks and threads |
| 57–146 | five buffers, 18 each | by size: kind of access, bytes and cache lines touched, distinct ones, reuse, stride |
| 147–156 | arithmetic intensity | FLOPs per byte at ten depths of the loop nest |
| 157–160 | allocation | of the buffer that is stored to: bytes, elements, and products of loops outside and inside of it |
| 161–163 | nest | product of all loops, their number, and the largest automatic unrolling |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from tracegen.tensor.dataset import OPERATORS
from tracegen.tensor.installation import require_tvm, without_tensor_intrinsics

if TYPE_CHECKING:
    from tvm.ir import IRModule
    from tvm.s_tir.meta_schedule import TuneContext

VERSION = "statements-1"
_BUFFERS = 5
_SAMPLES = 10


def _columns() -> tuple[str, ...]:
    operations = ("mad", "add_sub", "mul", "div_mod", "compare", "math_function", "other_function")
    positions = (
        "none",
        "inner_spatial",
        "middle_spatial",
        "outer_spatial",
        "inner_reduce",
        "middle_reduce",
        "outer_reduce",
        "mixed",
    )
    names = [f"{kind}_{operation}" for kind in ("float", "int") for operation in operations] + ["bool", "select"]
    for loop in ("vectorize", "unroll", "parallel"):
        names += [f"{loop}_number", f"{loop}_product", f"{loop}_innermost"]
        names += [f"{loop}_position_{position}" for position in positions]
    names += ["is_gpu", *(f"{thread}_{axis}" for thread in ("block", "thread") for axis in "xyz"), "vthread"]
    for buffer in range(_BUFFERS):
        names += [
            f"buffer{buffer}_{name}"
            for name in (
                "read",
                "write",
                "read_write",
                "bytes",
                "unique_bytes",
                "lines",
                "unique_lines",
                "reuse_in_loop",
                "reuse_serial",
                "no_reuse",
                "reuse_distance_iterations",
                "reuse_distance_bytes",
                "reuse_count",
                "bytes_per_reuse",
                "unique_bytes_per_reuse",
                "lines_per_reuse",
                "unique_lines_per_reuse",
                "stride",
            )
        ]
    names += [f"intensity{sample}" for sample in range(_SAMPLES)]
    names += ["allocated_bytes", "allocated_elements", "allocation_outer_product", "allocation_inner_product"]
    return (*names, "outer_product", "loops", "auto_unroll_max_step")


COLUMNS = _columns()


def statement_features(modules: Sequence[IRModule], target: dict[str, Any] | None = None) -> list[NDArray[np.float32]]:
    """[statements, 164] of each scheduled module (`Schedule.mod`, one function `main`), not yet lowered.

    `target`: TVM's, as a dict; only whether it is a GPU matters. A program that TVM cannot lower raises InputError.
    """
    from tvm.s_tir import Schedule
    from tvm.s_tir.meta_schedule import MeasureCandidate
    from tvm.s_tir.meta_schedule.feature_extractor import PerStoreFeature

    extractor = PerStoreFeature(_BUFFERS, _SAMPLES, 64, extract_workload=False)
    gpu = target is not None and target.get("kind") == "cuda"
    candidates = [MeasureCandidate(Schedule(module), []) for module in modules]
    try:
        found = extractor.extract_from(_context(gpu), candidates)
    except Exception as error:  # TVM raises many kinds
        raise InputError(
            f"TVM cannot extract statement features ({str(error).strip().splitlines()[-1][:120]})"
        ) from error
    return [np.asarray(table.numpy(), np.float32).reshape(-1, len(COLUMNS)) for table in found]


@lru_cache(maxsize=2)
def _context(gpu: bool) -> TuneContext:
    """Extraction asks a context for its target only."""
    require_tvm()
    without_tensor_intrinsics()
    import tvm
    from tvm import te
    from tvm.s_tir.meta_schedule import TuneContext

    tensor = te.placeholder((1,), "float32", "x")
    module = tvm.IRModule({"main": te.create_prim_func([tensor, te.compute((1,), lambda i: tensor[i] + 1.0, "y")])})
    description: dict[str, Any] = {"kind": "cuda", "arch": "sm_70"} if gpu else {"kind": "llvm", "num-cores": 1}
    return TuneContext(
        mod=module, target=tvm.target.Target(description), space_generator=None, search_strategy=None, num_threads=1
    )


def operator_class(module: IRModule) -> str:
    """The class, one of ten, of a task's unscheduled program (ATFormer gives its model ten classes, appendix A.1).

    It is read off the program, not off names. The heaviest reduction decides: a sum of products of two tensors is a
    convolution where an index adds a spatial and a reduced variable (depthwise where no channel is reduced, transposed
    where the data is dilated first) or a factor is constant (Winograd's), otherwise a matrix product (batched where an
    axis runs through both factors). Other reductions are pooling where an index adds two variables, normalization where
    something is divided by their result or it is put under a root, exponential or logarithm, else plain ones. Programs
    without reductions are elementwise, unless an index depends on data (gather): other.
    """
    require_tvm()
    from tracegen.tensor.program import describe

    kind = describe(module)
    assert kind in OPERATORS
    return kind
