"""gem5's debug text → executed instructions: the lines of `Exec` and `O3PipeView`, scanned as bytes.

What gem5 v23 and v24 print (src/cpu/exetrace.cc, src/cpu/o3/dyn_inst.cc), and what is made of it:

- An `Exec` line is one micro-operation at commit, in program order. Those from the first to the one with
  `IsLastMicroop` are an instruction; a line without `flags=` names a macro-operation and says nothing else.
- On O3 its tick is that of the fetch. `O3PipeView`'s record of the same sequence number (`FetchSeq`) tells the tick of
  the retirement; it appears when the instruction leaves the core, out of order, for squashed ones too (these no one
  asks for).
- On Minor and on the simple cores its tick is that of the commit.
- A micro-operation that faults is printed as if it had committed, then again (the first touch of a page). O3 tells,
  since `CPSeq` does not advance; else the same memory micro-operation twice in a row at one address is one that was
  repeated.
- A system call is a fault that nothing repeats. On O3 it has no tick of retirement; it counts as retired when it is
  complete, or with the instruction before it, whichever is later.

Lines of other debug flags are passed over. The scanner holds one line back, so that it knows what follows a fault.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.jit import cached

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
    17: "has another number of digits than a 64-bit number",
    18: "faults inside an instruction, and nothing repeats it",
    19: "retires an instruction of which its O3PipeView record says that it was squashed",
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
) = WRONG

RING = 1 << 18  # O3PipeView records kept, by sequence number
PENDING = 1 << 16  # instructions that may wait for the record of one before

# Flags of a micro-operation.
LOAD, STORE, ATOMIC, MICRO, LAST, FIRST, NOP, PREFETCH = (1 << bit for bit in range(8))

STORED_OPEN = 2  # state[OPEN] of an instruction some of whose accesses have left `Output`

# The scanner's state: an int64 array, in which addresses are the same bits. HELD_… is the line that is held back,
# NEXT_… the one that has just been read, in the same order.
(
    HELD,
    HELD_PC,
    HELD_MICRO,
    HELD_FLAGS,
    HELD_SEQ,
    HELD_CP,
    HELD_HAS,
    HELD_ADDRESS,
    HELD_FAULT,
    HELD_TICK,
    HELD_FAST,
    NEXT,
    NEXT_PC,
    NEXT_MICRO,
    NEXT_FLAGS,
    NEXT_SEQ,
    NEXT_CP,
    NEXT_HAS,
    NEXT_ADDRESS,
    NEXT_FAULT,
    NEXT_TICK,
    NEXT_FAST,
    OUT_OF_ORDER,
    PERIOD,
    AT,
    LINE,
    LINE_AT,
    LAST_CP,
    OPEN,
    OPEN_PC,
    OPEN_ACCESS,
    INTERRUPTED,
    PIPE_SEQ,
    FIRST_PENDING,
    LAST_PENDING,
    RETIRED,
    STATICS,
    INSTRUCTIONS,
    FAST,
    LABELLED,
    SATURATED,
    SYSCALLS,
    NOPS,
    MICRO_OPERATIONS,
    REFERENCES,
    REPEATED,
    REPEATED_REFERENCES,
    SQUASHED,
    IDS,
    ACCESSES,
    LATENCIES,
) = range(51)
_FIELDS = NEXT - HELD

# Columns of `Tables.records` and `Tables.pending`, and of `Output.accesses`.
SEQ, PC, TICK, COMPLETE = range(4)
FAULT = 2
INSTRUCTION, ADDRESS, IS_STORE = range(3)


class Tables(NamedTuple):
    """State that the scanner keeps from one block of text to the next."""

    state: NDArray[np.int64]
    records: NDArray[np.int64]  # [RING, 4] O3PipeView: sequence number + 1, address, ticks of retirement, completion
    pending: NDArray[np.int64]  # [PENDING, 3] instructions that wait for their record: its number, address, is a fault


class Output(NamedTuple):
    """Output of `scan`; state[IDS], state[ACCESSES] and state[LATENCIES] say how much."""

    static_id: NDArray[np.uint32]  # instructions, numbered in the order of their first execution
    accesses: NDArray[np.int64]  # [·, 3] instruction (of the whole text), address, is a store
    latency: NDArray[np.uint16]  # cycles, of the instructions of the timed core


class Statics(NamedTuple):
    """Distinct instructions: an open hash table of their addresses, and these in order."""

    slot: NDArray[np.int32]  # [2^k] number + 1, 0 where free
    pc: NDArray[np.int64]  # [2^(k-1)]


def tables(*, out_of_order: bool, period: int, begin: int) -> Tables:
    """The state before the first line; `begin` is the tick at which the timed core begins, -1 where unknown."""
    state = np.zeros(LATENCIES + 1, np.int64)
    state[OUT_OF_ORDER], state[PERIOD], state[RETIRED], state[LAST_CP] = out_of_order, period, begin, -1
    return Tables(state, np.zeros((RING if out_of_order else 1, 4), np.int64), np.zeros((PENDING, 3), np.int64))


def output(size: int) -> Output:
    return Output(np.zeros(size, np.uint32), np.zeros((size, 3), np.int64), np.zeros(size, np.uint16))


def statics(bits: int = 16) -> Statics:
    return Statics(np.zeros(1 << bits, np.int32), np.zeros(1 << (bits - 1), np.int64))


def grown(old: Statics, count: int) -> Statics:
    """Twice the table with the same numbers."""
    slot, pc = np.zeros(2 * len(old.slot), np.int32), np.zeros(2 * len(old.pc), np.int64)
    pc[:count] = old.pc[:count]
    _fill(slot, pc, count)
    return Statics(slot, pc)


@cached(nogil=True)
def _fill(slot: NDArray[np.int32], pcs: NDArray[np.int64], count: int) -> None:
    for number in range(count):
        slot[slot_of(slot, pcs, pcs[number])] = number + 1


@cached(nogil=True)
def slot_of(slot: NDArray[np.int32], pcs: NDArray[np.int64], pc: int) -> int:
    """Return the address's place in the hash table, or where it would be."""
    mask = len(slot) - 1
    at: Any = np.int64((np.uint64(pc) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(24)) & mask
    while slot[at] and pcs[slot[at] - 1] != pc:
        at = (at + 1) & mask
    return at


@cached(nogil=True)
def _is(text: NDArray[np.uint8], at: int, end: int, word: NDArray[np.uint8]) -> bool:
    """Return whether `word` begins at `at`."""
    if at < 0 or at + len(word) > end:
        return False
    for i in range(len(word)):  # noqa: SIM110 (compiled)
        if text[at + i] != word[i]:
            return False
    return True


@cached(nogil=True)
def _decimal(text: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """The number that begins at `at` (-1 for none or one beyond 18 digits), and where it ends."""
    begin = at
    value: Any = np.int64(0)
    while at < end and np.uint8(text[at] - 48) < 10:
        value = value * 10 + np.int64(text[at] - 48)
        at += 1
    if at == begin or at - begin > 18:
        value = np.int64(-1)
    return value, at


@cached(nogil=True)
def _hexadecimal(text: NDArray[np.uint8], at: int, end: int) -> tuple[int, int, int]:
    """The bits of the number after `0x` at `at`, where it ends, and its digits (0 for none)."""
    value: Any = np.int64(0)
    if at + 3 > end or text[at] != 48 or text[at + 1] != 120:
        return value, at, 0
    at += 2
    begin = at
    while at < end:
        digit = np.int64(text[at]) - 48
        if digit > 9:
            digit -= 39
            if digit < 10:
                break
        if digit < 0 or digit > 15:
            break
        value = value << 4 | digit
        at += 1
    return value, at, at - begin


def _bytes(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


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
_LOAD, _STORE, _ATOMIC, _MICRO, _LAST, _FIRST, _NOP, _DATA_PREFETCH, _INST_PREFETCH = map(_bytes, _FLAG_WORDS)
_FLAGS, _CPSEQ, _FETCHSEQ, _ADDRESS, _GEM5_NOP = map(
    _bytes, ("  flags=(", "  CPSeq=", "  FetchSeq=", " A=0x", "gem5 nop")
)
_CREATED = _bytes("global: memstate: creating vma (")
_FETCH, _RETIRE, _STORED = map(_bytes, ("O3PipeView:fetch:", "O3PipeView:retire:", ":store:"))
_STAGES = ("decode", "rename", "dispatch", "issue", "complete")
_INITIAL = _bytes("".join(stage[0] for stage in _STAGES))
_COLON = np.array([len("O3PipeView:") + len(stage) for stage in _STAGES])


@cached(nogil=True)
def _flags(text: NDArray[np.uint8], at: int, end: int) -> int:
    """The flags between the brackets, from `at` to `end`."""
    found = 0
    while at < end:
        stop = at
        while stop < end and text[stop] != 124:
            stop += 1
        length = stop - at
        if length == 6 and _is(text, at, stop, _LOAD):
            found |= LOAD
        elif length == 7 and _is(text, at, stop, _STORE):
            found |= STORE
        elif length == 8 and _is(text, at, stop, _ATOMIC):
            found |= ATOMIC
        elif length == 9 and _is(text, at, stop, _MICRO):
            found |= MICRO
        elif length == 13 and _is(text, at, stop, _LAST):
            found |= LAST
        elif length == 5 and _is(text, at, stop, _NOP):
            found |= NOP
        elif length == 14:
            if _is(text, at, stop, _FIRST):
                found |= FIRST
            elif _is(text, at, stop, _DATA_PREFETCH) or _is(text, at, stop, _INST_PREFETCH):
                found |= PREFETCH
        at = stop + 1
    return found


@cached(nogil=True)
def _exec_line(text: NDArray[np.uint8], at: int, end: int, state: NDArray[np.int64]) -> int:
    """An Exec line, from the program counter on, into state[NEXT…]; state[NEXT] is 0 for a macro-operation's."""
    state[NEXT] = 0
    pc, at, digits = _hexadecimal(text, at, end)
    if digits == 0:
        return BAD_EXEC
    if digits > 16:
        return OVERFLOW
    while at + 3 <= end and not (text[at + 1] == 58 and text[at] == 32 and text[at + 2] == 32):
        at += 1
    if at + 3 > end:
        return BAD_EXEC
    micro: Any = np.int64(-1)  # before " : " stands the micro program counter, ".%2d", or three blanks
    if text[at - 1] != 32:
        begin = at - 1
        while text[begin] != 46 and at - begin < 8:
            begin -= 1
        if text[begin] != 46:
            return BAD_EXEC
        begin += 1
        while text[begin] == 32:
            begin += 1
        micro, stop = _decimal(text, begin, at)
        if micro < 0 or stop != at:
            return BAD_EXEC
    # The other end: flags=(…), and before it CPSeq, FetchSeq, A, each where there is one.
    stop = end - 2
    if text[end - 1] == 41:
        while stop > at and text[stop] != 40:
            stop -= 1
    if text[end - 1] != 41 or not _is(text, stop - 8, end, _FLAGS):
        return BAD_EXEC if micro >= 0 else 0
    flags = _flags(text, stop + 1, end - 1)
    if (micro >= 0) != (flags & MICRO != 0):
        return BAD_EXEC
    stop -= 8
    seq: Any = np.int64(-1)
    cp: Any = np.int64(-1)
    begin = _number_before(text, stop)
    if begin < stop and _is(text, begin - 8, stop, _CPSEQ):
        cp, _ = _decimal(text, begin, stop)
        stop = begin - 8
    begin = _number_before(text, stop)
    if begin < stop and _is(text, begin - 11, stop, _FETCHSEQ):
        seq, _ = _decimal(text, begin, stop)
        stop = begin - 11
    begin = stop
    while begin > at and (np.uint8(text[begin - 1] - 48) < 10 or np.uint8(text[begin - 1] - 97) < 6):
        begin -= 1
    has = begin < stop and _is(text, begin - 5, stop, _ADDRESS)
    address: Any = np.int64(0)
    if has:
        address, _, digits = _hexadecimal(text, begin - 2, stop)
        if digits > 16:
            return OVERFLOW
    elif begin < stop and text[begin - 1] == 120 and text[begin - 3] == 61 and text[begin - 4] == 65:
        return BAD_EXEC
    state[NEXT] = 1
    state[NEXT_PC], state[NEXT_MICRO], state[NEXT_FLAGS] = pc, micro, flags
    state[NEXT_SEQ], state[NEXT_CP], state[NEXT_HAS], state[NEXT_ADDRESS] = seq, cp, has, address
    return 0


@cached(nogil=True)
def _number_before(text: NDArray[np.uint8], end: int) -> int:
    """Return where the digits that end at `end` begin."""
    while end > 0 and np.uint8(text[end - 1] - 48) < 10:
        end -= 1
    return end


@cached(nogil=True)
def _is_fetch_fault(text: NDArray[np.uint8], at: int, end: int) -> bool:
    """Return whether a line is the placeholder that O3 commits where the fetch has faulted."""
    for place in range(at, end - 8):  # noqa: SIM110 (compiled)
        if _is(text, place, end, _GEM5_NOP):
            return True
    return False


@cached(nogil=True)
def _numbered(text: NDArray[np.uint8], at: int, end: int, state: NDArray[np.int64]) -> int:
    """Return what the line's sequence numbers tell: whether it faults, and follows the one before."""
    state[NEXT_FAULT] = 0
    if state[NEXT_FAST]:
        return OTHER_CORE if state[FAST] < state[INSTRUCTIONS] else 0
    if state[NEXT_SEQ] < 0 or state[NEXT_CP] < 0:
        return NO_NUMBERS
    if state[LAST_CP] >= 0 and state[NEXT_CP] != state[LAST_CP] + 1:
        if state[NEXT_CP] != state[LAST_CP] or not state[OUT_OF_ORDER]:
            return BAD_CP
        # O3 gives no number to what faults, nor to no-operations and prefetches.
        state[NEXT_FAULT] = not state[NEXT_FLAGS] & (NOP | PREFETCH) or _is_fetch_fault(text, at, end)
    state[LAST_CP] = state[NEXT_CP]
    return 0


@cached(nogil=True)
def _is_repeated(state: NDArray[np.int64]) -> bool:
    """Return whether the line that was read does again what the held one could not."""
    if state[HELD_PC] != state[NEXT_PC] or state[HELD_FAST] != state[NEXT_FAST]:
        return False
    same = state[HELD_MICRO] == state[NEXT_MICRO]
    if state[OUT_OF_ORDER] and not state[HELD_FAST]:
        return state[HELD_FAULT] != 0 and (same or state[NEXT_FLAGS] & FIRST != 0)
    return same and state[HELD_HAS] and state[NEXT_HAS] and state[HELD_ADDRESS] == state[NEXT_ADDRESS]


@cached(nogil=True)
def _take_back(state: NDArray[np.int64]) -> None:
    """The held line was without effect. Minor has counted it all the same."""
    state[HELD] = 0
    state[INTERRUPTED] = 1
    if not state[HELD_FAST] and not state[HELD_FAULT]:
        flags = state[HELD_FLAGS]
        state[MICRO_OPERATIONS] += 1
        state[REPEATED_REFERENCES] += flags & (LOAD | STORE | ATOMIC) != 0
        state[REPEATED] += not flags & MICRO or flags & LAST != 0


@cached(nogil=True)
def _take(state: NDArray[np.int64], accesses: NDArray[np.int64]) -> int:
    """The held line has taken effect: one more micro-operation of an instruction. 0, or what is wrong with it."""
    flags = state[HELD_FLAGS]
    if state[OPEN]:
        if state[OPEN_PC] != state[HELD_PC]:
            return INCOMPLETE
        if not flags & MICRO or flags & FIRST:
            if not state[INTERRUPTED] or state[OPEN] == STORED_OPEN:
                return AGAIN
            state[ACCESSES] = state[OPEN_ACCESS]  # from its beginning once more
    else:
        if flags & MICRO and not flags & FIRST:
            return MIDDLE
        state[OPEN_PC] = state[HELD_PC]
        state[OPEN_ACCESS] = state[ACCESSES]
        state[OPEN] = 1
    state[INTERRUPTED] = 0
    counted = not state[HELD_FAST] and not state[HELD_FAULT]
    state[MICRO_OPERATIONS] += counted
    if flags & (LOAD | STORE | ATOMIC):
        state[REFERENCES] += counted
        if state[HELD_HAS] and not flags & PREFETCH:
            at = state[ACCESSES]
            for is_store in range(2):
                if flags & (ATOMIC | (STORE if is_store else LOAD)):
                    accesses[at, INSTRUCTION] = state[INSTRUCTIONS]
                    accesses[at, ADDRESS] = state[HELD_ADDRESS]
                    accesses[at, IS_STORE] = is_store
                    at += 1
            state[ACCESSES] = at
    return 0


@cached(nogil=True)
def _retire(state: NDArray[np.int64], latency: NDArray[np.uint16], tick: int) -> int:
    """The next instruction has retired at `tick`. 0, or what is wrong with that."""
    if tick % state[PERIOD]:
        return BAD_TICK
    if tick < state[RETIRED]:
        return BACKWARDS
    cycles = (tick - state[RETIRED]) // state[PERIOD]
    if cycles > 65535:
        state[SATURATED] += 1
        cycles = 65535
    latency[state[LATENCIES]] = cycles
    state[LATENCIES] += 1
    state[LABELLED] += 1
    state[RETIRED] = tick
    return 0


@cached(nogil=True)
def settle(
    state: NDArray[np.int64], records: NDArray[np.int64], pending: NDArray[np.int64], latency: NDArray[np.uint16]
) -> int:
    """Retire the instructions whose records are there, in order, as far as there is room. 0, or what is wrong."""
    while state[FIRST_PENDING] < state[LAST_PENDING] and state[LATENCIES] < len(latency):
        at = state[FIRST_PENDING] & (PENDING - 1)
        slot = pending[at, SEQ] & (RING - 1)
        if records[slot, SEQ] != pending[at, SEQ] + 1:
            return 0
        if records[slot, PC] != pending[at, PC]:
            return OTHER_ADDRESS
        tick = records[slot, TICK]
        if tick == 0:
            if not pending[at, FAULT]:
                return NOT_RETIRED
            tick = max(records[slot, COMPLETE], state[RETIRED])
        wrong = _retire(state, latency, tick)
        if wrong:
            return wrong
        state[FIRST_PENDING] += 1
    return 0


@cached(nogil=True)
def _end_instruction(
    state: NDArray[np.int64],
    records: NDArray[np.int64],
    pending: NDArray[np.int64],
    slot: NDArray[np.int32],
    pcs: NDArray[np.int64],
    static_id: NDArray[np.uint32],
    latency: NDArray[np.uint16],
) -> int:
    """The held line was an instruction's last. 0, or what is wrong with it."""
    place = slot_of(slot, pcs, state[OPEN_PC])
    if slot[place] == 0:
        pcs[state[STATICS]] = state[OPEN_PC]
        state[STATICS] += 1
        slot[place] = state[STATICS]
    static_id[state[IDS]] = slot[place] - 1
    state[IDS] += 1
    state[INSTRUCTIONS] += 1
    state[OPEN] = 0
    if state[HELD_FAST]:
        state[FAST] += 1
        return 0
    state[SYSCALLS] += state[HELD_FAULT]
    state[NOPS] += state[HELD_FLAGS] & NOP != 0
    if state[RETIRED] < 0:
        state[RETIRED] = state[HELD_TICK]
    if not state[OUT_OF_ORDER]:
        return _retire(state, latency, state[HELD_TICK])
    if state[LAST_PENDING] - state[FIRST_PENDING] == PENDING:
        return NO_RECORD
    at = state[LAST_PENDING] & (PENDING - 1)
    pending[at, SEQ], pending[at, PC], pending[at, FAULT] = state[HELD_SEQ], state[OPEN_PC], state[HELD_FAULT]
    state[LAST_PENDING] += 1
    if state[LAST_PENDING] - state[FIRST_PENDING] == 1:  # its record may be there, since its line was held back
        return settle(state, records, pending, latency)
    return 0


@cached(nogil=True)
def _record(text: NDArray[np.uint8], at: int, length: int, state: NDArray[np.int64], records: NDArray[np.int64]) -> int:
    """A record of O3PipeView, seven lines from `at` on, into `records`. Where it ends, 0 where `length` ends before, or
    the number of what is wrong with a line (negative).
    """
    # O3PipeView:fetch:TICK:0xPC:MICRO:SEQ:DISASSEMBLY
    end = at
    while end < length and text[end] != 10:
        end += 1
    if end >= length:
        return 0
    state[LINE] += 1
    state[LINE_AT] = at
    state[AT] = end + 1  # what is shown of a wrong line
    if not _is(text, at, end, _FETCH):
        return -BAD_PIPE
    tick, at = _decimal(text, at + 17, end)
    if tick < 0 or text[at] != 58:
        return -BAD_PIPE
    pc, at, digits = _hexadecimal(text, at + 1, end)
    if digits == 0 or digits > 16 or text[at] != 58:
        return -BAD_PIPE
    micro, at = _decimal(text, at + 1, end)
    if micro < 0 or text[at] != 58:
        return -BAD_PIPE
    seq, at = _decimal(text, at + 1, end)
    if seq < 0 or text[at] != 58:
        return -BAD_PIPE
    at = end + 1
    # O3PipeView:decode:TICK and four more such lines; of their labels, the initial and the colons are looked at.
    for stage in range(5):
        colon = at + _COLON[stage]
        if colon >= length:
            return 0
        state[LINE] += 1
        state[LINE_AT] = at
        state[AT] = colon + 2
        if text[at] != 79 or text[at + 10] != 58 or text[colon] != 58 or text[at + 11] != _INITIAL[stage]:
            return -BAD_PIPE
        tick, after = _decimal(text, colon + 1, length)
        if after >= length:
            return 0
        if tick < 0 or text[after] != 10:
            return -BAD_PIPE
        at = after + 1
    complete = tick
    # O3PipeView:retire:TICK:store:TICK
    end = at
    while end < length and text[end] != 10:
        end += 1
    if end >= length:
        return 0
    state[LINE] += 1
    state[LINE_AT] = at
    state[AT] = end + 1
    if not _is(text, at, end, _RETIRE):
        return -BAD_PIPE
    tick, at = _decimal(text, at + 18, end)
    if tick < 0 or not _is(text, at, end, _STORED):
        return -BAD_PIPE
    stored, at = _decimal(text, at + 7, end)
    if stored < 0 or at != end:
        return -BAD_PIPE
    slot = seq & (RING - 1)
    records[slot, SEQ], records[slot, PC], records[slot, TICK], records[slot, COMPLETE] = seq + 1, pc, tick, complete
    state[SQUASHED] += tick == 0
    state[PIPE_SEQ] = seq
    return end + 1


@cached(nogil=True)
def _thread(text: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """The thread in `A0 T0 : 0x…` at `at`, -1 for another text; where the program counter begins."""
    thread: Any = np.int64(-1)
    if at < end and text[at] == 65:  # address space
        _, at = _decimal(text, at + 1, end)
        at += 1
    if at >= end or text[at] != 84:
        return thread, at
    thread, at = _decimal(text, at + 1, end)
    if at + 5 > end or text[at] != 32 or text[at + 1] != 58 or text[at + 2] != 32 or text[at + 3] != 48:
        thread = np.int64(-1)
    return thread, at + 3


@cached(nogil=True)
def _is_name(text: NDArray[np.uint8], at: int, end: int, name: NDArray[np.uint8]) -> bool:
    """Return whether an object's name stands at `at`, with the colon that ends it."""
    after = at + len(name)
    return after + 1 < end and text[after] == 58 and text[after + 1] == 32 and _is(text, at, end, name)


# What a line is, where it is not wrong.
_OTHER, _READ, _MAPPING = 0, -1, -2


@cached(nogil=True)
def _line(
    text: NDArray[np.uint8],
    at: int,
    end: int,
    core: NDArray[np.uint8],
    fast_core: NDArray[np.uint8],
    state: NDArray[np.int64],
) -> int:
    """A line that is not O3PipeView's: _OTHER, _READ into state[NEXT…], _MAPPING, or what is wrong with it."""
    begin = at
    while at < end and text[at] == 32:
        at += 1
    tick, at = _decimal(text, at, end)
    if tick < 0 or at + 2 >= end or text[at] != 58 or text[at + 1] != 32:
        return _OTHER
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
        return _MAPPING if _is(text, name, end, _CREATED) else _OTHER
    if not timed and not fast:
        return OTHER_CORE
    if thread > 0:
        return OTHER_THREAD
    wrong = _exec_line(text, at, end, state)
    if wrong or not state[NEXT]:
        return wrong
    state[NEXT_TICK], state[NEXT_FAST] = tick, fast
    wrong = _numbered(text, begin, end, state)
    return wrong if wrong else _READ


@cached(nogil=True)
def advance(
    state: NDArray[np.int64],
    records: NDArray[np.int64],
    pending: NDArray[np.int64],
    slot: NDArray[np.int32],
    pcs: NDArray[np.int64],
    static_id: NDArray[np.uint32],
    accesses: NDArray[np.int64],
    latency: NDArray[np.uint16],
) -> int:
    """Take or take back the held line, now that the next one (state[NEXT] is 0: none) is known. 0, or what is wrong."""
    if not state[HELD]:
        return 0
    if state[NEXT] and _is_repeated(state):
        _take_back(state)
        return 0
    wrong = _take(state, accesses)
    if wrong:
        return wrong
    state[HELD] = 0
    if not state[HELD_FLAGS] & MICRO or state[HELD_FLAGS] & LAST:
        return _end_instruction(state, records, pending, slot, pcs, static_id, latency)
    return FAULT_INSIDE if state[HELD_FAULT] else 0


@cached(nogil=True)
def scan(
    text: NDArray[np.uint8],
    length: int,
    core: NDArray[np.uint8],
    fast_core: NDArray[np.uint8],
    tables: Tables,
    output: Output,
    statics: Statics,
) -> int:
    """Take in whole lines of `text` [: length] from state[AT] on, until they end or something is to be done outside.

    `core` and `fast_core` are the names of the timed core and of the one that fast-forwards. Returns DONE, FULL (empty
    `output`), GROW (`statics`), MAPPING (the line at state[LINE_AT] tells of a mapping; it is passed already), or the
    number of what is wrong with the line there.
    """
    state, records, pending = tables
    static_id, accesses, latency = output
    slot, pcs = statics
    while True:
        at = state[AT]
        if max(state[IDS], state[LATENCIES]) + 2 > len(static_id) or state[ACCESSES] + 4 > len(accesses):
            return FULL
        if state[STATICS] + 2 > len(pcs):
            return GROW
        if at < length and text[at] == 79:  # the O of O3PipeView
            line = state[LINE]
            end = _record(text, at, length, state, records) if state[OUT_OF_ORDER] else -OTHER_CORE
            if end < 0:
                return -end
            if end == 0:
                state[LINE], state[AT] = line, at
                return DONE
            state[AT] = end
            if pending[state[FIRST_PENDING] & (PENDING - 1), SEQ] == state[PIPE_SEQ]:
                wrong = settle(state, records, pending, latency)
                if wrong:
                    return wrong
            continue
        end = at
        while end < length and text[end] != 10:
            end += 1
        if end >= length:
            return DONE
        state[LINE] += 1
        state[LINE_AT] = at
        state[AT] = end + 1
        kind = _line(text, at, end, core, fast_core, state)
        if kind == _MAPPING:
            return MAPPING
        if kind > 0:
            return kind
        if kind == _READ:
            wrong = advance(state, records, pending, slot, pcs, static_id, accesses, latency)
            if wrong:
                return wrong
            for field in range(_FIELDS):
                state[HELD + field] = state[NEXT + field]
