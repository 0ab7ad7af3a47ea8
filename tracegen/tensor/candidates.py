"""Candidate schedules of a task, from MetaSchedule's own design space.

A candidate is its trace: the list of schedule primitives with the decisions taken, which rebuilds it on any target.
All candidates come from one design space (the generic x86 one, whose rules do not look at the vector width), so the
same candidate can be measured on every device.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tracegen.tensor.tasks import Task

if TYPE_CHECKING:
    from tvm.ir import IRModule
    from tvm.s_tir import Schedule
    from tvm.s_tir.meta_schedule import TuneContext

REPLAY_TRACE, EVOLUTIONARY = "replay-trace", "evolutionary"

_POPULATION = 64  # of evolutionary search; TVM's 512 takes longer to score than what it finds takes to measure
_GENERATIONS = 2
_WARM_UP = 8  # measured candidates from which the cost model learns


@dataclass(frozen=True)
class Candidate:
    """A schedule of a task: its trace as JSON text, and how it was found."""

    trace: str
    origin: str


def sample(
    task: Task,
    count: int,
    origin: str,
    seed: int,
    known: Sequence[str] = (),
    measured: Sequence[tuple[str, float]] = (),
) -> list[Candidate]:
    """Up to `count` candidates whose traces are not `known`; fewer where the design space has no more.

    `replay-trace` draws every decision at random. `evolutionary` mutates what is good among `measured` (trace,
    seconds) and keeps what a cost model, trained on them, takes for fast.
    """
    context = _context(task, origin, seed)
    spaces = _design_spaces(task)
    seen = set(known)
    wanted = count + min(len(seen), 4 * count)  # some will be known already
    if origin == EVOLUTIONARY:
        database, model = _experience(task, context, measured)
        context.pre_tuning(wanted, wanted, design_spaces=spaces, database=database, cost_model=model)
    else:
        context.pre_tuning(wanted, wanted, design_spaces=spaces)
    found: list[Candidate] = []
    while len(found) < count and (batch := context.generate_measure_candidates()):
        fresh = 0
        for candidate in batch:
            trace = trace_json(candidate.sch)
            if trace not in seen and len(found) < count:
                seen.add(trace)
                found.append(Candidate(trace, origin))
                fresh += 1
        context.notify_runner_results(batch, [])
        if not fresh:
            break
    context.post_tuning()
    return found


def trace_json(schedule: Schedule) -> str:
    """The schedule's trace as compact JSON text."""
    return json.dumps(_plain(schedule.trace.as_json()), separators=(",", ":"))


@lru_cache(maxsize=8)
def scheduled(task: Task, trace: str) -> IRModule:
    """The task's program after the schedule."""
    from tvm.s_tir import Schedule, Trace

    schedule = Schedule(_module(task))
    Trace.apply_json_to_schedule(json.loads(trace), schedule)
    return schedule.mod


@lru_cache(maxsize=256)
def _module(task: Task) -> IRModule:
    return task.module()


@lru_cache(maxsize=256)
def _design_spaces(task: Task) -> list[Schedule]:
    return _context(task, REPLAY_TRACE, 1).generate_design_space()


def _context(task: Task, origin: str, seed: int) -> TuneContext:
    from tvm.s_tir import meta_schedule
    from tvm.target import Target

    strategy = (
        meta_schedule.search_strategy.EvolutionarySearch(
            population_size=_POPULATION, genetic_num_iters=_GENERATIONS, init_min_unmeasured=16
        )
        if origin == EVOLUTIONARY
        else meta_schedule.search_strategy.ReplayTrace()
    )
    return meta_schedule.TuneContext(
        _module(task),
        target=Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}),
        space_generator=meta_schedule.space_generator.PostOrderApply(),
        search_strategy=strategy,
        task_name=task.name,
        rand_state=seed % (2**31 - 1) + 1,
        num_threads=1,
    )


def _experience(task: Task, context: TuneContext, measured: Sequence[tuple[str, float]]) -> tuple[Any, Any]:
    """A database of what was measured, and a cost model trained on it."""
    from tvm.s_tir import Schedule, Trace, meta_schedule

    module = _module(task)
    database = meta_schedule.database.MemoryDatabase()
    workload = database.commit_workload(module)
    model = meta_schedule.cost_model.XGBModel(num_warmup_samples=_WARM_UP, num_tuning_cores=1)
    candidates, results = [], []
    arguments = meta_schedule.arg_info.ArgInfo.from_entry_func(module, remove_preproc=False)
    for trace, seconds in measured:
        schedule = Schedule(module)
        Trace.apply_json_to_schedule(json.loads(trace), schedule)
        record = meta_schedule.database.TuningRecord(schedule.trace, workload, [seconds], context.target, arguments)
        database.commit_tuning_record(record)
        candidates.append(record.as_measure_candidate())
        results.append(meta_schedule.runner.RunnerResult([seconds], None))
    if candidates:
        model.update(context, candidates, results)
    return database, model


def _plain(value: Any) -> Any:
    """TVM's JSON objects as Python's."""
    if isinstance(value, (bool, str)) or value is None:
        return value
    if hasattr(value, "value"):  # IntImm, FloatImm
        return value.value
    if isinstance(value, (int, float)):
        return value
    return [_plain(item) for item in value]
