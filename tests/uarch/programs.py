"""Small synthetic programs: static instructions and the stream of their executions, written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from uarch.configuration import Machine
from uarch.instructions import (
    LAST,
    MAX_DESTINATIONS,
    MAX_SOURCES,
    NO_REGISTER,
    Chunk,
    Flag,
    Operation,
    StaticInstructions,
)
from uarch.timing.simulation import Simulation


@dataclass
class Instruction:
    operation: Operation = Operation.INT_ALU
    sources: Sequence[int] = ()
    destinations: Sequence[int] = ()
    flags: Flag = field(default=Flag(0))
    address_sources: int = 0
    micro_operations: int = 1
    length: int = 4
    cycles_before: int = 0
    cycles_after: int = 0
    chained: bool = False

    def computes(self) -> int:
        moves = self.operation in (Operation.NONE, Operation.MOVE) and bool(self.flags & (Flag.LOAD | Flag.STORE))
        return 0 if moves else 1


@dataclass
class Program:
    """Instructions one after another from `base`; `execute` appends one execution with its accesses."""

    instructions: list[Instruction]
    base: int = 0x400000
    ids: list[int] = field(default_factory=list)
    accesses: list[tuple[int, int, int, int]] = field(default_factory=list)  # instruction, address, size, is_store
    isa: str = "x86-64"

    def execute(self, number: int, *accesses: tuple[int, int, int]) -> None:
        self.accesses += [(len(self.ids), *access) for access in accesses]
        self.ids.append(number)

    def static(self) -> StaticInstructions:
        count = len(self.instructions)
        length = np.array([i.length for i in self.instructions], np.uint8)
        sources = np.full((count, MAX_SOURCES), NO_REGISTER, np.uint8)
        destinations = np.full((count, MAX_DESTINATIONS), NO_REGISTER, np.uint8)
        for k, instruction in enumerate(self.instructions):
            sources[k, : len(instruction.sources)] = instruction.sources
            destinations[k, : len(instruction.destinations)] = instruction.destinations
        return StaticInstructions(
            address=(self.base + np.cumsum(length.astype(np.uint64)) - length).astype(np.uint64),
            length=length,
            operation=np.array([i.operation for i in self.instructions], np.uint8),
            flags=np.array([i.flags for i in self.instructions], np.uint16),
            sources=sources,
            address_sources=np.array([i.address_sources for i in self.instructions], np.uint8),
            destinations=destinations,
            micro_operations=np.array([i.micro_operations for i in self.instructions], np.uint8),
            compute_operations=np.array([i.computes() for i in self.instructions], np.uint8),
            cycles_before=np.array([i.cycles_before for i in self.instructions], np.uint8),
            cycles_after=np.array([i.cycles_after for i in self.instructions], np.uint8),
            chained=np.array([i.chained for i in self.instructions], np.uint8),
            vector_unit=np.zeros(count, np.bool_),
            float_move=np.zeros(count, np.bool_),
            isa=self.isa,
        )

    def chunk(self, begin: int = 0, end: int | None = None) -> Chunk:
        end = len(self.ids) if end is None else end
        static_id = np.array(self.ids, np.uint32)
        following = np.append(static_id[1:], LAST).astype(np.uint32)
        table = np.array(self.accesses, np.uint64).reshape(-1, 4)
        offset = np.searchsorted(table[:, 0], np.arange(begin, end + 1))
        chosen = table[offset[0] : offset[-1]]
        return Chunk(
            start=begin,
            static_id=static_id[begin:end],
            next_static_id=following[begin:end],
            access_offset=(offset - offset[0]).astype(np.int64),
            address=chosen[:, 1].copy(),
            size=chosen[:, 2].astype(np.uint8),
            is_store=chosen[:, 3].astype(np.uint8),
        )


def repeated(instruction: Instruction, times: int) -> Program:
    """A body of 12 copies (on one line of 64 bytes) and a jump back, run until `times` copies have executed."""
    body = 12
    program = Program([*[instruction] * body, Instruction(Operation.BRANCH, flags=Flag.BRANCH)])
    for k in range(times):
        program.execute(k % body)
        if k % body == body - 1:
            program.execute(body)
    return program


def load(destination: int = 1, source: int = 2) -> Instruction:
    return Instruction(Operation.NONE, (source,), (destination,), Flag.LOAD, address_sources=1)


def store(data: int = 1, source: int = 2) -> Instruction:
    return Instruction(Operation.NONE, (source, data), (), Flag.STORE, address_sources=1)


def mixed(seed: int, count: int) -> Program:
    """A random walk over every kind of instruction."""
    generator = np.random.default_rng(seed)
    kinds = [op for op in Operation if op not in (Operation.BRANCH, Operation.SYSTEM)]
    instructions = []
    for k in range(64):
        flags = Flag(0)
        operation = kinds[k % len(kinds)]
        if k % 3 == 0:
            flags |= Flag.LOAD
        if k % 5 == 0:
            flags |= Flag.STORE
        if k % 8 == 7:
            flags, operation = Flag.BRANCH | Flag.CONDITIONAL, Operation.BRANCH
        if k == 40:
            flags |= Flag.ATOMIC
        if k == 41:
            flags |= Flag.SERIALIZING
        if k == 42:
            flags |= Flag.STRING | Flag.LOAD
        registers = generator.integers(0, 75, 4)
        instructions.append(
            Instruction(operation, registers[:3], registers[3:], flags, 1, int(generator.integers(1, 5)), 5)
        )
    program = Program(instructions)
    k = 0
    for _ in range(count):
        flags = instructions[k].flags
        accesses = []
        times = int(generator.integers(0, 200)) if flags & Flag.STRING else 1
        for _ in range(times):
            address = 0x10000000 + int(generator.integers(0, 1 << int(generator.integers(8, 22))))
            if flags & Flag.LOAD:
                accesses.append((address, int(generator.choice([0, 1, 8, 64])), 0))
            if flags & Flag.STORE:
                accesses.append((address, 8, 1))
        program.execute(k, *accesses)
        jump = flags & Flag.BRANCH and generator.random() < 0.6
        k = int(generator.integers(0, 64)) if jump else (k + 1) % 64
    return program


def simulate(
    machine: Machine, instructions: StaticInstructions, chunks: Iterable[Chunk]
) -> tuple[NDArray[np.uint16], dict[str, float]]:
    """Return the latency of every instruction of `chunks`, and the counters."""
    simulation = Simulation(machine, instructions)
    latencies = [simulation.run(chunk) for chunk in chunks]
    return np.concatenate(latencies) if latencies else np.empty(0, np.uint16), simulation.counters
