"""HDF5's filters *shuffle* and *lzf* for whole chunks, outside HDF5's global lock and faster on traces than its own.

The bytes are what any reader with h5py's lzf filter understands. LZF is a sequence of tokens: a byte c < 32 and c + 1
literal bytes; or c >= 32: a match of c >> 5 bytes + 2 (where c >> 5 is 7, the next byte adds to it) at the distance
((c & 31) << 8 | next byte) + 1 behind. Compression here gives up searching in noise and writes constant bytes, of which
a trace's wide columns are full, without searching.

Kept beside HDF5's plugins for the rate at which a trace is read: static ids decode at 2,349 MB/s and addresses at 1,414
on one thread, with blosc's lz4 (the fastest of hdf5plugin's) at 903 and 1,293, with h5py's lzf at 296 and 275
(`benchmarks/libraries.py`, 2026-11-25, two cores of an AMD EPYC virtual machine).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.jit import cached
from tracegen.formats.wide_copy import WIDE, copy_wide

_HASH_BITS = 13
_DISTANCE = 1 << 13
_LONGEST = 264
_LITERALS = 32
_ROOM = 2 * WIDE  # bytes that a copy may write beyond its end


@cached(nogil=True)
def _shuffle(values: NDArray[Any], out: NDArray[np.uint8]) -> None:
    """Byte b of element i goes to place b * elements + i. Written so that the compiler vectorises it."""
    elements = len(values)
    for byte in range(values.itemsize):
        plane = out[byte * elements : (byte + 1) * elements]
        shift = np.uint64(8 * byte)
        for i in range(elements):
            plane[i] = np.uint8(np.uint64(values[i]) >> shift)


@cached(nogil=True)
def _unshuffle4(data: NDArray[np.uint8], out: NDArray[np.uint32]) -> None:
    n = len(out)
    p0, p1, p2, p3 = data[:n], data[n : 2 * n], data[2 * n : 3 * n], data[3 * n : 4 * n]
    for i in range(n):
        out[i] = np.uint32(p0[i]) | np.uint32(p1[i]) << 8 | np.uint32(p2[i]) << 16 | np.uint32(p3[i]) << 24


@cached(nogil=True)
def _unshuffle8(data: NDArray[np.uint8], out: NDArray[np.uint64]) -> None:
    n = len(out)
    low = out.view(np.uint32)
    p0, p1, p2, p3 = data[:n], data[n : 2 * n], data[2 * n : 3 * n], data[3 * n : 4 * n]
    p4, p5, p6, p7 = data[4 * n : 5 * n], data[5 * n : 6 * n], data[6 * n : 7 * n], data[7 * n : 8 * n]
    for i in range(n):
        low[2 * i] = np.uint32(p0[i]) | np.uint32(p1[i]) << 8 | np.uint32(p2[i]) << 16 | np.uint32(p3[i]) << 24
        low[2 * i + 1] = np.uint32(p4[i]) | np.uint32(p5[i]) << 8 | np.uint32(p6[i]) << 16 | np.uint32(p7[i]) << 24


@cached(nogil=True)
def _literals(data: NDArray[np.uint8], begin: int, end: int, out: NDArray[np.uint8], o: int) -> int:
    while begin < end:
        count = min(end - begin, _LITERALS)
        out[o] = count - 1
        o += 1
        for k in range(count):
            out[o + k] = data[begin + k]
        o += count
        begin += count
    return o


@cached(nogil=True)
def _match(length: int, distance: int, out: NDArray[np.uint8], o: int) -> int:
    code = length - 2
    high = (distance - 1) >> 8
    if code < 7:
        out[o] = code << 5 | high
    else:
        out[o] = 7 << 5 | high
        out[o + 1] = code - 7
        o += 1
    out[o + 1] = (distance - 1) & 255
    return o + 2


@cached(nogil=True)
def _compress(data: NDArray[np.uint8], table: NDArray[np.int32], out: NDArray[np.uint8], o: int) -> int:
    """Append the tokens of `data` to out[o:]; the end. `out` has room for 33/32 of `data` and a token."""
    n = len(data)
    difference = np.uint8(0)
    for i in range(n):
        difference |= data[i] ^ data[0]
    if difference == 0:
        o = _literals(data, 0, 1, out, o)
        i = 1
        while n - i >= 3:
            length = min(n - i, _LONGEST)
            o = _match(length, 1, out, o)
            i += length
        return _literals(data, i, n, out, o)
    table[:] = -_DISTANCE - 1
    i = 0
    begin = 0  # of the literals to come
    misses = 0
    while i + 2 < n:
        word = np.int64(data[i]) << 16 | np.int64(data[i + 1]) << 8 | np.int64(data[i + 2])
        place = (word * 2654435761 & 0xFFFFFFFF) >> (32 - _HASH_BITS)
        known: Any = np.int64(table[place])
        table[place] = i
        if (
            i - known > _DISTANCE
            or data[known] != data[i]
            or data[known + 1] != data[i + 1]
            or data[known + 2] != data[i + 2]
        ):
            misses += 1
            i += 1 + (misses >> 5)
            continue
        misses = 0
        limit = min(n - i, _LONGEST)
        length = 3
        while length < limit and data[known + length] == data[i + length]:
            length += 1
        o = _literals(data, begin, i, out, o)
        o = _match(length, i - known, out, o)
        i += length
        begin = i
    return _literals(data, begin, n, out, o)


@cached(nogil=True)
def _encode(values: NDArray[Any], shuffled: NDArray[np.uint8], table: NDArray[np.int32], out: NDArray[np.uint8]) -> int:
    _shuffle(values, shuffled)
    elements = len(values)
    o = 0
    for byte in range(values.itemsize):
        o = _compress(shuffled[byte * elements : (byte + 1) * elements], table, out, o)
    return o


@cached(nogil=True)
def _repeat(out: NDArray[np.uint8], o: Any, distance: Any, length: Any) -> None:
    """Write `length` bytes to out[o:] that each equal the one `distance` before, and up to WIDE more of anything."""
    end = o + length
    if distance < WIDE:
        wide = distance  # what repeats, as often as it must be to be wide enough
        while wide < WIDE:
            wide += distance
        near = min(end, o + wide)
        while o < near:
            out[o] = out[o - distance]
            o += 1
        distance = wide
    while o < end:
        copy_wide(out, o, out, o - distance)
        o += WIDE


@cached(nogil=True)
def _decompress(data: NDArray[np.uint8], out: NDArray[np.uint8], size: int) -> bool:
    """Return whether `data` filled out[:size] exactly; `out` has _ROOM bytes more, which may be written too."""
    i: Any = 0
    o: Any = 0
    last = len(data)
    while i < last:
        code = np.int64(data[i])
        i += 1
        if code < 32:
            count = code + 1
            if i + count > last or o + count > size:
                return False
            if i + _LITERALS <= last:
                copy_wide(out, o, data, i)
                copy_wide(out, o + WIDE, data, i + WIDE)
            else:
                for k in range(count):
                    out[o + k] = data[i + k]
            i += count
            o += count
            continue
        length = (code >> 5) + 2
        if length == 9:
            if i >= last:
                return False
            length += np.int64(data[i])
            i += 1
        if i >= last:
            return False
        distance = ((code & 31) << 8 | np.int64(data[i])) + 1
        i += 1
        if distance > o or o + length > size:
            return False
        _repeat(out, o, distance, length)
        o += length
    return bool(o == size)


def encode(values: NDArray[Any]) -> bytes:
    """The stored form of a chunk of unsigned integers, for HDF5's filter mask 0.

    Noise becomes 3 % larger and stays encoded: HDF5 2.0 forgets the mask of a chunk that it reads in the session that
    wrote it.
    """
    shuffled = np.empty(values.nbytes, np.uint8)
    out = np.empty(values.nbytes + values.nbytes // _LITERALS + 64 * values.itemsize, np.uint8)
    size = _encode(np.ascontiguousarray(values), shuffled, np.empty(1 << _HASH_BITS, np.int32), out)
    return out[:size].tobytes()


def decode(stored: bytes, mask: int, dtype: str, elements: int) -> NDArray[Any]:
    """The values of a stored chunk, whose filter mask leaves out shuffle (1), lzf (2) or neither (0).

    Raises ValueError where it is damaged.
    """
    width = np.dtype(dtype).itemsize
    data = np.frombuffer(stored, np.uint8)
    if not mask & 2:
        shuffled = np.empty(elements * width + _ROOM, np.uint8)
        if not _decompress(data, shuffled, elements * width):
            raise ValueError("damaged chunk")
        data = shuffled[: elements * width]
    if len(data) != elements * width:
        raise ValueError("damaged chunk")
    if mask & 1 or width == 1:
        return data.view(dtype)
    out = np.empty(elements, dtype)
    (_unshuffle8 if width == 8 else _unshuffle4)(data, out)
    return out
