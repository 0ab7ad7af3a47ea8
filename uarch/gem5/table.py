"""Table of the gem5 parameter that each field of a machine sets, read forwards by `script` and backwards by `config`.

Names and defaults are those of gem5 v24.0, others where a version is named (src/cpu/o3/BaseO3CPU.py,
src/cpu/minor/BaseMinorCPU.py, src/cpu/pred/BranchPredictor.py, src/mem/cache/Cache.py). Latencies and delays are
cycles on both sides.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from support.errors import InputError
from uarch.configuration import (
    FunctionalUnits,
    Machine,
    SimpleMemory,
    configuration_key,
    flatten,
    machine_from_dict,
    replace_field,
)
from uarch.constraints import NO_PREDICTOR, STREAM, TAGGED


@dataclass(frozen=True)
class Isa:
    """gem5's names of an instruction set's classes: `prefix`O3CPU, and the type of the core's `isa` object; and what
    its O3CPU does differently for it.
    """

    prefix: str
    type: str
    total_store_order: bool  # `needsTSO` (src/arch/*/*CPU.py): a store goes to the cache when the one before is there
    # Physical registers that hold the architecture's and the micro-operations' own (src/arch/*/regs/*.hh, `NumRegs`).
    int_registers: int
    fp_registers: int  # of the file where scalar floating point lives: Arm's is that of the vectors


ISAS = {
    "x86-64": Isa("X86", "X86ISA", True, 38, 48),
    "aarch64": Isa("Arm", "ArmISA", False, 42, 44),
    "riscv64": Isa("Riscv", "RiscvISA", False, 33, 32),
}
ADDED_REGISTERS = 64  # to the configured counts, as gem5 counts those own registers too


@dataclass(frozen=True)
class Parameter:
    """A field and the parameters of one gem5 object that it sets, all to field × `times` + `plus`."""

    field: str
    names: tuple[str, ...]
    times: int = 1
    plus: int = 0
    most: int | None = None  # what stock gem5 is compiled for
    isa: str | None = None  # where only one instruction set uses it

    def value(self, field_value: int) -> int:
        return field_value * self.times + self.plus


# src/cpu/o3/limits.hh: a core with a wider stage stops with a fatal error.
MAX_WIDTH = 12

CORE_CLASS = {"out-of-order": "O3CPU", "in-order": "MinorCPU"}
CORE_TYPES = {  # as `type` in config.json, in v24 and before
    "BaseO3CPU": "out-of-order",
    "O3CPU": "out-of-order",
    "DerivO3CPU": "out-of-order",
    "BaseMinorCPU": "in-order",
    "MinorCPU": "in-order",
}

# The core's own parameters, its queue's and its units' (`fuPool`); in v25 those of objects of it.
ISSUE_QUEUE = Parameter("pipeline.issue_queue_entries", ("numIQEntries",))
QUEUE_PART = ("instQueues", "IQUnit", "numEntries")  # v25's parameter of the core, the class, its parameter

CORE: dict[str, tuple[Parameter, ...]] = {
    "out-of-order": (
        Parameter("pipeline.fetch_width", ("fetchWidth",), most=MAX_WIDTH),
        Parameter("pipeline.decode_width", ("decodeWidth",), most=MAX_WIDTH),
        Parameter("pipeline.rename_width", ("renameWidth",), most=MAX_WIDTH),
        Parameter("pipeline.issue_width", ("issueWidth", "dispatchWidth"), most=MAX_WIDTH),
        Parameter("pipeline.commit_width", ("commitWidth",), most=MAX_WIDTH),
        Parameter("pipeline.frontend_delay", ("fetchToDecodeDelay",)),
        Parameter("pipeline.dispatch_delay", ("renameToIEWDelay",)),
        Parameter("pipeline.rob_entries", ("numROBEntries",)),
        ISSUE_QUEUE,
        Parameter("pipeline.load_queue_entries", ("LQEntries",)),
        Parameter("pipeline.store_queue_entries", ("SQEntries",)),
        # A field counts registers for renaming; gem5 counts the instruction set's own and its temporaries too.
        Parameter("pipeline.int_registers", ("numPhysIntRegs",), plus=ADDED_REGISTERS),
        Parameter("pipeline.fp_registers", ("numPhysFloatRegs",), plus=ADDED_REGISTERS),
        # Where Arm's scalars live.
        Parameter("pipeline.fp_registers", ("numPhysVecRegs",), plus=ADDED_REGISTERS, isa="aarch64"),
        Parameter("functional_units.load_ports", ("cacheLoadPorts",)),
        Parameter("functional_units.store_ports", ("cacheStorePorts",)),
    ),
    "in-order": (
        Parameter(
            "pipeline.width", ("decodeInputWidth", "executeInputWidth", "executeIssueLimit", "executeCommitLimit")
        ),
        # Not fetch1ToFetch2ForwardDelay: MinorCPU of X86 crashes where that is above 1.
        Parameter("pipeline.frontend_delay", ("fetch2ToDecodeForwardDelay",)),
        Parameter("pipeline.memory_width", ("executeMemoryIssueLimit", "executeMemoryCommitLimit")),
        Parameter("pipeline.store_buffer", ("executeLSQStoreBufferSize",)),
        Parameter("pipeline.memory_in_flight", ("executeMaxAccessesInMemory",)),
    ),
}

# Parameters that no field sets. SET are written; DEFAULT are gem5's own values, which every machine has.
CORE_SET: dict[str, dict[str, int]] = {"out-of-order": {"wbWidth": 8, "squashWidth": 8}, "in-order": {}}
CORE_DEFAULT: dict[str, dict[str, Any]] = {
    "out-of-order": {
        "numThreads": 1,
        "fetchBufferSize": 64,
        "fetchQueueSize": 32,
        "decodeToRenameDelay": 1,
        "renameToROBDelay": 1,
        "issueToExecuteDelay": 1,
        "iewToCommitDelay": 1,
        "commitToFetchDelay": 1,
        "iewToFetchDelay": 1,
        "decodeToFetchDelay": 1,
        "trapLatency": 13,
        "LSQCheckLoads": True,
    },
    "in-order": {
        "numThreads": 1,
        "fetch1FetchLimit": 1,
        "fetch1LineWidth": 0,
        "fetch1ToFetch2ForwardDelay": 1,
        "fetch1ToFetch2BackwardDelay": 1,
        "decodeToExecuteForwardDelay": 1,
        "fetch2InputBufferSize": 2,
        "decodeInputBufferSize": 3,
        "executeInputBufferSize": 7,
        "executeBranchDelay": 1,
        "executeLSQRequestsQueueSize": 1,
        "executeLSQTransfersQueueSize": 2,
        "executeLSQMaxStoreBufferStoresPerCycle": 2,
        "executeAllowEarlyMemoryIssue": True,
    },
}


def communication_size(machine: Machine) -> int:
    """Depth of the O3 core's time buffers (`backComSize`, `forwardComSize`): a delay beyond it fails an assertion."""
    pipeline = machine.to_dict()["pipeline"]
    return max(5, pipeline["frontend_delay"], pipeline["dispatch_delay"])


