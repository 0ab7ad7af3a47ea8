"""A trace in parts: its representations summed by function, source line, loop, instruction class, interval and context.

One pass over the trace, with no machine in it; every partition of it then prices on any machine as a dot product.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from perfvec.machines.machine_vector import MachineVector
from perfvec.model import Model
from perfvec.representation.by_instruction import Sums, by_static_instruction, grouped_sums
from tracegen.call_tree import CallTree
from tracegen.decode import decode
from tracegen.edges import EdgeCounter, Edges
from tracegen.loops import Loops, find_loops
from tracegen.qemu.runner import trace as run_trace
from tracegen.source_lines import source_lines
from tracegen.trace import Trace
from uarch.configuration import Machine
from uarch.errors import InputError
from uarch.instructions import Chunk, Flag, Operation, StaticInstructions

PARTITIONS = ("function", "line", "loop", "class", "interval")
INTERVALS = 50  # of a trace, where the user does not say how long one is
UNKNOWN = "[unknown]"  # code that no symbol covers
_COLD = re.compile(r"\.cold(\.\d+)?$")  # what GCC moves out of a function stays part of it


@dataclass(frozen=True)
class Partition:
    """G parts of a trace that make up the whole: `labels` has a row a part, the first column `name` is for readers."""

    labels: pd.DataFrame
    sums: Sums


@dataclass(frozen=True)
class Parts:
    """What one pass over a trace found; `by` makes a partition of it."""

    program: str
    isa: str
    code: NDArray[np.uint8]  # [S, 16]
    instructions: StaticInstructions
    lines: pd.DataFrame  # [S] of source_lines
    edges: Edges
    statics: Sums  # by static instruction
    intervals: Sums
    interval: int  # instructions of one
    contexts: Sums  # by node of the calling-context tree
    context_parent: NDArray[np.int64]  # [K]
    context_function: NDArray[np.int64]  # [K] index of `functions`

    @cached_property
    def function(self) -> NDArray[np.int64]:
        """[S] index of `functions`."""
        return _functions(self.lines)[0]

    @cached_property
    def functions(self) -> list[str]:
        """Names; 0 is UNKNOWN."""
        return _functions(self.lines)[1]

    @cached_property
    def loops(self) -> Loops:
        return find_loops(self.instructions, self.edges, self.function)

    @property
    def whole(self) -> NDArray[np.float64]:
        """[d] the program vector."""
        return self.statics.vectors.sum(axis=0)

    def by(self, partition: str) -> Partition:
        """One of PARTITIONS; only what was executed has a row. Raises InputError for another name."""
        require_partition(partition)
        if partition == "interval":
            first = np.arange(len(self.intervals.instructions)) * self.interval
            last = first + self.intervals.instructions
            name = [f"{a:,}" for a in first.tolist()]
            return Partition(pd.DataFrame({"name": name, "first": first, "end": last}), self.intervals)
        labels = {"function": self._by_function, "line": self._by_line, "loop": self._by_loop, "class": self._by_class}
        keys = labels[partition]()
        executed = self.statics.instructions > 0
        columns = list(keys.columns)
        group = np.full(len(keys), 0, np.int64)
        group[executed] = keys[executed].groupby(columns, sort=False).ngroup()
        distinct = keys[executed].drop_duplicates().reset_index(drop=True)
        group[~executed] = group[executed][0]  # their sums are zero
        return Partition(distinct, self.statics.merge(group, len(distinct)))

    def _by_function(self) -> pd.DataFrame:
        return pd.DataFrame({"name": np.array(self.functions, object)[self.function]})

    def _by_line(self) -> pd.DataFrame:
        """Lines; what has none is together by function."""
        known = self.lines["line"].to_numpy() > 0
        function = np.where(known, "", np.array(self.functions, object)[self.function])
        file, line = self.lines["file"], self.lines["line"].astype(np.int64)
        name = [f"{Path(f).name}:{n}" if n else f"{g} (no line)" for f, n, g in zip(file, line, function, strict=True)]
        return pd.DataFrame({"name": name, "file": file, "line": line, "function": function})

    def _by_loop(self) -> pd.DataFrame:
        """Innermost loops; what is in none is together by function. `entries`: times it was entered from outside."""
        loops = self.loops
        names = np.array(self.functions, object)
        rows = []
        for number in range(len(loops.header)):
            header, latch = int(loops.header[number]), int(loops.latch[number])
            function = names[self.function[header]]
            line = self.lines.iloc[latch if self.lines["line"].iloc[latch] else header]
            where = f"{Path(line['file']).name}:{line['line']}" if line["line"] else f"{self._offset(header)}"
            entries = int(self.statics.instructions[header] - loops.iterations[number])
            rows.append((f"{function} {where}", function, line["file"], int(line["line"]),
                         int(self.instructions.address[header]), int(loops.depth[number]),
                         int(loops.iterations[number]), entries))  # fmt: skip
        rows += [(f"{name} (no loop)", name, "", 0, 0, 0, 0, 0) for name in self.functions]
        columns = ["name", "function", "file", "line", "address", "depth", "iterations", "entries"]
        group = np.where(loops.innermost >= 0, loops.innermost, len(loops.header) + self.function)
        return pd.DataFrame(rows, columns=columns).iloc[group].reset_index(drop=True)

    def _offset(self, static: int) -> str:
        """Where an instruction without a line is: bytes behind the first executed one of its function."""
        first = self.instructions.address[self.function == self.function[static]].min()
        return f"+{int(self.instructions.address[static] - first):#x}"

    def _by_class(self) -> pd.DataFrame:
        """The operation, and whether the instruction loads or stores."""
        operation, flags = self.instructions.operation, self.instructions.flags
        names = []
        for kind, bits in zip(operation.tolist(), flags.tolist(), strict=True):
            words = [] if kind == Operation.NONE else [Operation(kind).name.lower()]
            words += [word for word, flag in (("load", Flag.LOAD), ("store", Flag.STORE)) if bits & flag]
            names.append("+".join(words) or "none")
        return pd.DataFrame({"name": names})


def require_partition(partition: str, valid: Sequence[str] = PARTITIONS) -> None:
    """Raise InputError unless it is one of `valid`: call it before the work."""
    if partition not in valid:
        raise InputError(f"--by {partition!r} must be one of {', '.join(valid)}")


def _functions(lines: pd.DataFrame) -> tuple[NDArray[np.int64], list[str]]:
    """[S] number of each instruction's function, and the names by number."""
    names = [_COLD.sub("", name) or UNKNOWN for name in lines["function"]]
    known = [UNKNOWN, *dict.fromkeys(name for name in names if name != UNKNOWN)]
    number = {name: index for index, name in enumerate(known)}
    return np.array([number[name] for name in names], np.int64), known


