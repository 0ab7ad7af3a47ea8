"""The dataset of tensor programs, `*.tensor.h5`: tasks, candidate schedules, their latencies on devices, features.

| dataset | type, shape | meaning |
|---|---|---|
| `tasks/key` | str [T] | stable identity of the workload (structural hash, or a log's workload key) |
| `tasks/name`, `tasks/operator` | str [T] | readable name; operator class, one of `OPERATORS` |
| `tasks/shape` | JSON str [T] | workload shape: argument shapes (and types) |
| `tasks/flops` | f64 [T] | floating-point operations of one execution (NaN where that cannot be told) |
| `tasks/networks` | JSON str [T] | {network: weight} in which the task occurs |
| `devices/name`, `devices/parameters` | str, JSON str [D] | device and its hardware parameters; `simulator`, where it is simulated, what timed it |
| `schedules/task` | u32 [S] | the task of candidate schedule s |
| `schedules/kind`, `schedules/origin` | str [S] | `ansor` or `metaschedule`; replay-trace, evolutionary, log, … |
| `schedules/steps/{offset,text}` | u64 [S+1], u8 [n] | JSON text of the schedule's steps as recorded: the bytes of schedule s are `text[offset[s]:offset[s + 1]]` (HDF5 compresses no texts of variable length; these shrink twentyfold) |
| `records/schedule`, `records/device` | u32, u16 [R] | what was measured, where |
| `records/seconds` | f64 [R] | latency: median of the repeats; NaN where it failed |
| `records/spread` | f32 [R] | (75th − 25th percentile) / median of the repeats |
| `records/repeats`, `records/error` | u16, u8 [R] | number of repeats; an `Outcome` |
| `features/GROUP/{offset,values}` | u64 [S+1], f32 [n, d] | ragged rows per schedule, for the GROUPs of `GROUPS` |
| `features/ast/position` | i32 [n] | pre-order position of a compact AST's leaves |

A feature group that is absent was not extracted; a schedule without rows in a group that is there has none. Each group
has the attributes `feature_version` and `digest`; the file has `provenance` (JSON) and `digest`. Nothing here needs TVM,
and nothing that is read is executed.
"""  # noqa: E501

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import h5py
import numpy as np
from numpy.typing import ArrayLike, NDArray

from support.errors import InputError

FORMAT = "perfvec-tensor"
VERSION = 1
OPERATORS = (
    "dense",
    "batch_matmul",
    "conv",
    "depthwise_conv",
    "transposed_conv",
    "pooling",
    "normalization",
    "reduction",
    "elementwise",
    "other",
)
KINDS = ("ansor", "metaschedule")
GROUPS = {"statements": False, "ast": True, "primitives": False}  # whether the group's rows have positions
TASK_TEXTS = ("key", "name", "operator", "shape", "networks")
RECORDS = {"schedule": "<u4", "device": "<u2", "seconds": "<f8", "spread": "<f4", "repeats": "<u2", "error": "u1"}
LABELS = {"kind": "S16", "origin": "S32"}  # of a schedule: texts of fixed length, which HDF5 compresses
_DIGEST_BLOCK = 1 << 22  # bytes at a time


class Outcome(IntEnum):
    """Outcome of a measurement (`records/error`)."""

    OK = 0
    BUILD_FAILED = 1  # the schedule could not be applied or compiled
    RUN_FAILED = 2  # crashed, or the device refused it
    TIMEOUT = 3  # of the build or of the run
    INVALID = 4  # ran, with a wrong result
    UNKNOWN = 5  # failed, the source does not say how


@dataclass(frozen=True)
class Task:
    """One workload to tune: a row of `tasks/`. `shape` is whatever JSON says the argument shapes and types."""

    key: str
    name: str
    operator: str = "other"
    shape: Any = None
    flops: float = math.nan
    networks: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise InputError(
                f"task {self.name}: unknown operator class {self.operator!r}; one of {', '.join(OPERATORS)}"
            )


@dataclass(frozen=True)
class Device:
    """A row of `devices/`: a name, and hardware parameters as `uarch.devices` gives them (unknown ones null)."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """Ragged rows: those of the i-th schedule asked for are `values[offset[i]:offset[i + 1]]`."""

    values: NDArray[np.float32]  # [n, d]
    offset: NDArray[np.int64]  # [schedules + 1]
    position: NDArray[np.int32] | None = None  # [n], where the group has positions

    def __len__(self) -> int:
        return len(self.offset) - 1

    def __getitem__(self, index: int) -> NDArray[np.float32]:
        """[rows, d] of the i-th schedule asked for."""
        return self.values[self.offset[index] : self.offset[index + 1]]

    @property
    def length(self) -> NDArray[np.int64]:
        """[schedules] rows of each."""
        return np.diff(self.offset)


def latency(seconds: ArrayLike) -> tuple[float, float, int]:
    """(median, (75th − 25th percentile) / median, count) of repeats [n ≥ 1], as a record holds them."""
    times = sorted(float(value) for value in np.ravel(np.asarray(seconds, np.float64)))
    low, middle, high = (_quantile(times, share) for share in (0.25, 0.5, 0.75))
    return middle, (high - low) / middle, len(times)


def _quantile(ascending: Sequence[float], share: float) -> float:
    """Linear between the neighbours, as NumPy's, at a fiftieth of its time for a handful of numbers."""
    place = share * (len(ascending) - 1)
    below = int(place)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (place - below) * (ascending[above] - ascending[below])


def digest(file: h5py.File, groups: Sequence[str]) -> str:
    """SHA-256 over names, shapes and contents of all datasets in the groups, and the digests of feature groups."""
    hasher = hashlib.sha256()
    names: list[str] = []
    for group in groups:
        if group in file:
            file[group].visititems(
                lambda name, item, top=group: names.append(f"{top}/{name}") if isinstance(item, h5py.Dataset) else None
            )
    for name in sorted(names):
        dataset = file[name]
        hasher.update(f"{name} {list(dataset.shape)}\n".encode())
        if h5py.check_string_dtype(dataset.dtype) is not None and dataset.dtype.kind == "O":
            for text in dataset[:]:
                hasher.update(len(text).to_bytes(8, "little") + text)
            continue
        step = _DIGEST_BLOCK // max(math.prod(dataset.shape[1:]) * dataset.dtype.itemsize, 1)
        for begin in range(0, len(dataset), max(step, 1)):
            hasher.update(np.ascontiguousarray(dataset[begin : begin + step]).data)
    return hasher.hexdigest()