@dataclass(frozen=True)
class Operations:
    """gem5 operation classes of one latency: a field of `functional_units` × `times` + `plus`, or a number."""

    classes: str  # separated by blanks
    latency: str | int
    times: int = 1
    plus: int = 0
    pipelined: bool = True

    def cycles(self, units: FunctionalUnits) -> int:
        base = getattr(units, self.latency) if isinstance(self.latency, str) else self.latency
        return base * self.times + self.plus


@dataclass(frozen=True)
class Unit:
    """A kind of functional unit; `count` is a field of `functional_units` or a number. The last three are Minor's:
    its units do every operation at one latency.
    """

    name: str
    count: str | int
    operations: tuple[Operations, ...]
    late: int | None = 0  # cycles after issue at which operands are needed (srcRegsRelativeLats); None: no such rule
    extra_latency: int = 0  # extraAssumedLat

    def copies(self, units: FunctionalUnits) -> int:
        return getattr(units, self.count) if isinstance(self.count, str) else self.count


# `Vector…` are v23's names of RISC-V's vector operations, which are Simd's of v24; a script gives the names that are
# there.
_SIMD_INTEGER = (
    "SimdAdd SimdAddAcc SimdAlu SimdCmp SimdCvt SimdMisc SimdShift SimdShiftAcc SimdReduceAdd SimdReduceAlu \
SimdReduceCmp SimdExt SimdConfig SimdPredAlu VectorIntegerArith VectorIntegerReduce VectorIntegerExtension VectorMisc \
VectorConfig"
)
_SIMD_CRYPTO = (
    "SimdAes SimdAesMix SimdSha1Hash SimdSha1Hash2 SimdSha256Hash SimdSha256Hash2 SimdShaSigma2 SimdShaSigma3"
)
_SIMD_MULTIPLY = "SimdMult SimdMultAcc SimdMatMultAcc SimdFloatMult SimdFloatMultAcc SimdFloatMatMultAcc"
_SIMD_FLOAT = "SimdFloatAdd SimdFloatAlu SimdFloatCmp SimdFloatCvt SimdFloatMisc SimdFloatReduceAdd SimdFloatReduceCmp \
SimdFloatExt VectorFloatArith VectorFloatConvert VectorFloatReduce"
_SIMD_DIVIDE = "SimdDiv SimdSqrt SimdFloatDiv SimdFloatSqrt"
_MATRIX = "Matrix MatrixMov MatrixOP"
_LOADS = "MemRead FloatMemRead SimdUnitStrideLoad SimdUnitStrideMaskLoad SimdStridedLoad SimdIndexedLoad \
SimdUnitStrideFaultOnlyFirstLoad SimdUnitStrideSegmentedLoad SimdWholeRegisterLoad VectorUnitStrideLoad \
VectorUnitStrideMaskLoad VectorStridedLoad VectorIndexedLoad VectorUnitStrideFaultOnlyFirstLoad VectorWholeRegisterLoad"
_STORES = "MemWrite FloatMemWrite SimdUnitStrideStore SimdUnitStrideMaskStore SimdStridedStore SimdIndexedStore \
SimdUnitStrideSegmentedStore SimdWholeRegisterStore VectorUnitStrideStore VectorUnitStrideMaskStore VectorStridedStore \
VectorIndexedStore VectorWholeRegisterStore"

