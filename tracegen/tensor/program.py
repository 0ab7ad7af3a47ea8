"""Computation of an unscheduled program, told from its blocks: see `statements.operator_class`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm.ir import IRModule

_REDUCE = 2  # IterVar.CommReduce
_NORMALIZING = ("exp", "exp2", "log", "sqrt", "rsqrt", "pow")


Load = tuple[
    int, list[set[int]]
]  # a buffer, and the variables of each of its indices, by TVM's identities: names may repeat


@dataclass
class _Block:
    """A block that computes: its axes by kind, and what its stores do."""

    spatial: set[int]
    reduced: set[int]
    iterations: float
    stored: set[int] = field(default_factory=set)
    loads: list[Load] = field(default_factory=list)
    factors: list[Load] = field(default_factory=list)  # two loads of different buffers that are multiplied
    calls: set[str] = field(default_factory=set)
    divides: bool = False
    gathers: bool = False  # an index depends on data
    modulo: bool = False  # a remainder decides what is computed: dilated data


def describe(module: IRModule) -> str:
    """The operator class of a module with one function `main`."""
    blocks = list(_blocks(module["main"].body))
    reductions = [block for block in blocks if block.reduced]
    if not reductions:
        return "other" if any(block.gathers for block in blocks) or not blocks else "elementwise"
    products = [block for block in reductions if block.factors]
    if products:
        constant = set().union(*(block.stored for block in blocks if not block.loads))
        if any(name in constant for block in products for name, _ in block.factors):
            return "conv"  # Winograd's: products with matrices of constants
        return _product(max(products, key=lambda block: block.iterations), blocks)
    block = max(reductions, key=lambda block: block.iterations)
    if _windows(block.loads, block):
        return "pooling"
    last = [other for other in blocks if not other.reduced]
    normalizes = any(other.divides or other.calls & set(_NORMALIZING) for other in last)
    results = set().union(*(other.stored for other in reductions))
    uses = any(name in results for other in last for name, _ in other.loads)
    scales = any(len({name for name, _ in other.loads} - results) > 0 for other in last if other.loads)
    return "normalization" if normalizes and uses and scales else "reduction"


def _product(block: _Block, blocks: list[_Block]) -> str:
    first, second = block.factors
    if _windows([first, second], block):
        if any(other.modulo for other in blocks if not other.reduced):
            return "transposed_conv"
        data, weights = (first, second) if _windows([first], block) else (second, first)
        channels = block.reduced & _variables(data) & _variables(weights) - _window_variables(data, block)
        return "conv" if channels else "depthwise_conv"
    shared = block.spatial & _variables(first) & _variables(second)
    return "batch_matmul" if shared else "dense"


def _variables(load: Load) -> set[int]:
    return set().union(*load[1]) if load[1] else set()


def _windows(loads: list[Load], block: _Block) -> bool:
    return any(_window_variables(load, block) for load in loads)


def _window_variables(load: Load, block: _Block) -> set[int]:
    """Reduced variables that share an index with a spatial one."""
    return {name for index in load[1] if index & block.spatial for name in index & block.reduced}


def _blocks(node: Any) -> Iterator[_Block]:
    """The blocks that compute, in program order."""
    from tvm.s_tir.stmt import SBlock, SBlockRealize

    for part in statements(node):
        if not isinstance(part, SBlockRealize):
            continue
        block: SBlock = part.block
        inner = list(_blocks(block.body))
        yield from inner or [_block(block)]


def statements(node: Any) -> Iterator[Any]:
    """Stores, bindings and blocks in program order, through loops, conditions and attributes but not into blocks."""
    from tvm.tirx.stmt import AttrStmt, For, IfThenElse, SeqStmt

    if isinstance(node, SeqStmt):
        for part in node.seq:
            yield from statements(part)
    elif isinstance(node, (For, AttrStmt)):
        yield from statements(node.body)
    elif isinstance(node, IfThenElse):
        yield from statements(node.then_case)
        if node.else_case is not None:
            yield from statements(node.else_case)
    else:
        yield node


def _block(node: Any) -> _Block:
    from tvm.tirx.stmt import Bind, BufferStore

    axes = {axis.var.id_: axis for axis in node.iter_vars}
    block = _Block(
        spatial={name for name, axis in axes.items() if axis.iter_type != _REDUCE},
        reduced={name for name, axis in axes.items() if axis.iter_type == _REDUCE},
        iterations=math.prod(int(getattr(axis.dom.extent, "value", 1)) for axis in axes.values()),
    )
    for part in statements(node.body):
        if isinstance(part, BufferStore):
            block.stored.add(part.buffer.id_)
        if isinstance(part, (BufferStore, Bind)):
            _read(part.value, block)
    block.loads = [load for load in block.loads if load[0] not in block.stored]
    return block


def _read(node: Any, block: _Block) -> None:
    from tvm.ir.expr import Call, TensorLoad
    from tvm.tirx.expr import Cast, Div, FloorMod, Mod, Mul

    if isinstance(node, TensorLoad):
        block.loads.append(_load(node))
        block.gathers |= any(_loads(index) for index in node.indices)
        return
    if isinstance(node, Mul):
        factors = [side.value if isinstance(side, Cast) else side for side in (node.a, node.b)]
        if all(isinstance(factor, TensorLoad) for factor in factors):
            loads = [_load(factor) for factor in factors]
            if loads[0][0] != loads[1][0]:
                block.factors = loads
    if isinstance(node, Call):
        block.calls.add(str(getattr(node.op, "name", node.op)).rsplit(".", 1)[-1])
    block.divides |= isinstance(node, Div)
    block.modulo |= isinstance(node, (Mod, FloorMod))
    for child in children(node):
        _read(child, block)


def _load(node: Any) -> Load:
    return node.source.id_, [_names(index) for index in node.indices]


def _names(node: Any) -> set[int]:
    from tvm.ir.expr import Var

    if isinstance(node, Var):
        return {node.id_}
    return set().union(*(_names(child) for child in children(node)), set())


def _loads(node: Any) -> bool:
    from tvm.ir.expr import TensorLoad

    return isinstance(node, TensorLoad) or any(_loads(child) for child in children(node))


def children(node: Any) -> list[Any]:
    """The operands of an expression, in order; of a load its indices."""
    from tvm.ir.expr import Call, TensorLoad
    from tvm.tirx.expr import BinaryOpExpr, Broadcast, Cast, CmpExpr, Let, LogicalExpr, Not, Ramp, Select

    if isinstance(node, TensorLoad):
        return list(node.indices)
    if isinstance(node, Call):
        return list(node.args)
    if isinstance(node, Not):
        return [node.a]
    if isinstance(node, (BinaryOpExpr, CmpExpr, LogicalExpr)):
        return [node.a, node.b]
    if isinstance(node, Select):
        return [node.condition, node.true_value, node.false_value]
    if isinstance(node, Cast):
        return [node.value]
    if isinstance(node, Ramp):
        return [node.base, node.stride]
    if isinstance(node, Broadcast):
        return [node.value]
    if isinstance(node, Let):
        return [node.value, node.body]
    return []
