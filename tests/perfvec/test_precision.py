"""Processors that multiply bfloat16 faster than float32, and subnormal numbers."""

import pytest
import torch

from perfvec.precision import fast_bf16, flushed_subnormals

ZEN4 = "vendor_id\t: AuthenticAMD\nflags\t\t: fpu avx512f avx512_bf16 avx512_vbmi\n"
ZEN3 = "vendor_id\t: AuthenticAMD\nflags\t\t: fpu avx2 fma\n"
WITHOUT_TILES = "vendor_id\t: GenuineIntel\nflags\t\t: fpu avx512f avx512_bf16 avx512_fp16\n"
WITH_TILES = "vendor_id\t: GenuineIntel\nflags\t\t: fpu avx512f avx512_bf16 amx_bf16 amx_tile\n"


@pytest.mark.parametrize(
    ("cpuinfo", "fast"), [(ZEN4, True), (ZEN3, False), (WITHOUT_TILES, False), (WITH_TILES, True), ("", False)]
)
def test_bfloat16_is_taken_where_it_is_the_faster(cpuinfo, fast):
    assert fast_bf16(cpuinfo) is fast


def half_of_the_least():
    return float(torch.tensor(torch.finfo(torch.float32).tiny).mul(0.5))


def test_subnormal_numbers_are_flushed_only_meanwhile():
    assert half_of_the_least() > 0
    with pytest.raises(KeyError), flushed_subnormals():
        assert half_of_the_least() == 0
        with flushed_subnormals():
            pass
        assert half_of_the_least() == 0  # an inner one leaves the outer one's
        raise KeyError
    assert half_of_the_least() > 0
