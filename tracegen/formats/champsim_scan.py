"""One pass over a ChampSim trace's records: what its instructions execute and access, and what each of them is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from support.jit import cached
from tracegen.decode.champsim import FLAGS, INSTRUCTION_POINTER, STACK_POINTER, WIDTH, BranchKind

MOST_ADDRESSES = 1 << 22  # distinct instructions; large programs execute a tenth of them
LONGEST = 15  # bytes of an instruction
TAKEN = np.uint32(1 << 31)  # in the sequence that waits: the record says that this branch was taken
_WIDTHS = np.frombuffer(WIDTH, np.uint8)
_VECTOR_WIDTH = 16  # bytes from which on a register is a vector
# Why the scan stops at a record.
_FINE, _NOT_BOOLEAN, _TAKEN_ONLY, _NO_ADDRESS = range(4)
# Places in `scalars`: static instructions, previous one's id, executed instructions, records with other registers than
# the first of their address, addresses left out as the tracer's overflow.
_COUNT, _PREVIOUS, _EXECUTED, _OTHER_REGISTERS, _OVERFLOWS = range(5)
_NONE, _JUMP, _INDIRECT, _CONDITIONAL = (int(BranchKind(k)) for k in range(4))
_CALL, _INDIRECT_CALL, _RETURN, _OTHER, _SYSTEM = (int(BranchKind(k)) for k in range(4, 9))


class _Statics(NamedTuple):
    """Facts known of each static instruction, in the order of first sight; grown as needed."""

    address: NDArray[np.uint64]
    registers: NDArray[np.uint64]  # the record's two bytes written and four bytes read
    kind: NDArray[np.uint8]
    loads: NDArray[np.uint8]
    stores: NDArray[np.uint8]
    load_width: NDArray[np.uint8]
    store_width: NDArray[np.uint8]
    repeated: NDArray[np.uint8]
    fell: NDArray[np.uint16]  # bit d: went on d bytes further without a branch taken
    jumped: NDArray[np.uint16]  # bit d: a branch was taken to d bytes further
    far: NDArray[np.uint8]  # a branch was taken farther than a displacement of one byte reaches


def _new_statics(capacity: int) -> _Statics:
    types = ("<u8", "<u8", *["u1"] * 6, "<u2", "<u2", "u1")
    return _Statics._make(np.zeros(capacity, dtype) for dtype in types)


class Executed(NamedTuple):
    """Executed instructions [n] and their accesses [m]."""

    sequence: NDArray[np.uint32]  # [n] static instruction in the order of first sight, `TAKEN` added where taken
    owner: NDArray[np.uint64]  # [m] the executed instruction that makes the access, counted from the start
    address: NDArray[np.uint64]
    size: NDArray[np.uint8]
    is_store: NDArray[np.uint8]


class Scan:
    """One pass over the records; `feed` takes them block by block."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.records = 0
        self._scalars = np.zeros(5, np.int64)
        self._scalars[_PREVIOUS] = -1
        self.statics = _new_statics(4096)
        self._table = np.zeros(16384, np.uint32)  # hashed address → static instruction + 1

    def feed(self, words: NDArray[np.uint64]) -> Executed:
        """Return what records [n, 8] execute and access. Raises InputError for a record that cannot be one."""
        n = len(words)
        count = int(self._scalars[_COUNT])
        self._reserve(count + n)
        sequence = np.empty(n, np.uint32)
        owner, address = np.empty(6 * n, np.uint64), np.empty(6 * n, np.uint64)
        size, is_store = np.empty(6 * n, np.uint8), np.empty(6 * n, np.uint8)
        words = np.require(words, np.uint64, ["C", "A"])
        wrong, at, executed, accesses = _scan(
            words, self._table, self.statics, self._scalars, _WIDTHS, sequence, owner, address, size, is_store
        )
        if wrong != _FINE:
            raise InputError(f"{self._name}: record {self.records + at} {_complaint(wrong, words[at])}")
        self.records += n
        if self._scalars[_COUNT] > MOST_ADDRESSES:
            raise InputError(
                f"{self._name}: more than {MOST_ADDRESSES:,} distinct instructions up to record {self.records}; no "
                "program executes so many, so this is no ChampSim trace"
            )
        part = slice(accesses)
        return Executed(sequence[:executed], owner[part], address[part], size[part], is_store[part])

    @property
    def other_registers(self) -> int:
        """Records with other registers than the first of their address."""
        return int(self._scalars[_OTHER_REGISTERS])

    @property
    def overflows(self) -> int:
        """Addresses left out, because the tracer's register list ran into them."""
        return int(self._scalars[_OVERFLOWS])

    def in_order(self) -> tuple[_Statics, NDArray[np.uint32]]:
        """The static instructions by ascending address, and the place that each has there."""
        count = int(self._scalars[_COUNT])
        order = np.argsort(self.statics.address[:count], kind="stable")
        rank = np.empty(count, np.uint32)
        rank[order] = np.arange(count, dtype=np.uint32)
        return _Statics._make(column[:count][order] for column in self.statics), rank

    def _reserve(self, capacity: int) -> None:
        have = len(self.statics.address)
        if capacity > have:
            larger = _new_statics(max(capacity, 2 * have))
            for field in _Statics._fields:
                getattr(larger, field)[:have] = getattr(self.statics, field)
            self.statics = larger
        if 2 * capacity > len(self._table):
            self._table = np.zeros(1 << (2 * capacity).bit_length(), np.uint32)
            _fill(self._table, self.statics.address, int(self._scalars[_COUNT]))


