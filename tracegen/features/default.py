"""The schema `default`: 14 bytes per executed instruction, log-bucketed distances, surprises and dependency distances.

Distances are stored as one byte, 1 + 8·log2(1 + d) rounded (relative resolution 9 %), 0 for "none" and 255 for a first
reference; surprises as 24 steps a bit. The model reads them through piecewise-linear ("hat") tables, so that it can
answer to a threshold such as a cache's size, which a single number entering a linear layer cannot express.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tracegen import branch_entropy, dependency
from tracegen.features.schema import Column, Extractor, Schema
from tracegen.stack_distance import COLD, StackDistance, StackState, touch
from uarch.instructions import NO_REGISTER, VECTOR_REGISTERS, Chunk, Flag, Operation, StaticInstructions

LINE_BITS = 6  # 64-byte lines
PAGE_BITS = 12
_BRANCH = int(Flag.BRANCH)
_FIRST = 255  # stored for a first reference
_STEPS = 8.0  # stored steps per octave
_SURPRISE_STEPS = 24.0  # stored steps per bit
_FETCH, _LOAD, _STORE, _PAGE, _PATTERN, _BIAS, _LOCAL, _GLOBAL, _SITE, _TARGET, _NEAR, _SECOND, _FORWARD, _LAG = range(
    14
)


def quantise(distance: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Distances ≥ 0 to 1 … 254; negative ones (none) to 0."""
    steps = 1.0 + np.rint(_STEPS * np.log2(np.maximum(distance, 0) + 1.0))
    return np.where(distance < 0, 0, np.minimum(steps, _FIRST - 1)).astype(np.uint8)


