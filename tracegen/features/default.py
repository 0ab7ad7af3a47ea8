"""The schema `default`: 14 bytes per executed instruction, log-bucketed distances, surprises and dependency distances.

Distances are stored as one byte, 1 + 8·log2(1 + d) rounded (relative resolution 9 %), 0 for "none" and 255 for a first
reference; surprises as 24 steps a bit. The model reads them through piecewise-linear ("hat") tables, so that it can
answer to a threshold such as a cache's size, which a single number entering a linear layer cannot express.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.jit import kernel
from tracegen.control_flow.straight_line import LINE_BITS, find, lines_of, successors
from tracegen.features.schema import Column, Extractor, Schema, flags_as_one
from tracegen.statistics import branch_entropy, dependency
from tracegen.statistics.branch_entropy import Sites, goes_elsewhere
from tracegen.statistics.quantise import FIRST, STEPS, Codes, code_of, code_tables
from tracegen.statistics.stack_distance import StackDistance, StackState, has_room, prefetch_line, touch
from uarch.instructions import NO_REGISTER, VECTOR_REGISTERS, Chunk, Flag, Operation, StaticInstructions

PAGE_BITS = 12
_BRANCH = int(Flag.BRANCH)
_SURPRISE_STEPS = 24.0  # stored steps per bit
_FETCH, _LOAD, _STORE, _PAGE, _PATTERN, _BIAS, _LOCAL, _GLOBAL, _SITE, _TARGET, _NEAR, _SECOND, _FORWARD, _LAG = range(
    14
)
_PART = 1 << 16  # instructions that all passes see before the next ones: what they write stays in the cache
_AHEAD = 8  # accesses whose lines are looked up ahead of time


def _hats(knots: NDArray[np.float64]) -> NDArray[np.float32]:
    """[256, len(knots)]: piecewise-linear partition of unity over 1 … 254; outside the knots the nearest one is 1."""
    values = np.clip(np.arange(256.0), knots[0], knots[-1])
    table = np.stack([np.interp(values, knots, row) for row in np.eye(len(knots))], axis=1)
    return table.astype(np.float32)


def _distance_table(octaves: NDArray[np.float64]) -> NDArray[np.float32]:
    """Hats at these octaves, then a column for "first reference"; "none" is all zero."""
    table = np.zeros((256, len(octaves) + 1), np.float32)
    table[:, :-1] = _hats(1.0 + STEPS * octaves)
    table[0] = 0.0
    table[FIRST] = 0.0
    table[FIRST, -1] = 1.0
    return table


def _surprise_table() -> NDArray[np.float32]:
    """Hats at 0, ¼, 1, 2, 4 and 8 bits; not a conditional branch is all zero."""
    table = _hats(1.0 + _SURPRISE_STEPS * np.array([0.0, 0.25, 1.0, 2.0, 4.0, 8.0]))
    table[0] = 0.0
    return table


def _bits_table(bits: int) -> NDArray[np.float32]:
    return (np.arange(256)[:, None] >> np.arange(bits) & 1).astype(np.float32)


def _pattern_table() -> NDArray[np.float32]:
    """Low three bits: the access pattern, one-hot; high five: log2 of the number of lines touched."""
    codes = np.arange(256)
    patterns = np.eye(8, dtype=np.float32)[codes & 7][:, 1:6]
    lines = (codes[:, None] >> 3).astype(np.float32) / 4.0
    return np.concatenate([patterns, lines], axis=1)


_COLUMNS = (
    Column("fetch", _distance_table(np.array([0.0, 2, 4, 6, 7, 8, 9, 10, 11, 12, 14]))),
    Column(
        "load",
        _distance_table(np.array([0.0, 2, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20])),
        where="pattern",
    ),
    Column("store", _distance_table(np.array([0.0, 3, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18])), where="pattern"),
    Column("page", _distance_table(np.array([0.0, 3, 5, 6, 7, 9, 12])), where="pattern"),
    Column("pattern", _pattern_table()),
    Column("bias_surprise", _surprise_table(), where="flag.conditional"),
    Column("local_surprise", _surprise_table(), where="flag.conditional"),
    Column("global_surprise", _surprise_table(), where="flag.conditional"),
    Column("site", _distance_table(np.array([0.0, 4, 7, 8, 9, 10, 11, 13])), where="flag.branch"),
    Column("target", _bits_table(4), where="flag.branch"),
    Column("nearest_producer", _distance_table(np.array([1.0, 1.6, 2, 2.6, 3.3, 4, 5, 6, 8, 10]))[:, :-1]),
    Column("second_producer", _distance_table(np.array([1.0, 1.6, 2, 2.6, 3.3, 4, 5, 6, 8, 10]))[:, :-1]),
    Column("forwarding_store", _distance_table(np.array([1.0, 2, 3, 4, 5, 6, 8, 10]))[:, :-1], where="pattern"),
    Column("lag", _distance_table(np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12]))[:, :-1]),
)


@kernel
def _fetches(
    stack: StackState,
    previous: NDArray[np.uint64],
    codes: Codes,
    static_id: NDArray[np.uint32],
    lines: NDArray[np.uint64],
    places: NDArray[np.int32],
    begin: int,
    out: NDArray[np.uint8],
) -> int:
    """Instruction lines; `lines` [S, 2]: the first and the last one of each static instruction. Only those at `places`
    can come into another line than the one before. At which place it stopped.
    """
    current = previous[0]  # + 1; 0 means none yet
    end = len(places)
    for place in range(begin, len(places)):
        k = places[place]
        here = static_id[k]
        first, last = lines[here, 0], lines[here, 1]
        if first + np.uint64(1) == current and last == first:
            continue
        if not has_room(stack, 2):
            end = place
            break
        if first + np.uint64(1) != current:
            out[k, _FETCH] = code_of(touch(stack, first), codes)
        if last != first:
            out[k, _FETCH] = max(out[k, _FETCH], code_of(touch(stack, last), codes))
        current = last + np.uint64(1)
    previous[0] = current
    return end


@kernel
def _data(
    lines: StackState,
    pages: StackState,
    history: NDArray[np.uint64],
    codes: Codes,
    static_id: NDArray[np.uint32],
    access_offset: NDArray[np.int64],
    address: NDArray[np.uint64],
    size: NDArray[np.uint8],
    is_store: NDArray[np.uint8],
    places: NDArray[np.int32],
    begin: int,
    out: NDArray[np.uint8],
) -> int:
    """Data lines, pages and address patterns of the instructions that access memory, those at `places`; `history`
    [S, 2]: last address and stride of each static instruction's first access. At which place it stopped.
    """
    line_bits, page_bits = np.uint64(LINE_BITS), np.uint64(PAGE_BITS)
    base = access_offset[0]
    for place in range(begin, len(places)):
        k = places[place]
        first_access, last_access = access_offset[k] - base, access_offset[k + 1] - base
        accesses = last_access - first_access
        if not (has_room(lines, 2 * accesses) and has_room(pages, accesses)):
            return place
        touched = 0
        for access in range(first_access, last_access):
            if access + _AHEAD < len(address):
                prefetch_line(lines, address[access + _AHEAD] >> line_bits)
            column = _STORE if is_store[access] else _LOAD
            first = address[access] >> line_bits
            last = (address[access] + np.uint64(max(size[access], 1)) - np.uint64(1)) >> line_bits
            code = code_of(touch(lines, first), codes)
            if last != first:
                code = max(code, code_of(touch(lines, last), codes))
                touched += 1
            out[k, column] = max(out[k, column], code)
            out[k, _PAGE] = max(out[k, _PAGE], code_of(touch(pages, address[access] >> page_bits), codes))
            touched += 1
        # The address pattern of the instruction's first access, as a prefetcher sees it.
        here = static_id[k]
        now = address[first_access]
        if history[here, 0] == 0:
            pattern = 1  # first execution
        else:
            stride = np.int64(now - history[here, 0])
            if stride == 0:
                pattern = 2
            elif stride == np.int64(history[here, 1]):
                pattern = 3 if -(1 << LINE_BITS) <= stride <= (1 << LINE_BITS) else 4
            else:
                pattern = 5
            history[here, 1] = np.uint64(stride)
        history[here, 0] = now
        lines_code = 0
        while touched > 1 and lines_code < 31:
            touched >>= 1
            lines_code += 1
        out[k, _PATTERN] = np.uint8(pattern | lines_code << 3)
    return len(places)


@kernel
def _accessing(access_offset: NDArray[np.int64], places: NDArray[np.int32]) -> int:
    """List the instructions that access memory; how many they are."""
    found = np.int64(0)
    for k in range(len(access_offset) - 1):
        places[found] = k
        found += np.int64(access_offset[k] != access_offset[k + 1])
    return int(found)


@kernel
def _sites(
    stack: StackState,
    codes: Codes,
    sites: Sites,
    static_id: NDArray[np.uint32],
    next_static_id: NDArray[np.uint32],
    places: NDArray[np.int32],
    begin: int,
    out: NDArray[np.uint8],
) -> int:
    """Taken branches, all of which are at `places`. At which place it stopped."""
    for place in range(begin, len(places)):
        k = places[place]
        here = static_id[k]
        if sites.flags[here] & _BRANCH and goes_elsewhere(sites, here, next_static_id[k]):
            if not has_room(stack, 1):
                return place
            out[k, _SITE] = code_of(touch(stack, np.uint64(here)), codes)
    return len(places)


def _surprise_codes() -> NDArray[np.uint8]:
    """[2, pairs of counts] 1 + 24 steps a bit of surprise at not being and at being taken."""
    probability = branch_entropy.probabilities()
    codes = np.zeros((2, len(probability)), np.uint8)
    for taken in range(2):
        bits = branch_entropy.surprise(probability, np.full(len(probability), taken, np.uint8))
        codes[taken] = 1 + np.minimum(np.rint(_SURPRISE_STEPS * bits), 254).astype(np.uint8)
    return codes


Pass = Callable[[Chunk, NDArray[np.uint8]], None]
Passes = dict[str, Pass]  # in the order in which a part goes through them


def _fill(chunk: Chunk, out: NDArray[np.uint8], passes: Iterable[Pass]) -> None:
    for begin in range(0, len(chunk), _PART):
        part = chunk.part(begin, begin + _PART)
        for fill in passes:
            fill(part, out[begin : begin + _PART])


class _DefaultExtractor:
    def __init__(self, instructions: StaticInstructions) -> None:
        self._codes = code_tables()
        self._fetch_lines = StackDistance()
        self._previous_line = np.zeros(1, np.uint64)
        self._data_lines = StackDistance()
        self._pages = StackDistance()
        self._taken_sites = StackDistance()
        self._history = np.zeros((len(instructions), 2), np.uint64)
        self._branches = branch_entropy.initial_state(len(instructions))
        self._surprises = _surprise_codes()
        self._dependencies = dependency.initial_state()
        self._fetches = self._ends = np.empty(0, np.int32)  # places in the part that is at hand
        self._coming: deque[NDArray[np.int32]] = deque()  # ends of the parts that went through `begin` only
        self._read(instructions)

        self.references: Passes = {
            "straight lines": self._find_places,
            "instruction lines": self._extract_fetches,
            "data lines and pages": self._extract_data,
        }
        self.control: Passes = {
            "taken branch sites": self._extract_sites,
            "branch surprises": self._extract_branches,
            "dependencies": self._extract_dependencies,
        }

    def _read(self, instructions: StaticInstructions) -> None:
        self._lines = lines_of(instructions)
        self._sites = branch_entropy.sites_of(instructions)
        self._successors = successors(instructions)
        self._rows = dependency.rows_of(instructions)

    def grow(self, instructions: StaticInstructions) -> None:
        self._history = branch_entropy.grown(self._history, len(instructions))
        self._branches = branch_entropy.grow(self._branches, len(instructions))
        self._read(instructions)

    def extract(self, chunk: Chunk) -> NDArray[np.uint8]:
        out = np.zeros((len(chunk), len(_COLUMNS)), np.uint8)
        _fill(chunk, out, [*self.references.values(), *self.control.values()])
        return out

    def begin(self, chunk: Chunk) -> NDArray[np.uint8]:
        out = np.zeros((len(chunk), len(_COLUMNS)), np.uint8)
        _fill(chunk, out, self.references.values())
        return out

    def finish(self, chunk: Chunk, stored: NDArray[Any]) -> None:
        _fill(chunk, stored, self.control.values())

    def _find_places(self, part: Chunk, out: NDArray[np.uint8]) -> None:
        places = find(self._successors, part)
        self._fetches = places.fetches
        self._coming.append(places.ends.copy())  # a fifth of what was reserved for them

    def _extract_fetches(self, part: Chunk, out: NDArray[np.uint8]) -> None:
        places, done = self._fetches, 0
        while done < len(places):
            stack = self._fetch_lines.reserve(2)
            done = _fetches(stack, self._previous_line, self._codes, part.static_id, self._lines, places, done, out)

    def _extract_data(self, part: Chunk, out: NDArray[np.uint8]) -> None:
        offset, places, done = part.access_offset, np.empty(len(part), np.int32), 0
        places = places[: _accessing(offset, places)]
        while done < len(places):
            accesses = int(offset[places[done] + 1] - offset[places[done]])
            done = _data(
                self._data_lines.reserve(2 * accesses),
                self._pages.reserve(accesses),
                self._history,
                self._codes,
                part.static_id,
                offset,
                part.address,
                part.size,
                part.is_store,
                places,
                done,
                out,
            )

    def _extract_sites(self, part: Chunk, out: NDArray[np.uint8]) -> None:
        self._ends = places = self._coming.popleft()
        done = 0
        while done < len(places):
            stack = self._taken_sites.reserve(1)
            done = _sites(stack, self._codes, self._sites, part.static_id, part.next_static_id, places, done, out)

    def _extract_branches(self, part: Chunk, out: NDArray[np.uint8]) -> None:
        branch_entropy.observe(
            self._branches,
            self._sites,
            part.static_id,
            part.next_static_id,
            self._ends,
            self._surprises,
            (_BIAS, _LOCAL, _GLOBAL),
            _TARGET,
            out,
        )

    def _extract_dependencies(self, part: Chunk, out: NDArray[np.uint8]) -> None:
        dependency.observe(
            self._dependencies,
            part.start,
            self._rows,
            part.static_id,
            part.access_offset,
            part.address,
            part.is_store,
            self._codes,
            (_NEAR, _SECOND, _FORWARD, _LAG),
            out,
        )


class DefaultSchema(Schema):
    """See the module's description."""

    def static(self, instructions: StaticInstructions) -> NDArray[np.float32]:
        operation = np.eye(len(Operation), dtype=np.float32)[instructions.operation]
        flags = (instructions.flags[:, None] >> np.arange(len(Flag)) & 1).astype(np.float32)
        sources, destinations = flags_as_one(instructions.sources), flags_as_one(instructions.destinations)
        counts = [
            instructions.length / 8.0,
            np.log2(instructions.micro_operations.astype(np.float32)) / 2.0,
            (sources < VECTOR_REGISTERS).sum(1) / 4.0,
            ((sources >= VECTOR_REGISTERS) & (sources != NO_REGISTER)).sum(1) / 4.0,
            (destinations < VECTOR_REGISTERS).sum(1) / 2.0,
            ((destinations >= VECTOR_REGISTERS) & (destinations != NO_REGISTER)).sum(1) / 2.0,
        ]
        return np.concatenate([operation, flags, np.stack(counts, axis=1).astype(np.float32)], axis=1)

    def extractor(self, instructions: StaticInstructions) -> Extractor:
        return _DefaultExtractor(instructions)


DEFAULT = DefaultSchema(
    name="default",
    version=1,
    dtype="u1",
    columns=_COLUMNS,
    static_names=(
        *(f"operation.{operation.name.lower()}" for operation in Operation),
        *(f"flag.{(flag.name or '').lower()}" for flag in Flag),
        "length",
        "micro_operations",
        "integer_sources",
        "other_sources",
        "integer_destinations",
        "other_destinations",
    ),
)
