"""Reader of a run of stock gem5: a trace and, of what its detailed core executed, the retire latencies.

Micro-operations are folded into instructions and squashed ones dropped (`text`), bytes come from the ELF files that ran
(`address_space`), sizes of accesses from the bytes (`access_size`), the machine from `config.json`
(`uarch.gem5.config`). What can be cross-checked is: an instruction that is no branch is followed by the one behind it;
ticks are multiples of the clock period and never go back; and where the text covers the whole run, instructions,
micro-operations and memory references are those of `stats.txt`, to the last one.

A latency is the difference of retire ticks in clock periods. The last instruction of a program that ends is its exit
system call, which O3 never retires: it counts as retired when the simulation ends, so that the latencies add up to all
of the run's cycles. Instructions just before it that have no O3PipeView record yet count as retired with the one before
them.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from support.errors import InputError
from support.kinds import require_output
from tracegen.binary import elf
from tracegen.decode import decode
from tracegen.formats import latency as latency_file
from tracegen.formats import trace as trace_file
from tracegen.formats.latency import LatencyWriter
from tracegen.formats.trace import MOST_STEPS, Trace, TraceWriter
from tracegen.gem5.access_size import access_bytes, shares
from tracegen.gem5.address_space import AddressSpace
from tracegen.gem5.source import Gem5Run, blocks, find_source, read_facts, read_run
from tracegen.gem5.statistics import memory_references, read_statistics
from tracegen.gem5.text.instructions import advance, settle
from tracegen.gem5.text.layout import (
    DONE,
    FULL,
    GROW,
    LONGEST,
    MAPPING,
    MICRO,
    PENDING,
    STORED_OPEN,
    TOO_LATE,
    WRONG,
    Output,
    Tables,
)
from tracegen.gem5.text.scanner import scan
from tracegen.gem5.text.statics import Statics
from uarch.configuration import Machine, OutOfOrderPipeline
from uarch.instructions import Flag

OUTPUT = 1 << 18  # instructions and accesses the scanner finds before they are written
_LONGEST_LINE = 1 << 16
_MOST_STATICS = 1 << 24
_PART = 1 << 20
_SHOWN = 60  # characters of a wrong line


@dataclass(frozen=True)
class Imported:
    """Summary of what was read, beside gem5's own counts."""

    path: Path
    machine: Machine
    instructions: int
    labelled: int  # those with a latency
    start: int  # the first of them
    cycles: int  # sum of all latencies, the warm-up's included
    accesses: int
    checked: bool  # against stats.txt
    notes: list[str]

    @property
    def agreement(self) -> str:
        """Tell whether gem5's own counts were compared with what was read; they do not differ."""
        return "agrees with stats.txt" if self.checked else "not compared with stats.txt, which is not there"


@dataclass
class Counts:
    """gem5's own counts of what was read (as `commitStats0` has them)."""

    instructions: int = 0
    micro_operations: int = 0
    memory_references: int = 0


