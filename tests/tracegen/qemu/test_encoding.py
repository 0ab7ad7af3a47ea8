"""Encodings of which QEMU may tell no access."""

import numpy as np
import pytest

from tracegen.qemu.encoding import untold


@pytest.mark.parametrize(
    ("isa", "code", "unsure"),
    [  # as objdump shows them
        ("x86-64", "c4e27d8e0f", True),  # vpmaskmovd %ymm1,%ymm0,(%rdi)
        ("x86-64", "c4e27d2c07", True),  # vmaskmovps (%rdi),%ymm0,%ymm0
        ("x86-64", "c4e275900487", True),  # vpgatherdd %ymm1,(%rdi,%ymm0,4),%ymm0
        ("x86-64", "660ff7c1", True),  # maskmovdqu %xmm1,%xmm0
        ("x86-64", "0ff7c1", True),  # maskmovq %mm1,%mm0
        ("x86-64", "c5f9f7c1", True),  # vmaskmovdqu %xmm1,%xmm0
        ("x86-64", "c4e27d1807", False),  # vbroadcastss (%rdi),%ymm0
        ("x86-64", "c5fc1007", False),  # vmovups (%rdi),%ymm0
        ("x86-64", "488b07", False),  # mov (%rdi),%rax
        ("aarch64", "20740bd5", True),  # dc zva, x0
        ("aarch64", "000040f9", False),  # ldr x0, [x0]
        ("riscv64", "03350500", False),  # ld a0,0(a0)
    ],
)
def test_what_accesses_memory_under_a_mask_may_access_nothing(isa, code, unsure):
    row = np.frombuffer(bytes.fromhex(code).ljust(16, b"\0"), np.uint8)[None]
    assert untold(row, isa).tolist() == [unsure]
