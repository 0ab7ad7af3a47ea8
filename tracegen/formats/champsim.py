"""ChampSim traces (`*.champsimtrace.xz`) become trace files.

A ChampSim trace is a stream of 64-byte records, `input_instr` of its inc/trace_instruction.h, one an executed
instruction: its address, whether it branched, at most 2 registers written and 4 read, at most 2 addresses stored to and
4 loaded from; nothing of its machine code nor of the sizes of its accesses. What is made of it:

- `static/code` holds what is known of an instruction, as `tracegen.decode.champsim` describes it; the kind of a branch
  follows from its registers by ChampSim's own rules (inc/instruction.h; but one that loads is indirect), and so does
  whether it was taken: only a conditional one's record tells.
- An instruction's length is the distance to the address executed after it. Where it never fell through, it is guessed
  from its kind and from where the next known instruction begins, such that no conditional branch that was taken looks
  as if it was not.
- Records of one address one after the other (the tracer sees every iteration of a rep-prefixed string instruction) are
  one executed instruction with all their accesses, as elsewhere in the toolkit.
- An access is taken to be as wide as the register that it fills or empties, but aligned: none crosses a cache line.
- Where one address has records with different registers (code written at run time), the first ones hold.
- An instruction with more registers than a record has room for makes the tracer write one of them into the field that
  follows; a store's address below 256 beside four registers read is such, and is left out.

The input is read once, as a stream, into bounded memory: the sequence of instructions waits in a temporary file until
all of them are known.
"""

from __future__ import annotations

import gzip
import lzma
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from support.errors import InputError
from support.kinds import require_output
from tracegen.decode.champsim import BranchKind
from tracegen.formats.champsim_scan import TAKEN, Scan, lengths
from tracegen.formats.trace import FORMAT, TraceWriter

RECORD = 64  # bytes
BLOCK = 1 << 16  # records read at a time


@dataclass(frozen=True)
class Imported:
    """Result of an import."""

    path: Path
    records: int
    instructions: int  # executed, repetitions of string instructions folded
    static: int
    other_registers: int  # records with other registers than the first of their address
    overflows: int  # addresses left out, because the tracer's register list ran into them
    disagreements: int  # conditional branches whose successor contradicts what the record says of taken or not
    gaps: int  # instructions that are no branches, and yet another address follows

    def notes(self) -> list[str]:
        """A line for each oddity."""
        told = [
            (self.other_registers, "records have other registers than the first of their address, which hold"),
            (self.overflows, "addresses were registers that ran over in the tracer, and are left out"),
            (
                self.disagreements,
                "conditional branches go elsewhere than their record says (taken or not); the addresses hold",
            ),
            (self.gaps, "times another address follows than that behind an instruction that is no branch"),
        ]
        return [f"{count:,} {what}" for count, what in told if count]


def import_champsim(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    max_instructions: int | None = None,
    progress: bool = True,
) -> Imported:
    """Read a ChampSim trace, plain or compressed by xz or gzip, from a file or (`-`) standard input, into `output`.

    Only the first `max_instructions` records are read where that is given. Raises InputError, naming the file and the
    record, for one that cannot be a ChampSim trace, is truncated or damaged; nothing is written then.
    """
    output = Path(output)
    require_output(output, FORMAT)
    name = "standard input" if os.fspath(source) == "-" else os.fspath(source)
    program = Path(os.fspath(source)).name.split(".champsim")[0] if os.fspath(source) != "-" else "stdin"
    with ExitStack() as stack:
        stream = stack.enter_context(_open(source, stack))
        writer = stack.enter_context(
            TraceWriter(output, isa="champsim", program=program, command=[program], source="champsim")
        )
        spool = stack.enter_context(tempfile.TemporaryFile(dir=output.resolve().parent))
        bar = tqdm(desc="import", unit=" records", unit_scale=True, disable=None if progress else True)
        scan = Scan(name)
        with bar:
            for block in unpacked_blocks(stream, name, max_instructions):
                done = scan.feed(block)
                spool.write(done.sequence)
                writer.append_accesses(done.owner, done.address, done.size, done.is_store)
                bar.update(len(block))
        if not scan.records:
            raise InputError(
                f"{name}: nothing was recorded in it; expected a ChampSim trace of at least one instruction"
            )
        spool.seek(0)
        return _finish(scan, cast(IO[bytes], spool), writer, output)