class Reader:
    """One pass over a run's text: accesses go to `writer`, instructions and latencies into files of their own in
    `spool`. Without a writer, only addresses and latencies are wanted, and no bytes.
    """

    def __init__(self, run: Gem5Run, spool: Path, writer: TraceWriter | None) -> None:
        self._run, self._writer = run, writer
        simulation = run.simulation
        facts = run.facts
        begin = facts.get("core_begins", 0 if simulation.fast_core is None else -1)
        self._tables = Tables.initial(
            out_of_order=simulation.kind == "out-of-order", period=simulation.period, begin=int(begin)
        )
        self.state = self._tables.state
        self._output, self._statics = Output.empty(OUTPUT), Statics.empty()
        self._core = np.frombuffer(simulation.core.encode(), np.uint8)
        self._fast = np.frombuffer((simulation.fast_core or "-").encode(), np.uint8)
        root = str(facts.get("sysroot", ""))
        self._space = AddressSpace(run.program, simulation.isa, run.folder, root) if writer is not None else None
        self._bytes: NDArray[np.int64] = np.zeros(0, np.int64)  # [S] of an access
        self._string: NDArray[np.bool_] = np.zeros(0, bool)
        self._code: NDArray[np.uint8] = np.zeros((0, 16), np.uint8)
        self._behind: NDArray[np.uint64] = np.zeros(0, np.uint64)  # [S] address of what follows, 0 where anything may
        self.sequence: IO[bytes] = (spool / "sequence").open("w+b")
        self.latencies: IO[bytes] = (spool / "latencies").open("w+b")
        self.cycles = 0
        if simulation.kind == "in-order" and not simulation.commit_ticks:
            raise InputError(
                f"{run.source.config}: executeSetTraceTimeOnCommit is off; Minor's text then lacks the ticks of commit"
            )

    @property
    def name(self) -> str:
        return str(self._run.source.text or "standard input")

    def close(self) -> None:
        self.sequence.close()
        self.latencies.close()

    def read(self, *, limit: int | None = None, progress: bool = False) -> None:
        """Take in the whole text, or until `limit` instructions are known with their latencies. Raises InputError."""
        buffer = np.zeros(2 * _LONGEST_LINE, np.uint8)
        filled = 0
        with tqdm(
            desc="import", unit=" instructions", unit_scale=True, disable=None if progress else True, mininterval=0.5
        ) as bar:
            for block in blocks(self._run.source):
                if filled + len(block) > len(buffer):
                    buffer = np.concatenate([buffer[:filled], np.zeros(len(block) + _LONGEST_LINE, np.uint8)])
                buffer[filled : filled + len(block)] = np.frombuffer(block, np.uint8)
                filled += len(block)
                self._scan(buffer, filled)
                at = int(self.state.at)
                if filled - at > _LONGEST_LINE:
                    raise self._wrong("is longer than 65,536 characters; this is no text of gem5", line=1)
                buffer[: filled - at] = buffer[at:filled].copy()
                filled -= at
                self.state.at = 0
                bar.update(int(self.state.instructions) - bar.n)
                if limit is not None and self.state.labelled >= limit:
                    return
        if filled:
            raise self._wrong("is cut off: no line end follows", line=1)
        self._finish()

    def _scan(self, buffer: NDArray[np.uint8], filled: int) -> None:
        state = self.state
        while True:
            reason = scan(buffer, filled, self._core, self._fast, self._tables, self._output, self._statics)
            if reason == DONE:
                break
            if reason == FULL:
                self.flush()
                self._settle()  # it stopped where there was no room
            elif reason == GROW:
                if len(self._statics.pc) >= _MOST_STATICS:
                    raise self._wrong(f"executes more than {_MOST_STATICS:,} distinct instructions")
                self._statics = self._statics.grown(int(state.statics))
            else:
                begin = int(state.line_begin)
                line = bytes(buffer[begin : int(state.at) - 1]).decode(errors="replace")
                if reason == MAPPING:
                    self._map(line)
                else:
                    shown = line if len(line) <= _SHOWN else line[:_SHOWN] + "…"
                    raise self._wrong(f"{WRONG[reason]}: {shown!r}")

    def _settle(self) -> None:
        tables = self._tables
        if wrong := settle(tables.state, tables.records, tables.pending, self._output.latency):
            raise self._wrong(WRONG[wrong])

    def _wrong(self, what: str, line: int = 0) -> InputError:
        return InputError(f"{self.name}, line {int(self.state.line_number) + line}: {what}")

    def _map(self, line: str) -> None:
        """`TICK: global: memstate: creating vma (NAME) [0xSTART - 0xEND]`"""
        name, _, area = line.partition("vma (")[2].rpartition(") [")
        start, _, end = area.rstrip("]").partition(" - ")
        try:
            first, last = int(start, 16), int(end, 16)
        except ValueError:
            raise self._wrong(f"is no whole line of the flag Vma: {line[:_SHOWN]!r}") from None
        if not 0 <= first < last <= 2**64 or "\0" in name:
            raise self._wrong(f"maps no range of addresses: {line[:_SHOWN]!r}")
        if "/" in name and self._space is not None:
            self.flush()  # what was executed before belongs to the mappings before
            self._space.map(name, first)

    def flush(self) -> None:
        """Write what the scanner has found."""
        state, output = self.state, self._output
        count, accesses, latencies = int(state.ids), int(state.accesses), int(state.latencies)
        if state.open:
            if state.open_access == 0 and accesses > OUTPUT // 2:
                state.open = STORED_OPEN  # one instruction with more accesses than are held
            else:
                accesses = int(state.open_access)
        self._know_statics()
        self.sequence.write(output.static_id[:count].tobytes())
        self._write_accesses(output.accesses[:accesses], output.static_id[:count])
        self._write_divisions(output.divisions[: int(state.divisions)])
        self._write_latencies(output.latency[:latencies])
        rest = int(state.accesses) - accesses
        output.accesses[:rest] = output.accesses[accesses : accesses + rest].copy()
        state.ids = state.latencies = state.open_access = state.divisions = 0
        state.accesses = rest

    def _write_latencies(self, latency: NDArray[np.uint32]) -> None:
        self.latencies.write(latency.tobytes())
        self.cycles += int(latency.sum(dtype=np.int64))

    def _write_accesses(self, rows: NDArray[np.void], ids: NDArray[np.uint32]) -> None:
        if self._writer is None or len(rows) == 0:
            return
        first = int(self.state.instructions) - len(ids)
        instruction, is_store = rows["instruction"], rows["is_store"]
        whole = instruction - first < len(ids)  # the rest belongs to a long instruction that is not complete
        static = np.where(whole, ids[np.minimum(instruction - first, len(ids) - 1)] if len(ids) else 0, 0)
        size = self._bytes[static]
        # One instruction's bytes are spread over the accesses that it makes (two of 8 for one of 16).
        size = np.where(self._string[static], size, shares(size, instruction * 2 + is_store))
        self._writer.append_accesses(
            instruction.astype(np.uint64),
            np.ascontiguousarray(rows["address"]).view(np.uint64),
            np.where(size > 255, 0, size).astype(np.uint8),
            is_store.astype(np.uint8),
        )

    def _write_divisions(self, rows: NDArray[np.void]) -> None:
        if self._writer is not None:
            steps = np.minimum(rows["steps"], MOST_STEPS).astype(np.uint8)
            self._writer.append_divisions(rows["instruction"].astype(np.uint64), steps)

    def _know_statics(self) -> None:
        """Code and sizes of the instructions that were executed for the first time since the last call."""
        if self._space is None:
            return
        known, total = len(self._code), int(self.state.statics)
        if known == total:
            return
        address = self._statics.pc[known:total].view(np.uint64)
        facts = self._run.facts
        whole = self._run.simulation.fast_core is None or facts.get("traced") == "everything"
        self._space.place_loader(int(self._statics.pc.view(np.uint64)[0]) if whole else None, address)
        code, found = self._space.code(address)
        if not found.all():
            missing = int(address[~found][0])
            raise InputError(
                f"{self.name}: the instruction at {missing:#x}, executed before line {int(self.state.line_number):,}, "
                f"lies neither in {self._run.program} nor in a file known to be mapped; run gem5 with the flag Vma "
                "too (code that a program makes itself cannot be imported)"
            )
        isa = self._run.simulation.isa
        instructions = decode(address, code, isa)
        code[np.arange(16) >= instructions.length[:, None]] = 0
        self._code = np.concatenate([self._code, code])
        self._bytes = np.append(self._bytes, access_bytes(code, isa))
        self._string = np.append(self._string, instructions.flags & Flag.STRING != 0)
        free = instructions.flags & np.uint16(Flag.BRANCH | Flag.SYSCALL) != 0
        self._behind = np.append(self._behind, np.where(free, 0, address + instructions.length))

    def _finish(self) -> None:
        """The text is at its end: what was held back, and the instructions that wait for a record that will not
        come."""
        state, (held, line), records, pending = self._tables
        self.flush()
        line.valid = 0
        if held.valid and held.fault and held.op_flags & MICRO:
            held.valid = 0  # it faults, and is not repeated in this text
        statics, output = self._statics, self._output
        wrong = advance(
            state,
            held,
            line,
            records,
            pending,
            *statics,
            output.static_id,
            output.accesses,
            output.latency,
            output.divisions,
        )
        if wrong:
            raise self._wrong(WRONG[wrong])
        if state.open == STORED_OPEN:
            raise self._wrong("ends the text in the middle of a long instruction")
        if state.open:
            state.accesses = state.open_access
            state.open = 0
        self.flush()
        if state.instructions == 0:
            raise InputError(
                f"{self.name}: no executed instruction of {self._run.simulation.core}; run gem5 with "
                "--debug-flags=ExecAll,O3PipeView,Vma"
            )
        while state.first_pending < state.last_pending:
            before = int(state.first_pending)
            self._settle()
            self.flush()
            if state.first_pending == before:
                break

    @property
    def pending(self) -> int:
        """Instructions at the text's end that have no O3PipeView record."""
        return int(self.state.last_pending - self.state.first_pending)

    def end(self, tick: int) -> None:
        """The run has ended at `tick`: the last instruction retires then, and those before it that have no record at
        once, as a store that still waits to be written; those behind such a one have theirs.
        """
        waiting = self.pending
        at = (int(self.state.first_pending) + np.arange(waiting)) & (PENDING - 1)
        sequence = self._tables.pending[at].seq
        records = self._tables.records[sequence & (len(self._tables.records) - 1)]
        told = np.where(records.seq == sequence + 1, np.where(records.tick > 0, records.tick, records.complete), 0)
        pipeline, without = self._run.machine.pipeline, int((told == 0).sum())
        if isinstance(pipeline, OutOfOrderPipeline) and without > pipeline.rob_entries + pipeline.store_queue_entries:
            raise InputError(
                f"{self.name}: {without:,} of the last {waiting:,} instructions have no O3PipeView record, more than "
                "the core holds; run gem5 with the flag O3PipeView"
            )
        if waiting == 0 or tick < int(self.state.retired):
            return
        told[-1] = told[-1] or tick
        retired = np.maximum.accumulate(np.append(int(self.state.retired), told))
        cycles = np.diff(retired) // self._run.simulation.period
        if (cycles > LONGEST).any():
            raise self._wrong(WRONG[TOO_LATE])
        self._write_latencies(cycles.astype(np.uint32))
        self.state.labelled += waiting
        self.state.first_pending = self.state.last_pending
        self.state.retired = int(retired[-1])

    def counts(self) -> Counts:
        """Count as gem5 does: O3 leaves out system calls, Minor counts repeated micro-operations again."""
        state = self.state
        timed = int(state.instructions - state.fast)
        return Counts(
            timed - int(state.syscalls) + int(state.repeated),
            int(state.micro_operations),
            int(state.references + state.repeated_references),
        )

    def static(self) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
        """Addresses [S] ascending and code [S, 16]."""
        address = self._address
        order = np.argsort(address)
        return address[order], self._code[order]

    @property
    def _address(self) -> NDArray[np.uint64]:
        return self._statics.pc[: len(self._code)].view(np.uint64)

    def addresses(self) -> Iterator[NDArray[np.uint64]]:
        """The executed instructions' addresses, in parts."""
        self.sequence.seek(0)
        while len(part := np.frombuffer(self.sequence.read(4 * _PART), np.uint32)):
            yield self._statics.pc.view(np.uint64)[part]

    def instructions(self) -> Iterator[NDArray[np.uint32]]:
        """The executed instructions as places in `static`, in parts, checked: what is neither branch nor system call
        is followed by what lies behind it. Raises InputError.
        """
        address = self._address
        place = np.empty(len(address), np.uint32)
        place[np.argsort(address)] = np.arange(len(address), dtype=np.uint32)
        self.sequence.seek(0)
        last = np.empty(0, np.uint32)
        index = 0
        while len(part := np.frombuffer(self.sequence.read(4 * _PART), np.uint32)):
            ids = np.append(last, part)
            behind = self._behind[ids[:-1]]
            wrong = np.flatnonzero((behind != 0) & (behind != address[ids[1:]]))
            if len(wrong):
                at = int(wrong[0])
                raise InputError(
                    f"{self.name}: instruction {index - len(last) + at:,} at {int(address[ids[at]]):#x} is no branch, "
                    f"but {int(address[ids[at + 1]]):#x} follows and not {int(behind[at]):#x}; lines are missing or "
                    f"damaged, or {self._run.program} is not what ran"
                )
            yield place[part]
            index += len(part)
            last = part[-1:]

    def symbols(self, address: NDArray[np.uint64]) -> elf.Symbols:
        return elf.symbols_at_run_time(list(self._space.mappings()) if self._space is not None else [], address)


