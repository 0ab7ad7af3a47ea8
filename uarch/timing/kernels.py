"""The outermost loops, one for each core and one for warming: what is compiled once and kept on disk.

numba's cache on disk notices changes of the file that the outermost function is in, but not of the files it calls
into. The kernels therefore close over a digest of all sources of this folder, which is part of the cache's key: an
edited helper is never served from a stale cache.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uarch.jit import kernel
from uarch.timing import in_order, out_of_order
from uarch.timing.branches import Branches
from uarch.timing.caches import Caches, access_code, access_data
from uarch.timing.memory import Memory
from uarch.timing.static import LENGTH, Rows
from uarch.timing.stream import Stream, goes_to, size_of
from uarch.timing.wrong_path import WrongPath

SATURATED = 65535
Array = NDArray[np.int64]


def _build_out_of_order(digest: str) -> Any:
    @kernel
    def run_out_of_order(
        core: out_of_order.OutOfOrder,
        path: WrongPath,
        branches: Branches,
        caches: Caches,
        memory: Memory,
        tlbs: Array,
        rows: Rows,
        pc: Array,
        stream: Stream,
        latency: NDArray[np.uint16],
        before: int,
    ) -> int:
        """Fills `latency`; returns the last retire cycle. `before` is the one before the chunk."""
        _ = digest
        for k in range(len(stream.static_id)):
            here = stream.static_id[k]
            target = goes_to(pc, rows, stream, k)
            retired = out_of_order.step(
                core, path, branches, caches, memory, tlbs, rows, pc, here, target, stream, k
            )  # fmt: skip
            latency[k] = min(retired - before, SATURATED)
            before = retired
        return before

    return run_out_of_order


def _build_in_order(digest: str) -> Any:
    @kernel
    def run_in_order(
        core: in_order.InOrder,
        path: WrongPath,
        branches: Branches,
        caches: Caches,
        memory: Memory,
        tlbs: Array,
        rows: Rows,
        pc: Array,
        stream: Stream,
        latency: NDArray[np.uint16],
        before: int,
    ) -> int:
        """Fills `latency`; returns the last retire cycle. `before` is the one before the chunk. Takes no wrong path."""
        _ = digest
        for k in range(len(stream.static_id)):
            here = stream.static_id[k]
            target = goes_to(pc, rows, stream, k)
            retired = in_order.step(core, branches, caches, memory, tlbs, rows[here], pc[here], target, stream, k)
            latency[k] = min(retired - before, SATURATED)
            before = retired
        return before

    return run_in_order


def _build_warm(digest: str) -> Any:
    @kernel
    def warm(
        caches: Caches,
        memory: Memory,
        tlbs: Array,
        rows: Rows,
        pc: Array,
        stream: Stream,
        line: int,
    ) -> int:
        """Contents of caches and TLBs; returns the line of code last fetched. `line` is the one before the chunk."""
        _ = digest
        for k in range(len(stream.static_id)):
            here = stream.static_id[k]
            last = (pc[here] + rows[here, LENGTH] - 1) >> 6
            for current in range(pc[here] >> 6, last + 1):
                if current != line:
                    access_code(caches, memory, tlbs, current, 0, pc[here], 0)
                    line = current
            for which in range(stream.offset[k], stream.offset[k + 1]):
                address, size = stream.address[which], size_of(stream, which)
                write = int(np.int64(stream.is_store[which]))
                access_data(caches, memory, tlbs, address, size, 0, write, pc[here], 0)
        return line

    return warm


@cache
def _digest() -> str:
    folder = Path(__file__).parent
    return sha256(b"".join(path.read_bytes() for path in sorted(folder.rglob("*.py")))).hexdigest()


@cache
def run_kernel(core: str) -> Any:
    """The loop for a core ("out-of-order" or "in-order")."""
    return _build_in_order(_digest()) if core == "in-order" else _build_out_of_order(_digest())


@cache
def warm_kernel() -> Any:
    return _build_warm(_digest())
