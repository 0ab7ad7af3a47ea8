"""CDMPP's compact AST of a scheduled program: its leaves as computation vectors, and their places in the tree.

CDMPP (Hu et al., EuroSys 2024) keeps of a program's syntax tree the leaves, the statements that compute.
Each has a computation vector, which describes the computation and the loops around it; its index in a pre-order walk of
the tree tells where it stood, and becomes a positional encoding. So a program is as many rows as it has leaves, few, and
no information about the nest is lost to flattening.

The tree is that of TIR lowered up to `LowerOpaqueBlock`: loops are still loops, blocks and iteration variables are gone,
and so is the rewriting of a weight's layout, which is done once and not measured.
Its inner nodes are loops (also those that are bound to GPU threads) and conditions; its leaves are stores and calls.

A computation vector is `[WIDTH]` f32, its columns are `COLUMNS`; counts, extents, bytes, strides are log2(1 + x):

| columns | of one leaf |
|---|---|
| operations | how often each kind of arithmetic occurs in one execution, floating point and integer apart |
| memory | loads, bytes loaded and stored in one execution, distinct buffers |
| loops by kind | number, product of extents and innermost extent of serial, parallel, vectorized, unrolled loops, GPU blocks, GPU threads, virtual threads |
| nest | executions of the leaf, its depth, conditions around it, whether it accumulates, the unrolling that a pragma asks for, and the extents of the `NEST` innermost loops, innermost first |
| accesses | for the store and the first loads, `ACCESSES` in all: presence, element bytes, distinct bytes that the whole nest touches, executions per distinct element, stride in elements along the innermost loop and whether it stands still there, whether its indices are affine, and whether the buffer is an argument or shared by threads |
| loop nest | `loop_nest.COLUMNS`: tiles, strides and cache traffic, level by level; CDMPP has no such columns |
"""  # noqa: E501

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from tracegen.tensor import loop_nest
from tracegen.tensor.index_form import index_form
from tracegen.tensor.installation import require_tvm
from tracegen.tensor.program import children

if TYPE_CHECKING:
    from tvm.ir import IRModule
    from tvm.ir.transform import Pass

VERSION = "compact-ast-2"
NEST = 10
ACCESSES = 5
MAX_LEAVES = 4096
_OPERATIONS = ("add_sub", "mul", "div_mod", "min_max", "compare", "call", "cast")
_LOOPS = ("serial", "parallel", "vectorized", "unrolled", "block", "thread", "vthread")
_ACCESS = ("present", "element_bytes", "distinct_bytes", "reuse", "stride", "still", "affine", "argument", "shared")
COLUMNS = (
    *(f"{kind}_{name}" for kind in ("float", "int") for name in _OPERATIONS),
    "logic",
    "select",
    "loads",
    "bytes_loaded",
    "bytes_stored",
    "buffers",
    *(f"{kind}_{name}" for kind in _LOOPS for name in ("loops", "product", "innermost")),
    "executions",
    "depth",
    "conditions",
    "accumulates",
    "pragma_unroll",
    *(f"extent{depth}" for depth in range(NEST)),
    *(f"access{access}_{name}" for access in range(ACCESSES) for name in _ACCESS),
    *loop_nest.COLUMNS,
)
WIDTH = len(COLUMNS)
_COLUMN = {name: index for index, name in enumerate(COLUMNS)}


@dataclass(frozen=True)
class _Loop:
    variable: int  # TVM's identity: names may repeat
    extent: float
    kind: str  # of _LOOPS


@dataclass
class _Leaf:
    row: NDArray[np.float64]
    position: int


@dataclass
class _Walk:
    arguments: set[int]
    loops: list[_Loop] = field(default_factory=list)
    conditions: int = 0
    unroll: float = 0.0
    index: int = 0  # of the next node in pre-order
    scopes: dict[int, Any] = field(default_factory=dict)  # variables that are bound to expressions
    leaves: list[_Leaf] = field(default_factory=list)


def compact_ast(module: IRModule) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """(computation vectors [leaves, WIDTH], pre-order positions [leaves]) of a scheduled module (`Schedule.mod`).

    Its functions are lowered here; it may have several, which are walked in the order of their names. Raises
    InputError where TVM cannot lower it, and for more than `MAX_LEAVES` leaves.
    """
    require_tvm()
    try:
        lowered = _lowering()(module)
    except Exception as error:  # TVM raises many kinds
        raise InputError(f"TVM cannot lower the program ({str(error).strip().splitlines()[-1][:120]})") from error
    leaves: list[_Leaf] = []
    begin = 0
    functions = sorted(lowered.functions_items(), key=lambda item: str(item[0].name_hint))
    for _, function in functions:
        if not hasattr(function, "body"):
            continue
        walk = _Walk({parameter.id_ for parameter in function.params}, index=begin)
        _visit(function.body, walk)
        leaves += walk.leaves
        begin = walk.index
    values = np.stack([leaf.row for leaf in leaves]) if leaves else np.zeros((0, WIDTH))
    return values.astype(np.float32), np.array([leaf.position for leaf in leaves], np.int32)


