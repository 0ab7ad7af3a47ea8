"""Sixteen bytes copied at once, wherever they lie, for loops whose runs are too short for the compiler to help.

The rates of `tracegen/formats/lzf.py` come of it: a loop over 16 bytes in its place decodes at a third of
them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WIDE = 16


def _copy_wide(typing_context: Any, target: Any, at: Any, source: Any, begin: Any) -> Any:

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointers = []
        for place in (0, 2):
            view = context.make_array(signature.args[place])(context, builder, arguments[place])
            index = context.cast(builder, arguments[place + 1], signature.args[place + 1], types.intp)
            pointer = cgutils.gep_inbounds(builder, view.data, index)
            pointers.append(builder.bitcast(pointer, ir.VectorType(ir.IntType(8), WIDE).as_pointer()))
        builder.store(builder.load(pointers[1], align=1), pointers[0], align=1)
        return context.get_dummy_value()

    return types.void(target, at, source, begin), generate


copy_wide: Any = intrinsic(_copy_wide)
"""Of compiled code, `copy_wide(target, at, source, begin)`: 16 bytes of `source` from `begin` on to `target[at:]`, both
contiguous arrays of bytes. Nothing is checked."""
