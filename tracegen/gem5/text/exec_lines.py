"""A line of `Exec`: one micro-operation, into `line`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.jit import cached
from tracegen.gem5.text.characters import begins, decimal, encoded, hexadecimal, number_before
from tracegen.gem5.text.layout import (
    ATOMIC,
    BAD_CP,
    BAD_EXEC,
    CODE_PREFETCH,
    DIVIDES,
    FIRST,
    LAST,
    LOAD,
    MICRO,
    NO_NUMBERS,
    NOP,
    OTHER_CORE,
    OTHER_THREAD,
    OVERFLOW,
    PREFETCH,
    STORE,
    Line,
    State,
)

_FLAG_WORDS = (
    "IsLoad",
    "IsStore",
    "IsAtomic",
    "IsMicroop",
    "IsLastMicroop",
    "IsFirstMicroop",
    "IsNop",
    "IsDataPrefetch",
    "IsInstPrefetch",
)
_LOAD, _STORE, _ATOMIC, _MICRO, _LAST, _FIRST, _NOP, _DATA_PREFETCH, _INST_PREFETCH = map(encoded, _FLAG_WORDS)
_FLAGS, _CPSEQ, _FETCHSEQ, _ADDRESS, _GEM5_NOP = map(
    encoded, ("  flags=(", "  CPSeq=", "  FetchSeq=", " A=0x", "gem5 nop")
)
_DIVIDE, _SIGNED_DIVIDE, _FIRST_STEP, _STEP = map(encoded, ("DIV_", "IDIV_", "div1", "div2"))
_CREATED = encoded("global: memstate: creating vma (")

# What a line is, where it is not wrong.
OTHER, READ, MAPPED = 0, -1, -2


@cached(nogil=True)
def read_line(
    text: NDArray[np.uint8],
    at: int,
    end: int,
    core: NDArray[np.uint8],
    fast_core: NDArray[np.uint8],
    state: State,
    line: Line,
) -> int:
    """A line that is not O3PipeView's: OTHER, READ into `line`, MAPPED, or what is wrong with it."""
    begin = at
    while at < end and text[at] == 32:
        at += 1
    tick, at = decimal(text, at, end)
    if tick < 0 or at + 2 >= end or text[at] != 58 or text[at + 1] != 32:
        return OTHER
    at += 2
    name = at
    timed = _is_name(text, at, end, core)
    fast = not timed and _is_name(text, at, end, fast_core)
    if timed:
        at += len(core) + 2
    elif fast:
        at += len(fast_core) + 2
    else:
        while at + 1 < end and not (text[at] == 58 and text[at + 1] == 32):
            at += 1
        at += 2
    thread, at = _thread(text, at, end)
    if thread < 0:
        return MAPPED if begins(text, name, end, _CREATED) else OTHER
    if not timed and not fast:
        return OTHER_CORE
    if thread > 0:
        return OTHER_THREAD
    wrong = _exec_line(text, at, end, line)
    if wrong or not line.valid:
        return wrong
    line.tick, line.fast = tick, fast
    wrong = _numbered(text, begin, end, state, line)
    return wrong if wrong else READ


@cached(nogil=True)
def _is_name(text: NDArray[np.uint8], at: int, end: int, name: NDArray[np.uint8]) -> bool:
    """Return whether an object's name stands at `at`, with the colon that ends it."""
    after = at + len(name)
    return after + 1 < end and text[after] == 58 and text[after + 1] == 32 and begins(text, at, end, name)


