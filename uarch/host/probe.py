"""The program of micro-benchmarks, built for this computer, and its answers."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import numpy as np

from support.compiled import c_compiler
from support.errors import InputError
from uarch.host.counters import Counter, Event
from uarch.host.snippets import Snippet, all_snippets, assembly

SOURCE = Path(__file__).with_name("probes.c")
_FLAGS = ("-O2", "-fno-tree-loop-distribute-patterns", "-march=native")


@dataclass
class Probe:
    """The running program; a context manager. `spreads` collects the repeats' distances of quartiles over medians.

    `more` are snippets besides those of this package. With an `event` answers are what it counts in place of cycles by
    time.
    """

    features: frozenset[str] = frozenset()
    repeats: int = 7
    more: Sequence[Snippet] = ()
    spreads: list[float] = field(default_factory=list)
    event: Event | None = None

    def __enter__(self) -> Probe:
        self._folder = tempfile.TemporaryDirectory(prefix="perfvec-")
        self.snippets = [s for s in [*all_snippets(), *self.more] if not s.needs or s.needs in self.features]
        self._place = {snippet.name: place for place, snippet in enumerate(self.snippets)}
        program = _build(Path(self._folder.name), self.snippets)
        self._counter = None if self.event is None else Counter(self.event)
        descriptors = [] if self._counter is None else [self._counter.descriptor]
        self._process = subprocess.Popen(
            [str(program), *map(str, descriptors)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            pass_fds=descriptors,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        if self._counter is not None:
            os.close(self._counter.descriptor)
        self._folder.cleanup()

    def ask(self, *words: object) -> float:
        """The lower quartile of a command's numbers: what disturbs only adds. Raises InputError without any."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(" ".join(str(word) for word in words) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        numbers = np.array([float(word) for word in line.split()])
        if not len(numbers):
            raise InputError(f"this computer cannot be measured: the micro-benchmark {words[0]} gave no answer")
        low, middle, high = np.percentile(numbers, [25, 50, 75])
        self.spreads.append(float((high - low) / middle) if middle > 0 else 0.0)
        return float(low)

    def has(self, name: str) -> bool:
        """Return whether the processor has what the snippet needs."""
        return name in self._place

    def cycles(self, name: str, iterations: int = 1500, size: int = 0) -> float:
        """Cycles of one of what the snippet repeats, on buffers of `size` bytes (65,536 where 0)."""
        place = self._place[name]
        return self.ask("snippet", place, iterations, self.repeats, size) / self.snippets[place].count

    def window(self, name: str, size: int, kib: int, iterations: int = 400) -> float:
        """Cycles of two misses with `size` instructions of the filler `name` behind each."""
        return self.ask("windows", self._place[f"{name} {size}"], kib << 10, iterations, self.repeats)

    def pattern(self, length: int, kind: int = 0, iterations: int = 100_000) -> float:
        """Cycles of a branch on a pattern of `length`, a power of two: random (kind 0), zeros (1) or ones (2)."""
        return self.ask("pattern", self._place["pattern"], length, iterations, self.repeats, kind)


def _build(folder: Path, snippets: Sequence[Snippet]) -> Path:
    """Compile the program into the folder. Raises InputError without a compiler or where it refuses."""
    compiler = c_compiler("the micro-benchmarks")
    text, program = folder / "snippets.s", folder / "probes"
    text.write_text(assembly(list(snippets), platform.machine()))
    command = [*compiler, *_FLAGS, "-o", str(program), str(SOURCE), str(text)]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if run.returncode:
        line = next((line for line in run.stderr.splitlines() if "rror" in line), "no reason given")
        raise InputError(f"the micro-benchmarks do not compile with {' '.join(compiler)}: {line}")
    return program
