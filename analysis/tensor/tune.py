"""Search for fast schedules of a network: MetaSchedule's evolutionary search, ranked by a cost model.

Rounds of one task each: the search mutates schedules and keeps those that the cost model takes for fast, they are built
and measured (isolated and timed as by `perfvec tensor collect`), the database and the model learn of them. The work
folder has MetaSchedule's own JSON database, which any TVM compiles with, and the history of the search; a stopped or
killed search goes on from it. What differs between two searches with the same options is the cost model alone.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from analysis.tensor import history
from analysis.tensor.graph import Graph, network_graph
from analysis.tensor.history import History, Round
from perfvec.tensor.contract import Budget
from perfvec.tensor.model_file import SHIPPED, load_model
from support.errors import InputError
from tracegen.tensor import work
from tracegen.tensor.build import TARGETS, level_of, require_device
from tracegen.tensor.candidates import trace_json
from tracegen.tensor.dataset import Device
from tracegen.tensor.installation import require_tvm, without_tensor_intrinsics
from tracegen.tensor.tasks import Task, parse_network
from tracegen.tensor.worker import Failure, Worker
from uarch.devices import load_device

if TYPE_CHECKING:
    from tvm.s_tir.meta_schedule import TuneContext
    from tvm.s_tir.meta_schedule.cost_model import CostModel
    from tvm.s_tir.meta_schedule.database import Database, TuningRecord
    from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate

XGB, RANDOM = "xgb", "random"
_FAILED_S = 1e10  # what TVM's database has for a candidate that failed
_RECENT = 3  # rounds, over which a task's progress is judged
_ALPHA = 0.2  # Ansor's weight of that progress beside what may still be possible


@dataclass(frozen=True)
class Plan:
    """Plan of a search. `model`: a trained model's file, `shipped`, `xgb` (TVM's own) or `random`."""

    network: str
    model: str = XGB
    device: str = "x86-64-v3"
    trials: int | None = None  # of all tasks together; by default two rounds a task
    minutes: float | None = None
    round: int = 32  # candidates of a task that are measured before the model learns of them
    population: int = 256  # of the evolutionary search; TVM's own default is 512
    generations: int = 3  # TVM's own default is 4
    update_epochs: int = 5  # passes of a trained model over what was measured, after each round; 0 leaves it as it is
    update_seconds: float = 10.0  # of processor time, at most, an update
    seed: int = 0
    budget_s: float = 0.3  # measuring of one candidate
    slow_factor: float = 10.0  # a candidate so much slower than the best of its task is run once
    build_limit_s: float = 60.0
    run_limit_s: float = 10.0
    cpu: int | None = None
    builder_cpu: int | None = None
    tasks: int | None = None  # only those of most FLOPs in an inference (Verma et al.)

    def check(self) -> None:
        """Raise InputError for names that there are not, and for a model's file that is none."""
        parse_network(self.network)
        require_device(self.device)
        if self.model not in (XGB, RANDOM):
            load_model(self.model)

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for a search to go on."""
        digest = ""
        if self.model not in (XGB, RANDOM):
            path = SHIPPED if self.model == "shipped" else Path(self.model)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        return {
            "network": self.network,
            "model": self.model,
            "model_digest": digest,
            "device": self.device,
            "seed": self.seed,
            "round": self.round,
            "population": self.population,
            "generations": self.generations,
            "update_epochs": self.update_epochs,
            **({} if self.tasks is None else {"tasks_wanted": self.tasks}),
        }


def tune(plan: Plan, folder: Path, *, progress: bool = True) -> History:
    """Search, or go on with the search in `folder`; returns its history. Ctrl-C ends it with what was found.

    Raises InputError for wrong names, a folder with another search, and where TVM is missing.
    """
    require_tvm()
    plan.check()
    return tune_graph(plan, network_graph(plan.network), folder, progress=progress)


def tune_graph(plan: Plan, graph: Graph, folder: Path, *, progress: bool = True) -> History:
    """`tune` for a graph that is there already."""
    if plan.tasks is not None:
        graph = largest(graph, plan.tasks)
    tasks = [{"key": key, "name": graph.tasks[key].name, "weight": graph.weights[key]} for key in graph.tasks]
    with history.alone(folder):
        found = history.begin(folder, {**plan.identity(), "tasks": tasks})
        search = _Search(plan, graph, found)
        try:
            with suppress(KeyboardInterrupt):
                search.run(progress)
        finally:
            search.close()
    return found


def largest(graph: Graph, count: int) -> Graph:
    """The graph with only the `count` tasks of the most FLOPs in an inference; all where there are fewer."""
    flops = {key: graph.weights[key] * (task.flops if task.flops > 0 else 0.0) for key, task in graph.tasks.items()}
    chosen = sorted(graph.tasks, key=lambda key: -flops[key])[:count]
    return replace(graph, tasks={key: task for key, task in graph.tasks.items() if key in chosen})


def open_database(folder: Path, *, create: bool = False) -> Database:
    """MetaSchedule's JSON database in a folder. Raises InputError unless it is there and has records (or `create`)."""
    require_tvm()
    without_tensor_intrinsics()
    from tvm.s_tir.meta_schedule.database import JSONDatabase

    from tracegen.tensor.database import is_database

    if not create and not is_database(folder):
        raise InputError(f"{folder}: has no database of MetaSchedule (database_workload.json and its records)")
    try:
        database = JSONDatabase(work_dir=str(folder))
    except Exception as error:  # TVM raises its own kinds for a damaged line
        raise InputError(f"{folder}: TVM cannot read the database ({str(error).strip().splitlines()[-1]})") from error
    if not create and not len(database):
        raise InputError(f"{folder}: the database is empty; tune first")
    return database


