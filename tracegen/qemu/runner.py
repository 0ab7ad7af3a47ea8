"""Run a program under QEMU's user mode and write what it executed as a trace.

What is recorded: every instruction of the program and its libraries in user mode, with the accesses it makes. What the
kernel reads and writes for a system call is not. A rep-prefixed x86 string instruction is one executed instruction with
all its accesses. Accesses have the sizes that QEMU makes (7.2 makes two of 8 bytes for one of 16).

With `max_instructions` the program is stopped once that many instructions are recorded; it does not run to its end.
Children made by fork are not traced, and a program that replaces itself by exec ends its trace there
(`TraceResult.replaced_by`); `#!/usr/bin/env NAME` scripts are handed to NAME directly.

Where a fault leaves a block of instructions early, accesses that are missing tell where; a block that a fault without
an access (a division, an illegal instruction) leaves early counts as whole.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal as signals
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

from tracegen import elf
from tracegen.files import require_writable
from tracegen.qemu.blocks import BlockTable
from tracegen.qemu.interruption import Interruptions
from tracegen.qemu.plugin import find_qemu, plugin_for, plugin_option
from tracegen.qemu.records import ThreadRecords
from tracegen.qemu.ring import Ring
from tracegen.trace import TraceWriter
from uarch.errors import InputError

_SYSROOTS = {
    "x86-64": ("/usr/x86_64-linux-gnu",),
    "aarch64": ("/usr/aarch64-linux-gnu",),
    "riscv64": ("/usr/riscv64-linux-gnu",),
}
_DEBIAN_LIBC = {"x86-64": "libc6-amd64-cross", "aarch64": "libc6-arm64-cross", "riscv64": "libc6-riscv64-cross"}
_POLL_S = 0.002
_GRACE_S = 2.0  # after Ctrl-C, before the program is terminated
_SCRIPT_DEPTH = 4  # interpreters that are scripts themselves, as in Linux


@dataclass(frozen=True)
class TraceResult:
    """How a traced run went."""

    path: Path  # the main thread's trace
    isa: str
    instructions: int
    exit_status: int | None  # None where a signal ended the program, or `stopped`
    signal: int | None = None  # the signal that ended it
    stopped: bool = False  # ended by us, because `max_instructions` are recorded
    replaced_by: str | None = None  # the program that this one became by exec, where the trace ends
    interrupted: bool = False  # Ctrl-C: the trace holds what was executed until then
    threads: tuple[Path, ...] = field(default=())  # traces of the other threads, where asked for


@dataclass(frozen=True)
class Program:
    """What is run for a command: `#!` scripts are replaced by their interpreter."""

    executable: elf.Executable
    argv: tuple[str, ...]


def trace(
    command: Sequence[str],
    output: str | os.PathLike[str],
    *,
    stdin: IO[Any] | int | None = None,
    stdout: IO[Any] | int | None = None,
    stderr: IO[Any] | int | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    max_instructions: int | None = None,
    skip: int = 0,
    threads: bool = False,
    progress: bool = True,
) -> TraceResult:
    """Run `command` and write its trace to `output`.

    The program's standard streams, environment, folder and exit status are as without tracing (`stdin`, `env`, `cwd` as
    in subprocess). `skip` instructions are left out at the start, then at most `max_instructions` recorded. Only the
    main thread is traced unless `threads`; the others then get files of their own (`T.thread1.trace.h5` beside
    `T.trace.h5`), each with `skip` and `max_instructions` of its own. Nothing is left behind unless the trace is
    complete. Raises InputError where the program, the machine's tools or the output do not serve.
    """
    output = Path(output)
    if not command:
        raise InputError("no program to trace; give one after '--'")
    if max_instructions is not None and max_instructions < 1:
        raise InputError(f"max_instructions is {max_instructions}; at least 1 is needed")
    if skip < 0:
        raise InputError(f"skip is {skip}; it cannot be negative")
    require_writable(output)
    environment = dict(os.environ if env is None else env)
    program = find_program(command, environment, Path(cwd) if cwd is not None else Path())
    isa = program.executable.isa
    qemu = find_qemu(isa)
    plugin = plugin_for(qemu)
    sysroot = _sysroot_arguments(program.executable, environment)

    with ExitStack() as stack:
        folder = Path(stack.enter_context(_spool_folder(output)))
        option = plugin_option(
            plugin,
            dir=folder,
            isa=isa,
            skip=skip,
            max=max_instructions or 0,
            threads="on" if threads else "off",
            reader=os.getpid(),
        )
        arguments = [str(qemu), "-plugin", option, *sysroot, "-0", program.argv[0]]
        arguments += [str(program.executable.path), *program.argv[1:]]
        run = _Run(folder, isa, max_instructions, output, command, stack)
        bar = stack.enter_context(_bar(progress))
        process = subprocess.Popen(arguments, stdin=stdin, stdout=stdout, stderr=stderr, env=environment, cwd=cwd)
        try:
            interrupted = run.follow(process, bar)
        except BaseException:
            process.kill()
            process.wait()
            raise
        stopped = (folder / "stopped").exists()
        replaced = folder / "replaced"
        replaced_by = replaced.read_text(errors="replace") if replaced.exists() and not stopped else None
        run.finish()
        paths = run.write()
        code = process.returncode
        return TraceResult(
            path=output,
            isa=isa,
            instructions=run.main_instructions,
            exit_status=code if code >= 0 and not stopped else None,
            signal=-code if code < 0 else None,
            stopped=stopped,
            replaced_by=replaced_by,
            interrupted=interrupted,
            threads=tuple(paths),
        )


class _Run:
    """The threads' records of one run, and the traces they become."""

    def __init__(
        self, folder: Path, isa: str, limit: int | None, output: Path, command: Sequence[str], stack: ExitStack
    ) -> None:
        self._folder = folder
        self._isa = isa
        self._limit = limit
        self._output = output
        self._command = command
        self._stack = stack
        self._blocks = BlockTable(folder, isa)
        self._interruptions = Interruptions(folder, self._blocks)
        self._records: dict[int, ThreadRecords] = {}

    @property
    def main_instructions(self) -> int:
        return self._records[0].instructions if 0 in self._records else 0

    def follow(self, process: subprocess.Popen[Any], bar: tqdm) -> bool:
        """Take in records until the program has ended; True if the user interrupted it."""
        deadline = None
        while True:
            try:
                ended = process.poll() is not None
                busy = self._read()
                bar.update(sum(record.instructions for record in self._records.values()) - bar.n)
                if ended:
                    return deadline is not None
                if deadline is not None and time.monotonic() > deadline:
                    process.kill()
                if not busy:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(_POLL_S)
            except KeyboardInterrupt:
                # The terminal has sent the signal to the program too. What it executed makes a trace; a second
                # Ctrl-C gives that up.
                if deadline is not None:
                    raise
                deadline = time.monotonic() + _GRACE_S
                process.send_signal(signals.SIGINT)

    def finish(self) -> None:
        """Take in what is left after the program's end."""
        self._read()
        for record in self._records.values():
            if record.ring.has_records:
                self._open_writer(record)
            record.finish()

    def write(self) -> list[Path]:
        """Complete the traces; the paths of the threads' other than the main one."""
        main = self._records.get(0)
        if main is None or main.writer is None or main.instructions == 0:
            raise InputError(
                f"{self._output}: nothing was recorded, so no trace was written (the program ended before "
                "--skip instructions, or it could not be loaded)"
            )
        if any(record.ring.failed for record in self._records.values()):
            raise InputError(f"{self._output.parent}: the disk is full; tracing needs room beside its output")
        mappings = list(read_mappings(self._folder / "maps"))
        for record in self._records.values():
            if record.writer is None or record.instructions == 0:
                continue
            address = record.write_static()
            symbols = elf.symbols_at_run_time(mappings, address)
            record.writer.symbols(symbols.address, symbols.size, symbols.name)
        others = [n for n, record in sorted(self._records.items()) if n and record.writer and record.instructions]
        self._stack.close()  # completes the files
        return [self._thread_path(number) for number in others]

    def _read(self) -> bool:
        """Whether there was something to read."""
        number = len(self._records)
        while Ring.is_laid_out(path := self._folder / f"thread.{number}"):
            record = ThreadRecords(path, self._blocks, self._interruptions, self._limit)
            self._stack.callback(record.close)
            self._records[number] = record
            number += 1
        busy = False
        for record in self._records.values():
            if record.ring.has_records:
                self._open_writer(record)
                busy |= record.read()
        return busy

    def _open_writer(self, record: ThreadRecords) -> None:
        if record.writer is not None:
            return
        number = next(number for number, other in self._records.items() if other is record)
        record.writer = self._stack.enter_context(
            TraceWriter(
                self._thread_path(number) if number else self._output,
                isa=self._isa,
                program=Path(self._command[0]).name,
                command=list(self._command),
                source="qemu",
            )
        )

    def _thread_path(self, number: int) -> Path:
        name = self._output.name
        for suffix in (".trace.h5", ".h5"):
            if name.endswith(suffix):
                return self._output.with_name(f"{name.removesuffix(suffix)}.thread{number}{suffix}")
        return self._output.with_name(f"{name}.thread{number}")


