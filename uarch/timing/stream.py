"""A chunk's arrays as the compiled functions take them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.instructions import LAST, Chunk
from uarch.jit import compiled
from uarch.timing.static import LENGTH, Rows


class Stream(NamedTuple):
    """n executed instructions and their m accesses, as `Chunk` has them."""

    static_id: NDArray[np.uint32]
    following: NDArray[np.uint32]
    offset: NDArray[np.int64]
    address: NDArray[np.int64]
    size: NDArray[np.uint8]
    is_store: NDArray[np.uint8]


def stream_of(chunk: Chunk) -> Stream:
    return Stream(
        _plain(chunk.static_id, np.uint32),
        _plain(chunk.next_static_id, np.uint32),
        _plain(chunk.access_offset, np.int64),
        _plain(chunk.address.view(np.int64), np.int64),
        _plain(chunk.size, np.uint8),
        _plain(chunk.is_store, np.uint8),
    )


def _plain(column: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """Contiguous, aligned and writable: other arrays would be other types to the compiler."""
    return np.require(column, dtype, ["C", "A", "W"])


@compiled
def goes_to(pc: NDArray[np.int64], rows: Rows, stream: Stream, k: int) -> int:
    """Address executed after instruction k; after a trace's last one the fall-through."""
    here, following = stream.static_id[k], stream.following[k]
    return pc[here] + rows[here, LENGTH] if following == LAST else pc[following]


@compiled
def size_of(stream: Stream, which: int) -> int:
    """Bytes of an access, at least 1."""
    return max(int(np.int64(stream.size[which])), 1)
