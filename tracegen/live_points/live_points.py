"""The live-points file `*.livepoints.h5`: format, reading, writing (docs/reference/file-formats.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from support.files import damage_in, open_h5, read_text_attribute, read_whole, sealed_h5
from tracegen.decode import ISAS, with_native
from tracegen.formats.trace import MOST_STEPS
from tracegen.live_points import _core
from tracegen.live_points.divisions import NO_STEPS, DivisionSteps
from tracegen.live_points.origins import Lines, Origins, Symbols
from tracegen.live_points.sampling import Sample
from tracegen.live_points.system_calls import SystemCallCounts
from uarch.instructions import (
    LAST,
    MAX_DESTINATIONS,
    MAX_SOURCES,
    MERGES_RESULT,
    REGISTERS,
    Chunk,
    Flag,
    Interruption,
    Operation,
    StaticInstructions,
    Temporary,
)
from uarch.timing.simulation import Misses

FORMAT = "perfvec-live-points"
VERSION = 11
UNIT = _core.UNIT
SUFFIX = ".livepoints.h5"
_TEXTS = ("program", "isa", "source", "command", "digest")
_NUMBERS = ("instructions", "units", "seed")
_PIECES = {
    "unit": "<u8",
    "counted": "|b1",
    "static_id": "<u4",
    "next_static_id": "<u4",
    "accesses": "<u4",
    "address": "<u8",
    "size": "u1",
    "is_store": "u1",
    "line_offset": "<i8",
    "line": "<u8",
    "branch_offset": "<i8",
    "branch": "<u4",
    "branch_following": "<u4",
    "taken_offset": "<i8",
    "taken": "<u4",
    "taken_following": "<u4",
    "miss_offset": "<i8",
    "miss": "<u4",
    "miss_address": "<u8",
    "miss_far": "|b1",
    "miss_place": "<u4",
    "near_offset": "<i8",
    "near_load": "<u4",
    "near_store": "<u4",
    "near_times": "<u4",
    "near_same_bytes": "<u4",
}
_CALLS = {"static_id": "<u4", "number": "<u2", "count": "<u8"}
_DIVISIONS = {"static_id": "<u4", "steps": "u1"}  # where the source tells them
_SAMPLE = {"weight": "<f8", "stratum": "<i4", "size": "<f8", "signature": "<f4"}
_WIDTHS = {"sources": MAX_SOURCES, "destinations": MAX_DESTINATIONS}
_NONE = 255  # of a register
# The greatest value of columns of static instructions that native code counts or looks up by.
_MOST = {
    "length": 16,
    "operation": max(Operation),
    "address_sources": MAX_SOURCES,
    "chained": 2,
    "merges_flags": 2 * MERGES_RESULT - 1,
    "interruption": max(Interruption),
    "temporary": 2 * max(Temporary) - 1,
}


@dataclass(frozen=True)
class Pieces:
    """P units in the order of the run: the counted ones, and those before them, which warm pipelines. Where every unit
    of the run is there, the last one may be shorter: N instructions in all, P · UNIT elsewhere.

    Before piece k lie its gap's lines (`gap`) in the order of their last touch since the piece before, as touches of
    `Simulation.touch`; a line that has long been in constant use is there once more, where levels below the first saw
    it last. Besides, the branches of use to predictors, each with the instruction after it; all direct branches that
    were taken, where they were last; and the last accesses to data that were not touched lately, of which prefetchers
    learn. There are none where the piece before it is the unit before.
    """

    unit: NDArray[np.uint64]  # [P] its number: instructions unit · UNIT …
    counted: NDArray[np.bool_]  # [P]
    static_id: NDArray[np.uint32]  # [N]
    next_static_id: NDArray[np.uint32]  # [N]
    accesses: NDArray[np.uint32]  # [N] that each instruction makes
    address: NDArray[np.uint64]  # [accesses in all]
    size: NDArray[np.uint8]
    is_store: NDArray[np.uint8]
    line_offset: NDArray[np.int64]  # [P + 1]
    line: NDArray[np.uint64]
    branch_offset: NDArray[np.int64]  # [P + 1]
    branch: NDArray[np.uint32]
    branch_following: NDArray[np.uint32]
    taken_offset: NDArray[np.int64]  # [P + 1]
    taken: NDArray[np.uint32]
    taken_following: NDArray[np.uint32]
    miss_offset: NDArray[np.int64]  # [P + 1]
    miss: NDArray[np.uint32]  # the instruction
    miss_address: NDArray[np.uint64]
    miss_far: NDArray[np.bool_]  # not touched for so long that a second level lacks it, too
    miss_place: NDArray[np.uint32]  # how many of the gap's lines come before it
    near_offset: NDArray[np.int64]  # [P + 1] of what a piece's loads had read from stores shortly before them
    near_load: NDArray[np.uint32]  # those of a load together
    near_store: NDArray[np.uint32]
    near_times: NDArray[np.uint32]  # so often since store sets forget all, by blocks of 16 bytes
    near_same_bytes: NDArray[np.uint32]  # by bytes

    def __len__(self) -> int:
        return len(self.unit)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[P] instructions of each piece."""
        return np.minimum(len(self.static_id) - UNIT * np.arange(len(self)), UNIT)

    def counted_instructions(self) -> NDArray[np.bool_]:
        """[N] whether each instruction is of a unit that counts."""
        return np.repeat(self.counted, self.lengths)

    def gap(self, piece: int) -> tuple[NDArray[np.uint64], Misses]:
        """Lines and misses before a piece."""
        own = slice(*self.miss_offset[piece : piece + 2])
        misses = Misses(self.miss[own], self.miss_address[own], self.miss_far[own], self.miss_place[own])
        return self.line[slice(*self.line_offset[piece : piece + 2])], misses

    def chunks(self) -> Iterator[Chunk]:
        """The executed instructions of each piece."""
        return self._chunks(np.arange(len(self) + 1))

    def sequences(self) -> Iterator[tuple[int, Chunk]]:
        """The first piece of each sequence of consecutive units, before which alone there is a gap, and its executed
        instructions.
        """
        begins = np.flatnonzero(np.diff(self.unit.astype(np.int64), prepend=-2) != 1)
        return zip(begins.tolist(), self._chunks(np.append(begins, len(self))), strict=True)

    def _chunks(self, bounds: NDArray[np.int64]) -> Iterator[Chunk]:
        """The executed instructions of the pieces between each two bounds."""
        offset = np.concatenate([[0], np.cumsum(self.accesses, dtype=np.int64)])
        for begin, end in pairwise(bounds.tolist()):
            rows = slice(begin * UNIT, min(end * UNIT, len(self.static_id)))
            here = offset[rows.start : rows.stop + 1]
            accesses = slice(int(here[0]), int(here[-1]))
            yield Chunk(
                int(self.unit[begin]) * UNIT,
                self.static_id[rows],
                self.next_static_id[rows],
                here,
                self.address[accesses],
                self.size[accesses],
                self.is_store[accesses],
            )