UNITS: dict[str, tuple[Unit, ...]] = {
    "out-of-order": (
        Unit("integer", "int_alu", (Operations("IntAlu", 1),)),
        Unit(
            "multiply and divide",
            "int_mul",
            (Operations("IntMult", "mul_latency"), Operations("IntDiv", "div_latency", pipelined=False)),
        ),
        Unit("float add", "fp_add", (Operations("FloatAdd FloatCmp FloatCvt", "fp_add_latency"),)),
        Unit(
            "float multiply and divide",
            "fp_mul",
            (
                Operations("FloatMult", "fp_mul_latency"),
                Operations("FloatMultAcc", "fp_mul_latency", plus=1),
                Operations("FloatMisc", 3),
                Operations("FloatDiv", "fp_div_latency", pipelined=False),
                Operations("FloatSqrt", "fp_div_latency", times=2, pipelined=False),
            ),
        ),
        Unit(
            "vector",
            "simd",
            (
                Operations(f"{_SIMD_INTEGER} {_SIMD_CRYPTO} {_MATRIX}", 1),
                Operations(_SIMD_MULTIPLY, "fp_mul_latency"),
                Operations(_SIMD_FLOAT, "fp_add_latency"),
                Operations(_SIMD_DIVIDE, "fp_div_latency"),
            ),
        ),
        Unit("load", "load_ports", (Operations(_LOADS, 1),)),
        Unit("store", "store_ports", (Operations(_STORES, 1),)),
        Unit("internal registers", 1, (Operations("IprAccess", 3, pipelined=False),)),
        Unit("prefetch", 1, (Operations("InstPrefetch", 1),)),
    ),
    "in-order": (
        Unit("integer", "int_alu", (Operations("IntAlu", 3),), late=2),
        Unit("multiply", "int_mul", (Operations("IntMult", "mul_latency"),)),
        Unit("divide", 1, (Operations("IntDiv", "div_latency", pipelined=False),)),
        Unit("float add", "fp_add", (Operations("FloatAdd FloatCmp FloatCvt FloatMisc", "fp_add_latency"),)),
        Unit("float multiply", "fp_mul", (Operations("FloatMult FloatMultAcc", "fp_mul_latency"),)),
        Unit("float divide", 1, (Operations("FloatDiv FloatSqrt", "fp_div_latency", pipelined=False),)),
        Unit(
            "vector",
            "simd",
            (
                Operations(
                    f"{_SIMD_INTEGER} {_SIMD_CRYPTO} {_MATRIX} {_SIMD_MULTIPLY} {_SIMD_FLOAT} {_SIMD_DIVIDE}",
                    "fp_add_latency",
                ),
            ),
        ),
        Unit("load and store", 1, (Operations(f"{_LOADS} {_STORES}", 1),), late=1, extra_latency=2),
        Unit("internal registers and prefetch", 1, (Operations("IprAccess InstPrefetch", 1),), late=None),
    ),
}


