"""Modules that worker processes need, loaded once and inherited: a process that replaces a crashed one is there at
once.
"""

from tracegen.tensor.installation import without_tensor_intrinsics

without_tensor_intrinsics()

import tvm.s_tir.meta_schedule  # noqa: E402, F401
