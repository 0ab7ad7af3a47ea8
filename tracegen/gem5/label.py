"""Labels by gem5 itself: the program of a trace runs on every machine, and its retire ticks are the latencies.

Each run is one process of gem5 with the script that `perfvec uarch export --gem5` writes; its debug text is read from a
pipe while it runs and is never stored. As elsewhere, everything before the labelled window warms the caches (on gem5's
atomic core) and `warmup` instructions the pipeline and the predictor.

What gem5 executes must be the trace's instructions, one by one. That holds for traces that gem5 made (`perfvec import
gem5`), whose command, environment and folder the trace remembers. A trace of QEMU's agrees only for programs of fixed
addresses that ask for nothing that differs (their environment, the processor's features, the time).

A machine's result is kept in a folder beside the output until all are there, so a run that was killed continues. A
machine that gem5 cannot simulate is left out of the file, whose attribute `failed` tells why.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from support.errors import InputError
from support.files import atomic_path, require_writable
from tracegen.formats.latency import VERSION, LatencyFile, LatencyWriter
from tracegen.formats.trace import Trace
from tracegen.gem5.reader import Reader
from tracegen.gem5.source import Gem5Run, Source, read_facts
from uarch.configuration import Machine
from uarch.gem5.config import RunSettings
from uarch.gem5.script import gem5_script
from uarch.gem5.simulated import as_simulated, digest
from uarch.gem5.table import period_ps
from uarch.instructions import Flag

FLAGS = "ExecAll,O3PipeView"
_SHIFTS = 16  # instructions by which a fast-forward may end elsewhere
_BEGINNING = 4096  # instructions by which that is told
_LOG = 4000  # characters of gem5's output that are searched for what went wrong


@dataclass(frozen=True)
class Window:
    """A window of a trace, and how to run up to it."""

    trace: Path
    name: str
    digest: str
    isa: str
    start: int
    stop: int
    first: int  # where the machine's own core begins
    fast_forward: int  # instructions before that as gem5 counts them, which leaves out system calls
    to_the_end: bool
    command: tuple[str, ...]
    executable: str
    folder: Path
    environment: tuple[str, ...]
    sysroot: str
    stdin: str
    stdout: str

    def key(self, simulator: str) -> str:
        words = [VERSION, self.digest, self.start, self.stop, self.first, simulator]
        return hashlib.sha256(json.dumps(words).encode()).hexdigest()[:12]


def find_window(path: Path, start: int, count: int | None, warmup: int) -> Window | None:
    """The window of one trace; None where the trace ends before it. Raises InputError."""
    with Trace(path) as trace:
        stop = len(trace) if count is None else min(start + count, len(trace))
        if start >= stop:
            return None
        if skipped := int(trace.attribute("skipped", 0)):
            raise InputError(
                f"{path}: begins after {skipped:,} instructions that it does not hold, so gem5 cannot be led there; "
                "import a run of the whole program (--trace-fast-forward)"
            )
        first, fast_forward = _lead(trace, max(0, start - warmup))
        folder = Path(str(trace.attribute("cwd", "") or Path.cwd()))
        environment = json.loads(str(trace.attribute("environment", "[]")))
        return Window(
            trace=path,
            name=trace.name,
            digest=trace.digest,
            isa=trace.isa,
            start=start,
            stop=stop,
            first=first,
            fast_forward=fast_forward,
            to_the_end=stop == len(trace),
            command=tuple(trace.command),
            executable=str(trace.attribute("executable", "") or shutil.which(trace.command[0]) or trace.command[0]),
            folder=folder,
            environment=tuple(environment),
            sysroot=str(trace.attribute("sysroot", "")),
            stdin=str(trace.attribute("stdin", "")),
            stdout=str(trace.attribute("stdout", "")),
        )


def _lead(trace: Trace, first: int) -> tuple[int, int]:
    """Return the instruction at or shortly before `first` to fast-forward to, and how many instructions gem5 is
    told. Its atomic core does not count system calls, and stops one instruction after the last that it was told.
    """
    calls = trace.static.flags & np.uint16(Flag.SYSCALL) != 0
    counted, last = 0, -1
    for chunk in trace.chunks(stop=first - 1):
        others = np.flatnonzero(~calls[chunk.static_id])
        if len(others):
            counted, last = counted + len(others), chunk.start + int(others[-1])
    return (last + 2, counted) if counted else (0, 0)


def find_gem5(path: str | os.PathLike[str] | None) -> Path:
    """gem5's binary: `path`, or the environment's GEM5. Raises InputError."""
    name = path or os.environ.get("GEM5")
    if not name:
        raise InputError("where is gem5? say --gem5 PATH/gem5.opt, or set GEM5")
    found = shutil.which(str(name))
    if found is None:
        raise InputError(f"{name}: no such program; --gem5 (or GEM5) names a gem5.opt")
    return Path(found).absolute()


def version(gem5: Path) -> str:
    """`gem5 24.0.0.1`, as the binary itself says. Raises InputError for what is no gem5."""
    with tempfile.TemporaryDirectory(prefix="gem5-version-") as folder:
        script = Path(folder) / "version.py"
        script.write_text('import _m5.core\nprint("version:", _m5.core.gem5Version)\n')
        try:
            done = subprocess.run(
                [gem5, "-d", folder, script],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"{gem5}: cannot be run ({error})") from None
    found = next((line.split()[1] for line in done.stdout.splitlines() if line.startswith("version: ")), None)
    if found is None:
        raise InputError(f"{gem5}: is no gem5 that runs Python scripts")
    return f"gem5 {found}"


def label(
    traces: Sequence[str | os.PathLike[str]],
    machines: Sequence[Machine],
    folder: Path,
    *,
    gem5: str | os.PathLike[str] | None,
    start: int,
    count: int | None,
    warmup: int,
    workers: int,
    progress: bool,
) -> tuple[list[Path], dict[str, str]]:
    """Label as `tracegen.label.label`; return also what failed, `TRACE on MACHINE` → why. Raises InputError, also
    where every machine of a trace fails.
    """
    binary = find_gem5(gem5)
    simulator = version(binary)
    outputs: list[Path] = []
    jobs: list[tuple[Window, Machine, Path]] = []
    open_windows: list[tuple[Window, Path, Path]] = []
    failed: dict[str, str] = {}
    for path in traces:
        window = find_window(Path(path), start, count, warmup)
        if window is None:
            continue
        output = folder / f"{window.name}{f'-{start}' if start else ''}.latency.h5"
        if output in outputs:
            raise InputError(f"two traces are called {window.name!r}; label them into two folders")
        folder.mkdir(parents=True, exist_ok=True)
        require_writable(output)
        outputs.append(output)
        if output.exists():
            failed |= _already(output, window, machines, simulator)
            continue
        parts = folder / f".{output.name}.{window.key(simulator)}.parts"
        parts.mkdir(exist_ok=True)
        open_windows.append((window, parts, output))
        jobs += [(window, machine, parts) for machine in machines if not _part(parts, machine).exists()]
    if not outputs:
        raise InputError(f"every trace ends before instruction {start}; nothing to label")
    fleet = _Fleet(binary)
    with ExitStack() as stack:
        for _, parts, output in open_windows:
            _hold(parts, output, stack)
        pool = stack.enter_context(ThreadPoolExecutor(max(1, workers)))
        stack.callback(fleet.stop)  # before the pool waits for its threads
        futures = {pool.submit(fleet.run, *job): job for job in jobs}
        bar = tqdm(as_completed(futures), total=len(jobs), desc="gem5", unit="run", disable=None if progress else True)
        try:
            for future in bar:
                if reason := future.result():
                    window, machine, _ = futures[future]
                    failed[f"{window.name} on {machine.name}"] = reason
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        for window, parts, output in open_windows:
            assemble(window, machines, parts, output, failed, simulator, warmup)
    return outputs, failed


def _hold(parts: Path, output: Path, held: ExitStack) -> None:
    """Lock a window's parts until the stack ends; the lock goes with the process. Raises InputError."""
    lock = held.enter_context((parts / ".lock").open("w"))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InputError(f"{output}: another run is labelling it; wait for it or choose another folder") from error