def import_gem5(
    paths: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    latency: str | os.PathLike[str] | None = None,
    program: str | os.PathLike[str] | None = None,
    name: str | None = None,
    warmup: int | None = None,
    progress: bool = True,
) -> Imported:
    """Read a run of gem5 (its output folder, or the files in it) into the trace `output` and the labels `latency`.

    `program` is where the executable is, if not where config.json says; `name` the machine's name. The first `warmup`
    instructions of the detailed core get no label (by default those that the script ran as warm-up). Memory does not
    grow with the run. Raises InputError, which names file and line, for text that is cut, damaged or not gem5's.
    """
    output = Path(output)
    require_output(output, trace_file.FORMAT)
    if latency is not None:
        require_output(latency, latency_file.FORMAT)
    source = find_source([Path(path) for path in paths])
    run = read_run(source, Path(program) if program is not None else None, name)
    writer = TraceWriter(
        output,
        isa=run.simulation.isa,
        program=Path(run.command[0]).name,
        command=run.command,
        source="gem5",
        attributes={
            "cwd": str(run.folder),
            "environment": json.dumps(run.environment),
            "sysroot": run.facts.get("sysroot", ""),
            "stdin": run.stdin or "",
            "stdout": run.stdout,
            "executable": run.executable if program is None else str(Path(program).absolute()),
            "skipped": 0 if run.facts.get("traced", "everything") == "everything" else run.facts.get("fast_forward", 0),
        },
    )
    with tempfile.TemporaryDirectory(prefix=f".{output.name}.", suffix=".import", dir=output.resolve().parent) as spool:
        reader = Reader(run, Path(spool), writer)
        try:
            with writer:
                reader.read(progress=progress)
                checked = check(reader, run)
                address, code = reader.static()
                writer.static(address, code)
                for chunk in reader.instructions():
                    writer.append_static_ids(chunk)
                symbols = reader.symbols(address)
                writer.symbols(symbols.address, symbols.size, symbols.name)
                warmed = int(run.facts.get("warmup", 0)) if warmup is None else warmup
                if latency is not None:
                    _require_labels(reader, warmed)
            labelled = _write_labels(reader, run, output, Path(latency), warmed) if latency is not None else 0
            state = reader.state
            return Imported(
                path=output,
                machine=run.machine,
                instructions=int(state.instructions),
                labelled=labelled,
                start=int(state.fast) + warmed,
                cycles=reader.cycles,
                accesses=int(state.references),
                checked=checked,
                notes=run.notes,
            )
        finally:
            reader.close()