def _complaint(wrong: int, record: NDArray[np.uint64]) -> str:
    control = int(record[1])
    if wrong == _NOT_BOOLEAN:
        return f"has is_branch {control & 255} and branch_taken {control >> 8 & 255}; both must be 0 or 1"
    if wrong == _TAKEN_ONLY:
        return "has branch_taken 1 where is_branch is 0"
    return "has the address 0; no instruction lies there"


@cached()
def _slot(table: NDArray[np.uint32], known: NDArray[np.uint64], address: np.uint64) -> np.int64:
    """Return the address's place in the table, or the free place where it belongs."""
    mask = np.uint64(len(table) - 1)
    place = ((address * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
    while table[place] != 0 and known[table[place] - 1] != address:
        place = (place + np.uint64(1)) & mask
    return np.int64(place)


@cached()
def _fill(table: NDArray[np.uint32], known: NDArray[np.uint64], count: int) -> None:
    for which in range(count):
        table[_slot(table, known, known[which])] = which + 1


@cached()
def branch_kind(registers: np.uint64, is_branch: bool) -> int:
    """ChampSim's rules (inc/instruction.h) on two bytes of registers written and four of registers read.

    Pin does not call a system call a branch, nor in some versions calls and returns; it does jumps.
    """
    writes_sp = writes_ip = reads_sp = reads_ip = reads_flags = reads_other = False
    for field in range(6):
        register = (registers >> np.uint64(8 * field)) & np.uint64(255)
        if register == 0:
            continue
        if field < 2:
            writes_sp |= register == STACK_POINTER
            writes_ip |= register == INSTRUCTION_POINTER
        elif register == STACK_POINTER:
            reads_sp = True
        elif register == INSTRUCTION_POINTER:
            reads_ip = True
        elif register == FLAGS:
            reads_flags = True
        else:
            reads_other = True
    if not writes_ip:
        return _OTHER if is_branch else _NONE
    if not reads_sp and not writes_sp and not is_branch:
        return _SYSTEM
    if not reads_sp and not reads_flags and not reads_other:
        return _JUMP
    if not reads_sp and not reads_ip and not reads_flags:
        return _INDIRECT
    if not reads_sp and reads_ip and not writes_sp:
        return _CONDITIONAL
    if reads_sp and reads_ip and writes_sp and not reads_flags:
        return _INDIRECT_CALL if reads_other else _CALL
    if reads_sp and not reads_ip and writes_sp:
        return _RETURN
    return _OTHER if is_branch else _SYSTEM


@cached()
def _widths(registers: np.uint64, widths: NDArray[np.uint8]) -> tuple[int, int]:
    """Bytes of a load and of a store: the register filled, the narrowest emptied; vectors before others."""
    load = store = vector = 0
    for field in range(6):
        register = (registers >> np.uint64(8 * field)) & np.uint64(255)
        if register in (0, FLAGS, INSTRUCTION_POINTER):
            continue
        width = int(widths[register])
        if width >= _VECTOR_WIDTH:
            vector = max(vector, width)
        elif field < 2:
            load = width if load == 0 else min(load, width)
        else:
            store = width if store == 0 else min(store, width)
    if vector:
        return vector, vector
    return load if load else store if store else 8, store if store else 8


@cached()
def _access_size(address: np.uint64, width: int) -> int:
    """The width, or less where the address is not aligned to it."""
    size = width
    while size > 1 and address & np.uint64(size - 1):
        size >>= 1
    return size


@cached()
def _scan(
    words: NDArray[np.uint64],
    table: NDArray[np.uint32],
    statics: _Statics,
    scalars: NDArray[np.int64],
    widths: NDArray[np.uint8],
    sequence: NDArray[np.uint32],
    owner: NDArray[np.uint64],
    address: NDArray[np.uint64],
    size: NDArray[np.uint8],
    is_store: NDArray[np.uint8],
) -> tuple[int, int, int, int]:
    """Return why and at which record it stopped, and the numbers of instructions and accesses written."""
    executed = accesses = 0
    previous, previous_taken = scalars[_PREVIOUS], False
    if previous >= 0:
        previous_taken = (previous & np.int64(TAKEN)) != 0
        previous &= ~np.int64(TAKEN)
    for k in range(len(words)):
        here, control = words[k, 0], words[k, 1]
        is_branch, branch_taken = control & np.uint64(255), (control >> np.uint64(8)) & np.uint64(255)
        if is_branch > 1 or branch_taken > 1:
            return _NOT_BOOLEAN, k, executed, accesses
        if branch_taken > is_branch:
            return _TAKEN_ONLY, k, executed, accesses
        if here == 0:
            return _NO_ADDRESS, k, executed, accesses
        registers = control >> np.uint64(16)
        slot = _slot(table, statics.address, here)
        if table[slot] == 0:
            which = scalars[_COUNT]
            scalars[_COUNT] += 1
            table[slot] = which + 1
            statics.address[which], statics.registers[which] = here, registers
            statics.kind[which] = branch_kind(registers, is_branch != 0)
            statics.load_width[which], statics.store_width[which] = _widths(registers, widths)
        else:
            which = np.int64(table[slot]) - 1
            scalars[_OTHER_REGISTERS] += statics.registers[which] != registers
        kind = statics.kind[which]
        taken = branch_taken != 0 if kind in (_CONDITIONAL, _OTHER) else kind not in (_NONE, _SYSTEM)
        if previous >= 0:
            distance = np.int64(here - statics.address[previous])
            if 1 <= distance <= LONGEST:
                if previous_taken:
                    statics.jumped[previous] |= np.uint16(1 << distance)
                else:
                    statics.fell[previous] |= np.uint16(1 << distance)
            if previous_taken and (distance < -126 or distance > 129):
                statics.far[previous] = 1
        repeats = which == previous and kind == _NONE
        if repeats:
            statics.repeated[which] = 1
        else:
            sequence[executed] = np.uint32(which) | (TAKEN if taken else np.uint32(0))
            executed += 1
        number = np.uint64(scalars[_EXECUTED] + executed - 1)
        loads = stores = 0
        for field in range(4, 8):
            if words[k, field] != 0:
                owner[accesses], address[accesses], is_store[accesses] = number, words[k, field], 0
                size[accesses] = _access_size(words[k, field], int(statics.load_width[which]))
                accesses += 1
                loads += 1
        for field in range(2, 4):
            there = words[k, field]
            if there != 0 and field == 2 and there < 256 and (registers >> np.uint64(40)) != 0:
                scalars[_OVERFLOWS] += 1
            elif there != 0:
                owner[accesses], address[accesses], is_store[accesses] = number, there, 1
                size[accesses] = _access_size(there, int(statics.store_width[which]))
                accesses += 1
                stores += 1
        statics.loads[which] = max(int(statics.loads[which]), loads)
        statics.stores[which] = max(int(statics.stores[which]), stores)
        previous, previous_taken = which, taken
    scalars[_EXECUTED] += executed
    scalars[_PREVIOUS] = previous | (np.int64(TAKEN) if previous_taken else 0)
    return _FINE, 0, executed, accesses


def lengths(statics: _Statics) -> NDArray[np.uint8]:
    """[S] bytes of each instruction, of statics in the order of their addresses."""
    kind = statics.kind
    guess = np.full(256, 4)
    guess[[_JUMP, _CONDITIONAL, _RETURN, _CALL, _INDIRECT_CALL, _INDIRECT, _SYSTEM]] = 2, 2, 1, 5, 7, 2, 2
    length = guess[kind]
    length = np.where((kind == _JUMP) & (statics.far == 1), 5, length)
    length = np.where((kind == _CONDITIONAL) & (statics.far == 1), 6, length)
    length = np.where((kind == _INDIRECT) & (statics.loads > 0), 6, length)  # through a table, as a PLT does
    gap = np.full(len(kind), LONGEST, np.uint64)
    gap[:-1] = np.minimum(statics.address[1:] - statics.address[:-1], LONGEST)
    length = np.minimum(length, gap.astype(np.int64))
    bits = 1 << np.arange(LONGEST + 1)
    may_fall = np.isin(kind, (_CONDITIONAL, _OTHER))
    for _ in range(LONGEST):  # a branch that was taken must not look as if it fell through
        wrong = may_fall & ((statics.jumped & bits[length]) != 0)
        length = np.where(wrong & (length > 1), length - 1, length)
    fell = (statics.fell[:, None] & bits) != 0
    return np.where(fell.any(axis=1), fell.argmax(axis=1), length).astype(np.uint8)
