"""Run a program under QEMU's user mode and write what it executed as a trace.

What is recorded: every instruction of the program and its libraries in user mode, with the accesses it makes. What the
kernel reads and writes for a system call is not. A rep-prefixed x86 string instruction is one executed instruction with
all its accesses. Accesses have the sizes that QEMU makes (7.2 makes two of 8 bytes for one of 16).

With `max_instructions`, or a region's `times`, the program is stopped once all that is recorded; it does not run to its
end. Of a region that is passed several times, its executions follow each other in the trace.

Children made by fork, vfork or posix_spawn run, untraced (their threads too), and a program that replaces itself by
exec ends its trace there (`TraceResult.replaced_by`); `#!/usr/bin/env NAME` scripts are handed to NAME directly.

Where a fault leaves a block of instructions early, accesses that are missing tell where; a block that a fault without
an access (a division, an illegal instruction) leaves early counts as whole.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from support.errors import InputError
from support.kinds import require_output
from tracegen.binary import elf
from tracegen.binary.dwarf import lines_at_run_time
from tracegen.formats.ending import cut_short
from tracegen.formats.trace import FORMAT, TraceWriter
from tracegen.qemu.execution import Execution
from tracegen.qemu.records import ThreadRecords
from tracegen.qemu.run import Run, RunEnd


@dataclass(frozen=True)
class TraceResult(RunEnd):
    """Result of a traced run, and how the run ended."""

    path: Path  # the main thread's trace (where that recorded nothing, the first one's that did)
    isa: str
    instructions: int
    cut_short: str  # a line on the signal that ended the program
    threads: tuple[tuple[Path, int], ...]  # traces of the other threads, where asked for, and their instructions


def trace(execution: Execution, output: str | os.PathLike[str], *, progress: bool = True) -> TraceResult:
    """Run a command and write its trace to `output`.

    The program's standard streams, environment, folder and exit status are as without tracing. Other threads, where
    asked for, get files of their own (`T.thread1.trace.h5` beside `T.trace.h5`, in the order of their creation).
    Nothing is left behind unless the trace is complete. Raises InputError where the program, the machine's tools or the
    output do not serve, where a region's symbol does not exist, or where nothing was recorded.
    """
    output = Path(output)
    require_output(output, FORMAT)
    with ExitStack() as stack:
        run = stack.enter_context(Run(execution, output.parent))
        bar = stack.enter_context(
            tqdm(desc="tracing", unit=" instructions", unit_scale=True, disable=None if progress else True)
        )
        traces = _Traces(run, output, stack)
        for _ in run.rounds():
            busy = traces.read()
            bar.update(traces.instructions - bar.n)
            if not busy:
                run.wait()
        traces.finish()
        outcome = run.outcome()
        made = traces.write(outcome)
    (path, instructions), *others = made
    return TraceResult(
        **vars(outcome),
        path=path,
        isa=run.isa,
        instructions=instructions,
        cut_short=cut_short(Path(run.command[0]).name, outcome.ended_by, instructions),
        threads=tuple(others),
    )


class _Traces:
    """The threads' records of one run, and the traces they become."""

    def __init__(self, run: Run, output: Path, stack: ExitStack) -> None:
        self._run = run
        self._output = output
        self._stack = stack
        self._records: list[ThreadRecords] = []

    @property
    def instructions(self) -> int:
        """Number of instructions of all threads, so far."""
        return sum(record.instructions for record in self._records)

    def read(self) -> bool:
        """Read what is there and return whether there was something."""
        run = self._run
        while (path := run.ring_of_thread(len(self._records))) is not None:
            record = ThreadRecords(path, self._output.parent, run.blocks, run.interruptions, run.limit)
            self._stack.callback(record.close)
            self._records.append(record)
        busy = False
        for number, record in enumerate(self._records):
            if record.ring.has_records:
                self._open_writer(number, record)
                busy |= record.read()
        return busy

    def finish(self) -> None:
        """Take in what is left after the program's end."""
        self.read()
        for record in self._records:
            record.finish()

    def write(self, outcome: RunEnd) -> list[tuple[Path, int]]:
        """Complete the traces; path and instructions, of those threads that executed what was asked for."""
        recorded = [(number, record) for number, record in enumerate(self._records) if record.instructions]
        if not recorded:
            raise InputError(f"{self._output}: no trace was written: {self._run.nothing_recorded()}")
        if any(record.ring.failed for record in self._records):
            raise InputError(f"{self._run.folder.parent}: the disk is full; tracing needs room there")
        mappings = self._run.mappings()
        for _, record in recorded:
            assert record.writer is not None
            address = record.write_static()
            symbols = elf.symbols_at_run_time(mappings, address)
            record.writer.ended_by(outcome.ended_by)
            record.writer.symbols(symbols.address, symbols.size, symbols.name)
            record.writer.lines(*lines_at_run_time(mappings, address))
        made = [(self._thread_path(number), record.instructions) for number, record in recorded]
        self._stack.close()  # completes the files
        return made

    def _open_writer(self, number: int, record: ThreadRecords) -> None:
        if record.writer is None:
            command = self._run.command
            record.writer = self._stack.enter_context(
                TraceWriter(
                    self._thread_path(number),
                    isa=self._run.isa,
                    program=Path(command[0]).name,
                    command=list(command),
                    source="qemu",
                )
            )

    def _thread_path(self, number: int) -> Path:
        name = self._output.name
        if number == 0:
            return self._output
        for suffix in (".trace.h5", ".h5"):
            if name.endswith(suffix):
                return self._output.with_name(f"{name.removesuffix(suffix)}.thread{number}{suffix}")
        return self._output.with_name(f"{name}.thread{number}")