@dataclass(frozen=True)
class LivePoints:
    """Sampled units of a run with what warms any machine."""

    program: str
    isa: str
    source: str
    command: str  # a JSON list
    digest: str  # of the trace, or of what the program executed
    instructions: int
    units: int  # of the run; what is left at its end is one where every unit is there, and none elsewhere
    seed: int
    static: StaticInstructions  # by ascending address
    origins: Origins
    pieces: Pieces
    sample: Sample
    system_calls: SystemCallCounts  # of the whole run
    divisions: DivisionSteps = NO_STEPS  # likewise
    in_flight: float = 0.0  # instructions from a branch's fetch to its retirement on `base`; 0: the run is whole
    vector: bytes = b""  # the content of a vector file (`perfvec.representation.vector`); empty: none was made

    @property
    def address(self) -> NDArray[np.uint64]:
        """[S] as of a trace, like `code`, `symbols` and `lines`."""
        return self.static.address

    @property
    def code(self) -> NDArray[np.uint8]:
        return self.origins.code

    def symbols(self) -> Symbols:
        """Function symbols: address, size, names."""
        return self.origins.symbols

    def lines(self) -> Lines:
        """Source lines: address, file, line, files."""
        return self.origins.lines

    @property
    def name(self) -> str:
        """The program's name, as of a trace."""
        return self.program

    @property
    def summary(self) -> str:
        """One line."""
        return (
            f"{self.program}, {self.instructions:,} instructions, {int(self.pieces.counted.sum()):,} of "
            f"{self.units:,} units of {UNIT:,}"
        )

    @property
    def whole(self) -> bool:
        """Return whether every unit of the run is there."""
        return bool(self.pieces.counted.all()) and len(self.pieces) == self.units

    @property
    def instructions_per_unit(self) -> float:
        """Instructions of the run for each of its units' UNIT; what is left at its end is like the rest."""
        return 1.0 if self.whole else self.instructions / (self.units * UNIT)


