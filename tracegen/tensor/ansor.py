"""Ansor's tuning logs (also TenSet's): one JSON record a line, plain or gzip, read as a stream.

A record is `{"i": [[workload_key, target, hardware[8], target_host, layout_rewrite, task_inputs?], [[], steps]],
"r": [costs_s, error_number, all_cost_s, timestamp], "v": "v0.x"}` (TVM 0.7 to 0.19, auto_scheduler/measure_record.cc;
hardware and what follows it are missing in older ones). Blank lines and lines that begin with # are comments.

Nothing is guessed: a line that is not such a record is a `Problem` with its place, a failed measurement is a record
with its outcome and no time.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracegen.tensor.dataset import Outcome, Task
from tracegen.tensor.lines import Problem, RecordError, document, is_number, read_lines, short
from tracegen.tensor.primitives import Primitive, StepError, from_ansor

_FAILED_S = 1e9  # Ansor writes 1e10 for a measurement that failed
_OUTCOMES = {  # MeasureErrorNo of TVM's auto_scheduler/measure.py
    0: Outcome.OK,
    1: Outcome.BUILD_FAILED,
    2: Outcome.BUILD_FAILED,
    3: Outcome.BUILD_FAILED,
    4: Outcome.RUN_FAILED,
    5: Outcome.INVALID,
    6: Outcome.TIMEOUT,
    7: Outcome.TIMEOUT,
    8: Outcome.UNKNOWN,
}
_HARDWARE = (  # the log's hardware parameters, by the names of `uarch.devices` where that has the same
    "cores",
    "vector_bytes",
    "cache_line_bytes",
    "max_shared_memory_per_block",
    "max_local_memory_per_block",
    "max_threads_per_block",
    "max_vthread_extent",
    "warp_size",
)
_UNLIMITED = (1 << 31) - 1


@dataclass(frozen=True)
class Record:
    """One measurement. `costs`: seconds of each repeat, empty where the measurement failed."""

    workload_key: str
    target: str
    hardware: Mapping[str, int]  # those of `_HARDWARE` that the log knows
    steps: list[Any]
    primitives: list[Primitive]
    costs: tuple[float, ...]
    outcome: Outcome
    timestamp: float


def read_log(path: str | os.PathLike[str]) -> Iterator[tuple[int, Record | Problem]]:
    """(line, record or problem) for every line of a log that is not a comment. Memory: one line. Raises InputError."""
    return read_lines(path, parse)


def parse(line: str | bytes) -> Record:
    """The record of a line. Raises RecordError."""
    found = document(line)
    if not isinstance(found, dict) or not {"i", "r"} <= found.keys():
        raise RecordError("no record", 'no record; an object with "i" and "r" is expected')
    task, steps = _input(found["i"])
    key, target = task[0], task[1]
    if not isinstance(key, str) or not isinstance(target, str) or not target.strip():
        raise RecordError("no record", '"i" begins with no workload key and target')
    parse_key(key)
    try:
        primitives = from_ansor(steps)
    except StepError as error:
        raise RecordError(f"step {error.step}", str(error)) from error
    costs, outcome, timestamp = _result(found["r"])
    return Record(key, target, _hardware(task), steps, primitives, costs, outcome, timestamp)


def _input(value: Any) -> tuple[list[Any], Any]:
    """(what describes the task, transform steps)"""
    if (
        not isinstance(value, list)
        or len(value) != 2
        or not all(isinstance(part, list) for part in value)
        or not 2 <= len(value[0]) <= 6
        or len(value[1]) != 2
    ):
        raise RecordError("no record", '"i" is not [[workload_key, target, …], [[], steps]]')
    return value[0], value[1][1]


def _hardware(task: Sequence[Any]) -> dict[str, int]:
    if len(task) < 3 or task[2] is None:
        return {}
    values = task[2]
    if not isinstance(values, list) or len(values) != len(_HARDWARE) or not all(type(value) is int for value in values):
        raise RecordError("no record", f"the hardware parameters are not {len(_HARDWARE)} integers")
    named = dict(zip(_HARDWARE, values, strict=True))
    return {name: value for name, value in named.items() if 0 < value < _UNLIMITED}


def _result(value: Any) -> tuple[tuple[float, ...], Outcome, float]:
    if not isinstance(value, list) or len(value) != 4 or not isinstance(value[0], list):
        raise RecordError("no record", '"r" is not [costs, error, all_cost, timestamp]')
    costs, code, _, timestamp = value
    if type(code) is not int or code not in _OUTCOMES:
        raise RecordError("error number", f"the error number is {short(code)}; 0 to 8 exist")
    if not is_number(timestamp):
        raise RecordError("no record", "the timestamp is no number")
    outcome = _OUTCOMES[code]
    if outcome != Outcome.OK:
        return (), outcome, float(timestamp)
    if not costs or not all(is_number(cost) and cost > 0 for cost in costs):
        raise RecordError("costs", f"the costs are {short(costs)}; positive seconds are expected where the error is 0")
    if max(costs) >= _FAILED_S:
        return (), Outcome.UNKNOWN, float(timestamp)
    return tuple(float(cost) for cost in costs), outcome, float(timestamp)


# --- What a workload key tells ---


def parse_key(key: str) -> list[Any]:
    """A workload key's parts, `[hash or function, argument, …]`. Raises RecordError."""
    parts = document(key, "workload key")
    if not isinstance(parts, list) or not parts or not isinstance(parts[0], str):
        raise RecordError("workload key", f"the workload key {short(key)} does not begin with a hash or function name")
    return parts