@contextmanager
def _spool_folder(output: Path) -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix=f".{output.name}.", suffix=".records", dir=output.parent.resolve())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _bar(progress: bool) -> Iterator[tqdm]:
    with tqdm(desc="tracing", unit=" instructions", unit_scale=True, disable=None if progress else True) as bar:
        yield bar


def find_program(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Program:
    """Find the program of a command as a shell would, following `#!` lines to their interpreter."""
    argv = tuple(os.fspath(argument) for argument in command)
    path = _look_up(argv[0], environment, folder)
    for _ in range(_SCRIPT_DEPTH):
        try:
            with path.open("rb") as stream:
                start = stream.read(256)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); tracing needs to read the program") from error
        if start[:2] != b"#!":
            return Program(elf.inspect(path), argv)
        words = start[2:].split(b"\n", 1)[0].strip().split(None, 1)
        if not words:
            raise InputError(f"{path}: its first line, '#!', names no interpreter")
        interpreter, *argument = (os.fsdecode(word) for word in words)
        if Path(interpreter).name == "env" and argument and not argument[0].startswith("-") and "=" not in argument[0]:
            # env(1) would replace itself by the interpreter, where its own trace ends
            interpreter, argument = argument[0], []
        argv = (interpreter, *argument, str(path) if "/" not in argv[0] else argv[0], *argv[1:])
        path = _look_up(interpreter, environment, folder)
    raise InputError(f"{path}: more than {_SCRIPT_DEPTH} scripts interpret each other; name the program itself")