# Tables of the TAGE inside a predictor (src/cpu/pred/BranchPredictor.py), which a field does not size.
TAGE_DEFAULT: dict[str, dict[str, Any]] = {
    "TAGE": {
        "nHistoryTables": 7,
        "minHist": 5,
        "maxHist": 130,
        "logTagTableSizes": [13, 9, 9, 9, 9, 9, 9, 9],
        "tagTableTagWidths": [0, 9, 9, 10, 10, 11, 11, 12],
    },
    "LTAGE": {
        "nHistoryTables": 12,
        "minHist": 4,
        "maxHist": 640,
        "logTagTableSizes": [14, 10, 10, 11, 11, 11, 11, 10, 10, 10, 10, 9, 9],
        "tagTableTagWidths": [0, 7, 7, 8, 8, 9, 10, 11, 12, 12, 13, 14, 15],
    },
}


@dataclass(frozen=True)
class Predictor:
    """A direction predictor. `sizes` are its tables in units of the field `entries`; without any, gem5's class has one
    size and `entries` only chooses the class (up to `most_entries`). `nominal` is what such a class is read back as.
    """

    kind: str
    gem5: str
    sizes: tuple[tuple[str, int], ...] = ()
    most_entries: int | None = None
    nominal: int = 4096


PREDICTORS: tuple[Predictor, ...] = (
    Predictor("local", "LocalBP", (("localPredictorSize", 1),)),
    Predictor("bimode", "BiModeBP", (("globalPredictorSize", 1), ("choicePredictorSize", 1))),
    Predictor(
        "tournament",
        "TournamentBP",
        (
            ("localPredictorSize", 1),
            ("localHistoryTableSize", 1),
            ("globalPredictorSize", 2),
            ("choicePredictorSize", 2),
        ),
    ),
    Predictor("tage", "TAGE"),
    Predictor("ltage", "LTAGE"),
    Predictor("tage-sc-l", "TAGE_SC_L_8KB", most_entries=1024, nominal=1024),
    Predictor("tage-sc-l", "TAGE_SC_L_64KB", nominal=2048),
    Predictor("perceptron", "MultiperspectivePerceptron8KB", most_entries=1024, nominal=1024),
    Predictor("perceptron", "MultiperspectivePerceptron64KB", nominal=2048),
)

# Where the field is a parameter of an object inside the predictor; in v23.0 it is one of the predictor itself.
PREDICTOR_PARTS: tuple[tuple[str, str, str, str, str], ...] = (  # field, object, its class, its parameter; v23.0's
    ("branch_predictor.btb_entries", "btb", "SimpleBTB", "numEntries", "BTBEntries"),
    ("branch_predictor.ras_entries", "ras", "ReturnAddrStack", "numEntries", "RASSize"),
)
DIRECTION_PART = "conditionalBranchPred"  # the predictor of directions, an object of the predictor in v25


def predictor_of(kind: str, entries: int) -> Predictor:
    """The class for a kind and its entries."""
    found = [predictor for predictor in PREDICTORS if predictor.kind == kind]
    return next(p for p in found if p.most_entries is None or entries <= p.most_entries)


