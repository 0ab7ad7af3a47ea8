"""A program's microarchitecture-independent profile: what it asks of any machine, before any machine is chosen.

As in Hoste & Eeckhout, *Microarchitecture-independent workload characterization* (IEEE Micro 27(3), 2007): instruction
mix, instruction-level parallelism of ideal windows, dependency distances, working sets, branch predictability; with
stack distances (Mattson et al. 1970) the miss ratio of every fully associative LRU cache at once, and branch
entropies by history (tracegen/statistics/history_entropy.py).

One pass that streams: memory grows with the program's distinct lines and branch contexts, not with its length.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.jit import compiled, kernel
from support.progress import instruction_bar
from tracegen.control_flow.straight_line import LINE_BITS, lines_of
from tracegen.formats.trace import Trace
from tracegen.statistics.history_entropy import KINDS, HistoryEntropy
from tracegen.statistics.stack_distance import StackDistance, StackState, has_room, prefetch_line, touch
from uarch.instructions import (
    MAX_DESTINATIONS,
    MAX_SOURCES,
    NO_REGISTER,
    REGISTERS,
    Chunk,
    Flag,
    Operation,
    StaticInstructions,
    taken,
)

PAGE_BITS = 12
LENGTHS = (0, 2, 4, 8, 12, 16)  # outcomes of branch history
WINDOW_SIZES = (16, 32, 64, 128, 256, 512)  # instructions in flight
_PART = 1 << 16  # instructions that all passes see before the next ones
_BINS = 48  # of distances, by powers of two
_COLD = _BINS - 1
_AHEAD = 8  # accesses whose lines are looked up ahead of time
_STORE_TABLE_BITS = 16  # 8-byte words with a recent store; a newer store in the same place replaces an older one
_CONDITIONAL = int(Flag.CONDITIONAL)
_FLAGS = {
    "loads": Flag.LOAD,
    "stores": Flag.STORE,
    "branches": Flag.BRANCH,
    "conditional_branches": Flag.CONDITIONAL,
    "indirect_branches": Flag.INDIRECT,
    "calls": Flag.CALL,
    "returns": Flag.RETURN,
    "atomics": Flag.ATOMIC,
    "floating_point": Flag.FLOAT,
    "packed": Flag.VECTOR,
}


@compiled
def _bin(distance: np.int64 | int) -> int:
    """Number of bits of the distance: bin b > 0 holds 2^(b-1) … 2^b - 1, the last one first references (negative)."""
    if distance < 0:
        return _COLD
    bits = 0
    while distance >> bits:
        bits += 1
    return bits


@kernel
def _fetches(
    lines: StackState,
    static_lines: NDArray[np.uint64],
    static_id: NDArray[np.uint32],
    begin: int,
    bins: NDArray[np.int64],
) -> int:
    """One reference an instruction, two where it crosses lines. Where it stopped."""
    for k in range(begin, len(static_id)):
        if not has_room(lines, 2):
            return k
        first, last = static_lines[static_id[k], 0], static_lines[static_id[k], 1]
        bins[_bin(touch(lines, first))] += 1
        if last != first:
            bins[_bin(touch(lines, last))] += 1
    return len(static_id)


@kernel
def _accesses(
    lines: StackState,
    pages: StackState,
    address: NDArray[np.uint64],
    size: NDArray[np.uint8],
    begin: int,
    line_bins: NDArray[np.int64],
    page_bins: NDArray[np.int64],
) -> int:
    """One reference an access, two where it crosses lines or pages. Where it stopped."""
    line_bits, page_bits = np.uint64(LINE_BITS), np.uint64(PAGE_BITS)
    for index in range(begin, len(address)):
        if not (has_room(lines, 2) and has_room(pages, 2)):
            return index
        if index + _AHEAD < len(address):
            prefetch_line(lines, address[index + _AHEAD] >> line_bits)
        first, last = address[index], address[index] + np.uint64(max(size[index], 1)) - np.uint64(1)
        line_bins[_bin(touch(lines, first >> line_bits))] += 1
        if first >> line_bits != last >> line_bits:
            line_bins[_bin(touch(lines, last >> line_bits))] += 1
        page_bins[_bin(touch(pages, first >> page_bits))] += 1
        if first >> page_bits != last >> page_bits:
            page_bins[_bin(touch(pages, last >> page_bits))] += 1
    return len(address)


class _Dataflow(NamedTuple):
    """Producers, and for each window W the times of an ideal machine that holds W instructions at a time."""

    writer: NDArray[np.int64]  # [REGISTERS] index of the last instruction that wrote it, -1 before
    ready: NDArray[np.int64]  # [REGISTERS, windows] cycle at which its value is there
    stores: NDArray[np.int64]  # [2^16, 2] 8-byte word + 1 (0: free), the instruction that stored it
    stored: NDArray[np.int64]  # [2^16, windows] cycle at which its value is there
    retired: NDArray[np.int64]  # [longest window, windows] of the last instructions, by index
    last: NDArray[np.int64]  # [windows] cycle in which the newest one retired


@kernel
def _flow(
    state: _Dataflow,
    windows: NDArray[np.int64],
    start: int,
    rows: NDArray[np.uint8],
    static_id: NDArray[np.uint32],
    access_offset: NDArray[np.int64],
    address: NDArray[np.uint64],
    is_store: NDArray[np.uint8],
    begins: NDArray[np.int64],
    register_bins: NDArray[np.int64],
    memory_bins: NDArray[np.int64],
) -> None:
    """Distances to producers, and the ideal machines' time: one cycle an instruction, in-order retirement."""
    count = len(windows)
    base = access_offset[0]
    longest = len(state.retired)
    for k in range(len(static_id)):
        index = start + k
        here = static_id[k]
        for w in range(count):  # the instruction W before has left
            begins[w] = state.retired[(index - windows[w]) % longest, w] if index >= windows[w] else 0
        for slot in range(MAX_SOURCES):
            register = rows[here, slot]
            if register == NO_REGISTER:
                break
            if state.writer[register] >= 0:
                register_bins[_bin(index - state.writer[register] - 1)] += 1
                for w in range(count):
                    begins[w] = max(begins[w], state.ready[register, w])
        first, last = access_offset[k] - base, access_offset[k + 1] - base
        for access in range(first, last):
            if not is_store[access]:
                word = np.int64(address[access] >> np.uint64(3)) + 1
                place = np.int64((np.uint64(word) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - _STORE_TABLE_BITS))
                if state.stores[place, 0] == word:
                    memory_bins[_bin(index - state.stores[place, 1] - 1)] += 1
                    for w in range(count):
                        begins[w] = max(begins[w], state.stored[place, w])
        for w in range(count):
            begins[w] += 1  # now the cycle at which its results are there
            state.last[w] = max(state.last[w], begins[w])
            state.retired[index % longest, w] = state.last[w]
        for access in range(first, last):
            if is_store[access]:
                word = np.int64(address[access] >> np.uint64(3)) + 1
                place = np.int64((np.uint64(word) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - _STORE_TABLE_BITS))
                state.stores[place, 0], state.stores[place, 1] = word, index
                for w in range(count):
                    state.stored[place, w] = begins[w]
        for slot in range(MAX_SOURCES, MAX_SOURCES + MAX_DESTINATIONS):
            register = rows[here, slot]
            if register == NO_REGISTER:
                break
            state.writer[register] = index
            for w in range(count):
                state.ready[register, w] = begins[w]


