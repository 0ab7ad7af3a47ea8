"""The schema `timed`: `default`, and what each instruction costs on eight reference machines.

A window of instructions does not show how misses overlap, what a prefetcher makes of a stream, or a chain of operations
longer than the window. A simulation of the whole stream does. So the simulator runs eight fixed machines
(`reference-machines.yaml`) in the same pass, and each gives three bytes an instruction: its retire latency (cycles from
the retirement before), and that latency's mean over the last 16 and the last 128 instructions.

    latency L    L up to 31, then 32 + 20·log2(L/32), rounded: within 1.8 %; from 4,096 on, which a string of many bytes
                 takes, 172 + 7·log2(L/4096): within 5.1 %, to 15 million
    mean M       13·log2(1 + 16·M), rounded: within 2.7 %

The machines are part of the schema: its features still say something of the program alone, and every machine is
predicted from the same ones. Caches and predictors are cold where a trace begins. Memory is bounded by the machines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.jit import compiled, kernel
from support.processors import processors
from support.yaml_files import read_yaml
from tracegen.features.default import DEFAULT, DefaultSchema
from tracegen.features.schema import Column, Extractor, Schema
from tracegen.live_points.divisions import DivisionSteps
from tracegen.live_points.live_points import UNIT, Pieces
from uarch.configuration import Machine, machine_from_dict
from uarch.instructions import Chunk, StaticInstructions
from uarch.timing import _core
from uarch.timing.simulation import Simulation

REFERENCES = Path(__file__).with_name("reference-machines.yaml")
NAMES = ("in-order", "small", "middle", "large", "dataflow", "data", "branches", "instructions")
MEAN_LENGTHS = (16, 128)  # instructions that the means are over
EACH = 1 + len(MEAN_LENGTHS)  # columns of a machine
# Whose times these are; of these machines those of 10, but for told divisions, scans, swaps and what 20 corrected: some
# 0.2 % of the codes. Strings pass at once here.
SIMULATOR = "embedded 20"

_EXACT = 32  # latencies below have their own code
_LONG, _LONG_CODE = 4096, 172
_STEPS, _LONG_STEPS, _MEAN_STEPS, _MEAN_UNIT = 20.0, 7.0, 13.0, 16.0  # steps per octave; parts of a cycle
_HELD = max(MEAN_LENGTHS)
_SUMS = 1 << 13  # of the latencies of a mean, whose codes are at hand
_PART = 1 << 16  # instructions of which a machine's latencies are at hand at once


@dataclass(frozen=True)
class Reference:
    """A reference machine and what of it never costs anything."""

    machine: Machine
    ideal: tuple[str, ...]


@cache
def references() -> tuple[Reference, ...]:
    """The reference machines, in the order of their columns. Raises InputError where their file was changed."""
    entries: Any = read_yaml(REFERENCES, "reference machines")
    return tuple(Reference(machine_from_dict(entry["machine"]), tuple(entry.get("ideal", ()))) for entry in entries)


def digest() -> str:
    """SHA-256 of the reference machines' file."""
    return hashlib.sha256(REFERENCES.read_bytes()).hexdigest()


def latency_codes() -> NDArray[np.uint8]:
    """[4097] the code of each latency up to 4,096."""
    latency = np.arange(_LONG + 1)
    steps = _EXACT + np.rint(_STEPS * np.log2(np.maximum(latency, _EXACT) / _EXACT))
    return np.where(latency < _EXACT, latency, steps).astype(np.uint8)


def _least_of_long() -> NDArray[np.float64]:
    """[83] from which latency on the code is at least 173, 174, …"""
    return _LONG * np.exp2((np.arange(255 - _LONG_CODE) + 0.5) / _LONG_STEPS)


def latency_values() -> NDArray[np.float64]:
    """[256] the latency in cycles that each code stands for."""
    codes = np.arange(256.0)
    long = _LONG * np.exp2((codes - _LONG_CODE) / _LONG_STEPS)
    steps = np.where(codes < _LONG_CODE, _EXACT * np.exp2((codes - _EXACT) / _STEPS), long)
    return np.where(codes < _EXACT, codes, steps)


def mean_values() -> NDArray[np.float64]:
    """[256] the mean latency in cycles that each code stands for."""
    return (np.exp2(np.arange(256.0) / _MEAN_STEPS) - 1.0) / _MEAN_UNIT