def save(points: LivePoints, path: str | os.PathLike[str]) -> None:
    """Write the file; it appears when it is complete, with its seal."""
    with sealed_h5(path) as file:
        file.attrs["format"], file.attrs["version"], file.attrs["unit"] = FORMAT, VERSION, UNIT
        for name in (*_TEXTS, *_NUMBERS, "in_flight"):
            file.attrs[name] = getattr(points, name)
        for column in fields(StaticInstructions):
            value = getattr(points.static, column.name)
            if isinstance(value, np.ndarray):
                _write(file, f"static/{column.name}", value)
        points.origins.save(file)
        for name in _PIECES:
            _write(file, f"pieces/{name}", getattr(points.pieces, name))
        for name in _SAMPLE:
            _write(file, f"sample/{name}", getattr(points.sample, name))
        for name in _CALLS:
            _write(file, f"system_calls/{name}", getattr(points.system_calls, name))
        for name in _DIVISIONS if len(points.divisions.static_id) else ():
            _write(file, f"divisions/{name}", getattr(points.divisions, name))
        if points.vector:
            file.create_dataset("vector", data=np.frombuffer(points.vector, np.uint8))


def _write(file: h5py.File, name: str, data: NDArray[Any]) -> None:
    if data.size == 0:
        file.create_dataset(name, data=data)
        return
    chunks = (min(len(data), 1 << 17), *data.shape[1:])
    file.create_dataset(name, data=data, chunks=chunks, compression="gzip", compression_opts=3, shuffle=True)


def load(path: str | os.PathLike[str]) -> LivePoints:
    """Read a file. Raises InputError where it is missing, damaged, of another version, or does not fit together."""
    with open_h5(path, FORMAT, VERSION) as file:
        with damage_in(path, "an attribute"):
            attributes: dict[str, Any] = {name: read_text_attribute(file, name) for name in _TEXTS}
            attributes |= {name: int(file.attrs[name]) for name in _NUMBERS}
            attributes["in_flight"] = float(file.attrs["in_flight"])
            unit = int(file.attrs["unit"])
        if unit != UNIT:
            raise InputError(f"{path}: its units have {unit} instructions, not {UNIT}; make it again")
        if attributes["isa"] not in ISAS:
            raise InputError(f"{path}: unknown isa {attributes['isa']!r}; one of {', '.join(ISAS)}")
        static = _static(file, attributes["isa"])
        origins = Origins.load(file, len(static))
        pieces = Pieces(**{name: read_whole(file, f"pieces/{name}", dtype) for name, dtype in _PIECES.items()})
        sample = Sample(
            **{
                name: read_whole(file, f"sample/{name}", dtype, 2 if name == "signature" else 1)
                for name, dtype in _SAMPLE.items()
            }
        )
        calls = SystemCallCounts(
            **{name: read_whole(file, f"system_calls/{name}", dtype) for name, dtype in _CALLS.items()}
        )
        divisions = NO_STEPS
        if "divisions" in file:
            divisions = DivisionSteps(
                **{name: read_whole(file, f"divisions/{name}", dtype) for name, dtype in _DIVISIONS.items()}
            )
        vector = read_whole(file, "vector", "u1").tobytes() if "vector" in file else b""
    static = with_native(static, origins.code)
    points = LivePoints(
        **attributes,
        static=static,
        origins=origins,
        pieces=pieces,
        sample=sample,
        system_calls=calls,
        divisions=divisions,
        vector=vector,
    )
    why = _misfit(points)
    if why:
        raise InputError(f"{path}: {why}; the file is damaged, make it again")
    return points


def _static(file: h5py.File, isa: str) -> StaticInstructions:
    columns: dict[str, Any] = {}
    size: int | None = None
    for one in fields(StaticInstructions):
        if one.name in ("isa", "native") or (one.default is None and f"static/{one.name}" not in file):
            continue
        dtype = {"address": "<u8", "flags": "<u2", "vector_unit": "|b1", "float_move": "|b1"}
        column = read_whole(file, f"static/{one.name}", dtype.get(one.name, "u1"), 2 if one.name in _WIDTHS else 1)
        size = len(column) if size is None else size
        width = _WIDTHS.get(one.name)
        if len(column) != size or (width is not None and column.shape[1] != width):
            raise InputError(f"{file.filename}: static instructions differ in length; the file is damaged")
        if width is not None and np.any((column >= REGISTERS) & (column != _NONE)):
            raise InputError(f"{file.filename}: static/{one.name} has no such register; the file is damaged")
        if column.max(initial=0) > _MOST.get(one.name, np.inf):
            raise InputError(f"{file.filename}: static/{one.name} has a value that it cannot have; the file is damaged")
        columns[one.name] = column
    return StaticInstructions(**columns, isa=isa)