@kernel
def _touches(lines: StackState, line: NDArray[np.uint64], begin: int) -> int:
    """The place where it stopped."""
    for k in range(begin, len(line)):
        if not has_room(lines, 1):
            return k
        touch(lines, line[k])
    return len(line)


@dataclass(frozen=True)
class Counts:
    """Counts that a profile's shares are of, at some point of a pass; also a difference or a weighted sum of such."""

    executed: NDArray  # [S] of each static instruction
    taken: NDArray  # [S]
    accesses: NDArray  # [2] loads and stores
    distances: NDArray  # [3, bins] of instruction lines, data lines and data pages
    producers: NDArray  # [2, bins] register, memory
    cycles: NDArray  # [windows] of the ideal machines

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, one.name) - getattr(other, one.name) for one in fields(self)))

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def __mul__(self, weight: float) -> Counts:
        return Counts(*(getattr(self, one.name) * weight for one in fields(self)))


class Characteriser:
    """The counts of one pass over one trace: `observe` its chunks in order, then `document`."""

    def __init__(
        self,
        instructions: StaticInstructions,
        *,
        lengths: Sequence[int] = LENGTHS,
        windows: Sequence[int] = WINDOW_SIZES,
    ) -> None:
        self._instructions = instructions
        count = len(instructions)
        self._lines = lines_of(instructions)
        self._rows = np.concatenate([instructions.sources, instructions.destinations], axis=1)
        self._executed = np.zeros(count, np.int64)
        self._taken = np.zeros(count, np.int64)
        self._accesses = np.zeros(2, np.int64)
        self._stacks = {name: StackDistance() for name in ("instruction_lines", "data_lines", "data_pages")}
        self._bins = {name: np.zeros(_BINS, np.int64) for name in self._stacks}
        self._producers = {name: np.zeros(_BINS, np.int64) for name in ("register", "memory")}
        self._entropies = [HistoryEntropy(count, kind, length) for kind in KINDS for length in lengths]
        self._windows = np.array(sorted(windows), np.int64)
        size, many = 1 << _STORE_TABLE_BITS, len(windows)
        self._flow = _Dataflow(
            np.full(REGISTERS, -1, np.int64),
            np.zeros((REGISTERS, many), np.int64),
            np.zeros((size, 2), np.int64),
            np.zeros((size, many), np.int64),
            np.zeros((int(self._windows[-1]), many), np.int64),
            np.zeros(many, np.int64),
        )

    def observe(self, chunk: Chunk) -> None:
        """The next chunk (without gaps)."""
        for begin in range(0, len(chunk), _PART):
            self._observe(chunk.part(begin, begin + _PART))

    def _observe(self, part: Chunk) -> None:
        static_id = np.ascontiguousarray(part.static_id)
        self._executed += np.bincount(static_id, minlength=len(self._executed))
        self._accesses += np.bincount(part.is_store, minlength=2)
        conditional = np.flatnonzero((self._instructions.flags[static_id] & _CONDITIONAL) != 0)
        site = static_id[conditional]
        outcome = taken(self._instructions, site, part.next_static_id[conditional])
        self._taken += np.bincount(site[outcome != 0], minlength=len(self._taken))
        for entropy in self._entropies:
            entropy.observe(site, outcome)
        fetched, lines, pages = self._stacks.values()
        done = 0
        while done < len(static_id):
            done = _fetches(fetched.reserve(2), self._lines, static_id, done, self._bins["instruction_lines"])
        done = 0
        while done < len(part.address):
            done = _accesses(
                lines.reserve(2),
                pages.reserve(2),
                part.address,
                part.size,
                done,
                self._bins["data_lines"],
                self._bins["data_pages"],
            )
        _flow(
            self._flow,
            self._windows,
            part.start,
            self._rows,
            static_id,
            part.access_offset,
            part.address,
            part.is_store,
            np.empty(len(self._windows), np.int64),
            self._producers["register"],
            self._producers["memory"],
        )

    def pass_over(
        self,
        line: NDArray[np.uint64],
        code: NDArray[np.bool_],
        branch: NDArray[np.uint32],
        following: NDArray[np.uint32],
    ) -> None:
        """A gap between two chunks: its lines in the order of their last touch, and some of its branches, each with
        the instruction after it. Nothing is counted but lines, pages, and outcomes by history.
        """
        data = line[~code]
        for name, touched in (
            ("instruction_lines", line[code]),
            ("data_lines", data),
            ("data_pages", data >> np.uint64(PAGE_BITS - LINE_BITS)),
        ):
            done = 0
            while done < len(touched):
                done = _touches(self._stacks[name].reserve(1), np.ascontiguousarray(touched), done)
        conditional = (self._instructions.flags[branch] & _CONDITIONAL) != 0
        site = branch[conditional]
        outcome = taken(self._instructions, site, following[conditional])
        for entropy in self._entropies:
            entropy.observe(site, outcome)

    def counts(self) -> Counts:
        """Return a copy of the counts so far."""
        return Counts(
            self._executed.copy(),
            self._taken.copy(),
            self._accesses.copy(),
            np.stack(list(self._bins.values())),
            np.stack(list(self._producers.values())),
            self._flow.last.copy(),
        )

    def document(self, counts: Counts | None = None) -> dict[str, Any]:
        """All measures by group; every number is a count, a share (0 … 1), bits, or instructions a cycle.

        `counts` are those that the measures are of, by default all; footprints and entropies are of what was observed.
        """
        counts = counts or self.counts()
        program, executed = self._instructions, counts.executed
        bins, producers = (
            dict(zip(self._bins, counts.distances, strict=True)),
            dict(zip(self._producers, counts.producers, strict=True)),
        )
        total = round(float(executed.sum()))
        operations = np.bincount(program.operation, executed, minlength=len(Operation)) / max(total, 1)
        shares = {
            name: float(executed[(program.flags & int(flag)) != 0].sum() / max(total, 1))
            for name, flag in _FLAGS.items()
        }
        conditional = (program.flags & _CONDITIONAL) != 0
        outcomes = float(executed[conditional].sum())
        return {
            "instructions": total,
            "mix": shares | {operation.name.lower(): float(operations[operation]) for operation in Operation},
            "footprint": {
                "static_instructions": int((executed > 0).sum()),
                "conditional_branch_sites": int((executed[conditional] > 0).sum()),
                **{name: stack.distinct for name, stack in self._stacks.items()},
                "loads": round(float(counts.accesses[0])),
                "stores": round(float(counts.accesses[1])),
            },
            "branches": {
                "taken": float(counts.taken.sum() / max(outcomes, 1)),
                "entropy": [asdict(entropy.result()) for entropy in self._entropies],
            },
            "lru_miss_ratio": {name: _misses(own) for name, own in bins.items()},
            "stack_distance": {name: _histogram(own) for name, own in bins.items()},
            "producer_within": {name: _within(own) for name, own in producers.items()},
            "ideal_ipc": {
                str(window): total / max(float(cycles), 1.0)
                for window, cycles in zip(self._windows, counts.cycles, strict=True)
            },
        }


