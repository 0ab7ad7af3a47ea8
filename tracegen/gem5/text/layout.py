"""Arrays of the scanner, their fields, and the reasons why it stops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Why `scan` returned.
DONE, FULL, GROW, MAPPING = range(4)
# What is wrong with a line, from 4 on; `scan` has not taken it in.
WRONG = {
    4: "is no whole line of Exec text (run gem5 with --debug-flags=ExecAll,O3PipeView,Vma)",
    5: "is no whole line of O3PipeView text",
    6: "has a CPSeq that does not follow the line before; lines are missing, repeated or in another order",
    7: "is in the middle of an instruction, whose first micro-operations are missing",
    8: "belongs to another instruction while the one before is not complete; micro-operations are missing",
    9: "has a tick that is no multiple of the clock period",
    10: "goes back in time",
    11: "comes while an older instruction still has no O3PipeView record (run gem5 with the flag O3PipeView)",
    12: "is of another core than the one that the trace is of",
    13: "is of another thread; a trace is of one thread",
    14: "begins an instruction again that was not interrupted",
    15: "has no FetchSeq or CPSeq (run gem5 with --debug-flags=ExecAll,O3PipeView,Vma)",
    16: "has a FetchSeq that O3PipeView tells of with another address",
    17: "has an address that does not fit in a 64-bit number",
    18: "faults inside an instruction, and nothing repeats it",
    19: "retires an instruction of which its O3PipeView record says that it was squashed",
    20: "retires more than 4,294,967,295 cycles after the instruction before it",
}
(
    BAD_EXEC,
    BAD_PIPE,
    BAD_CP,
    MIDDLE,
    INCOMPLETE,
    BAD_TICK,
    BACKWARDS,
    NO_RECORD,
    OTHER_CORE,
    OTHER_THREAD,
    AGAIN,
    NO_NUMBERS,
    OTHER_ADDRESS,
    OVERFLOW,
    FAULT_INSIDE,
    NOT_RETIRED,
    TOO_LATE,
) = WRONG

LONGEST = 0xFFFFFFFF  # cycles of a latency

RING = 1 << 18  # O3PipeView records kept, by sequence number
PENDING = 1 << 16  # instructions that may wait for the record of one before

# Flags of a micro-operation.
LOAD, STORE, ATOMIC, MICRO, LAST, FIRST, NOP, PREFETCH, CODE_PREFETCH, DIVIDES = (1 << bit for bit in range(10))

STORED_OPEN = 2  # `open` of an instruction some of whose accesses have left `Output`


class Line:
    """Fields of an Exec line."""

    valid: int  # 0: there is no line
    pc: int
    micro: int  # micro program counter, -1 without
    op_flags: int
    seq: int  # FetchSeq, -1 without
    cp: int  # CPSeq, -1 without
    has: int  # an address
    address: int
    fault: int
    tick: int
    fast: int  # of the core that fast-forwards


class State:
    """Fields of the scanner's state."""

    at: int  # where the next line begins
    line_number: int
    line_begin: int  # of the last line
    out_of_order: int  # the timed core
    period: int  # ticks of a cycle
    last_cp: int
    open: int  # an instruction is not complete
    open_pc: int
    open_access: int  # its first one in `Output`
    interrupted: int  # its last line was without effect
    pipe_seq: int  # of the last O3PipeView record
    first_pending: int
    last_pending: int
    retired: int  # tick of the last one
    statics: int
    instructions: int
    fast: int  # those of the core that fast-forwards
    labelled: int
    syscalls: int
    micro_operations: int
    references: int
    repeated: int
    repeated_references: int
    steps: int  # of a division, of the instruction that is not complete
    ids: int  # in `Output`, as the next three
    accesses: int
    latencies: int
    divisions: int


class Record:
    """Fields of an O3PipeView record."""

    seq: int  # sequence number + 1
    pc: int
    tick: int  # of the retirement
    complete: int


class Waiting:
    """Fields of an instruction that waits for its record."""

    seq: int
    pc: int
    fault: int


class Access:
    """Fields of an access."""

    instruction: int  # of the whole text
    address: int
    is_store: int


class Division:
    """Fields of a division."""

    instruction: int  # of the whole text
    steps: int


def _zeros(count: int, fields: type) -> NDArray[np.void]:
    """Records of 64-bit integers, in which addresses are the same bits."""
    kind = np.dtype([(name, np.int64) for name in fields.__annotations__], align=True)
    return np.zeros(count, kind).view(np.recarray)


class Tables(NamedTuple):
    """State that the scanner keeps from one block of text to the next."""

    state: State
    lines: NDArray[np.void]  # [2] `Line`: the one that is held back, the one that has just been read
    records: NDArray[np.void]  # [RING] `Record`
    pending: NDArray[np.void]  # [PENDING] `Waiting`

    @staticmethod
    def initial(*, out_of_order: bool, period: int, begin: int) -> Tables:
        """The state before the first line; `begin` is the tick at which the timed core begins, -1 where unknown."""
        state: State = _zeros(1, State)[0]
        state.out_of_order, state.period, state.retired, state.last_cp = out_of_order, period, begin, -1
        return Tables(state, _zeros(2, Line), _zeros(RING if out_of_order else 1, Record), _zeros(PENDING, Waiting))


class Output(NamedTuple):
    """Output of `scan`; the state's `ids`, `accesses` and `latencies` say how much."""

    static_id: NDArray[np.uint32]  # instructions, numbered in the order of their first execution
    accesses: NDArray[np.void]  # [·] `Access`
    latency: NDArray[np.uint32]  # cycles, of the instructions of the timed core
    divisions: NDArray[np.void]  # [·] `Division`

    @staticmethod
    def empty(size: int) -> Output:
        return Output(
            np.zeros(size, np.uint32), _zeros(size, Access), np.zeros(size, np.uint32), _zeros(size, Division)
        )
