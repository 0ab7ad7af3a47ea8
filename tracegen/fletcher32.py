"""HDF5's filter *fletcher32* for a stored chunk: the checksum that any HDF5 reader verifies.

Fletcher, *An arithmetic checksum for serial transmissions*, 1982, over big-endian 16-bit words, as HDF5's
H5_checksum_fletcher32 computes it; its four bytes, little-endian, follow the chunk.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

SIZE = 4
_PIECE = 360  # words that cannot overflow 32 bits


@numba.njit(cache=True, nogil=True)
def _checksum(data: NDArray[np.uint8]) -> int:
    first, second = 0, 0
    words = len(data) // 2
    word = 0
    while word < words:
        end = min(word + _PIECE, words)
        while word < end:
            first += np.int64(data[2 * word]) << 8 | np.int64(data[2 * word + 1])
            second += first
            word += 1
        first = (first & 0xFFFF) + (first >> 16)
        second = (second & 0xFFFF) + (second >> 16)
    if len(data) % 2:
        first += np.int64(data[-1]) << 8
        second += first
        first = (first & 0xFFFF) + (first >> 16)
        second = (second & 0xFFFF) + (second >> 16)
    first = (first & 0xFFFF) + (first >> 16)
    second = (second & 0xFFFF) + (second >> 16)
    return second << 16 | first


def checksum(stored: bytes) -> bytes:
    """The four bytes that follow a stored chunk."""
    return int(_checksum(np.frombuffer(stored, np.uint8))).to_bytes(SIZE, "little")
