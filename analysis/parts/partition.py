"""A trace in parts: sums by function, line, loop, instruction class, instruction, calling context, interval, phase.

One pass over a trace finds them (`predicted_parts.py`, `simulated_parts.py`). Cycles on a machine are then a dot
product (`costs.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.parts.costs import Costs
from perfvec.representation.sums import Sums
from support.errors import InputError
from tracegen.binary.source_lines import Located, source_lines
from tracegen.control_flow.basic_blocks import BlockVectors
from tracegen.control_flow.call_tree import CallTree
from tracegen.control_flow.edges import NO_EDGES, EdgeCounter, Edges
from tracegen.control_flow.loops import Loops, find_loops
from tracegen.control_flow.phases import choose
from tracegen.formats.trace import Trace
from uarch.instructions import Chunk, Flag, Operation, StaticInstructions

PARTITIONS = ("function", "line", "loop", "class", "instruction", "context", "interval", "phase")
OF_A_WHOLE = ("context", "interval", "phase")  # those that a sample does not know
INTERVALS = 50  # of a trace, where the user does not say how long one is
UNKNOWN = "[unknown]"  # code that no symbol covers
# Names that a compiler makes of one, as symbols and demangled; what GCC moves out of a function stays part of it.
_CLONES = r"(\.({0})(\.\d+)*| \[clone \.({0})(\.\d+)*\])+(?=( \(\d+\))?$)"
_COLD = re.compile(_CLONES.format("cold"))
_CLONE = re.compile(_CLONES.format("constprop|isra|part|cold|lto_priv|llvm"))


@dataclass(frozen=True)
class Partition:
    """G parts of a trace that make up the whole: `labels` has a row a part, the first column `name` is for readers."""

    labels: pd.DataFrame
    sums: Sums


@dataclass(frozen=True)
class Parts:
    """Result of one pass over a trace; `by` makes a partition of it."""

    program: str
    isa: str
    code: NDArray[np.uint8]  # [S, 16]
    instructions: StaticInstructions
    lines: pd.DataFrame  # [S] of located
    edges: Edges
    statics: Sums  # by static instruction
    intervals: Sums
    interval: int  # instructions of one
    blocks: NDArray[np.float32]  # [I, 15] their projected basic-block vectors
    contexts: Sums  # by node of the calling-context tree
    context_parent: NDArray[np.int64]  # [K], -1 of the root
    context_function: NDArray[np.int64]  # [K] index of `functions`
    landings: Edges = NO_EDGES  # of calls that were left (`CallTree.landings`)
    cut_short: str = ""  # a line on the signal that ended the program

    @cached_property
    def function(self) -> NDArray[np.int64]:
        """[S] index of `functions`."""
        return functions_of(self.lines)[0]

    @cached_property
    def functions(self) -> list[str]:
        """Names; 0 is UNKNOWN."""
        return functions_of(self.lines)[1]

    @cached_property
    def executed(self) -> NDArray[np.bool_]:
        """[S] whether it has a part of the whole; live-points may estimate that it was executed 0 times, or fewer."""
        return (self.statics.instructions != 0) | self.statics.vectors.any(axis=1)

    @cached_property
    def loops(self) -> Loops:
        return find_loops(self.instructions, self.edges, self.function, self.landings)

    @property
    def whole(self) -> NDArray[np.float64]:
        """[d] the program vector."""
        return self.statics.vectors.sum(axis=0)

    @property
    def sampled(self) -> bool:
        """Tell whether they are of live-points, which have no calling contexts, intervals or phases."""
        return not len(self.intervals.instructions)

    def by(self, partition: str) -> Partition:
        """One of PARTITIONS; only what was executed has a row. Raises InputError for another name."""
        require_partition(partition)
        if partition in OF_A_WHOLE and self.sampled:
            raise InputError(f"{self.program}: live-points have no part of the run by {partition}; give the trace")
        if partition == "interval":
            first = np.arange(len(self.intervals.instructions)) * self.interval
            last = first + self.intervals.instructions
            name = [f"{a:,}" for a in first.tolist()]
            return Partition(pd.DataFrame({"name": name, "first": first, "end": last}), self.intervals)
        if partition == "phase":
            return self._by_phase()
        if partition == "context":
            return self._by_context()
        labels = {
            "function": self._by_function,
            "line": self._by_line,
            "loop": self._by_loop,
            "class": self._by_class,
            "instruction": self._by_instruction,
        }
        keys = labels[partition]()
        executed = self.executed
        columns = list(keys.columns)
        group = np.full(len(keys), 0, np.int64)
        group[executed] = keys[executed].groupby(columns, sort=False).ngroup()
        distinct = keys[executed].drop_duplicates().reset_index(drop=True)
        group[~executed] = group[executed][0]  # their sums are zero
        return Partition(distinct, self.statics.merge(group, len(distinct)))

    def _by_phase(self) -> Partition:
        """Intervals that execute the same code alike (`tracegen.control_flow.phases`), numbered by their first."""
        found = choose(self.blocks).label
        _, first, inverse = np.unique(found, return_index=True, return_inverse=True)
        order = np.argsort(first)
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order))
        phase = number[inverse]
        labels = {
            "name": [f"phase {p}" for p in range(len(order))],
            "first": first[order] * self.interval,
            "intervals": np.bincount(phase),
        }
        return Partition(pd.DataFrame(labels), self.intervals.merge(phase, len(order)))

    def _by_context(self) -> Partition:
        """Calling contexts, each without what it calls."""
        executed = np.flatnonzero(self.contexts.instructions)
        names = self.context_names()
        labels = {
            "name": [names[node] or UNKNOWN for node in executed.tolist()],
            "function": [names[node].rsplit(";", 1)[-1] or UNKNOWN for node in executed.tolist()],
        }
        return Partition(
            pd.DataFrame(labels), Sums(self.contexts.vectors[executed], self.contexts.instructions[executed])
        )

    def context_names(self) -> list[str]:
        """Return each calling context's functions from the outermost on, joined by `;`; '' for the root."""
        stacks = [""] * len(self.context_parent)
        for node in range(1, len(stacks)):
            name = self.functions[self.context_function[node]].replace(";", ":")
            above = stacks[self.context_parent[node]]
            stacks[node] = f"{above};{name}" if above else name
        return stacks

    def _by_instruction(self) -> pd.DataFrame:
        """Static instructions, named by their place in their function, or their address where it is not known."""
        address, file, line = self.instructions.address, self.lines["file"], self.lines["line"].astype(np.int64)
        name = [
            f"{self.functions[function]}{self._offset(k)}" if function else f"{UNKNOWN} {int(address[k]):#x}"
            for k, function in enumerate(self.function.tolist())
        ]
        return pd.DataFrame({"name": name, "address": address, "file": file, "line": line})

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
            rows.append(
                (
                    f"{function} {where}",
                    function,
                    line["file"],
                    int(line["line"]),
                    int(self.instructions.address[header]),
                    int(loops.depth[number]),
                    int(self.statics.instructions[header]),
                    int(loops.entries[number]),
                )
            )
        rows += [(f"{name} (no loop)", name, "", 0, 0, 0, 0, 0) for name in self.functions]
        columns = ["name", "function", "file", "line", "address", "depth", "iterations", "entries"]
        group = np.where(loops.innermost >= 0, loops.innermost, len(loops.header) + self.function)
        return pd.DataFrame(rows, columns=columns).iloc[group].reset_index(drop=True)

    def _offset(self, static: int) -> str:
        """Return the place of an instruction without a line: bytes behind the first executed one of its function."""
        first = self._first[self.function[static]]
        return f"+{int(self.instructions.address[static] - first):#x}"

    @cached_property
    def _first(self) -> NDArray[np.uint64]:
        """[functions] the lowest address of each that was executed."""
        first = np.full(len(self.functions), np.iinfo(np.uint64).max)
        np.minimum.at(first, self.function, self.instructions.address)
        return first

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