@lru_cache(maxsize=1)
def _lowering() -> Pass:
    """The first passes of TVM's own pipeline (tvm/s_tir/pipeline.py), up to where blocks are gone."""
    import tvm
    from tvm.s_tir import transform

    return tvm.ir.transform.Sequential(
        [
            transform.RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True),  # as `build`: weights come rewritten
            transform.CanonicalizeLoop(),
            transform.LowerCrossThreadReduction(),
            transform.LowerInitBlock(),
            transform.PlanAndUpdateBufferAllocationLocation(),
            transform.ConvertBlocksToOpaque(),
            transform.LiftThreadBinding(),
            transform.ManifestSharedMemoryLocalStage(),
            transform.CompactBufferAllocation(),
            transform.LowerAutoCopy(),
            transform.UnifyThreadBinding(),
            transform.LowerMatchBuffer(),
            transform.StmtSimplify(),
            transform.InjectPermutedLayout(),
            transform.AnnotateIrregularLoop(),
            transform.InjectSoftwarePipeline(),
            transform.TransformMmaBufferLayout(),
            transform.LowerOpaqueBlock(),
        ]
    )


def _visit(node: Any, walk: _Walk) -> None:
    from tvm.tirx.expr import IntImm
    from tvm.tirx.stmt import AttrStmt, Bind, BufferStore, Evaluate, For, IfThenElse, SeqStmt, While

    if isinstance(node, SeqStmt):
        for part in node.seq:
            _visit(part, walk)
    elif isinstance(node, For):
        _visit_loop(node, walk)
    elif isinstance(node, AttrStmt):
        _visit_attribute(node, walk)
    elif isinstance(node, IfThenElse):
        walk.index += 1
        walk.conditions += 1
        _visit(node.then_case, walk)
        if node.else_case is not None:
            _visit(node.else_case, walk)
        walk.conditions -= 1
    elif isinstance(node, While):
        raise InputError("the program has a while loop, whose executions are unknown")
    elif isinstance(node, Bind):
        walk.scopes[node.var.id_] = node.value
    elif isinstance(node, Evaluate) and isinstance(node.value, IntImm):
        walk.index += 1  # nothing: what is left of a rewritten weight
    elif isinstance(node, (BufferStore, Evaluate)):
        if len(walk.leaves) == MAX_LEAVES:
            raise InputError(f"the program has more than {MAX_LEAVES:,} leaves")
        walk.leaves.append(_Leaf(_vector(node, walk), walk.index))
        walk.index += 1


def _visit_loop(node: Any, walk: _Walk) -> None:
    from tvm.tirx.stmt import ForKind

    kind = ForKind(node.kind).name.lower()
    if node.thread_binding is not None:
        kind = _thread_kind(str(node.thread_binding.thread_tag))
    walk.index += 1
    walk.loops.append(_Loop(node.loop_var.id_, _number(node.extent), kind if kind in _LOOPS else "serial"))
    _visit(node.body, walk)
    walk.loops.pop()


def _visit_attribute(node: Any, walk: _Walk) -> None:
    key = str(node.attr_key)
    if key in ("thread_extent", "virtual_thread"):
        tag = "vthread" if key == "virtual_thread" else str(node.node.thread_tag)
        walk.index += 1
        walk.loops.append(_Loop(node.node.var.id_, _number(node.value), _thread_kind(tag)))
        _visit(node.body, walk)
        walk.loops.pop()
    elif key == "pragma_auto_unroll_max_step":
        before, walk.unroll = walk.unroll, _number(node.value)
        _visit(node.body, walk)
        walk.unroll = before
    else:
        _visit(node.body, walk)


def _thread_kind(tag: str) -> str:
    return "vthread" if tag.startswith("vthread") else "block" if tag.startswith("blockIdx") else "thread"


def _number(node: Any) -> float:
    """A constant, 1 where it is only known at run time."""
    return float(getattr(node, "value", 1))


