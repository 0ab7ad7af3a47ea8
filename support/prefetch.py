"""A hint to bring a cache line of an array in before it is read, for loops that know their accesses ahead of time."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array_type, index_type = signature.args
        view = context.make_array(array_type)(context, builder, arguments[0])
        first = context.cast(builder, arguments[1], index_type, types.intp)
        zero = context.get_constant(types.intp, 0)
        indices = [first] + [zero] * (array_type.ndim - 1)
        shape, strides = cgutils.unpack_tuple(builder, view.shape), cgutils.unpack_tuple(builder, view.strides)
        pointer = cgutils.get_item_pointer2(
            context, builder, view.data, shape, strides, array_type.layout, indices, wraparound=False
        )
        byte = builder.bitcast(pointer, cgutils.voidptr_t)
        number = ir.IntType(32)
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch", [cgutils.voidptr_t], ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, *[number] * 3])
        )
        builder.call(hint, [byte, number(1), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch: Any = intrinsic(_prefetch)
"""Of compiled code, `prefetch(array, index)`: bring in `array[index]` (of a two-dimensional array the first number of
row `index`) for reading and writing."""