def _least_of_means() -> NDArray[np.float64]:
    """[255] from which mean on the code is at least 1, 2, …"""
    return (np.exp2((np.arange(255.0) + 0.5) / _MEAN_STEPS) - 1.0) / _MEAN_UNIT


def _codes_of_sums() -> NDArray[np.uint8]:
    """[lengths, sums] the code of the mean over each length, by the sum of its latencies."""
    means = np.arange(_SUMS) / np.array(MEAN_LENGTHS)[:, None]
    return np.searchsorted(_least_of_means(), means, side="right").astype(np.uint8)


def _ramps(values: NDArray[np.float64], knots: NDArray[np.float64]) -> NDArray[np.float32]:
    """[256, len(knots) - 1] how far each value has come, from 0 to 1, between each knot and the next: piecewise linear
    in the logarithm. Where values are rarer than any that trained, what the lower ramps have learned still holds.
    """
    at, logs = np.log2(1.0 + knots), np.log2(1.0 + values)
    return np.clip((logs[:, None] - at[:-1]) / np.diff(at), 0.0, 1.0).astype(np.float32)


def _latency_table() -> NDArray[np.float32]:
    """Cycles in proportion, so that a sum of latencies can be told, then ramps."""
    values = latency_values()
    linear = (values / 16.0).astype(np.float32)[:, None]
    return np.concatenate([linear, _ramps(values, np.array([0.0, 1, 2, 4, 8, 20, 60, 200, 1000]))], axis=1)


def _mean_table() -> NDArray[np.float32]:
    """The logarithm, then ramps."""
    values = mean_values()
    logs = np.log2(1.0 / _MEAN_UNIT + values).astype(np.float32)[:, None] / 4.0
    return np.concatenate([logs, _ramps(values, np.array([0.12, 0.25, 0.5, 1, 2, 4, 10, 30, 100, 400]))], axis=1)


