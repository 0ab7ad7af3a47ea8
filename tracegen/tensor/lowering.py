"""Features of a MetaSchedule database's candidates: its modules are decoded and its traces applied, by TVM."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from support.errors import InputError
from tracegen.tensor.compact_ast import compact_ast
from tracegen.tensor.database import Workload
from tracegen.tensor.dataset import Task
from tracegen.tensor.installation import require_tvm, without_tensor_intrinsics
from tracegen.tensor.statements import operator_class, statement_features

if TYPE_CHECKING:
    from tvm.ir import IRModule


class Lowering:
    """The workloads of one database, decoded when they are first asked for."""

    def __init__(self, workloads: Sequence[Workload]) -> None:
        require_tvm()
        without_tensor_intrinsics()
        self._workloads = workloads
        self._modules: dict[int, IRModule] = {}

    def _module(self, index: int) -> IRModule:
        import tvm

        if index not in self._modules:
            workload = self._workloads[index]
            try:
                self._modules[index] = tvm.ir.load_json(workload.json())
            except InputError:
                raise
            except Exception as error:  # TVM raises many kinds
                raise InputError(f"TVM cannot load workload {workload.key} ({_line(error)})") from error
        return self._modules[index]

    def task(self, index: int, task: Task) -> Task:
        """The task with its FLOPs and operator class."""
        from tvm.s_tir.analysis import estimate_tir_flops

        module = self._module(index)
        try:
            flops = float(estimate_tir_flops(module))
        except Exception:  # TVM raises its own errors for what it cannot count
            flops = math.nan
        return replace(task, flops=flops, operator=operator_class(module))

    def features(self, index: int, trace: str, target: Mapping[str, Any]) -> dict[str, Any]:
        """{group: features} of the program that a trace (JSON) makes of a workload. Raises InputError."""
        module = scheduled(self._module(index), trace)
        return {"statements": statement_features([module], dict(target))[0], "ast": compact_ast(module)}


def scheduled(module: IRModule, trace: str) -> IRModule:
    """The module with a trace (JSON text) applied. Raises InputError where it does not fit."""
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import Trace

    schedule = Schedule(module)
    try:
        Trace.apply_json_to_schedule(json.loads(trace), schedule)
    except Exception as error:  # TVM raises many kinds
        raise InputError(f"TVM cannot apply the trace ({_line(error)})") from error
    return schedule.mod


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1][:120] if lines else type(error).__name__
