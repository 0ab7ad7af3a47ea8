"""Machine code → what each static instruction does, in terms that mean the same on every instruction set.

An instruction set is one file with one function, ``decode_instruction(CsInsn) -> Decoded``, and a line in `_ISAS`
and in `disassembler.py`; another one may know what capstone does not. A source whose traces have no machine code brings
a function of its own instead, ``decode_record(bytes) -> (length, Decoded)``, and a line in `_RECORDS`: its
`static/code` holds what it knows of an instruction, described in that file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import capstone
import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from tracegen.decode import aarch64, champsim, riscv64, x86_64
from tracegen.decode.decoded import Decoded
from tracegen.decode.disassembler import disassembler
from tracegen.decode.encodings import distinct_encodings
from tracegen.decode.native.crack import RULES, native_instructions
from uarch.instructions import (
    MAX_DESTINATIONS,
    MAX_SOURCES,
    NO_REGISTER,
    NativeInstructions,
    Operation,
    StaticInstructions,
)


@dataclass(frozen=True)
class _Isa:
    decode: Callable[[capstone.CsInsn], Decoded]
    in_context: Callable[[capstone.CsInsn, Decoded, Iterator[Decoded]], Decoded] | None = None
    beyond: Callable[[bytes], tuple[str, Decoded] | None] = lambda _: None  # of what the disassembler does not know


_ISAS = {
    "x86-64": _Isa(x86_64.decode_instruction, x86_64.in_context),
    "aarch64": _Isa(aarch64.decode_instruction),
    "riscv64": _Isa(riscv64.decode_instruction, beyond=riscv64.decode_beyond),
}
_RECORDS: dict[str, Callable[[bytes], tuple[int, Decoded]]] = {"champsim": champsim.decode_record}
ISAS = (*_ISAS, *_RECORDS)
_CONTEXT = 8  # instructions looked back at
_MOST_KEPT = 1 << 16  # encodings of an instruction set, some 40 MB
_UNKNOWN = Decoded(Operation.NONE)


def _length_of_unknown(code: bytes, isa: str) -> int:
    """Bytes of an instruction that the disassembler does not know, as far as its encoding tells."""
    if isa == "riscv64":  # unprivileged specification, §1.5: the two lowest bits tell 2 from 4 bytes
        return 4 if code[0] & 3 == 3 else 2
    if isa == "aarch64":
        return 4
    return max(len(code.rstrip(b"\0")), 1)


def _decode_one(raw: bytes, isa: str, engine: capstone.Cs | None) -> tuple[int, Decoded]:
    """Length (0: not known) and meaning of the instruction whose 16 bytes of `static/code` these are."""
    if engine is None:
        return _RECORDS[isa](raw)
    instruction = next(engine.disasm(raw, 0, 1), None)
    if instruction is None:
        beyond = _ISAS[isa].beyond(raw)
        return 0, beyond[1] if beyond else _UNKNOWN
    return instruction.size, _ISAS[isa].decode(instruction)


def _registers(of: Iterable[tuple[int, ...]], most: int) -> NDArray[np.uint8]:
    """[n, most] the first registers of each, NO_REGISTER behind them."""
    none = (NO_REGISTER,) * most
    return np.array([(*registers[:most], *none[len(registers) :]) for registers in of], np.uint8).reshape(-1, most)


def _in_front(address: NDArray[np.uint64], length: NDArray[np.uint8], row: int) -> Iterator[int]:
    """The rows of the instructions that lie immediately in front of one, the nearest first."""
    for before in range(row - 1, max(row - _CONTEXT, -1), -1):
        if address[before] + length[before] != address[before + 1]:
            return
        yield before


@cache
def _kept(isa: str) -> dict[bytes, tuple[int, Decoded]]:
    """The meanings of the first encodings of this process: a trace is decoded for each question asked of it."""
    return {}


class Decoder:
    """Decodes instructions part after part; an encoding that was met before costs a look-up."""

    def __init__(self, isa: str) -> None:
        """Raises InputError for an instruction set that is not one of ISAS."""
        if isa not in ISAS:
            raise InputError(f"unsupported instruction set {isa!r}; one of {', '.join(ISAS)}")
        self.isa = isa
        self._engine = disassembler(isa) if isa in _ISAS else None
        self._kept = _kept(isa)
        self._known: dict[bytes, tuple[int, Decoded]] = {}  # beyond what is kept

    def decode(self, address: NDArray[np.uint64], code: NDArray[np.uint8]) -> StaticInstructions:
        """Decode `code` u8 [S, 16] at `address` u64 [S]; about 20 thousand new encodings a second.

        An instruction that the disassembler does not know keeps its place as Operation.NONE without registers.
        """
        encodings, which = distinct_encodings(code, self.isa)
        found = [self._one(raw) for raw in encodings]
        meanings = [decoded for _, decoded in found]
        length = np.array([size for size, _ in found], np.uint8)[which]
        for row in np.flatnonzero(length == 0).tolist():
            length[row] = _length_of_unknown(code[row].tobytes(), self.isa)
        in_context = _ISAS[self.isa].in_context if self.isa in _ISAS else None
        if self._engine is not None and in_context is not None:
            divides = np.array([decoded.operation is Operation.INT_DIV for decoded in meanings], np.bool_)
            for row in np.flatnonzero(divides[which]).tolist():
                whole = next(self._engine.disasm(encodings[which[row]], 0, 1))
                before = (meanings[which[other]] for other in _in_front(address, length, row))
                meanings.append(in_context(whole, meanings[which[row]], before))
                which[row] = len(meanings) - 1
        return _columns(address, length, meanings, which, self.isa)

    def _one(self, raw: bytes) -> tuple[int, Decoded]:
        known = self._known.get(raw) or self._kept.get(raw)
        if known is None:
            known = _decode_one(raw, self.isa, self._engine)
            keeping = self._kept if len(self._kept) < _MOST_KEPT else self._known
            keeping[raw] = known
        return known


def decode(address: NDArray[np.uint64], code: NDArray[np.uint8], isa: str) -> StaticInstructions:
    """Decode `code` u8 [S, 16] at `address` u64 [S]; as `Decoder`. A real family's micro-operations come on demand."""
    return with_native(Decoder(isa).decode(address, code), code)


