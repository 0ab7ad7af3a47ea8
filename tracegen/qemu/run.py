"""A program under QEMU with the plugin: its process, the folder of its records, and how it ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal as signals
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from support.errors import InputError
from tracegen.binary import elf
from tracegen.formats.ending import name_of_signal
from tracegen.qemu.blocks import BlockTable
from tracegen.qemu.encoding import scalable
from tracegen.qemu.execution import Execution
from tracegen.qemu.interruption import Interruptions
from tracegen.qemu.mappings import read_mappings
from tracegen.qemu.plugin import find_qemu, plugin_for, plugin_option
from tracegen.qemu.program import cpu_arguments, find_program, sysroot_arguments, zeroed_bytes
from tracegen.qemu.region import Sites
from tracegen.qemu.ring import Ring

_POLL_S = 0.002
_GRACE_S = 2.0  # after Ctrl-C, before the program is terminated
_MEMORY = Path("/dev/shm")
_ROOM = 1 << 30  # bytes that must be free there


@dataclass(frozen=True)
class RunEnd:
    """End of a run."""

    exit_status: int | None  # None where a signal ended the program, or `stopped`
    signal: int | None  # the signal that ended it
    stopped: bool  # ended by us, because all that was asked for is recorded
    replaced_by: str | None  # the program that this one became by exec, where the record ends
    interrupted: bool  # Ctrl-C: the record holds what was executed until then
    unrecorded: tuple[str, ...]  # a line each on what has no record: other threads, children, SVE's accesses

    @property
    def ended_by(self) -> str:
        """The signal that cut the program's execution short, by number and name; empty where none did."""
        return "" if self.signal is None or self.stopped else name_of_signal(self.signal)

    @property
    def lost(self) -> tuple[str, ...]:
        """Lines on what the program executed that the record does not hold."""
        if self.replaced_by is None:
            return self.unrecorded
        return (*self.unrecorded, f"the program became {self.replaced_by} (exec), which is not traced: trace that one")