def _open(source: str | os.PathLike[str], stack: ExitStack) -> IO[bytes]:
    """The records' bytes; the compression is told by the first bytes, not by the name."""
    if os.fspath(source) == "-":
        stream: IO[bytes] = sys.stdin.buffer
    else:
        path = Path(source)
        if not path.exists():
            raise InputError(f"{path}: no such file; expected a ChampSim trace")
        if path.is_dir():
            raise InputError(f"{path}: is a folder; expected a ChampSim trace")
        stream = stack.enter_context(path.open("rb"))
    magic = stream.peek(6)[:6]  # type: ignore[attr-defined] # both are buffered readers
    if magic == b"\xfd7zXZ\0":
        return lzma.open(stream)
    if magic[:2] == b"\x1f\x8b":
        return cast(IO[bytes], gzip.open(stream))
    return stream


def unpacked_blocks(stream: IO[bytes], name: str, limit: int | None) -> Iterator[NDArray[np.uint64]]:
    """Records [n, 8] as words, at most `limit` in all; the next block is decompressed while one is worked on."""
    done = 0
    with ThreadPoolExecutor(1) as ahead:
        reading = ahead.submit(_read, stream, BLOCK * RECORD)
        while limit is None or done < limit:
            try:
                data = reading.result()
            except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
                reason = " ".join(str(error).split()) or type(error).__name__
                raise InputError(f"{name}: cannot be decompressed near record {done}: {reason}") from error
            if not data:
                return
            whole = len(data) // RECORD
            rest = len(data) % RECORD
            if rest == 0:
                reading = ahead.submit(_read, stream, BLOCK * RECORD)
            elif limit is None or done + whole < limit:
                raise InputError(
                    f"{name}: ends within record {done + whole}, after {rest} of its {RECORD} bytes; truncated, or no "
                    "ChampSim trace"
                )
            words = np.frombuffer(data, "<u8", whole * 8).reshape(whole, 8)
            yield words if limit is None else words[: limit - done]
            done += whole


def _read(stream: IO[bytes], size: int) -> bytes:
    """`size` bytes, fewer at the end only."""
    chunks = []
    while size and (chunk := stream.read(size)):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def _finish(scan: Scan, spool: IO[bytes], writer: TraceWriter, output: Path) -> Imported:
    """Write the static instructions in the order of their addresses, and the sequence in these terms."""
    statics, rank = scan.in_order()
    count = len(rank)
    # ChampSim takes a jump or call through memory at a place relative to the program counter for a direct one.
    statics.kind[(statics.kind == BranchKind.JUMP) & (statics.loads > 0)] = BranchKind.INDIRECT_JUMP
    statics.kind[(statics.kind == BranchKind.CALL) & (statics.loads > 0)] = BranchKind.INDIRECT_CALL
    length = lengths(statics)
    code = np.zeros((count, 16), np.uint8)
    code[:, 0], code[:, 1], code[:, 4] = length, statics.kind, statics.repeated
    code[:, 2], code[:, 3] = statics.loads, statics.stores
    registers = statics.registers[:, None] >> (8 * np.arange(6, dtype=np.uint64)) & np.uint64(255)
    code[:, 5:7], code[:, 9:13] = registers[:, :2], registers[:, 2:]
    writer.static(statics.address, code)

    behind = statics.address + length
    may_fall = np.isin(statics.kind, (BranchKind.CONDITIONAL, BranchKind.OTHER))
    falls = np.isin(statics.kind, (BranchKind.NONE, BranchKind.SYSTEM))
    disagreements = gaps = 0
    last = np.empty(0, np.uint32)
    while len(sequence := np.fromfile(spool, np.uint32, BLOCK)):
        static_id = rank[sequence & ~TAKEN]
        writer.append_static_ids(static_id)
        sequence = np.concatenate([last, sequence])
        last = sequence[-1:]
        static_id = rank[sequence & ~TAKEN]
        here = static_id[:-1]
        goes_elsewhere = statics.address[static_id[1:]] != behind[here]
        taken = (sequence[:-1] & TAKEN) != 0
        disagreements += int(np.count_nonzero(may_fall[here] & (taken != goes_elsewhere)))
        gaps += int(np.count_nonzero(falls[here] & goes_elsewhere))
    return Imported(
        path=output,
        records=scan.records,
        instructions=writer.instructions,
        static=count,
        other_registers=scan.other_registers,
        overflows=scan.overflows,
        disagreements=disagreements,
        gaps=gaps,
    )
