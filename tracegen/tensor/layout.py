"""Weights whose layout a schedule rewrites: the compiled program takes them rearranged.

MetaSchedule's `RewriteLayout` copies a weight into the order in which the program reads it, in a block of its own that
is meant to run once, ahead of time; `RemoveWeightLayoutRewriteBlock` takes that block out when the program is compiled.
The block's store says where each element goes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError

if TYPE_CHECKING:
    from tvm.ir import IRModule

_ANNOTATION = "meta_schedule.layout_rewrite_preproc"
_Index = tuple[tuple[int, ...], bytes]  # shape, and int64 of it


@dataclass(frozen=True)
class Layout:
    """Layout of the argument number `argument`: its elements go to `places` in an array of `shape`, from `origins`.

    Both hold an index for each axis of the array that they point into; the indices broadcast against each other.
    """

    argument: int
    shape: tuple[int, ...]
    places: tuple[_Index, ...]
    origins: tuple[_Index, ...]

    def rearranged(self, array: NDArray[Any]) -> NDArray[Any]:
        """The argument as the compiled program takes it."""
        result = np.empty(self.shape, array.dtype)
        result.reshape(-1)[_flat(self.places, self.shape)] = array.reshape(-1)[_flat(self.origins, array.shape)]
        return result


def layouts_of(module: IRModule) -> tuple[Layout, ...]:
    """The layouts that the scheduled program rewrites."""
    import tvm_ffi
    from tvm.s_tir.stmt import SBlock

    blocks: list[Any] = []

    def visit(block: Any) -> None:
        if _ANNOTATION in block.annotations:
            blocks.append(block)

    tvm_ffi.structural_walk(module["main"], [(SBlock, visit)])
    argument_of = {parameter.id_: index for index, parameter in enumerate(module["main"].params)}
    return tuple(_layout(block, argument_of) for block in blocks)


def rearranged(arrays: Sequence[NDArray[Any]], layouts: Sequence[Layout]) -> list[NDArray[Any]]:
    """A task's arguments as the compiled program takes them."""
    result = list(arrays)
    for layout in layouts:
        result[layout.argument] = layout.rearranged(result[layout.argument])
    return result


def _layout(block: Any, argument_of: dict[int, int]) -> Layout:
    store = block.body
    extents = [int(axis.dom.extent) for axis in block.iter_vars]
    grid = np.ogrid[tuple(slice(extent) for extent in extents)]
    values = {axis.var.id_: values for axis, values in zip(block.iter_vars, grid, strict=True)}
    places, origins = (
        tuple(_index(_value(node, values)) for node in indices) for indices in (store.indices, store.value.indices)
    )
    shape = tuple(int(extent) for extent in store.buffer.shape)
    return Layout(argument_of[store.value.source.id_], shape, places, origins)


def _index(values: Any) -> _Index:
    array = np.asarray(values, np.int64)
    return array.shape, array.tobytes()


def _flat(indices: Sequence[_Index], shape: Sequence[int]) -> NDArray[np.int64]:
    """Positions in an array of `shape`, flattened."""
    position: Any = np.int64(0)
    for (extents, content), size in zip(indices, shape, strict=True):
        position = position * size + np.frombuffer(content, np.int64).reshape(extents)
    return position


def _value(node: Any, values: dict[int, NDArray[np.int64]]) -> Any:
    """An index expression over all values of its variables."""
    from tvm.ir.expr import Var
    from tvm.tirx import expr

    if isinstance(node, Var):
        return values[node.id_]
    if hasattr(node, "value") and isinstance(node.value, int):
        return node.value
    operations: dict[type, Callable[[Any, Any], Any]] = {
        expr.Add: operator.add,
        expr.Sub: operator.sub,
        expr.Mul: operator.mul,
        expr.FloorDiv: operator.floordiv,
        expr.FloorMod: operator.mod,
    }
    if type(node) not in operations:
        raise InputError(f"a weight's layout is rewritten by {type(node).__name__}, which is not understood")
    return operations[type(node)](_value(node.a, values), _value(node.b, values))