@cached(nogil=True)
def _thread(text: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """The thread in `A0 T0 : 0x…` at `at`, -1 for another text; where the program counter begins."""
    thread: Any = np.int64(-1)
    if at < end and text[at] == 65:  # address space
        _, at = decimal(text, at + 1, end)
        at += 1
    if at >= end or text[at] != 84:
        return thread, at
    thread, at = decimal(text, at + 1, end)
    if at + 5 > end or text[at] != 32 or text[at + 1] != 58 or text[at + 2] != 32 or text[at + 3] != 48:
        thread = np.int64(-1)
    return thread, at + 3


@cached(nogil=True)
def _exec_line(text: NDArray[np.uint8], at: int, end: int, line: Line) -> int:
    """An Exec line, from the program counter on, into `line`; line.valid is 0 for a macro-operation's."""
    line.valid = 0
    pc, at, digits = hexadecimal(text, at, end)
    if digits == 0:
        return BAD_EXEC
    if digits > 16:
        return OVERFLOW
    while at + 3 <= end and not (text[at + 1] == 58 and text[at] == 32 and text[at + 2] == 32):
        at += 1
    if at + 3 > end:
        return BAD_EXEC
    micro: Any = np.int64(-1)
    step = 0
    if text[at - 1] != 32:
        micro = _micro_counter(text, at)
        if micro < 0:
            return BAD_EXEC
        step = DIVIDES * _is_step(text, at + 3, end)
    # The other end: flags=(…), and before it CPSeq, FetchSeq, A, each where there is one.
    stop = end - 2
    if text[end - 1] == 41:
        while stop > at and text[stop] != 40:
            stop -= 1
    if text[end - 1] != 41 or not begins(text, stop - 8, end, _FLAGS):
        return BAD_EXEC if micro >= 0 else 0
    flags = _flags(text, stop + 1, end - 1)
    if (micro >= 0) != (flags & MICRO != 0):
        return BAD_EXEC
    stop -= 8
    seq: Any = np.int64(-1)
    cp: Any = np.int64(-1)
    begin = number_before(text, stop)
    if begin < stop and begins(text, begin - 8, stop, _CPSEQ):
        cp, _ = decimal(text, begin, stop)
        stop = begin - 8
    begin = number_before(text, stop)
    if begin < stop and begins(text, begin - 11, stop, _FETCHSEQ):
        seq, _ = decimal(text, begin, stop)
        stop = begin - 11
    begin = stop
    while begin > at and (np.uint8(text[begin - 1] - 48) < 10 or np.uint8(text[begin - 1] - 97) < 6):
        begin -= 1
    has = begin < stop and begins(text, begin - 5, stop, _ADDRESS)
    address: Any = np.int64(0)
    if has:
        address, _, digits = hexadecimal(text, begin - 2, stop)
        if digits > 16:
            return OVERFLOW
    elif begin < stop and text[begin - 1] == 120 and text[begin - 3] == 61 and text[begin - 4] == 65:
        return BAD_EXEC
    line.valid = 1
    line.pc, line.micro, line.op_flags = pc, micro, flags | step
    line.seq, line.cp, line.has, line.address = seq, cp, has, address
    return 0


@cached(nogil=True)
def _is_step(text: NDArray[np.uint8], at: int, end: int) -> bool:
    """Return whether a text, as "  IDIV_R : div2   t4, t1, t4 : IntDiv", is of a step of a division."""
    while at < end and text[at] == 32:
        at += 1
    if at + 5 >= end or not (begins(text, at, end, _DIVIDE) or begins(text, at, end, _SIGNED_DIVIDE)):
        return False
    while at < end and text[at] != 58:
        at += 1
    return begins(text, at + 2, end, _FIRST_STEP) or begins(text, at + 2, end, _STEP)


@cached(nogil=True)
def _micro_counter(text: NDArray[np.uint8], end: int) -> int:
    """The micro program counter that stands before " : ", as ".%2d"; -1 for another text."""
    begin = end - 1
    while text[begin] != 46 and end - begin < 8:
        begin -= 1
    if text[begin] != 46:
        return -1
    begin += 1
    while text[begin] == 32:
        begin += 1
    micro, stop = decimal(text, begin, end)
    return micro if stop == end else -1


@cached(nogil=True)
def _flags(text: NDArray[np.uint8], at: int, end: int) -> int:
    """The flags between the brackets, from `at` to `end`."""
    found = 0
    while at < end:
        stop = at
        while stop < end and text[stop] != 124:
            stop += 1
        length = stop - at
        if length == 6 and begins(text, at, stop, _LOAD):
            found |= LOAD
        elif length == 7 and begins(text, at, stop, _STORE):
            found |= STORE
        elif length == 8 and begins(text, at, stop, _ATOMIC):
            found |= ATOMIC
        elif length == 9 and begins(text, at, stop, _MICRO):
            found |= MICRO
        elif length == 13 and begins(text, at, stop, _LAST):
            found |= LAST
        elif length == 5 and begins(text, at, stop, _NOP):
            found |= NOP
        elif length == 14:
            if begins(text, at, stop, _FIRST):
                found |= FIRST
            elif begins(text, at, stop, _DATA_PREFETCH):
                found |= PREFETCH
            elif begins(text, at, stop, _INST_PREFETCH):
                found |= PREFETCH | CODE_PREFETCH
        at = stop + 1
    return found


@cached(nogil=True)
def _numbered(text: NDArray[np.uint8], at: int, end: int, state: State, line: Line) -> int:
    """Return what the line's sequence numbers tell: whether it faults, and follows the one before."""
    line.fault = 0
    if line.fast:
        return OTHER_CORE if state.fast < state.instructions else 0
    if line.seq < 0 or line.cp < 0:
        return NO_NUMBERS
    if state.last_cp >= 0 and line.cp != state.last_cp + 1:
        if line.cp != state.last_cp or not state.out_of_order:
            return BAD_CP
        # O3 gives no number to what faults, nor to no-operations and prefetches.
        line.fault = not line.op_flags & (NOP | PREFETCH) or _is_fetch_fault(text, at, end)
    state.last_cp = line.cp
    return 0


@cached(nogil=True)
def _is_fetch_fault(text: NDArray[np.uint8], at: int, end: int) -> bool:
    """Return whether a line is the placeholder that O3 commits where the fetch has faulted."""
    for place in range(at, end - 8):  # noqa: SIM110 (compiled)
        if begins(text, place, end, _GEM5_NOP):
            return True
    return False