def with_native(instructions: StaticInstructions, code: NDArray[np.uint8]) -> StaticInstructions:
    """Return the instructions, whose bytes are `code` [S, 16], with what cracks them as a real family does."""
    if instructions.isa not in RULES:
        return instructions
    plain = instructions

    @cache
    def native(family: str) -> NativeInstructions:
        return native_instructions(plain, code, family)

    return replace(instructions, native=native)


def _columns(
    address: NDArray[np.uint64], length: NDArray[np.uint8], meanings: list[Decoded], which: NDArray[np.int64], isa: str
) -> StaticInstructions:
    micro_operations = np.array([one.micro_operations for one in meanings], np.uint8).reshape(-1, 5)[which]
    address_sources = np.array([len(one.address) for one in meanings], np.int64)
    return StaticInstructions(
        address=np.asarray(address, np.uint64),
        length=length,
        operation=np.array([one.operation for one in meanings], np.uint8)[which],
        flags=np.array([one.flags for one in meanings], np.uint16)[which],
        sources=_registers(((*one.address, *one.data) for one in meanings), MAX_SOURCES)[which],
        address_sources=np.minimum(address_sources, MAX_SOURCES).astype(np.uint8)[which],
        destinations=_registers((one.destinations for one in meanings), MAX_DESTINATIONS)[which],
        micro_operations=micro_operations[:, 0],
        compute_operations=micro_operations[:, 1],
        cycles_before=micro_operations[:, 2],
        cycles_after=micro_operations[:, 3],
        chained=micro_operations[:, 4].astype(np.uint8),
        vector_unit=np.array([one.vector_unit for one in meanings], np.bool_)[which],
        float_move=np.array([one.float_move for one in meanings], np.bool_)[which],
        isa=isa,
        merges_flags=np.array([one.merges_flags for one in meanings], np.uint8)[which],
        interruption=np.array([one.interruption for one in meanings], np.uint8)[which],
        temporary=np.array([one.temporary for one in meanings], np.uint8)[which],
    )


def disassemble(address: NDArray[np.uint64], code: NDArray[np.uint8], isa: str) -> list[str]:
    """The text of each instruction of `code` [S, 16] at `address` [S]; '' in a trace without machine code."""
    if isa not in _ISAS:
        return [""] * len(code)
    engine = disassembler(isa, detail=False)
    text = []
    for at, raw in zip(address.tolist(), code, strict=True):
        line = next(engine.disasm_lite(raw.tobytes(), at, 1), None)
        beyond = _ISAS[isa].beyond(raw.tobytes()) if line is None else None
        text.append(f"{line[2]} {line[3]}".rstrip() if line else beyond[0] if beyond else "(unknown)")
    return text