def best_record(database: Database, task: Task) -> TuningRecord | None:
    """The fastest measured schedule of a task; None where the database has none."""
    module = task.module()
    if not database.has_workload(module):
        return None
    found = database.get_top_k(database.commit_workload(module), 1)
    return found[0] if found and seconds_of(found[0]) is not None else None


def seconds_of(record: TuningRecord) -> float | None:
    """Mean of a record's repeats, as TVM ranks by; None of a candidate that failed."""
    times = [float(second) for second in record.run_secs or ()]
    mean = sum(times) / len(times) if times else _FAILED_S
    return mean if mean < _FAILED_S / 10 else None


class _Search:
    def __init__(self, plan: Plan, graph: Graph, found: History) -> None:
        without_tensor_intrinsics()
        from tvm.target import Target

        self.plan, self.graph, self.history = plan, graph, found
        self.target = Target(TARGETS[level_of(plan.device)])
        self.database = open_database(found.folder, create=True)
        self.model = _cost_model(plan)
        self.contexts: dict[str, TuneContext] = {}
        self.known: dict[str, dict[str, float | None]] = {key: {} for key in graph.tasks}  # trace → seconds
        self.best = found.best()
        self.exhausted = {done.task for done in found.rounds if done.exhausted}
        self.number = 0
        self.builds = found.folder / "builds"
        shutil.rmtree(self.builds, ignore_errors=True)
        self.builds.mkdir()
        self._remember()
        self.builder, self.runner = Worker(work.build, plan.builder_cpu), Worker(work.run, plan.cpu)

    def close(self) -> None:
        self.builder.close()
        self.runner.close()
        shutil.rmtree(self.builds, ignore_errors=True)

    def run(self, progress: bool) -> None:
        tasks = len(self.graph.tasks)
        trials = self.plan.trials if self.plan.trials is not None else 2 * self.plan.round * tasks
        deadline = time.monotonic() + (self.plan.minutes * 60 if self.plan.minutes is not None else float("inf"))
        with tqdm(total=trials, desc="tune", unit=" trials", disable=None if progress else True) as bar:
            bar.update(min(self.history.trials, trials))
            while self.history.trials < trials and time.monotonic() < deadline:
                task = next_task(self.history, self.graph.weights, self.exhausted)
                if task is None:
                    break
                bar.set_postfix_str(self.graph.tasks[task].name[:24])
                done = self._round(task, min(self.plan.round, trials - self.history.trials))
                self.history.add(done)
                if done.exhausted:
                    self.exhausted.add(task)
                bar.update(done.trials)

    def _round(self, key: str, count: int) -> Round:
        task, context = self.graph.tasks[key], self._context(key)
        began = time.monotonic()
        found = list(context.generate_measure_candidates() or ())[:count]
        batch = found if found or self.known[key] else [_unscheduled(task)]
        traces = [trace_json(candidate.sch) for candidate in batch]
        fresh = [index for index, trace in enumerate(traces) if trace not in self.known[key]]
        searched = time.monotonic()
        self._measure(task, [traces[index] for index in fresh], [batch[index] for index in fresh])
        measured = time.monotonic()
        results = [_result(self.known[key][trace]) for trace in traces]
        if found:
            context.notify_runner_results(batch, results)
        if found and fresh:
            self.model.update(context, [batch[index] for index in fresh], [results[index] for index in fresh])
        times = [self.known[key][traces[index]] for index in fresh]
        return Round(
            key,
            len(fresh),
            sum(second is None for second in times),
            self.best.get(key),
            searched - began,
            measured - searched,
            time.monotonic() - measured,
            exhausted=not (found and fresh),
        )

    def _context(self, key: str) -> TuneContext:
        """The task's search, begun when it is first needed."""
        if key not in self.contexts:
            from tvm.s_tir import meta_schedule
            from tvm.target import Target

            rounds = sum(done.task == key for done in self.history.rounds)
            seed = random.Random(f"{self.plan.seed} {key} {rounds}").randrange(1, 2**31 - 1)
            context = meta_schedule.TuneContext(
                # one design space for every device, whose rules do not look at the vector width
                self.graph.tasks[key].module(),
                target=Target(TARGETS["x86-64-v3"]),
                space_generator=meta_schedule.space_generator.PostOrderApply(),
                search_strategy=meta_schedule.search_strategy.EvolutionarySearch(
                    population_size=self.plan.population, genetic_num_iters=self.plan.generations
                ),
                task_name=self.graph.tasks[key].name,
                rand_state=seed,
                num_threads=1,
            )
            context.pre_tuning(1 << 30, self.plan.round, database=self.database, cost_model=self.model)
            self.contexts[key] = context
        return self.contexts[key]

    def _measure(self, task: Task, traces: Sequence[str], candidates: Sequence[MeasureCandidate]) -> None:
        """Build and measure candidates, the next one building while one runs; keep what they took."""
        from tvm.s_tir.meta_schedule.database import TuningRecord

        if not traces:
            return
        workload = self.database.commit_workload(task.module())
        paths = []
        for _ in traces:
            self.number += 1  # a name of its own: the loader takes equal names for equal libraries
            paths.append(self.builds / f"{self.number}.so")
        self._build(task, traces[0], paths[0])
        for index, (trace, candidate) in enumerate(zip(traces, candidates, strict=True)):
            built = self._built()
            if index + 1 < len(traces):
                self._build(task, traces[index + 1], paths[index + 1])
            seconds = self._run(task, paths[index]) if built else None
            self.known[task.key][trace] = seconds
            if seconds is not None:
                self.best[task.key] = min(seconds, self.best.get(task.key, seconds))
            times = [_FAILED_S if seconds is None else seconds]
            record = TuningRecord(candidate.sch.trace, workload, times, self.target, candidate.args_info)
            self.database.commit_tuning_record(record)
        # Only a new runner forgets the libraries: a new file with the inode of a loaded one is taken for that one.
        self.runner.restart()
        for path in paths:
            path.unlink(missing_ok=True)

    def _build(self, task: Task, trace: str, path: Path) -> None:
        request = {
            "do": "build",
            "task": task,
            "trace": trace,
            "target": TARGETS[level_of(self.plan.device)],
            "path": str(path),
        }
        self.builder.send(request, self.plan.build_limit_s)

    def _built(self) -> bool:
        """Wait for the build; whether it succeeded."""
        try:
            while self.builder.reply() is None:
                self.builder.connection.poll(min(self.builder.seconds_left, 1.0))
        except Failure:
            return False
        return True

    def _run(self, task: Task, path: Path) -> float | None:
        """Seconds; None where it failed."""
        best = self.best.get(task.key)
        slow = max(0.05, self.plan.slow_factor * best) if best is not None else 1.0
        request = {"arguments": task.arguments, "path": str(path), "slow_s": slow, "budget_s": self.plan.budget_s}
        try:
            return float(self.runner.call(request, self.plan.run_limit_s).seconds)
        except Failure:
            return None

    def _remember(self) -> None:
        """Restore what an earlier call measured: known candidates, and the model's knowledge of them."""
        for key, task in self.graph.tasks.items():
            module = task.module()
            if not self.history.rounds or not self.database.has_workload(module):
                continue
            records = self.database.get_top_k(self.database.commit_workload(module), 1 << 20)
            candidates = [record.as_measure_candidate() for record in records]
            for record, candidate in zip(records, candidates, strict=True):
                self.known[key][trace_json(candidate.sch)] = seconds_of(record)
            times = [seconds for seconds in self.known[key].values() if seconds is not None]
            if times:
                self.best[key] = min(times)
            if candidates:
                results = [_result(seconds_of(record)) for record in records]
                self.model.update(self._context(key), candidates, results)