def _last_used(bins: NDArray[np.int64]) -> int:
    used = np.flatnonzero(bins[:_COLD])
    return int(used[-1]) if len(used) else 0


def _misses(bins: NDArray[np.int64]) -> dict[str, float]:
    """Lines (a power of two) → share of the references that miss an LRU cache of so many, first references among them:
    those at a stack distance of at least its size (Mattson et al. 1970).
    """
    total = max(float(bins.sum()), 1.0)
    return {str(1 << k): float(bins[k + 1 :].sum() / total) for k in range(_last_used(bins) + 1)}


def _histogram(bins: NDArray[np.int64]) -> dict[str, int]:
    """Least distance of a bin → references; "first" are the first ones to a line."""
    bounds = [0, *(1 << k for k in range(_last_used(bins)))]
    return {str(bound): round(float(bins[k])) for k, bound in enumerate(bounds)} | {"first": round(float(bins[_COLD]))}


def _within(bins: NDArray[np.int64]) -> dict[str, float]:
    """Distance (a power of two) → share of the reads whose producer is at most so many instructions before."""
    total = max(float(bins.sum()), 1.0)
    return {str(1 << k): float(bins[: k + 1].sum() / total) for k in range(_last_used(bins) + 1)}


def characterise(
    trace: Trace | str | os.PathLike[str], *, max_instructions: int | None = None, progress: bool = True
) -> dict[str, Any]:
    """The profile of a trace (or of its first `max_instructions`); see `Characteriser.document`. Raises InputError."""
    if not isinstance(trace, Trace):
        with Trace(trace) as opened:
            return characterise(opened, max_instructions=max_instructions, progress=progress)
    total = len(trace) if max_instructions is None else min(max_instructions, len(trace))
    counts = Characteriser(trace.static)
    with instruction_bar(f"characterise {trace.name}", total, progress) as bar:
        for chunk in trace.chunks(stop=total):
            counts.observe(chunk)
            bar.update(len(chunk))
    return {"trace": trace.name, "isa": trace.isa, "program": trace.program, **counts.document()}


def rows(document: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    """(group, measure, value) of every number of a profile, for tables."""
    yield "size", "instructions", document["instructions"]
    for group in ("mix", "footprint"):
        for name, value in document[group].items():
            yield group, name, value
    yield "branches", "taken", document["branches"]["taken"]
    for entropy in document["branches"]["entropy"]:
        for kind in ("shannon", "linear"):
            yield "branches", f"{kind} entropy, {entropy['kind']} history {entropy['length']}", entropy[kind]
    for group, text in (
        ("lru_miss_ratio", "{name}, cache of {key}"),
        ("stack_distance", "{name}, from {key}"),
        ("producer_within", "{name}, {key} instructions"),
    ):
        for name, values in document[group].items():
            for key, value in values.items():
                yield group, text.format(name=name, key=key), value
    for window, value in document["ideal_ipc"].items():
        yield "ideal_ipc", f"window of {window}", value