def located(program: Located) -> pd.DataFrame:
    """`source_lines`, and functions of one name told apart in the order of addresses: `f`, `f (2)`."""
    lines = source_lines(program)
    begin, _, names = program.symbols()
    count: dict[str, int] = {}
    distinct = np.array([*names, ""], object)
    for k, name in enumerate(names):
        count[name] = count.get(name, 0) + 1
        if count[name] > 1 and not name.startswith("["):
            distinct[k] = f"{name} ({count[name]})"
    covering = np.searchsorted(begin, lines["address"].to_numpy(np.uint64), "right") - 1
    return lines.assign(function=distinct[np.where(lines["function"] == "", -1, covering)])


def functions_of(lines: pd.DataFrame) -> tuple[NDArray[np.int64], list[str]]:
    """Return [S] the number of each instruction's function, and the names by number."""
    names = [_COLD.sub("", name) or UNKNOWN for name in lines["function"]]
    known = [UNKNOWN, *dict.fromkeys(name for name in names if name != UNKNOWN)]
    number = {name: index for index, name in enumerate(known)}
    return np.array([number[name] for name in names], np.int64), known


def tail_calls(
    address: NDArray[np.uint64], lines: pd.DataFrame, begin: NDArray[np.uint64], symbols: Sequence[str]
) -> NDArray[np.bool_]:
    """[S] whether a jump there from another function is a tail call, no way back to a frame: where a function begins,
    and in code without symbols, of whose frames none can be told.
    """
    cold = np.array([_COLD.search(name) is not None for name in symbols], bool)
    placeholder = lines["function"].str.startswith("[") | lines["function"].eq("")
    return np.isin(address, begin[~cold]) | placeholder.to_numpy(bool)