def _look_up(name: str, environment: Mapping[str, str], folder: Path) -> Path:
    if "/" in name:
        path = folder / name
    else:
        search = environment.get("PATH", os.defpath)
        found = shutil.which(name, path=search)
        if found is None:
            raise InputError(f"{name}: no such program in PATH; for one in this folder write ./{name}")
        path = Path(found)
    if not path.exists():
        raise InputError(f"{path}: no such program")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a program in it")
    if not os.access(path, os.X_OK):
        raise InputError(f"{path}: is not executable; chmod +x it, or name a program")
    return path.absolute()


def _sysroot_arguments(executable: elf.Executable, environment: Mapping[str, str]) -> list[str]:
    """`-L FOLDER` where a dynamic program's libraries are not those of this system."""
    if executable.interpreter is None or "QEMU_LD_PREFIX" in environment:
        return []
    if Path(executable.interpreter).exists():
        return []
    for root in _SYSROOTS[executable.isa]:
        if Path(root + executable.interpreter).exists():
            return ["-L", root]
    raise InputError(
        f"{executable.path}: its dynamic linker {executable.interpreter} is not here; install "
        f"{_DEBIAN_LIBC[executable.isa]}, set QEMU_LD_PREFIX to a folder that has it, or link the program statically"
    )


def read_mappings(path: Path) -> Iterator[elf.Mapping]:
    """The files that were mapped, at the program's addresses, from the plugin's file `maps`."""
    if not path.exists():
        return
    base = 0
    for line in path.read_text(errors="surrogateescape").splitlines():
        if line.startswith("base "):
            base = int(line[5:], 16)
            continue
        fields = line.split(None, 5)
        if len(fields) == 6:
            start, end = (int(part, 16) - base for part in fields[0].split("-"))
            if start >= 0:
                yield elf.Mapping(start, end, int(fields[2], 16), fields[5].removesuffix(" (deleted)"))


__all__ = ["Program", "TraceResult", "find_program", "read_mappings", "trace"]