# Fields of every cache, without the level's name.
CACHE: tuple[Parameter, ...] = (
    Parameter("size_kib", ("size",), times=1024),
    Parameter("associativity", ("assoc",)),
    Parameter("latency", ("tag_latency", "data_latency")),
    Parameter("mshrs", ("mshrs",)),
)
CACHE_SET: dict[str, Any] = {"tgts_per_mshr": 16, "write_buffers": 8}
CACHE_DEFAULT: dict[str, Any] = {"clusivity": "mostly_incl", "sequential_access": False}
# Crossbars between caches and to memory (src/mem/XBar.py), a DRAM's controller (src/mem/MemCtrl.py); its times in ps.
L2_BUS_DEFAULT: dict[str, Any] = {"frontend_latency": 1, "forward_latency": 0, "response_latency": 1, "width": 32}
SYSTEM_BUS_DEFAULT: dict[str, Any] = {"frontend_latency": 3, "forward_latency": 4, "response_latency": 2, "width": 16}
CONTROLLER_DEFAULT: dict[str, Any] = {"static_frontend_latency": 10_000, "static_backend_latency": 10_000}
SIMPLE_MEMORY_DEFAULT: dict[str, Any] = {"latency_var": 0}
PREFETCHERS = {"none": None, "stride": "StridePrefetcher", "tagged": "TaggedPrefetcher"}
# gem5's class, with what is not its default; an SRRIP's type is that of the class it is derived from.
REPLACEMENT_POLICIES = {
    "lru": ("LRURP", {}),
    "tree-plru": ("TreePLRURP", {}),
    "srrip": ("BRRIPRP", {"btp": 100, "hit_priority": True}),
    "random": ("RandomRP", {}),
}
REPLACEMENT_DEFAULT = {"num_bits": 2, "btp": 3, "hit_priority": False}
PREFETCHER_DEFAULT = {"stride": {"degree": 4, "on_miss": False}, "tagged": {"degree": 2, "on_miss": False}}
TLB_ENTRIES = 64


