"""Machine code → what each static instruction does, in terms that mean the same on every instruction set.

An instruction set is one file with one function, ``decode_instruction(CsInsn) -> Decoded``, and a line in `_ISAS`. A
source whose traces have no machine code brings a function of its own instead, ``decode_record(bytes) -> (length,
Decoded)``, and a line in `_RECORDS`: its `static/code` holds what it knows of an instruction, described in that file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import capstone
import numpy as np
from numpy.typing import NDArray

from tracegen.decode import aarch64, champsim, riscv64, x86_64
from tracegen.decode.decoded import Decoded
from uarch.errors import InputError
from uarch.instructions import MAX_DESTINATIONS, MAX_SOURCES, NO_REGISTER, Operation, StaticInstructions


@dataclass(frozen=True)
class _Isa:
    architecture: int
    mode: int
    decode: Callable[[capstone.CsInsn], Decoded]
    shortest: int  # bytes assumed of code that the disassembler does not know
    in_context: Callable[[capstone.CsInsn, Decoded, Iterator[Decoded]], Decoded] | None = None


_ISAS = {
    "x86-64": _Isa(capstone.CS_ARCH_X86, capstone.CS_MODE_64, x86_64.decode_instruction, 1, x86_64.in_context),
    "aarch64": _Isa(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM, aarch64.decode_instruction, 4),
    "riscv64": _Isa(
        capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV64 | capstone.CS_MODE_RISCVC, riscv64.decode_instruction, 2
    ),
}
_RECORDS: dict[str, Callable[[bytes], tuple[int, Decoded]]] = {"champsim": champsim.decode_record}
ISAS = (*_ISAS, *_RECORDS)
_CONTEXT = 8  # instructions looked back at
_UNKNOWN = Decoded(Operation.NONE)


def _length_of_unknown(code: bytes, isa: str) -> int:
    """Bytes of an instruction that the disassembler does not know, as far as its encoding tells."""
    if isa == "riscv64":  # unprivileged specification, §1.5: the two lowest bits tell 2 from 4 bytes
        return 4 if code[0] & 3 == 3 else 2
    if isa == "aarch64":
        return 4
    return max(len(code.rstrip(b"\0")), 1)


def _engine(isa: str) -> capstone.Cs:
    engine = capstone.Cs(_ISAS[isa].architecture, _ISAS[isa].mode)
    engine.detail = True
    return engine


def _decode_one(raw: bytes, isa: str, engine: capstone.Cs | None) -> tuple[int, Decoded]:
    """Length and meaning of the instruction whose 16 bytes of `static/code` these are."""
    if engine is None:
        return _RECORDS[isa](raw)
    instruction = next(engine.disasm(raw, 0, 1), None)
    if instruction is None:
        return _length_of_unknown(raw, isa), _UNKNOWN
    return instruction.size, _ISAS[isa].decode(instruction)


def _before(
    address: NDArray[np.uint64], length: NDArray[np.uint8], sequence: Sequence[Decoded], row: int
) -> Iterator[Decoded]:
    """The instructions that lie immediately in front of one, the nearest first."""
    while row > 0 and address[row - 1] + length[row - 1] == address[row] and len(sequence) - row < _CONTEXT:
        row -= 1
        yield sequence[row]


def decode(address: NDArray[np.uint64], code: NDArray[np.uint8], isa: str) -> StaticInstructions:
    """Decode `code` u8 [S, 16] at `address` u64 [S]; about 50 thousand distinct encodings a second.

    An instruction that the disassembler does not know keeps its place as Operation.NONE without registers. Raises
    InputError for an instruction set that is not one of ISAS.
    """
    if isa not in ISAS:
        raise InputError(f"unsupported instruction set {isa!r}; one of {', '.join(ISAS)}")
    engine = _engine(isa) if isa in _ISAS else None
    in_context = _ISAS[isa].in_context if isa in _ISAS else None
    rows = len(address)
    length = np.zeros(rows, np.uint8)
    operation = np.zeros(rows, np.uint8)
    flags = np.zeros(rows, np.uint16)
    sources = np.full((rows, MAX_SOURCES), NO_REGISTER, np.uint8)
    address_sources = np.zeros(rows, np.uint8)
    destinations = np.full((rows, MAX_DESTINATIONS), NO_REGISTER, np.uint8)
    micro_operations = np.ones((rows, 5), np.uint8)
    vector_unit, float_move = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
    known: dict[bytes, tuple[int, Decoded]] = {}  # what an instruction does hangs on its bytes, not on its address
    sequence: list[Decoded] = []
    for row in range(rows):
        raw = code[row].tobytes()
        entry = known.get(raw)
        if entry is None:
            entry = known[raw] = _decode_one(raw, isa, engine)
        length[row], decoded = entry
        sequence.append(decoded)
        if engine is not None and in_context is not None and decoded.operation is Operation.INT_DIV:
            whole = next(engine.disasm(raw, 0, 1))
            decoded = in_context(whole, decoded, _before(address, length, sequence, row))
        operation[row] = decoded.operation
        flags[row] = decoded.flags
        read = (*decoded.address, *decoded.data)[:MAX_SOURCES]
        sources[row, : len(read)] = read
        address_sources[row] = min(len(decoded.address), MAX_SOURCES)
        written = decoded.destinations[:MAX_DESTINATIONS]
        destinations[row, : len(written)] = written
        micro_operations[row] = decoded.micro_operations
        vector_unit[row], float_move[row] = decoded.vector_unit, decoded.float_move
    return StaticInstructions(
        address=np.asarray(address, np.uint64),
        length=length,
        operation=operation,
        flags=flags,
        sources=sources,
        address_sources=address_sources,
        destinations=destinations,
        micro_operations=micro_operations[:, 0],
        compute_operations=micro_operations[:, 1],
        cycles_before=micro_operations[:, 2],
        cycles_after=micro_operations[:, 3],
        chained=micro_operations[:, 4] == 1,
        vector_unit=vector_unit,
        float_move=float_move,
        isa=isa,
    )


def disassemble(address: NDArray[np.uint64], code: NDArray[np.uint8], isa: str) -> list[str]:
    """The text of each instruction of `code` [S, 16] at `address` [S]; '' in a trace without machine code."""
    if isa not in _ISAS:
        return [""] * len(code)
    engine = capstone.Cs(_ISAS[isa].architecture, _ISAS[isa].mode)
    text = []
    for at, raw in zip(address.tolist(), code, strict=True):
        line = next(engine.disasm_lite(raw.tobytes(), at, 1), None)
        text.append(f"{line[2]} {line[3]}".rstrip() if line else "(unknown)")
    return text