class Run:
    """A running program; a context manager that kills it and removes its records on the way out.

    `rounds` drives it; `spool` is a folder for the records where memory has no room for them.
    """

    def __init__(self, given: Execution, spool: Path) -> None:
        region, cwd = given.region, given.cwd
        environment = dict(os.environ if given.env is None else given.env)
        program = find_program(given.command, environment, Path(cwd) if cwd is not None else Path())
        if program.script is not None:
            print(
                f"perfvec: {program.script} is a script: what is traced is its interpreter, {program.executable.path}, "
                "without the programs that it starts",
                file=sys.stderr,
            )
        qemu = find_qemu(program.executable.isa)
        sysroot = sysroot_arguments(program.executable, environment)
        if region is not None:
            region.require_symbols(program.executable, [str(qemu), *sysroot], environment)
        plugin = plugin_for(qemu)
        self.command = tuple(os.fspath(word) for word in given.command)
        self.isa = program.executable.isa
        self.limit = given.max_instructions
        self.folder = _spool_folder(spool)
        try:
            self._sites = Sites(self.folder, region, program.executable.path) if region is not None else None
            option = plugin_option(
                plugin,
                dir=self.folder,
                isa=self.isa,
                skip=given.skip,
                max=given.max_instructions or 0,
                threads="on" if given.threads else "off",
                reader=os.getpid(),
                zeroed=zeroed_bytes(self.isa, environment),
                **(region.plugin_options() if region else {}),
            )
            cpu = cpu_arguments(self.isa, environment)
            arguments = [str(qemu), *cpu, "-plugin", option, *sysroot, "-0", program.argv[0]]
            arguments += [str(program.executable.path), *program.argv[1:]]
            self.blocks = BlockTable(self.folder, self.isa)
            self.interruptions = Interruptions(self.folder, self.blocks)
            self.process = subprocess.Popen(
                arguments, stdin=given.stdin, stdout=given.stdout, stderr=given.stderr, env=environment, cwd=cwd
            )
            # Where the program's memory exceeds the computer's, the kernel ends it and no other process.
            with contextlib.suppress(OSError):
                Path(f"/proc/{self.process.pid}/oom_score_adj").write_text("1000")
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self._deadline: float | None = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._sites is not None:
            self._sites.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def rounds(self) -> Iterator[None]:
        """One round is one chance to take in records; the last one comes after the program's end.

        Ctrl-C, which the terminal sends to the program too, ends the program and so the rounds; a second one is a
        KeyboardInterrupt.
        """
        with self._interrupts():
            while True:
                ended = self.process.poll() is not None
                if self._sites is not None:
                    self._sites.answer()
                if self._deadline is not None and time.monotonic() > self._deadline:
                    self.process.kill()
                yield
                if ended:
                    return

    def wait(self) -> None:
        """Pause a moment: there was nothing to take in."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_POLL_S)

    def ring_of_thread(self, number: int) -> Path | None:
        """Return the ring of the thread's words (0: the main one); None where there is no such one."""
        path = self.folder / f"thread.{number}"
        return path if Ring.is_laid_out(path) else None

    def mappings(self) -> list[elf.Mapping]:
        """The files that were mapped, at the program's addresses."""
        return list(read_mappings(self.folder / "maps"))

    @property
    def interrupted(self) -> bool:
        """Return whether Ctrl-C came."""
        return self._deadline is not None

    def outcome(self) -> RunEnd:
        """Return how the program ended (after the last round)."""
        stopped = (self.folder / "stopped").exists()
        replaced = self.folder / "replaced"
        code = self.process.returncode
        return RunEnd(
            exit_status=code if code >= 0 and not stopped else None,
            signal=-code if code < 0 else None,
            stopped=stopped,
            replaced_by=replaced.read_text(errors="replace") if replaced.exists() and not stopped else None,
            interrupted=self.interrupted,
            unrecorded=tuple(self._unrecorded()),
        )

    def _unrecorded(self) -> Iterator[str]:
        program = Path(self.command[0]).name
        counted = self.folder / "unrecorded"
        if not counted.exists() or counted.stat().st_size == 0:  # QEMU has not come that far
            return
        threads, children = struct.unpack("<QQ", counted.read_bytes())
        if threads:
            yield f"{program}: threads that are not recorded: {threads:,} (perfvec trace --threads records each)"
        if children:
            yield f"{program}: child processes that are not recorded: {children:,} (trace their programs by themselves)"
        if scalable(self.blocks.code, self.isa).any():
            yield f"{program}: it uses SVE, of which most accesses are not recorded (QEMU_CPU=max,sve=off has none)"

    def nothing_recorded(self) -> InputError:
        """Return why there is no record."""
        if self._sites is not None:
            return self._sites.never_reached(self.mappings())
        if ended_by := self.outcome().ended_by:
            return InputError(f"nothing was recorded ({Path(self.command[0]).name} was ended by {ended_by})")
        return InputError(
            "nothing was recorded (the program ended before --skip instructions, or it could not be loaded)"
        )

    @contextlib.contextmanager
    def _interrupts(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupted(number: int, frame: FrameType | None) -> None:
            if self._deadline is not None:
                raise KeyboardInterrupt
            self._deadline = time.monotonic() + _GRACE_S
            self.process.send_signal(signals.SIGINT)

        before = signals.signal(signals.SIGINT, interrupted)
        try:
            yield
        finally:
            signals.signal(signals.SIGINT, before)


def _spool_folder(beside: Path) -> Path:
    """Return one in memory where there is room: the disk would write the rings out over and over."""
    with contextlib.suppress(OSError):
        remove_orphans()
        room = os.statvfs(_MEMORY)
        if room.f_bavail * room.f_frsize >= _ROOM:
            return Path(tempfile.mkdtemp(prefix=f"perfvec-{os.getpid()}-", suffix=".records", dir=_MEMORY))
    return Path(tempfile.mkdtemp(prefix=".perfvec-", suffix=".records", dir=beside.resolve()))


def remove_orphans() -> None:
    """Give back the memory of runs whose reader was killed (SIGKILL)."""
    for folder in _MEMORY.glob("perfvec-*-*.records"):
        pid = folder.name.split("-")[1]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)
