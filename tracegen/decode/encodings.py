"""Distinct encodings of a program's instructions: each is disassembled once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracegen.decode.x86_encoding import without_numbers


def distinct_encodings(code: NDArray[np.uint8], isa: str) -> tuple[list[bytes], NDArray[np.int64]]:
    """Return the distinct rows of `code` [S, 16], in order, and [S] which of them each row is.

    What an instruction does hangs on its bytes, not on its address; of x86-64 numbers within are left out, too.
    """
    raw = (without_numbers(code) if isa == "x86-64" else code).tobytes()
    place: dict[bytes, int] = {}
    which = [place.setdefault(raw[begin : begin + 16], len(place)) for begin in range(0, len(raw), 16)]
    return list(place), np.array(which, np.int64)