def _misfit(points: LivePoints) -> str | None:
    """Return what does not fit together, None where all does: native code sees only what fits."""
    pieces, sample, size = points.pieces, points.sample, len(points.static)
    executed, counted = points.instructions if points.whole else len(pieces) * UNIT, int(pieces.counted.sum())
    if size == 0 or len(pieces) == 0 or counted == 0:
        return "it holds no units"
    if points.units != (-(-points.instructions // UNIT) if points.whole else points.instructions // UNIT):
        return "the number of units is not that of the instructions"
    if np.any(points.address[1:] <= points.address[:-1]):
        return "static/address is not strictly ascending"
    lengths = {name: len(getattr(pieces, name)) for name in ("static_id", "next_static_id", "accesses")}
    if set(lengths.values()) != {executed} or len(pieces.counted) != len(pieces):
        return "the columns of instructions differ in length"
    accesses = int(pieces.accesses.sum(dtype=np.uint64))
    if {len(pieces.address), len(pieces.size), len(pieces.is_store)} != {accesses}:
        return "the columns of accesses differ in length"
    if pieces.is_store.max(initial=0) > 1:
        return "an access is neither a load nor a store"
    for offset, columns in (
        (pieces.line_offset, (pieces.line,)),
        (pieces.branch_offset, (pieces.branch, pieces.branch_following)),
        (pieces.taken_offset, (pieces.taken, pieces.taken_following)),
        (pieces.miss_offset, (pieces.miss, pieces.miss_address, pieces.miss_far, pieces.miss_place)),
        (pieces.near_offset, (pieces.near_load, pieces.near_store, pieces.near_times, pieces.near_same_bytes)),
    ):
        if len(offset) != len(pieces) + 1 or offset[0] != 0 or np.any(np.diff(offset) < 0):
            return "offsets of lines, branches, misses or loads are not in order"
        if any(len(column) != offset[-1] for column in columns):
            return "the columns of lines, branches, misses or loads differ in length"
    if np.any(pieces.miss_place > np.repeat(np.diff(pieces.line_offset), np.diff(pieces.miss_offset))):
        return "a miss is behind the lines of its gap"
    ids = (pieces.static_id, pieces.branch, pieces.taken, pieces.miss, pieces.near_load, pieces.near_store)
    following = (pieces.next_static_id, pieces.branch_following, pieces.taken_following)
    if any(column.max(initial=0) >= size for column in ids) or any(
        np.count_nonzero(column >= size) != np.count_nonzero(column == LAST) for column in following
    ):
        return f"an instruction is beyond the {size:,} static ones"
    if any(np.any((points.static.flags[one] & Flag.BRANCH) == 0) for one in (pieces.branch, pieces.taken)):
        return "one of the branches is none"
    calls = points.system_calls
    if not len(calls.static_id) == len(calls.number) == len(calls.count):
        return "the columns of system calls differ in length"
    if np.any(calls.static_id >= size) or np.any((points.static.flags[calls.static_id] & Flag.SYSCALL) == 0):
        return "one of the system calls is none"
    if np.any(calls.count == 0) or sum(calls.count.tolist()) > points.instructions:
        return "there are other system calls than instructions"
    if not (points.in_flight == 0 if points.whole else 0 < points.in_flight < np.inf):
        return "in_flight is no number of instructions"
    divisions = points.divisions
    if len(divisions.static_id) != len(divisions.steps):
        return "the columns of divisions differ in length"
    if np.any(divisions.static_id >= size):
        return "one of the divisions is of no instruction"
    if np.any((divisions.steps < 1) | (divisions.steps > MOST_STEPS)):
        return f"the steps of one of the divisions are not from 1 to {MOST_STEPS}"
    if np.any(np.diff(pieces.unit.astype(np.int64)) <= 0) or pieces.unit[-1] >= max(points.units, 1):
        return "units are not in order"
    strata = len(sample.size)
    if {len(sample.weight), len(sample.stratum), len(sample.signature)} != {counted} or strata == 0:
        return "the sample is not of the counted units"
    if sample.stratum.min() < 0 or sample.stratum.max() >= strata:
        return "a stratum is not there"
    if not all(np.isfinite(column).all() for column in (sample.weight, sample.size, sample.signature)):
        return "weights are not finite"
    if np.any(sample.size <= 0) or np.any(np.bincount(sample.stratum, minlength=strata) == 0):
        return "a stratum is empty"
    # A constant, then columns of mean 0 and variance 1 over the run's units, which bounds them; nothing of units that
    # stand for themselves alone.
    most = 1 + 1.01 * np.sqrt(sample.size.sum())
    if sample.signature.shape[1] == 0 or np.abs(sample.signature).max() > most:
        return "sample/signature holds no signatures"
    without = sample.signature[:, 0] != 1
    if np.any(sample.signature[without]) or np.any(sample.weight[without] != 1):
        return "sample/signature holds no signatures"
    return None


def is_live_points(path: str | os.PathLike[str]) -> bool:
    """Return whether the name is one of a live-points file."""
    return Path(path).name.endswith(SUFFIX)
