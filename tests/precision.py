"""Needs of tests of bfloat16: a processor."""

from __future__ import annotations

import pytest

from perfvec.precision import native_bf16

# PyTorch computes an LSTM in bfloat16 only where the processor can; other products it emulates.
with_bf16_lstm = pytest.mark.skipif(not native_bf16(), reason="the processor does not multiply bfloat16")