def collect(
    model: Model,
    trace: Trace | str | os.PathLike[str],
    *,
    interval: int | None = None,
    max_instructions: int | None = None,
    progress: bool = True,
) -> Parts:
    """One pass over a trace, at the rate of `represent`. `interval` is in instructions, a 50th of the trace by default.

    Memory: 8·d bytes a static instruction, a calling context (at most 32,768) and an interval, beside `represent`'s.
    """
    if not isinstance(trace, Trace):
        if Path(trace).name.endswith(".npz"):
            raise InputError(f"{trace}: a vector is a sum that cannot be taken apart; give the trace (*.trace.h5)")
        with Trace(trace) as opened:
            return collect(model, opened, interval=interval, max_instructions=max_instructions, progress=progress)
    total = min(len(trace), max_instructions or len(trace))
    length = interval or -(-total // INTERVALS)
    instructions = decode(trace.address, trace.code, trace.isa)
    lines = source_lines(trace)
    function, _ = _functions(lines)
    counter = EdgeCounter(len(instructions))
    calls = CallTree(instructions, function, np.isin(trace.address, trace.symbols()[0]))

    def by_static(chunk: Chunk) -> NDArray[np.integer]:
        counter.observe(chunk)
        return by_static_instruction(chunk)

    def by_interval(chunk: Chunk) -> NDArray[np.integer]:
        return np.arange(chunk.start, chunk.start + len(chunk)) // length

    statics, intervals, contexts = grouped_sums(
        model, trace, instructions, [by_static, by_interval, calls.observe], max_instructions=max_instructions,
        progress=progress,
    )  # fmt: skip
    # Static instructions and contexts that come last in number may not be executed: rows of zeros.
    parent, called = calls.tree()
    return Parts(
        program=trace.name, isa=trace.isa, code=trace.code, instructions=instructions, lines=lines,
        edges=counter.edges(), statics=statics.merge(np.arange(len(statics.instructions)), len(instructions)),
        intervals=intervals, interval=length,
        contexts=contexts.merge(np.arange(len(contexts.instructions)), len(parent)), context_parent=parent,
        context_function=called,
    )  # fmt: skip


def collect_command(
    model: Model, command: Sequence[str], *, interval: int | None = None, max_instructions: int | None = None
) -> Parts:
    """Of a program that is traced now, into a temporary file; what it prints goes to stderr, beside the progress."""
    with tempfile.TemporaryDirectory(prefix="perfvec-") as folder:
        path = Path(folder) / f"{Path(command[0]).name}.trace.h5"
        run_trace(command, path, stdout=2, max_instructions=max_instructions)
        return collect(model, path, interval=interval)


def price(model: Model, machines: Sequence[Machine | MachineVector]) -> NDArray[np.float64]:
    """[K, d] vectors of configured and fitted machines. Raises InputError where two share a name, or none is given."""
    names = [machine.name for machine in machines]
    if not names or len(set(names)) < len(names):
        raise InputError(
            f"machines must have different names, and be one at least; given: {', '.join(names) or 'none'}"
        )
    configured = [machine for machine in machines if not isinstance(machine, MachineVector)]
    known: Iterator[NDArray[np.float64]] = iter(model.machine_vectors(configured)[0] if configured else [])
    return np.stack([m.vector if isinstance(m, MachineVector) else next(known) for m in machines])