def response_latency(latency: int) -> int:
    """Cycles that a cache adds on the way back of a miss."""
    return max(latency // 2, 1)


def period_ps(frequency_ghz: float) -> int:
    """The clock period as gem5 has it: whole picoseconds, halves up."""
    return max(math.floor(1000 / frequency_ghz + 0.5), 1)


def plainest(near: float, same: Callable[[float], bool]) -> float:
    """The number of fewest digits close to `near` for which `same` holds, the nearest of these; `near` if none."""
    for digits in range(6):
        step = 10.0 ** (math.floor(math.log10(near)) - digits)
        places = max(digits - math.floor(math.log10(near)), 0)
        middle = math.floor(near / step + 0.5)
        found = [round(k * step, places) for k in range(middle - 10, middle + 11) if k > 0]
        found = [value for value in found if same(value)]
        if found:
            return min(found, key=lambda value: abs(value - near))
    return near


def frequency_ghz(period: int) -> float:
    """The plainest frequency whose period is `period` ps."""
    return plainest(1000 / period, lambda value: period_ps(value) == period)


def latency_ps(latency_ns: float) -> int:
    return math.floor(latency_ns * 1000 + 0.5)


def ticks_per_byte(bandwidth_gbs: float) -> int:
    """A bandwidth as gem5 has it: whole picoseconds a byte, where a GB is 2**30 bytes."""
    return math.floor(1e12 / (bandwidth_gbs * 2**30) + 0.5)


# 64-bit channels of common memories, GB/s.
_CUSTOMARY_BANDWIDTHS = (3.2, 6.4, 12.8, 19.2, 25.6, 38.4, 51.2)


def bandwidth_gbs(ticks: int) -> float:
    """The customary, else the plainest bandwidth that is `ticks` picoseconds a byte."""
    for value in _CUSTOMARY_BANDWIDTHS:
        if ticks_per_byte(value) == ticks:
            return value
    return plainest(1e12 / (ticks * 2**30), lambda value: ticks_per_byte(value) == ticks)


def predicts(machine: Machine, isa: str) -> bool:
    """Return whether gem5 consults a branch predictor: v24's MinorCPU never does for X86, whose macro-operations carry
    no control flag.
    """
    return machine.core == "out-of-order" or isa != "x86-64"


_NOT_IN_GEM5 = {
    "microcode": "gem5 has micro-operations of its own",
    "branch_predictor.indirect": "gem5's table of indirect targets takes its place",
    "tlb": "misses cost nothing in gem5's system-call emulation",
    "frames": "gem5 hands out its pages in order",
    "first_touch": "a page of gem5's is in memory",
    "indirect_delay": "gem5 finds all targets at once",
    "taken_branches": "gem5 ends a group of fetch with a taken branch",
    "store_lines": "gem5 writes stores of x86 one at a time",
    "store_refetch": "a store of gem5's asks for its line when it is written",
    "forward_latency": "gem5 forwards in 2 cycles",
    "memory_renaming": "gem5 loads from stores through its queue alone",
    "system_calls": "gem5 emulates system calls in no time",
    **{
        f"{level}.{field}": "a cache of gem5's is filled every cycle"
        for level in ("l1i", "l1d", "l2", "l3")
        for field in ("fill_cycles", "set_fill_cycles")
    },
}


def _shown(value: Any) -> str:
    return ", ".join(f"{name} {one}" for name, one in value.items()) if isinstance(value, dict) else str(value)


def as_simulated(machine: Machine, isa: str = "x86-64") -> tuple[Machine, list[str]]:
    """The machine that stock gem5 simulates for `machine`, and one line for each thing that is different there.
    Raises InputError where gem5 cannot run it at all.
    """
    if isa not in ISAS:
        raise InputError(f"isa = {isa} must be one of {', '.join(ISAS)}")
    simulated, notes = machine, []

    def change(field: str, old: Any, new: Any, why: str) -> None:
        nonlocal simulated
        if old != new:
            simulated = replace_field(simulated, field, new)
            notes.append(f"{field} = {old} becomes {new}: {why}")

    values = machine.to_dict()
    for field, why in _NOT_IN_GEM5.items():
        section, _, name = field.rpartition(".")
        fields = (values[section] or {}) if section else values  # there may be no L3
        if name in fields:
            notes.append(f"{field} = {_shown(fields.pop(name))} is left out: {why}")
    simulated = machine_from_dict(values)

    pipeline = values["pipeline"]
    for parameter in CORE[machine.core]:
        old = pipeline.get(parameter.field.partition(".")[2])
        if parameter.most is not None:
            change(
                parameter.field, old, min(old, parameter.most), f"stock gem5 is compiled for {parameter.most} at most"
            )
    if machine.core == "in-order":
        for port in ("load_ports", "store_ports"):
            change(
                f"functional_units.{port}", getattr(machine.functional_units, port), 1, "MinorCPU has one memory unit"
            )
    for field in [
        field for field, value in flatten(values).items() if field.endswith(".prefetcher") and value == STREAM
    ]:
        change(field, STREAM, TAGGED, "gem5 has no prefetcher of streams by page")
    predictor = machine.branch_predictor
    if not predicts(machine, isa):
        if predictor.kind != "none":
            values = simulated.to_dict()
            values["branch_predictor"] = NO_PREDICTOR
            simulated = machine_from_dict(values)
            why = "gem5's MinorCPU consults no predictor for X86"
            notes.append(f"branch_predictor.kind = {predictor.kind} becomes none: {why}")
    elif predictor.kind == "none":
        raise InputError(
            f"machine {machine.name}: branch_predictor.kind = none cannot be run on {isa}, where gem5's MinorCPU "
            "always predicts; give it a predictor"
        )
    else:
        found = predictor_of(predictor.kind, predictor.entries)
        if not found.sizes:
            why = f"gem5's {found.gem5} has one size"
            change("branch_predictor.entries", predictor.entries, found.nominal, why)
    return simulated, notes


def as_read_back(machine: Machine, isa: str = "x86-64") -> Machine:
    """Return what `uarch.gem5.config` reads from a run of `machine`'s script: the simulated machine, with frequency,
    latency and bandwidth as whole picoseconds give them back. Raises InputError.
    """
    simulated, _ = as_simulated(machine, isa)
    values = simulated.to_dict()
    values["frequency_ghz"] = frequency_ghz(period_ps(simulated.frequency_ghz))
    values["functional_units"]["div_latency"] = simulated.functional_units.int_div_latency(isa)
    values["functional_units"].pop("div_step_latency", None)
    if isinstance(simulated.memory, SimpleMemory):
        values["memory"]["latency_ns"] = latency_ps(simulated.memory.latency_ns) / 1000
        values["memory"]["bandwidth_gbs"] = bandwidth_gbs(max(ticks_per_byte(simulated.memory.bandwidth_gbs), 1))
    return machine_from_dict(values)


def digest(machine: Machine) -> str:
    """SHA-256 of the machine's fields as JSON with sorted keys, its name left out: equal machines, equal digests."""
    return hashlib.sha256(configuration_key(machine).encode()).hexdigest()