_OPERATOR_WORDS = (  # the first that occurs in a function's name
    ("depthwise", "depthwise_conv"),
    ("transpose", "transposed_conv"),
    ("conv", "conv"),
    ("batch_matmul", "batch_matmul"),
    ("bmm", "batch_matmul"),
    ("matmul", "dense"),
    ("dense", "dense"),
    ("gemm", "dense"),
    ("softmax", "normalization"),
    ("norm", "normalization"),
    ("pool", "pooling"),
    ("sum", "reduction"),
    ("mean", "reduction"),
    ("relu", "elementwise"),
    ("add", "elementwise"),
)


def task_of(key: str) -> Task:
    """The task of a workload key: its shapes, and the operator and FLOPs where the key tells them beyond doubt.

    A hash names no operator. What is recognised by shapes, nested (`[hash, [1, 7, 7, 512], …]`) or one after another
    (`[hash, 1, 7, 7, 512, …]`): a 2-d convolution (data NHWC, weights HWIO or HWO1 for depthwise ones with odd, square
    windows) and a dense layer (data, weights and output of two dimensions). Their FLOPs are those of the
    multiplications and additions, without what is fused behind. All else: operator `other`, FLOPs NaN.
    """
    parts = parse_key(key)
    name, arguments = parts[0], parts[1:]
    if re.fullmatch(r"[0-9a-f]{32}", name):
        operator, flops = _recognised(arguments)
        shown = f"{name[:8]} {json.dumps(arguments, separators=(',', ':'))[:80]}"
        return Task(key, shown, operator, arguments, flops)
    words = name.lower()
    operator = next((operator for word, operator in _OPERATOR_WORDS if word in words), "other")
    return Task(key, name, operator, arguments)


def _recognised(arguments: Sequence[Any]) -> tuple[str, float]:
    nested = all(isinstance(shape, list) for shape in arguments)
    flat = [x for shape in arguments for x in (shape if isinstance(shape, list) else [shape])]
    if len(arguments) == 0 or not all(type(x) is int and 0 < x < 1 << 31 for x in flat):
        return "other", math.nan
    if nested:
        shapes = [tuple(shape) for shape in arguments]
        data, weights, output = (*shapes[:2], shapes[-1]) if len(shapes) > 2 else ((), (), ())
        return _convolution(data, weights, output) or _dense(data, weights, output) or ("other", math.nan)
    convolution = _convolution(flat[:4], flat[4:8], flat[-4:]) if len(flat) >= 12 else None
    dense = _dense(flat[:2], flat[2:4], flat[-2:]) if len(flat) in (6, 7, 8) else None
    return convolution or dense or ("other", math.nan)


def _convolution(data: Sequence[int], weights: Sequence[int], output: Sequence[int]) -> tuple[str, float] | None:
    if not len(data) == len(weights) == len(output) == 4:
        return None
    (batch, height, width, channels), (rows, columns, inner, filters) = data, weights
    spatial = (
        rows == columns
        and rows % 2 == 1
        and all(
            any(out in (-(-size // stride), (size - rows) // stride + 1) for stride in (1, 2, 4))
            for out, size in zip(output[1:3], (height, width), strict=True)
        )
    )
    if not spatial or output[0] != batch:
        return None
    if inner == channels and output[3] == filters:
        return "conv", 2.0 * math.prod(output) * rows * columns * channels
    if inner == channels == output[3] and filters == 1 and rows > 1:
        return "depthwise_conv", 2.0 * math.prod(output) * rows * columns
    return None


def _dense(data: Sequence[int], weights: Sequence[int], output: Sequence[int]) -> tuple[str, float] | None:
    if not len(data) == len(weights) == len(output) == 2 or weights[1] != data[1]:
        return None
    if output[0] != data[0] or output[1] != weights[0]:
        return None
    return "dense", 2.0 * data[0] * data[1] * weights[0]


def device_name(target: str) -> str:
    """Return the device's name in a log's target: its -model, or -mcpu, or the kind of target."""
    for option in ("model", "mcpu"):
        found = re.search(rf"(?:^|\s)-{option}=([^\s]+)", target)
        if found and found[1] != "unknown":
            return found[1]
    return target.split()[0]
