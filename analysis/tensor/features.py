"""Features of candidate schedules as a cost model reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perfvec.tensor.records import FeatureGroup, base_kind, derived, operator_index
from support.errors import InputError
from tracegen.tensor import compact_ast, primitives, statements
from tracegen.tensor.candidates import trace_json
from tracegen.tensor.dataset import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tvm.ir import IRModule
    from tvm.s_tir import Schedule


def features(kind: str, schedules: Sequence[Schedule], programs: Sequence[IRModule] = ()) -> FeatureGroup:
    """The feature group `kind` of scheduled programs, as `perfvec tensor collect` gives it to a dataset's schedules.

    `programs`: what the schedules are of, unscheduled, for features with the operator class. A program that cannot be
    lowered has no rows.
    """
    if base_kind(kind) != kind:
        known: dict[Any, int] = {}
        classes = []
        for program in programs:
            if program not in known:
                known[program] = operator_index(statements.operator_class(program))
            classes.append(known[program])
        needed = np.array(classes if len(classes) == len(schedules) else [0] * len(schedules), np.int64)
        return derived(kind, features(base_kind(kind), schedules), needed)
    if kind == "primitives":
        tables = [primitives.rows(json.loads(trace_json(schedule)), "metaschedule") for schedule in schedules]
        return FeatureGroup(kind, primitives.VERSION, ragged(tables, primitives.WIDTH))
    modules = [schedule.mod for schedule in schedules]
    if kind == "statements":
        width = len(statements.COLUMNS)
        return FeatureGroup(kind, statements.VERSION, ragged(_statements(modules), width))
    trees = [_tree(module) for module in modules]
    positions = np.concatenate([np.zeros(0, np.int32), *(position for _, position in trees)])
    rows = ragged([values for values, _ in trees], compact_ast.WIDTH)
    return FeatureGroup(kind, compact_ast.VERSION, Rows(rows.values, rows.offset, positions))


def _statements(modules: Sequence[IRModule]) -> list[NDArray[np.float32]]:
    try:
        return statements.statement_features(modules)
    except InputError:
        if len(modules) > 1:
            return [table for module in modules for table in _statements([module])]
        return [np.zeros((0, len(statements.COLUMNS)), np.float32)]


def _tree(module: IRModule) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    try:
        return compact_ast.compact_ast(module)
    except InputError:
        return np.zeros((0, compact_ast.WIDTH), np.float32), np.zeros(0, np.int32)


def ragged(tables: Sequence[NDArray[Any]], width: int) -> Rows:
    """Tables [rows, width] one after the other."""
    offset = np.concatenate([[0], np.cumsum([len(table) for table in tables])]).astype(np.int64)
    filled = [table for table in tables if len(table)]
    values = np.concatenate(filled) if filled else np.zeros((0, width))
    return Rows(values.astype(np.float32), offset)
