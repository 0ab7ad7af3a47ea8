"""The columns of a CPI stack: the causes that cycles are given to, in the order of `Cause` in core/stack.hpp.

What belongs to a cause, and why, is in docs/explanation/cpi-stacks.md.
"""

from __future__ import annotations

from types import MappingProxyType

from uarch.instructions import Operation

# Cause → the group that it is summed into, in the order in which both are shown.
CAUSES = MappingProxyType(
    {
        "retiring": "retiring",
        "fetch from L1I": "instruction fetch",
        "fetch from L2": "instruction fetch",
        "fetch from L3": "instruction fetch",
        "fetch from memory": "instruction fetch",
        "instruction TLB misses": "instruction fetch",
        "fetch bandwidth": "front-end bandwidth",
        "decode and rename bandwidth": "front-end bandwidth",
        "misprediction, found at execution": "branch misprediction",
        "misprediction, found at decode": "branch misprediction",
        "integer operations": "execution",
        "integer multiplication": "execution",
        "integer division": "execution",
        "floating-point addition": "execution",
        "floating-point multiplication": "execution",
        "floating-point division": "execution",
        "vector operations": "execution",
        "loads from L1D": "loads",
        "loads from L2": "loads",
        "loads from L3": "loads",
        "loads from memory": "loads",
        "data TLB misses": "loads",
        "loads from stores in flight": "loads",
        "loads behind older stores": "loads",
        "ports": "ports",
        "reorder buffer full": "full windows",
        "issue queue full": "full windows",
        "load queue full": "full windows",
        "store queue full": "full windows",
        "integer registers taken": "full windows",
        "floating-point registers taken": "full windows",
        "stores to L1D": "stores and ordering",
        "stores to L2": "stores and ordering",
        "stores to L3": "stores and ordering",
        "stores to memory": "stores and ordering",
        "atomics and fences": "stores and ordering",
        "serializing instructions": "stores and ordering",
    }
)
GROUPS = tuple(dict.fromkeys(CAUSES.values()))

_INDEX = {cause: column for column, cause in enumerate(CAUSES)}
_OPERATIONS = {
    Operation.INT_MUL: "integer multiplication",
    Operation.INT_DIV: "integer division",
    Operation.FP_ADD: "floating-point addition",
    Operation.FP_MUL: "floating-point multiplication",
    Operation.FP_FMA: "floating-point multiplication",
    Operation.FP_MISC: "floating-point multiplication",
    Operation.FP_DIV: "floating-point division",
    Operation.FP_SQRT: "floating-point division",
    Operation.SIMD_INT: "vector operations",
    Operation.SIMD_MUL: "vector operations",
    Operation.SIMD_FP_ADD: "vector operations",
    Operation.SIMD_FP_MUL: "vector operations",
    Operation.SIMD_FP_FMA: "vector operations",
    Operation.SIMD_FP_DIV: "vector operations",
    Operation.SIMD_FP_SQRT: "vector operations",
    Operation.CRYPTO: "vector operations",
}


def execution_column(operation: Operation) -> int:
    """Return the column that waiting for an operation's result is given to."""
    return _INDEX[_OPERATIONS.get(operation, "integer operations")]