def without_clone(name: str) -> str:
    """Return the function that a compiler's clone is of: `f` for `f.constprop.0`."""
    return _CLONE.sub("", name)


def source(costs: Costs, *parts: Parts) -> str:
    """Return where the cycles of parts come from, for a line below them."""
    if not costs.has_stacks:
        return "predicted by the model alone; parts have no interval"
    sampled = [one.sampled for one in parts]
    if any(sampled) and not all(sampled):
        each = (f"{one.program} {'on live-points' if one.sampled else 'every instruction'}" for one in parts)
        return f"simulated, {', '.join(each)}; parts have no interval"
    return "simulated on live-points; parts have no interval" if any(sampled) else "simulated, every instruction"


class Grouping:
    """Groups the instructions of one pass over [start, start + count) of a trace: by static instruction, interval and
    calling context. `interval` is in instructions, a 50th of the whole by default.
    """

    def __init__(self, trace: Trace, count: int, interval: int | None = None, start: int = 0) -> None:
        self.instructions = trace.static
        self._trace, self._start = trace, start
        self._interval = interval or max(-(-count // INTERVALS), 1)
        self._lines = located(trace)
        self._edges = EdgeCounter(len(self.instructions))
        self._blocks = BlockVectors(self.instructions, self._interval)
        function, _ = functions_of(self._lines)
        begin, _, names = trace.symbols()
        self._calls = CallTree(self.instructions, function, tail_calls(trace.address, self._lines, begin, names))

    def groups(self, chunk: Chunk) -> list[NDArray[np.int64]]:
        """Return [n] each instruction's static one, interval and context; call it once a chunk, in order."""
        self._edges.observe(chunk)
        self._blocks.observe(chunk)
        place = np.arange(chunk.start - self._start, chunk.start - self._start + len(chunk))
        return [
            chunk.static_id.astype(np.int64),
            place // self._interval,
            np.asarray(self._calls.observe(chunk), np.int64),
        ]

    def parts(self, statics: Sums, intervals: Sums, contexts: Sums) -> Parts:
        """Return what the pass found; static instructions and contexts that were not executed get rows of zeros."""
        parent, called = self._calls.tree()
        return Parts(
            program=self._trace.name,
            isa=self._trace.isa,
            code=self._trace.code,
            instructions=self.instructions,
            lines=self._lines,
            edges=self._edges.edges(),
            statics=statics.merge(np.arange(len(statics.instructions)), len(self.instructions)),
            intervals=intervals,
            interval=self._interval,
            blocks=self._blocks.projected(),
            contexts=contexts.merge(np.arange(len(contexts.instructions)), len(parent)),
            context_parent=parent,
            context_function=called,
            landings=self._calls.landings(),
            cut_short=self._trace.cut_short,
        )
