"""Many machines that run one program: simulations side by side on threads, which share the decoded chunks.

The core runs without Python's lock, so threads are as good as processes here, and a trace is read and decoded once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from support.processors import processors
from uarch.configuration import Machine
from uarch.instructions import Chunk, StaticInstructions
from uarch.timing.simulation import Simulation

Stacks = Sequence[tuple[NDArray[np.int64], NDArray[np.uint32]]]  # as Simulation.run_with_stacks takes them


class Simulations:
    """K machines that run one program, on `threads` threads. Close it, or use it as a context, to end the threads."""

    def __init__(self, machines: Sequence[Machine], instructions: StaticInstructions, threads: int = 1) -> None:
        self.each = [Simulation(machine, instructions) for machine in machines]
        self._seconds = [0.0] * len(self.each)  # that each machine took for the chunk before
        threads = min(threads, len(self.each))
        self._pool = ThreadPoolExecutor(threads, "simulation") if threads > 1 else None

    def __len__(self) -> int:
        return len(self.each)

    def __enter__(self) -> Simulations:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def run(self, chunk: Chunk) -> NDArray[np.uint32]:
        """[K, n] cycles between each instruction's retirement and the one before on every machine."""
        held = self.each[0].held(chunk)
        latency = np.empty((len(self), len(chunk)), np.uint32)

        def run(k: int) -> None:
            latency[k] = self.each[k].run(held)

        self._map(run)
        return latency

    def run_with_stacks(self, chunk: Chunk, stacks: Sequence[Stacks]) -> None:
        """Add every cycle to machine k's `stacks[k]`, in tables of its own."""
        held = self.each[0].held(chunk)
        self._map(lambda k: self.each[k].run_with_stacks(held, stacks[k]))

    def warm(self, chunk: Chunk) -> None:
        """Pass the chunk through all machines' caches and TLBs in no time."""
        held = self.each[0].held(chunk)
        self._map(lambda k: self.each[k].warm(held))

    def reset_counters(self) -> None:
        for simulation in self.each:
            simulation.reset_counters()

    def _map(self, act: Callable[[int], object]) -> None:
        """Call `act` for every machine, the slowest first, so that no thread waits long for the last one."""

        def timed(k: int) -> None:
            begin = time.perf_counter()
            act(k)
            self._seconds[k] = time.perf_counter() - begin

        order = sorted(range(len(self)), key=lambda k: -self._seconds[k])
        for _ in self._pool.map(timed, order) if self._pool else map(timed, order):
            pass


def simulated_cycles(
    machines: Sequence[Machine], instructions: StaticInstructions, chunks: Iterable[Chunk], threads: int | None = None
) -> NDArray[np.float64]:
    """[K] cycles of all chunks on each machine, on so many threads; by default on all processors that we may use."""
    with Simulations(machines, instructions, threads or processors()) as simulations:
        for chunk in chunks:
            simulations.run(chunk)
        return np.array([simulation.counters["cycles"] for simulation in simulations.each])