def _part(parts: Path, machine: Machine) -> Path:
    return parts / f"{digest(machine)}.npy"


def _already(output: Path, window: Window, machines: Sequence[Machine], simulator: str) -> dict[str, str]:
    with LatencyFile(output) as file:
        same = (file.trace_digest, file.start, len(file)) == (window.digest, window.start, window.stop - window.start)
        warmup = window.start - window.first
        same = same and file.attribute("warmup", warmup) == warmup
        failed: dict[str, str] = json.loads(str(file.attribute("failed", "{}")))
        wanted = [as_simulated(machine, window.isa)[0] for machine in machines if machine.name not in failed]
        if same and list(file.machines) == wanted and file.simulator == simulator:
            if file.any_cut():
                raise InputError(f"{output}: an older release cut a latency in it; move it away to label it anew")
            return {f"{window.name} on {name}": reason for name, reason in failed.items()}
    raise InputError(
        f"{output}: holds other labels (another trace, window, warm-up, simulator or machines); move it away or choose "
        "another folder"
    )


def assemble(
    window: Window,
    machines: Sequence[Machine],
    parts: Path,
    output: Path,
    failed: dict[str, str],
    simulator: str,
    warmup: int,
) -> None:
    """The results as one file, with the machines as gem5 simulates them; their own files are removed."""
    done = [machine for machine in machines if _part(parts, machine).exists()]
    reasons = {m.name: failed[f"{window.name} on {m.name}"] for m in machines if m not in done}
    if not done:
        name, reason = next(iter(reasons.items()))
        more = f" ({len(reasons) - 1} more machines failed)" if len(reasons) > 1 else ""
        shutil.rmtree(parts, ignore_errors=True)
        raise InputError(f"{window.trace}: no machine could be labelled; {name}: {reason}{more}")
    rows = [np.load(_part(parts, machine), mmap_mode="r", allow_pickle=False) for machine in done]
    writer = LatencyWriter(
        output,
        machines=[as_simulated(machine, window.isa)[0] for machine in done],
        trace=window.name,
        trace_digest=window.digest,
        start=window.start,
        simulator=simulator,
        attributes={"warmup": window.start - window.first, "failed": json.dumps(reasons)},
    )
    with writer:
        for begin in range(0, len(rows[0]), 1 << 19):
            writer.append(np.stack([row[begin : begin + (1 << 19)] for row in rows]))
    shutil.rmtree(parts, ignore_errors=True)