def _vector(node: Any, walk: _Walk) -> NDArray[np.float64]:
    """The computation vector of a store or a call."""
    from tvm.tirx.stmt import BufferStore

    row = np.zeros(WIDTH)
    loads: list[Any] = []
    stored = isinstance(node, BufferStore)
    _count(node.value, row, loads)
    indices = node.indices if stored else []
    for index in indices:
        _count(index, row, loads)
    row[_COLUMN["loads"]] = len(loads)
    row[_COLUMN["bytes_loaded"]] = sum(_bytes(load.source) for load in loads)
    row[_COLUMN["bytes_stored"]] = _bytes(node.buffer) if stored else 0
    names = {load.source.id_ for load in loads}
    row[_COLUMN["buffers"]] = len(names | ({node.buffer.id_} if stored else set()))
    for kind in _LOOPS:
        extents = [loop.extent for loop in walk.loops if loop.kind == kind]
        row[_COLUMN[f"{kind}_loops"]] = len(extents)
        row[_COLUMN[f"{kind}_product"]] = math.prod(extents) if extents else 0
        row[_COLUMN[f"{kind}_innermost"]] = extents[-1] if extents else 0
    executions = math.prod(loop.extent for loop in walk.loops)
    row[_COLUMN["executions"]] = executions
    row[_COLUMN["depth"]] = len(walk.loops)
    row[_COLUMN["conditions"]] = walk.conditions
    row[_COLUMN["accumulates"]] = stored and node.buffer.id_ in names
    row[_COLUMN["pragma_unroll"]] = walk.unroll
    for depth, loop in enumerate(reversed(walk.loops[-NEST:])):
        row[_COLUMN[f"extent{depth}"]] = loop.extent
    accesses = [_access(node.buffer, indices, walk)] if stored else []
    seen: set[tuple[int, str]] = set()
    for load in loads:
        element = load.source.id_, str(list(load.indices))
        if element not in seen:  # the same element again is no other access
            seen.add(element)
            accesses.append(_access(load.source, load.indices, walk))
    extents = [loop.extent for loop in reversed(walk.loops)]
    for number, (access, buffer, affine) in enumerate(accesses[:ACCESSES]):
        at = _COLUMN[f"access{number}_present"]
        row[at : at + len(_ACCESS)] = _described(access, buffer, affine, extents, walk)
    row[_COLUMN[loop_nest.COLUMNS[0]] :] = loop_nest.loop_nest(
        extents,
        list(dict.fromkeys(access for access, _, _ in accesses)),
        lanes=math.prod(loop.extent for loop in walk.loops if loop.kind == "vectorized"),
        unroll=walk.unroll,
        operations=sum(row[_COLUMN[f"float_{name}"]] for name in _OPERATIONS),
    )
    return np.log2(1 + row)


def _access(buffer: Any, indices: Sequence[Any], walk: _Walk) -> tuple[loop_nest.Access, Any, bool]:
    """(the access, its buffer, whether its indices are affine)."""
    loops = {loop.variable: (level, loop.extent) for level, loop in enumerate(reversed(walk.loops))}
    forms = [index_form(index, loops, walk.scopes) for index in indices]
    dimensions, step = [], 1.0  # elements between neighbours of the dimension
    for form, extent in zip(reversed(forms), (_number(extent) for extent in reversed(buffer.shape)), strict=True):
        dimensions.append(loop_nest.Dimension(step, extent, form.terms, tuple(form.moves.items())))
        step *= extent
    access = loop_nest.Access(buffer.id_, _bytes(buffer), tuple(dimensions))
    return access, buffer, all(form.affine for form in forms)


def _described(
    access: loop_nest.Access, buffer: Any, affine: bool, extents: Sequence[float], walk: _Walk
) -> tuple[float, ...]:
    """The columns of one access: see `_ACCESS`."""
    distinct = access.touched(extents)
    stride = access.stride(0)
    scope = str(buffer.scope()) if callable(buffer.scope) else str(buffer.scope)
    return (
        1,
        access.size,
        distinct,
        max(math.prod(extents) * access.size / distinct, 1),
        stride / access.size,
        affine and stride == 0,
        affine,
        buffer.id_ in walk.arguments,
        scope.startswith("shared"),
    )


def _count(node: Any, row: NDArray[np.float64], loads: list[Any]) -> None:
    """Add an expression's operations to the row, and its loads to the list; integers of indices count as well."""
    from tvm.ir.expr import Call, TensorLoad

    if isinstance(node, TensorLoad):
        loads.append(node)
    else:
        name = _operations().get(type(node).__name__)
        if isinstance(node, Call):
            name = "call"
        if name in ("logic", "select"):
            row[_COLUMN[name]] += 1
        elif name is not None:
            operand = node.a if name == "compare" else node
            row[_COLUMN[f"{'float' if _is_float(operand) else 'int'}_{name}"]] += 1
    for child in children(node):
        _count(child, row, loads)


@lru_cache(maxsize=1)
def _operations() -> dict[str, str]:
    groups = {
        "add_sub": ("Add", "Sub"),
        "mul": ("Mul",),
        "div_mod": ("Div", "Mod", "FloorDiv", "FloorMod"),
        "min_max": ("Min", "Max"),
        "compare": ("EQ", "NE", "LT", "LE", "GT", "GE"),
        "cast": ("Cast",),
        "logic": ("And", "Or", "Not"),
        "select": ("Select",),
    }
    return {kind: name for name, kinds in groups.items() for kind in kinds}


def _is_float(node: Any) -> bool:
    return "float" in str(node.expr_ty().dtype if callable(node.expr_ty) else node.ty.dtype)


def _bytes(buffer: Any) -> int:
    """Return the bytes of one element."""
    bits = re.match(r"[a-z]+(\d+)", str(buffer.dtype))  # float8_e4m3fn has 8
    return max(int(bits[1]) // 8, 1) if bits else 1