def check(reader: Reader, run: Gem5Run) -> bool:
    """Compare with stats.txt, and end the run where it says. False where there is none. Raises InputError."""
    path, facts = run.source.statistics, run.facts
    if run.source.run is not None:
        facts = read_facts(run.source.run)  # complete now, where the text came through a pipe
    if path is None or not path.exists():
        return False
    statistics = read_statistics(path)
    final, core = statistics.get("finalTick"), run.simulation.core
    ended = facts.get("ended") is not None or ("ended" not in facts and not facts.get("max_instructions"))
    if final is not None and ended:
        reader.end(int(final))
    counted = reader.counts()
    whole = statistics.get("simTicks") == final and run.simulation.fast_core is None and ended
    committed = statistics.get(f"{core}.commitStats0.numInsts")
    if committed is None:
        raise InputError(f"{path}: no {core}.commitStats0.numInsts; these are no statistics of gem5 v23 or v24")
    if whole:
        found = [
            ("instructions", counted.instructions, committed),
            ("micro-operations", counted.micro_operations, statistics.get(f"{core}.commitStats0.numOps")),
            ("memory references", counted.memory_references, memory_references(statistics, core)),
        ]
    else:
        before = int(facts.get("instructions_before", 0))
        found = [("instructions", min(counted.instructions, int(committed) + before), committed + before)]
    for what, count, wanted in found:
        if wanted is not None and count != wanted:
            raise InputError(
                f"{reader.name}: has {count:,} {what} where {path} counts {wanted:,.0f}; the text is cut or of another "
                "run"
            )
    return True


def _require_labels(reader: Reader, warmup: int) -> None:
    if int(reader.state.labelled) <= warmup:
        raise InputError(
            f"{reader.name}: {int(reader.state.labelled):,} instructions have a retire tick, and {warmup:,} are "
            "warm-up; no latency is left to write"
        )


def _write_labels(reader: Reader, run: Gem5Run, trace: Path, path: Path, warmup: int) -> int:
    """The latencies after the warm-up. Returns how many."""
    labelled = int(reader.state.labelled) - warmup
    with Trace(trace) as written:
        stem, digest = written.name, written.digest
    writer = LatencyWriter(
        path,
        machines=[run.machine],
        trace=stem,
        trace_digest=digest,
        start=int(reader.state.fast) + warmup,
        simulator=simulator(run),
        attributes={"warmup": warmup},
    )
    reader.latencies.seek(4 * warmup)
    with writer:
        while part := reader.latencies.read(4 * _PART):
            writer.append(np.frombuffer(part, np.uint32)[None])
    return labelled


def simulator(run: Gem5Run) -> str:
    return f"gem5 {run.facts['gem5']}" if "gem5" in run.facts else "gem5"
