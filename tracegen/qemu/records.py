"""One thread's records on their way into a trace file, while the program still runs.

Accesses, system calls and divisions do not depend on the trace's static instructions, so they are written as they come.
The executed blocks are kept as a sequence in a temporary file, and become `static_id` when the program has ended and
all its instructions are known. Memory stays bounded.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from tracegen.formats.trace import TraceWriter
from tracegen.qemu.blocks import MAX_BLOCK, BlockTable
from tracegen.qemu.interruption import WHOLE, Interruptions
from tracegen.qemu.replay import Replay, expand
from tracegen.qemu.ring import Ring

_EXPANSION = 1 << 17  # static ids at once


class ThreadRecords:
    """The records of one thread, on their way into a TraceWriter (entered by the caller)."""

    def __init__(
        self, ring: Path, folder: Path, blocks: BlockTable, interruptions: Interruptions, limit: int | None
    ) -> None:
        """`folder` is where the temporary file lies, 4 bytes for each executed block."""
        self.ring = Ring(ring)
        self._replay = Replay(blocks, interruptions, limit)
        self._blocks = blocks
        self._sequence = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self.writer: TraceWriter | None = None

    @property
    def instructions(self) -> int:
        """Instructions so far."""
        return self._replay.instructions

    def close(self) -> None:
        """Let go of the files."""
        self.ring.close()
        self._sequence.close()

    def read(self) -> bool:
        """Take in the slots that are full; False if there was none."""
        busy = False
        for words in self.ring.full_slots():
            self._take(words)
            busy = True
        return busy

    def finish(self) -> None:
        """Take in what is left, after the program's end."""
        self.read()
        if self.ring.has_records:
            self._take(self.ring.last_slot())
            for replayed in self._replay.finish():
                self._sequence.write(replayed.sequence)

    def _take(self, words: NDArray[np.uint64]) -> None:
        assert self.writer is not None
        for replayed in self._replay.read(words):
            self._sequence.write(replayed.sequence)
            self.writer.append_accesses(*replayed.accesses)
            self.writer.append_system_calls(*replayed.calls)
            self.writer.append_divisions(*replayed.divisions)

    def write_static(self) -> NDArray[np.uint64]:
        """Write the static instructions and then what was executed; the addresses [S] ascending."""
        assert self.writer is not None
        address, code, row_id = static_instructions(self._blocks, self._replay.used_rows())
        self.writer.static(address, code)
        self._sequence.seek(0)
        out = np.empty(2 * _EXPANSION, np.uint32)
        left, filled = self.instructions, 0
        state = np.array([0, WHOLE, 0], np.int64)
        while left and len(sequence := np.fromfile(self._sequence, np.uint32, _EXPANSION // 4)):
            position = 0
            while position < len(sequence):
                position, filled = expand(sequence, position, state, self._blocks.kernel, row_id, out, filled)
                if filled + MAX_BLOCK > len(out):
                    filled = min(filled, left)
                    self.writer.append_static_ids(out[:filled])
                    left -= filled
                    filled = 0
        self.writer.append_static_ids(out[: min(filled, left)])
        return address


def static_instructions(
    blocks: BlockTable, used: NDArray[np.bool_]
) -> tuple[NDArray[np.uint64], NDArray[np.uint8], NDArray[np.uint32]]:
    """Addresses [S] ascending, code [S, 16], and the static id of each row of the block table [I].

    Of code that changed while the program ran, the last bytes stand for the address.
    """
    rows = np.flatnonzero(used)
    if len(rows) == 0:
        raise InputError("nothing was recorded")
    address, inverse = np.unique(blocks.kernel.address[rows], return_inverse=True)
    code = np.zeros((len(address), 16), np.uint8)
    code[inverse] = blocks.code[rows]  # rows are in order of translation, and the last assignment stays
    row_id = np.zeros(len(used), np.uint32)
    row_id[rows] = inverse
    return address, code, row_id