def dequantise(stored: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The middle of the distances that are stored as this byte (1 … 254)."""
    return np.exp2((stored.astype(np.float64) - 1.0) / _STEPS) - 1.0


def _hats(knots: NDArray[np.float64]) -> NDArray[np.float32]:
    """[256, len(knots)]: piecewise-linear partition of unity over 1 … 254; outside the knots the nearest one is 1."""
    values = np.clip(np.arange(256.0), knots[0], knots[-1])
    table = np.stack([np.interp(values, knots, row) for row in np.eye(len(knots))], axis=1)
    return table.astype(np.float32)


def _distance_table(octaves: NDArray[np.float64]) -> NDArray[np.float32]:
    """Hats at these octaves, then a column for "first reference"; "none" is all zero."""
    table = np.zeros((256, len(octaves) + 1), np.float32)
    table[:, :-1] = _hats(1.0 + _STEPS * octaves)
    table[0] = 0.0
    table[_FIRST] = 0.0
    table[_FIRST, -1] = 1.0
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
    Column("load", _distance_table(np.array([0.0, 2, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20]))),
    Column("store", _distance_table(np.array([0.0, 3, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18]))),
    Column("page", _distance_table(np.array([0.0, 3, 5, 6, 7, 9, 12]))),
    Column("pattern", _pattern_table()),
    Column("bias_surprise", _surprise_table()),
    Column("local_surprise", _surprise_table()),
    Column("global_surprise", _surprise_table()),
    Column("site", _distance_table(np.array([0.0, 4, 7, 8, 9, 10, 11, 13]))),
    Column("target", _bits_table(4)),
    Column("nearest_producer", _distance_table(np.array([1.0, 1.6, 2, 2.6, 3.3, 4, 5, 6, 8, 10]))[:, :-1]),
    Column("second_producer", _distance_table(np.array([1.0, 1.6, 2, 2.6, 3.3, 4, 5, 6, 8, 10]))[:, :-1]),
    Column("forwarding_store", _distance_table(np.array([1.0, 2, 3, 4, 5, 6, 8, 10]))[:, :-1]),
    Column("lag", _distance_table(np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12]))[:, :-1]),
)


@njit(inline="always")
def _code(distance: np.int64, codes: NDArray[np.uint8]) -> np.uint8:
    """`quantise` by table for the short, common distances."""
    if distance < 0:
        return np.uint8(_FIRST)
    if distance < len(codes):
        return codes[distance]
    return np.uint8(min(254, int(np.rint(_STEPS * np.log2(distance + 1.0))) + 1))


@njit(cache=True)
def _fetch(
    stack: StackState,
    previous: NDArray[np.uint64],
    codes: NDArray[np.uint8],
    static_id: NDArray[np.uint32],
    address: NDArray[np.uint64],
    length: NDArray[np.uint8],
    out: NDArray[np.uint8],
) -> None:
    line_bits = np.uint64(LINE_BITS)
    current = previous[0]
    for k in range(len(static_id)):
        here = static_id[k]
        first = address[here] >> line_bits
        last = (address[here] + np.uint64(length[here]) - np.uint64(1)) >> line_bits
        if first + np.uint64(1) != current:
            out[k, _FETCH] = _code(touch(stack, first), codes)
        if last != first:
            out[k, _FETCH] = max(out[k, _FETCH], _code(touch(stack, last), codes))
        current = last + np.uint64(1)  # 0 means none yet
    previous[0] = current


@njit(cache=True)
def _data(
    lines: StackState,
    pages: StackState,
    last_address: NDArray[np.uint64],
    last_stride: NDArray[np.int64],
    codes: NDArray[np.uint8],
    static_id: NDArray[np.uint32],
    access_offset: NDArray[np.int64],
    address: NDArray[np.uint64],
    size: NDArray[np.uint8],
    is_store: NDArray[np.uint8],
    out: NDArray[np.uint8],
) -> None:
    line_bits, page_bits = np.uint64(LINE_BITS), np.uint64(PAGE_BITS)
    for k in range(len(static_id)):
        begin, end = access_offset[k], access_offset[k + 1]
        if begin == end:
            continue
        touched = 0
        for access in range(begin, end):
            column = _STORE if is_store[access] else _LOAD
            first = address[access] >> line_bits
            last = (address[access] + np.uint64(max(size[access], 1)) - np.uint64(1)) >> line_bits
            code = _code(touch(lines, first), codes)
            if last != first:
                code = max(code, _code(touch(lines, last), codes))
                touched += 1
            out[k, column] = max(out[k, column], code)
            out[k, _PAGE] = max(out[k, _PAGE], _code(touch(pages, address[access] >> page_bits), codes))
            touched += 1
        # The address pattern of the instruction's first access, as a prefetcher sees it.
        here = static_id[k]
        if last_address[here] == 0:
            pattern = 1  # first execution
        else:
            stride = np.int64(address[begin] - last_address[here])
            if stride == 0:
                pattern = 2
            elif stride == last_stride[here]:
                pattern = 3 if -(1 << LINE_BITS) <= stride <= (1 << LINE_BITS) else 4
            else:
                pattern = 5
            last_stride[here] = stride
        last_address[here] = address[begin]
        lines_code = 0
        while touched > 1 and lines_code < 31:
            touched >>= 1
            lines_code += 1
        out[k, _PATTERN] = pattern | lines_code << 3


@njit(cache=True)
def _sites(
    stack: StackState,
    codes: NDArray[np.uint8],
    static_id: NDArray[np.uint32],
    taken: NDArray[np.uint8],
    flags: NDArray[np.uint16],
    out: NDArray[np.uint8],
) -> None:
    for k in range(len(static_id)):
        if taken[k] and flags[static_id[k]] & _BRANCH:
            out[k, _SITE] = _code(touch(stack, np.uint64(static_id[k])), codes)


class _DefaultExtractor:
    def __init__(self, instructions: StaticInstructions) -> None:
        self._instructions = instructions
        self._codes = quantise(np.arange(1 << 12))
        self._fetch_lines = StackDistance()
        self._previous_line = np.zeros(1, np.uint64)
        self._data_lines = StackDistance()
        self._pages = StackDistance()
        self._sites = StackDistance()
        self._last_address = np.zeros(len(instructions), np.uint64)
        self._last_stride = np.zeros(len(instructions), np.int64)
        self._branches = branch_entropy.initial_state(len(instructions))
        self._dependencies = dependency.initial_state()
        self._nominal = dependency.nominal_cycles()

    def grow(self, instructions: StaticInstructions) -> None:
        self._instructions = instructions
        self._last_address = branch_entropy.grown(self._last_address, len(instructions))
        self._last_stride = branch_entropy.grown(self._last_stride, len(instructions))
        self._branches = branch_entropy.grow(self._branches, len(instructions))

    def extract(self, chunk: Chunk) -> NDArray[np.uint8]:
        program = self._instructions
        n = len(chunk)
        out = np.zeros((n, len(_COLUMNS)), np.uint8)
        taken = chunk.taken(program)
        _fetch(
            self._fetch_lines.reserve(2 * n), self._previous_line, self._codes, chunk.static_id, program.address,
            program.length, out,
        )  # fmt: skip
        _data(
            self._data_lines.reserve(2 * len(chunk.address)), self._pages.reserve(len(chunk.address)),
            self._last_address, self._last_stride, self._codes, chunk.static_id, chunk.access_offset, chunk.address,
            chunk.size, chunk.is_store, out,
        )  # fmt: skip
        _sites(self._sites.reserve(n), self._codes, chunk.static_id, taken, program.flags, out)
        self._extract_branches(chunk, taken, out)
        distances = np.empty((4, n), np.int64)
        dependency.observe(
            self._dependencies, chunk.start, chunk.static_id, chunk.access_offset, chunk.address, chunk.is_store,
            program.operation, program.flags, program.sources, program.destinations, self._nominal, *distances,
        )  # fmt: skip
        for column, values in zip((_NEAR, _SECOND, _FORWARD, _LAG), distances, strict=True):
            short = values < len(self._codes)
            out[:, column] = np.where(short, self._codes[np.where(short, values, 0)], 0)
            out[values < 0, column] = 0
            far = np.flatnonzero(~short)
            out[far, column] = quantise(values[far])
        return out

    def _extract_branches(self, chunk: Chunk, taken: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        program = self._instructions
        probability = np.full((len(chunk), 3), np.nan, np.float32)
        target = np.zeros(len(chunk), np.uint8)
        branch_entropy.observe(
            self._branches, chunk.static_id, chunk.next_static_id, taken, program.flags, program.address,
            program.length, probability, target,
        )  # fmt: skip
        out[:, _TARGET] = target
        conditional = np.flatnonzero((program.flags[chunk.static_id] & int(Flag.CONDITIONAL)) != 0)
        for column, way in zip((_BIAS, _LOCAL, _GLOBAL), range(3), strict=True):
            bits = branch_entropy.surprise(probability[conditional, way], taken[conditional])
            out[conditional, column] = 1 + np.minimum(np.rint(_SURPRISE_STEPS * bits), 254).astype(np.uint8)


class DefaultSchema(Schema):
    """See the module's description."""

    def static(self, instructions: StaticInstructions) -> NDArray[np.float32]:
        operation = np.eye(len(Operation), dtype=np.float32)[instructions.operation]
        flags = (instructions.flags[:, None] >> np.arange(len(Flag)) & 1).astype(np.float32)
        sources, destinations = instructions.sources, instructions.destinations
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
assert COLD < 0  # `_code` tells a first reference by its sign