class _Fleet:
    """Processes of gem5, a few at a time."""

    def __init__(self, gem5: Path) -> None:
        self._gem5 = gem5
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = Lock()
        self._stopped = False

    def stop(self) -> None:
        """End those that run."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.kill()

    def run(self, window: Window, machine: Machine, parts: Path) -> str | None:
        """Simulate one machine and keep its latencies. What went wrong, or None."""
        with tempfile.TemporaryDirectory(prefix="run-", dir=parts) as name:
            folder = Path(name)
            try:
                latency = self._simulate(window, machine, folder)
            except InputError as error:
                return " ".join(str(error).split())
            with atomic_path(_part(parts, machine)) as temporary, temporary.open("wb") as stream:
                np.save(stream, latency)
        return None

    def _simulate(self, window: Window, machine: Machine, folder: Path) -> NDArray[np.uint32]:
        script = folder / "machine.py"
        script.write_text(gem5_script(machine, window.isa))
        source_end, gem5_end = os.pipe()
        with ExitStack() as stack:
            stack.callback(os.close, source_end)
            log = stack.enter_context((folder / "gem5.log").open("wb"))
            try:
                process = self._start(window, machine, script, folder, gem5_end, log)
            finally:
                os.close(gem5_end)
            stack.callback(self._end, process)
            run = _run(window, machine, folder, Path(f"/dev/fd/{source_end}"))
            reader = Reader(run, folder, None)
            stack.callback(reader.close)
            wrong: InputError | None = None
            try:
                reader.read()
            except InputError as error:  # text that is cut because gem5 has failed is gem5's failure
                wrong = error
                process.kill()
            code = process.wait()
            facts = read_facts(folder / "run.json") if (folder / "run.json").exists() else {}
            if wrong is not None and not _complaint(folder / "gem5.log"):
                raise wrong
            if code or "end" not in facts:
                raise InputError(
                    f"gem5 stopped with status {code}: {_complaint(folder / 'gem5.log') or 'no reason given'}"
                )
            if "ended" in facts:
                reader.end(int(facts["end"]))
            return _verified(reader, window)

    def _start(
        self, window: Window, machine: Machine, script: Path, folder: Path, pipe: int, log: Any
    ) -> subprocess.Popen[bytes]:
        flags = FLAGS if machine.core == "out-of-order" else FLAGS.split(",")[0]
        words = [
            str(self._gem5),
            "-d",
            str(folder),
            f"--debug-flags={flags}",
            f"--debug-file=/dev/fd/{pipe}",
            str(script),
        ]
        words += ["--fast-forward", str(window.fast_forward), "--warmup", str(window.start - window.first)]
        words += ["--max-instructions", str(0 if window.to_the_end else _enough(window.stop - window.start))]
        words += ["--cwd", str(window.folder.absolute()), "--executable", window.executable]
        words += [word for item in window.environment for word in ("--env", item)]
        # The kind of file decides how a program buffers its output, so a device stays one, and gem5's own output too.
        output = window.stdout if window.stdout.startswith("/dev/") else str(folder / "stdout")
        words += [] if window.stdout == "cout" else ["--stdout", output]
        words += ["--stderr", str(folder / "stderr")]
        words += ["--stdin", window.stdin] if window.stdin else []
        words += ["--sysroot", window.sysroot] if window.sysroot else []
        words += ["--", *window.command]
        with self._lock:
            if self._stopped:
                raise InputError("interrupted")
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=window.folder, pass_fds=[pipe]
            )
            self._running.add(process)
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.kill()
            process.wait()
        with self._lock:
            self._running.discard(process)


def _enough(instructions: int) -> int:
    """Return how many instructions gem5 is told for so many of ours: Minor counts one again that a page's first touch
    repeats."""
    return instructions + instructions // 32 + 2000


def _run(window: Window, machine: Machine, folder: Path, pipe: Path) -> Gem5Run:
    """The run as the reader needs it, known before gem5 has written its files."""
    simulated, notes = as_simulated(machine, window.isa)
    fast = "system.fast_cpu" if window.fast_forward else None
    period = period_ps(simulated.frequency_ghz)
    return Gem5Run(
        source=Source(pipe, folder / "config.json", folder / "stats.txt", None),
        simulation=RunSettings(window.isa, "system.cpu", machine.core, fast, period, {}, True),
        machine=machine,
        notes=notes,
        program=window.folder / window.executable,
        executable=window.executable,
        folder=window.folder,
        command=list(window.command),
        environment=list(window.environment),
        stdin=window.stdin or None,
        stdout=window.stdout,
        facts={},
    )


def _verified(reader: Reader, window: Window) -> NDArray[np.uint32]:
    """The latencies of the window, once every instruction has proved to be the trace's. Raises InputError."""
    parts = reader.addresses()
    with Trace(window.trace) as trace:
        ours = next(parts, np.empty(0, np.uint64))
        index = first = window.first + _shift(trace, window, ours)
        for chunk in trace.chunks(start=first, stop=window.stop):
            wanted = trace.address[chunk.static_id]
            while len(ours) < len(wanted) and (part := next(parts, None)) is not None:
                ours = np.append(ours, part)
            both = min(len(ours), len(wanted))
            differ = np.flatnonzero(ours[:both] != wanted[:both])
            if len(differ):
                at = int(differ[0])
                raise InputError(
                    f"gem5 executes {int(ours[at]):#x} where instruction {index + at:,} of {window.trace} is "
                    f"{int(wanted[at]):#x}; label traces that perfvec import gem5 made of the same program and "
                    "environment"
                )
            index += both
            if both < len(wanted):
                raise InputError(f"gem5's run ends at instruction {index:,}, but the window of {window.trace} goes on")
            ours = ours[both:]
    total = window.stop - window.start
    reader.latencies.seek(4 * (window.start - first))
    latency = np.frombuffer(reader.latencies.read(4 * total), np.uint32)
    if len(latency) < total:
        raise InputError(f"{total - len(latency):,} instructions of the window have no retire tick in gem5's text")
    return latency


def _shift(trace: Trace, window: Window, ours: NDArray[np.uint64]) -> int:
    """Return how many instructions too late the fast-forward ended: the least at which the beginnings agree, 0
    where none does.
    """
    if window.fast_forward == 0:
        return 0
    begin = max(0, window.first - _SHIFTS)
    ours = ours[:_BEGINNING]
    (chunk,) = trace.chunks(size=_BEGINNING + 2 * _SHIFTS, start=begin, stop=begin + len(ours) + 2 * _SHIFTS)
    wanted = trace.address[chunk.static_id]
    for shift in sorted(range(-_SHIFTS, _SHIFTS + 1), key=abs):
        at = window.first + shift - begin
        if at >= 0 and window.first + shift <= window.start and np.array_equal(wanted[at : at + len(ours)], ours):
            return shift
    return 0


def _complaint(log: Path) -> str:
    """Return gem5's own message of its failure, from the end of its output."""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _LOG))
        lines = stream.read().decode(errors="replace").splitlines()
    telling = [line for line in lines if any(word in line for word in ("panic:", "fatal:", "Assertion", "Error"))]
    return " ".join((telling or [""])[0].split())[:300]