def next_task(found: History, weights: dict[str, int], exhausted: set[str]) -> str | None:
    """The task whose next round promises the network most; None where all are exhausted.

    Every task has its first round in turn. Then it is the one of the largest gradient of the weighted latency by rounds
    (Ansor, Zheng et al., OSDI 2020): the recent progress, and an optimistic guess that another round as good as
    all before would bring the task's latency down by 1/rounds of itself.
    """
    bests: dict[str, list[float | None]] = {key: [] for key in weights}
    for done in found.rounds:
        bests[done.task].append(done.best_s)
    best_key, best_gain = None, -1.0
    for key, weight in weights.items():
        if key in exhausted:
            continue
        seen = bests[key]
        if not seen:
            return key
        now, before = seen[-1], seen[max(len(seen) - 1 - _RECENT, 0)]
        if now is None:  # nothing of it ran yet, and the network's latency needs it
            gain = float("inf") if len(seen) < _RECENT else 0.0
        else:
            recent = ((before or now) - now) / _RECENT
            gain = weight * (_ALPHA * recent + (1 - _ALPHA) * now / len(seen))
        if gain > best_gain:
            best_key, best_gain = key, gain
    return best_key


def _cost_model(plan: Plan) -> CostModel:
    from tvm.s_tir.meta_schedule import cost_model

    if plan.model == XGB:
        return cost_model.XGBModel(num_tuning_cores=1)
    if plan.model == RANDOM:
        return cost_model.RandomModel(seed=plan.seed)
    from analysis.tensor.cost_model import SearchModel

    device = Device(plan.device, load_device(level_of(plan.device)).to_dict())
    budget = Budget(plan.update_epochs, plan.update_seconds)
    return SearchModel(load_model(plan.model), device, budget, plan.seed)


def _unscheduled(task: Task) -> MeasureCandidate:
    """The task's program as it is, for the few (adaptive pooling) that MetaSchedule's search finds no schedule of."""
    from tvm.s_tir import Schedule
    from tvm.s_tir.meta_schedule import MeasureCandidate
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo

    return MeasureCandidate(Schedule(task.module()), ArgInfo.from_entry_func(task.module(), remove_preproc=True))


def _result(seconds: float | None) -> Any:
    from tvm.s_tir.meta_schedule.runner import RunnerResult

    return RunnerResult(None, "failed") if seconds is None else RunnerResult([seconds], None)