@compiled
def _reached(least: NDArray[np.float64], value: float) -> int:
    """Return the number of the sorted ones that are not above the value."""
    low, high = 0, len(least)
    while low < high:
        middle = (low + high) // 2
        if least[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _quantise(
    latency: NDArray[np.uint32],
    codes: NDArray[np.uint8],
    least_long: NDArray[np.float64],
    least: NDArray[np.float64],
    of_sums: NDArray[np.uint8],
    held: NDArray[np.uint32],
    sums: NDArray[np.int64],
    lengths: NDArray[np.int64],
    position: int,
    first: int,
    out: NDArray[np.uint8],
) -> None:
    """Columns `first` … of `out` [n, columns] from `latency` [n]. `of_sums`: codes of small sums; `held`: the latest
    latencies, by their number in the run; `sums`: of those that each mean is over; `position`: the first one's number.
    """
    size = len(held)
    for k in range(len(latency)):
        here = position + k
        value = latency[k]
        out[k, first] = codes[value] if value < len(codes) else np.uint8(_LONG_CODE + _reached(least_long, value))
        for which in range(len(lengths)):
            length = lengths[which]
            sums[which] += np.int64(value) - np.int64(held[(here - length) % size])
            if sums[which] < of_sums.shape[1]:
                out[k, first + 1 + which] = of_sums[which, sums[which]]
                continue
            out[k, first + 1 + which] = np.uint8(_reached(least, sums[which] / length))
        held[here % size] = value


class _Reference:
    """One reference machine's pass over a run."""

    def __init__(self, reference: Reference, instructions: StaticInstructions, first: int) -> None:
        self.simulation = Simulation(reference.machine, instructions, reference.ideal, taken_path_only=True)
        self._first = first
        self._held = np.zeros(2 * _HELD, np.uint32)
        self._sums, self._lengths = np.zeros(len(MEAN_LENGTHS), np.int64), np.array(MEAN_LENGTHS)
        self._position = 2 * _HELD
        self._codes, self._least_long = latency_codes(), _least_of_long()
        self._least, self._of_sums = _least_of_means(), _codes_of_sums()

    def fill(self, held: Any, out: NDArray[np.uint8]) -> None:
        latency = self.simulation.run(held)
        _quantise(
            latency,
            self._codes,
            self._least_long,
            self._least,
            self._of_sums,
            self._held,
            self._sums,
            self._lengths,
            self._position,
            self._first,
            out,
        )
        self._position += len(latency)


def _as_trained(instructions: StaticInstructions) -> StaticInstructions:
    """Return them without what the simulator has learned to heed since these columns first trained a model."""
    return replace(instructions, temporary=None)


class _TimedExtractor:
    def __init__(self, instructions: StaticInstructions) -> None:
        self._default = DEFAULT.extractor(instructions)
        at = len(DEFAULT.columns)
        known = _as_trained(instructions)
        self._references = [
            _Reference(reference, known, at + EACH * number) for number, reference in enumerate(references())
        ]

    def grow(self, instructions: StaticInstructions) -> None:
        self._default.grow(instructions)
        known = _as_trained(instructions)
        for reference in self._references:
            reference.simulation.grow(known)

    def extract(self, chunk: Chunk) -> NDArray[np.uint8]:
        out = self._of_default(self._default.extract(chunk))
        self._simulate(self._references, chunk, out)
        return out

    def begin(self, chunk: Chunk) -> NDArray[np.uint8]:
        out = self._of_default(self._default.begin(chunk))
        self._simulate(self._references[::2], chunk, out)
        return out

    def finish(self, chunk: Chunk, stored: NDArray[Any]) -> None:
        default = np.ascontiguousarray(stored[:, : len(DEFAULT.columns)])
        self._default.finish(chunk, default)
        stored[:, : len(DEFAULT.columns)] = default
        self._simulate(self._references[1::2], chunk, stored)

    @staticmethod
    def _of_default(stored: NDArray[Any]) -> NDArray[np.uint8]:
        out = np.zeros((len(stored), len(TIMED.columns)), np.uint8)
        out[:, : stored.shape[1]] = stored
        return out

    @staticmethod
    def _simulate(references: list[_Reference], chunk: Chunk, out: NDArray[np.uint8]) -> None:
        for begin in range(0, len(chunk), _PART):
            part = chunk.part(begin, begin + _PART)
            held = references[0].simulation.held(part)
            for reference in references:
                reference.fill(held, out[begin : begin + _PART])


def _of_pieces(
    reference: Reference, instructions: StaticInstructions, pieces: Pieces, sequences: list[tuple[int, Any]], last: Any
) -> NDArray[np.uint8]:
    """[P · UNIT + L, EACH] columns of a machine that takes in what lies between pieces in no time.

    Caches see each line of a gap where it was touched last, the predictor its branches of use, and prefetchers its
    last misses.
    """
    running = _Reference(reference, instructions, 0)
    out = np.empty((len(pieces) * UNIT + len(last), EACH), np.uint8)
    ends = [begin for begin, _ in sequences[1:]] + [len(pieces)] * bool(sequences)
    for (begin, held), end in zip(sequences, ends, strict=True):
        running.simulation.touch(*pieces.gap(begin))
        gap = slice(*pieces.branch_offset[begin : begin + 2])
        running.simulation.learn(pieces.branch[gap], pieces.branch_following[gap])
        taken = slice(*pieces.taken_offset[begin : begin + 2])
        running.simulation.take(pieces.taken[taken], pieces.taken_following[taken])
        running.fill(held, out[begin * UNIT : end * UNIT])
    running.fill(last, out[len(pieces) * UNIT :])
    return out


class TimedSchema(DefaultSchema):
    """See the module's description."""

    def extractor(self, instructions: StaticInstructions) -> Extractor:
        return _TimedExtractor(instructions)

    @property
    def along(self) -> Schema:
        return DEFAULT

    def afterwards(
        self, instructions: StaticInstructions, pieces: Pieces, last: Chunk, divisions: DivisionSteps
    ) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        told = divisions.told
        sequences = [(begin, _core.Chunk(told(chunk), len(instructions))) for begin, chunk in pieces.sequences()]
        last = told(last)
        known = _as_trained(instructions)

        def one(reference: Reference) -> NDArray[np.uint8]:
            return _of_pieces(reference, known, pieces, sequences, last)

        with ThreadPoolExecutor(processors()) as threads:
            for number, found in enumerate(threads.map(one, references())):
                yield len(DEFAULT.columns) + EACH * number, found


def _columns() -> tuple[Column, ...]:
    latency, mean = _latency_table(), _mean_table()
    return tuple(
        column
        for name in NAMES
        for column in (Column(name, latency), *(Column(f"{name}.mean_{length}", mean) for length in MEAN_LENGTHS))
    )


TIMED = TimedSchema(
    name="timed", version=3, dtype="u1", columns=(*DEFAULT.columns, *_columns()), static_names=DEFAULT.static_names
)
