"""Time of a stream of instructions on a machine: the way into the timing model.

    simulation = Simulation(machine, instructions)
    simulation.warm(before)             # caches and TLBs only, fast
    latency = simulation.run(chunk)     # cycles from one retirement to the next
    simulation.counters["cycles"]

State lives in the Simulation and is bounded by the machine, not by the trace; any division of a stream into chunks
gives the same result.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.errors import InputError
from uarch.configuration import DramMemory, Machine
from uarch.constraints import FAMILIES, GEM5, dram_models
from uarch.gem5.table import ADDED_REGISTERS, ISAS
from uarch.instructions import Chunk, NativeInstructions, StaticInstructions
from uarch.system_calls import cycles_by_number
from uarch.timing.ideal import idealised
from uarch.timing.native import native_rows
from uarch.timing.stack import CAUSES
from uarch.timing.static import static_rows

try:
    from uarch.timing import _core
except ImportError as error:
    raise InputError(
        "the simulator's compiled core is missing: run `make core`, or `pip install .`; both need a C++17 compiler"
    ) from error

SIMULATOR = "embedded 20"  # this model's name in what it made; another number where times of some machine change
_CODE = np.uint64(_core.TOUCHED_CODE)
COUNTERS = (
    "cycles",
    "instructions",
    "branches",
    "mispredictions",
    "l1i_accesses",
    "l1i_misses",
    "l1d_accesses",
    "l1d_misses",
    "l2_accesses",
    "l2_misses",
    "l3_accesses",
    "l3_misses",
    "itlb_misses",
    "dtlb_misses",
    "l1d_write_backs",
    "l2_write_backs",
    "l3_write_backs",
    "l1d_prefetches",
    "l2_prefetches",
    "l3_prefetches",
    "l1i_merged",
    "l1d_merged",
    "l2_merged",
    "l3_merged",
)


class Misses(NamedTuple):
    """Accesses to data [n] that missed L1D and, where they are `far`, L2: instruction, address, and how many touches
    come before each, ascending.
    """

    static_id: NDArray[np.uint32]
    address: NDArray[np.uint64]
    far: NDArray[np.bool_]
    place: NDArray[np.uint32]


_NO_MISSES = Misses(np.zeros(0, np.uint32), np.zeros(0, np.uint64), np.zeros(0, np.bool_), np.zeros(0, np.uint32))


def touches_of(line: NDArray[np.uint64], code: NDArray[np.bool_], stored: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """[n] touches (`Simulation.touch`) of lines that every level sees: of code, and of data that were stored to."""
    flags = np.where(code, _CODE, np.where(stored, np.uint64(_core.TOUCHED_DIRTY), np.uint64(0)))
    return np.asarray(line << np.uint64(_core.TOUCHED_SHIFT) | flags, np.uint64)


class Simulation:
    """One machine that runs one program.

    `ideal` names what of the machine never costs anything (`ideal.IDEAL`), to see what it costs. With
    `taken_path_only` nothing is fetched from a path that is not taken: the latencies then depend on what was executed
    so far alone, not on the program's other instructions, which may still be unknown.
    """

    def __init__(
        self,
        machine: Machine,
        instructions: StaticInstructions,
        ideal: Collection[str] = (),
        *,
        taken_path_only: bool = False,
    ) -> None:
        self.machine = machine
        machine = idealised(machine, ideal)
        self._simulated = machine
        pipeline = machine.pipeline
        # Other sources' traces (ChampSim) are of x86-64 programs.
        isa = ISAS.get(instructions.isa, ISAS["x86-64"])
        native = _native(machine, instructions)
        self._core = _core.Simulation(
            machine=machine,
            dram=dram_models()[machine.memory.model] if isinstance(machine.memory, DramMemory) else None,
            int_registers=getattr(pipeline, "int_registers", 0) + ADDED_REGISTERS - isa.int_registers,
            fp_registers=getattr(pipeline, "fp_registers", 0) + ADDED_REGISTERS - isa.fp_registers,
            total_store_order=isa.total_store_order,
            rows=_rows(machine, instructions, native),
            pc=instructions.address.astype(np.int64),
            ideal_branches="branches" in ideal,
            ideal_instructions="instructions" in ideal,
            ideal_data="data" in ideal,
            native=native is not None,
            vector_load=native.vector_load if native else 0.0,
            vector_store=native.vector_store if native else 0.0,
            system_calls=cycles_by_number(machine.system_calls, instructions.isa),
            taken_path_only=taken_path_only,
            division_step=_division_step(machine, instructions.isa),
            division_at_most=machine.functional_units.div_step_latency is not None,
        )
        self._ideal = ideal
        self._size = len(instructions)
        self._instructions = 0
        self._names = [{"retired": "cycles"}.get(name, name) for name in self._core.counters]
        self._names.insert(1, "instructions")
        self._before = np.zeros_like(self._core.counts)

    def grow(self, instructions: StaticInstructions) -> None:
        """Go on with more static instructions, of which the ones so far are the first, unchanged."""
        if len(instructions) != self._size:
            native = _native(self._simulated, instructions)
            self._core.grow(_rows(self._simulated, instructions, native), instructions.address.astype(np.int64))
            self._size = len(instructions)

    def run(self, chunk: Chunk | _core.Chunk, outcomes: NDArray[np.uint8] | None = None) -> NDArray[np.uint32]:
        """[n] cycles between each instruction's retirement and the one before.

        `outcomes`: of the chunk's branches, where they were found beforehand (`_core.TimelessBranches`).
        """
        latency = self._core.run(self.held(chunk), outcomes)
        self._instructions += len(latency)
        return latency

    def run_with_stacks(
        self,
        chunk: Chunk | _core.Chunk,
        stacks: Sequence[tuple[NDArray[np.int64], NDArray[np.uint32]]],
        outcomes: NDArray[np.uint8] | None = None,
    ) -> NDArray[np.uint32]:
        """Do as `run`; besides, add every cycle to each of `stacks`, pairs of cycles [G, len(CAUSES)] (`new_stack`) and
        the row [n] that each instruction of the chunk belongs to.
        """
        latency = self._core.run_with_stacks(self.held(chunk), stacks, outcomes)
        self._instructions += len(latency)
        return latency

    def warm(self, chunk: Chunk | _core.Chunk) -> None:
        """Pass the chunk through caches and TLBs in no time; the branch predictor does not see it."""
        self._core.warm(self.held(chunk))

    def touch(self, touches: NDArray[np.uint64], misses: Misses | None = None) -> None:
        """Put lines into caches and TLBs in no time, in the order of their touch, and show misses to prefetchers.

        A touch is line << 4 | 1 if it was stored to, or, of code, if a branch there was mispredicted | 2 if it is code
        | 4 if only a first level sees it | 8 if only the levels below that do. Lines of what is ideal are left out, as
        an access leaves them. Raises ValueError where columns differ in length, or a miss is beyond the program.
        """
        ids, address, far, place = misses or _NO_MISSES
        for part, code in (("instructions", _CODE), ("data", 0)):
            if part in self._ideal:
                kept = touches & _CODE != code
                place = np.concatenate([[0], np.cumsum(kept)])[place].astype(np.uint32)
                touches = touches[kept]
        self._core.touch(touches, ids, address, far, place)

    def learn(self, branch: NDArray[np.uint32], following: NDArray[np.uint32]) -> None:
        """Teach the branch predictor executed branches, each with the instruction after it, in no time."""
        if "branches" not in self._ideal:
            self._core.learn(branch, following)

    def take(self, branch: NDArray[np.uint32], following: NDArray[np.uint32]) -> None:
        """Put direct branches that were taken, each with the instruction after it, into the branch target buffer."""
        if "branches" not in self._ideal:
            self._core.take(branch, following)

    def pass_branches(
        self, branch: NDArray[np.uint32], following: NDArray[np.uint32], outcome: NDArray[np.uint8]
    ) -> None:
        """Fetch in no time the code that leads to branches, each followed by the next, and that of wrong paths, which
        their outcomes (of `TimelessBranches`) redirect from. In order nothing is fetched.
        """
        self._core.pass_branches(branch, following, outcome)

    def begin_unit(
        self,
        load: NDArray[np.uint32],
        store: NDArray[np.uint32],
        times: NDArray[np.uint32],
        same_bytes: NDArray[np.uint32],
    ) -> None:
        """A sampled unit begins. How often its loads had read from stores shortly before them, by static instructions,
        those of a load together, teaches store sets: `times` by blocks of 16 bytes, `same_bytes` by bytes, as silicon
        compares. In order there are none. Raises ValueError for instructions that are not there.
        """
        self._core.begin_unit(load, store, times, same_bytes)

    def set_refresh(self, passed: float) -> None:
        """Let so much of a refresh interval, of [0, 1), have passed since the DRAM began the last one. A memory
        of fixed latency has none. Raises ValueError for other numbers.
        """
        self._core.set_refresh(passed)

    def held(self, chunk: Chunk | _core.Chunk) -> _core.Chunk:
        """Return the chunk as the core reads it, checked; simulations of the same program can share it."""
        return _core.Chunk(chunk, self._size) if isinstance(chunk, Chunk) else chunk

    @property
    def statistics(self) -> dict[str, int]:
        """All totals since the beginning or the last `reset_counters` (warm-up included).

        Stores that have retired but not been written yet are not among the accesses yet.
        """
        return dict(zip(self._names, self.counts.tolist(), strict=True))

    @property
    def counts(self) -> NDArray[np.int64]:
        """The values of `statistics` in their order, quicker."""
        counts = self._core.counts - self._before
        return np.concatenate([counts[:1], [self._instructions], counts[1:]])

    @property
    def counters(self) -> dict[str, float]:
        """Return the `statistics` that latency files keep, by the names of COUNTERS."""
        totals = self.statistics
        return {name: float(totals[name]) for name in COUNTERS}

    @property
    def in_flight_before(self) -> int:
        """Sum over all branches so far: how many before each had not retired when it was fetched."""
        return self._core.in_flight_before

    @property
    def refresh_surplus(self) -> float:
        """Cycles that reads of a DRAM waited for refreshes so far, of each refresh the first one, less what is expected
        over the times at which refreshes might have begun.
        """
        return self._core.refresh_surplus

    def reset_counters(self) -> None:
        """Counts from here on; contents and times stay."""
        self._before = self._core.counts
        self._instructions = 0


def _native(machine: Machine, instructions: StaticInstructions) -> NativeInstructions | None:
    """The instructions as a family's micro-operations; None where the machine's are gem5's. Raises InputError."""
    if machine.microcode == GEM5:
        return None
    isa, where = FAMILIES[machine.microcode], f"machine {machine.name}: microcode = {machine.microcode}"
    if instructions.native is None:
        raise InputError(
            f"{where} needs the machine code of {isa}, which this trace does not have; set microcode to gem5"
        )
    if instructions.isa != isa:
        right = ", ".join(family for family in FAMILIES if FAMILIES[family] == instructions.isa)
        raise InputError(
            f"{where} has the micro-operations of {isa}, but the program is of {instructions.isa}; set microcode to "
            f"gem5 or to one of {right}"
        )
    return instructions.native(machine.microcode)


def _division_step(machine: Machine, isa: str) -> int:
    """Return the cycles of a step of a division whose steps a trace tells; 0 where the machine has no such steps."""
    units = machine.functional_units
    if machine.microcode != GEM5 or isa != "x86-64":
        return 0
    return units.div_latency if units.div_step_latency is None else units.div_step_latency


def _rows(machine: Machine, instructions: StaticInstructions, native: NativeInstructions | None) -> NDArray[np.int16]:
    return static_rows(machine, instructions) if native is None else native_rows(machine, native)


def new_stack(groups: int) -> NDArray[np.int64]:
    """[groups, len(CAUSES)] no cycles yet."""
    return np.zeros((groups, len(CAUSES)), np.int64)
