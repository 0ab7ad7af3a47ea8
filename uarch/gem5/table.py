"""Table of the gem5 parameter that each field of a machine sets, read forwards by `script` and backwards by `config`.

Names and defaults are those of gem5 v24.0, others where a version is named (src/cpu/o3/BaseO3CPU.py,
src/cpu/minor/BaseMinorCPU.py, src/cpu/pred/BranchPredictor.py, src/mem/cache/Cache.py). Latencies and delays are
cycles on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uarch.configuration import FunctionalUnits, Machine


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
        "renameToDecodeDelay": 1,
        "iewToRenameDelay": 1,
        "commitToIEWDelay": 1,
        "commitToRenameDelay": 1,
        "fetchTrapLatency": 1,
        "trapLatency": 13,
        "LSQCheckLoads": True,
        "LSQDepCheckShift": 4,
        "SSITSize": 1024,
        "LFSTSize": 1024,
        "store_set_clear_period": 250_000,
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
CACHE_DEFAULT: dict[str, Any] = {"clusivity": "mostly_incl", "sequential_access": False, "demand_mshr_reserve": 1}
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
_QUEUED = {"on_miss": False, "queue_size": 32, "latency": 1, "prefetch_on_access": False, "on_read": True}
PREFETCHER_DEFAULT = {
    "stride": {"degree": 4, **_QUEUED, "confidence_threshold": 50, "initial_confidence": 4, "distance": 0},
    "tagged": {"degree": 2, **_QUEUED},
}
PREDICTOR_DEFAULT = {"requiresBTBHit": False, "instShiftAmt": 2}  # (src/cpu/pred/BranchPredictor.py)
INDIRECT_PART = "indirectBranchPred"
INDIRECT_DEFAULT = {"indirectSets": 256, "indirectWays": 2, "indirectTagSize": 16, "indirectPathLength": 3}
LOOP_PART = "loop_predictor"
LOOP_DEFAULT = {
    "logSizeLoopPred": 8,
    "loopTableAgeBits": 8,
    "loopTableConfidenceBits": 2,
    "loopTableTagBits": 14,
    "loopTableIterBits": 14,
    "logLoopTableAssoc": 2,
    "withLoopBits": 7,
}
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
