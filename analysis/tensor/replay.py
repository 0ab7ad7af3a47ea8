"""A network's latency from its kernels': predicted by a cost model, replayed over the execution graph, and measured.

After CDMPP's replayer (Hu et al., EuroSys 2024): the calls of one inference, with the dependencies that the Relax
program has, on one stream or several; a call takes what the cost model says for its kernel's schedule. Beside that the
same replay with measured kernels, and the network itself, compiled with the same schedules.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from analysis.results.result import Result, of_table, table_text, to_rows
from analysis.tensor.execute import execute
from analysis.tensor.features import features
from analysis.tensor.graph import Graph, network_graph
from analysis.tensor.streams import levels, list_schedule
from analysis.tensor.tune import best_record, open_database
from perfvec.tensor.contract import CostModel
from perfvec.tensor.model_file import load_model
from support.errors import InputError
from tracegen.tensor import work
from tracegen.tensor.build import TARGETS, level_of, require_device
from tracegen.tensor.candidates import REPLAY_TRACE, sample, trace_json
from tracegen.tensor.dataset import Device
from tracegen.tensor.installation import require_tvm
from tracegen.tensor.measure import Measured
from tracegen.tensor.tasks import Task, parse_network
from tracegen.tensor.worker import Failure, Worker
from uarch.devices import load_device

if TYPE_CHECKING:
    from tvm.s_tir import Schedule

COMPUTE, COPY = "compute", "copy"  # engines
DATABASE, PREDICTED, DEFAULT = "database", "predicted", "default"


@dataclass(frozen=True)
class Kernel:
    """A task with the schedule that it is replayed with, which `source` says the origin of."""

    task: Task
    schedule: Schedule
    source: str


@dataclass(frozen=True)
class Measuring:
    """Measurement of kernels and the network."""

    cpu: int | None = None
    budget_s: float = 0.3  # of one kernel
    network_s: float = 5.0  # of the whole network
    limit_s: float = 120.0  # of one build or run


@dataclass(frozen=True)
class Replay:
    """`kernels`: a row for every task (name, calls, schedule, predicted_s, and measured_s and error where measured);
    `streams`: a row for every number of streams (predicted_s, measured_s); `engines`: the same for every set of
    engines; `measured`: of the network end to end."""

    network: str
    kernels: pd.DataFrame
    streams: pd.DataFrame
    critical_path_s: float  # predicted; no number of streams is faster
    measured: Measured | None
    engines: pd.DataFrame = field(default_factory=pd.DataFrame)

    def to_json(self) -> dict[str, Any]:
        """Return {"kernels", "streams", "critical_path_s"}.

        Where measured also "network_s", "spread", "sum_of_kernels_s", "error" of the prediction on one stream and
        "replay_error" of the measured kernels' sum, both beside the network.
        """
        document: dict[str, Any] = {
            "kernels": to_rows(self.kernels),
            "streams": to_rows(self.streams),
            "critical_path_s": self.critical_path_s,
        }
        if len(self.engines):
            document["engines"] = to_rows(self.engines)
        if self.measured is not None:
            one = float((self.kernels["predicted_s"] * self.kernels["calls"]).sum())
            measured = float((self.kernels["measured_s"] * self.kernels["calls"]).sum(skipna=False))
            whole = self.measured.seconds
            document |= {
                "network_s": whole,
                "spread": self.measured.spread,
                "sum_of_kernels_s": _number(measured),
                "error": one / whole - 1,
                "replay_error": _number(measured / whole - 1),
            }
        return document

    def result(self) -> Result:
        """Answer how long an inference takes; the table is `kernels`."""
        document = self.to_json()
        lines = [table_text(self.kernels.drop(columns="key")), table_text(self.streams)]
        if len(self.engines):
            lines.append(table_text(self.engines))
        lines.append(f"critical path {1e3 * self.critical_path_s:.3f} ms")
        if self.measured is not None:
            lines.append(
                f"measured end to end {1e3 * self.measured.seconds:.3f} ms; predicted {document['error']:+.1%}"
            )
        return of_table(f"Replay of {self.network}", self.kernels, lambda: document, lambda: "\n".join(lines))


def replay(
    network: str,
    model_file: str | Path,
    device: str,
    *,
    database: Path | None = None,
    schedules: str = PREDICTED,
    candidates: int = 64,
    streams: Sequence[int] = (1,),
    engines: Sequence[Mapping[str, int]] = (),
    measuring: Measuring | None = None,
    seed: int = 0,
    zero_shot: bool = False,
    bandwidth_gbs: float | None = None,
) -> Replay:
    """Replay a network with the predictions of a model; `measuring`: measure its kernels and itself beside them.

    Schedules are the best of a `database` folder; without one the best that the model finds among so many random
    `candidates` (`schedules` "predicted"), or none at all ("default"), which is also what a task has that the database
    does not know. `bandwidth_gbs`: of the memory, a bound for kernels larger than the caches (`memory_bound`). Raises
    InputError for wrong names, a model that only ranks, or that does not know the device (unless
    `zero_shot`), an empty database, and where TVM is missing.
    """
    require_tvm()
    parse_network(network)
    model = load_model(model_file)
    if np.isnan(model.to_seconds(np.zeros(1))).any():
        raise InputError(f"{model_file}: the model only ranks; a replay needs one that predicts latencies (target log)")
    about = Device(device, load_device(level_of(device)).to_dict())
    model.score(features(model.kind, []).rows, about, zero_shot=zero_shot)  # an unknown device is told before the work
    if measuring is not None:
        require_device(device)
    model.check(features(model.kind, []))
    if database is not None:
        open_database(database)
    graph = network_graph(network)
    if database is not None:
        kernels = from_database(graph, database)
    else:
        kernels = without_database(graph, model, about, schedules, candidates, seed)
    predicted = predict(model, kernels, about, zero_shot)
    if bandwidth_gbs is not None:
        bounds = {kernel.task.key: memory_bound(kernel.task, about, bandwidth_gbs) for kernel in kernels}
        predicted = {key: max(seconds, bounds[key]) for key, seconds in predicted.items()}
    if measuring is None:
        return assemble(graph, kernels, predicted, streams, engines=engines)
    measured = measure_kernels(kernels, device, measuring)
    network_measured = measure_network(graph, kernels, device, measuring)
    return assemble(graph, kernels, predicted, streams, measured, network_measured, engines)


def assemble(
    graph: Graph,
    kernels: Sequence[Kernel],
    predicted: Mapping[str, float],
    streams: Sequence[int],
    measured: Mapping[str, float] | None = None,
    network: Measured | None = None,
    engines: Sequence[Mapping[str, int]] = (),
) -> Replay:
    """The tables of a replay, from seconds by task key; a kernel whose measurement failed is NaN."""
    rows = [
        {
            "name": kernel.task.name,
            "key": kernel.task.key,
            "calls": graph.weights[kernel.task.key],
            "engine": engine_of(kernel.task),
            "schedule": kernel.source,
            "predicted_s": predicted[kernel.task.key],
        }
        for kernel in kernels
    ]
    table = pd.DataFrame(rows)
    if measured is not None:
        table["measured_s"] = [measured[key] for key in table["key"]]
        table["error"] = table["predicted_s"] / table["measured_s"] - 1
    table = table.sort_values("predicted_s", key=lambda column: -column * table["calls"]).reset_index(drop=True)
    before = [call.predecessors for call in graph.calls]
    runs = [
        COPY if call.task is None else engine_of(graph.tasks[call.task]) for call in graph.calls
    ]  # views take no time, on whatever engine
    known = measured is not None and all(np.isfinite(value) for value in measured.values())

    def timeline(on: int | Mapping[str, int]) -> dict[str, float]:
        row = {"predicted_s": list_schedule(_of(graph, predicted), before, on, runs).makespan}
        if measured is not None:
            row["measured_s"] = (
                list_schedule(_of(graph, measured), before, on, runs).makespan if known else float("nan")
            )
        return row

    timelines = [{"streams": count, **timeline(count)} for count in streams]
    typed = [{"engines": ",".join(f"{name}={n}" for name, n in each.items()), **timeline(each)} for each in engines]
    longest = float(levels(_of(graph, predicted), before).max())
    return Replay(graph.network, table, pd.DataFrame(timelines), longest, network, pd.DataFrame(typed))


def engine_of(task: Task) -> str:
    """The engine that runs a task: `copy` where it only moves data (no floating-point operation), else `compute`."""
    return COPY if task.flops == 0 else COMPUTE


def parse_engines(text: str) -> dict[str, int]:
    """`compute=2,copy=1` as numbers of streams by engine. Raises InputError."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        if name not in (COMPUTE, COPY) or name in found or not number.isdigit() or int(number) < 1:
            raise InputError(f"--engines {text}: expected such as {COMPUTE}=2,{COPY}=1")
        found[name] = int(number)
    if len(found) != 2:
        raise InputError(f"--engines {text}: both {COMPUTE} and {COPY} need a number, such as {COMPUTE}=2,{COPY}=1")
    return found


def parse_streams(text: str) -> list[int]:
    """`1,2,4` as numbers of streams. Raises InputError."""
    numbers = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) for part in numbers):
        raise InputError(f"--streams {text}: expected numbers of at least 1 with commas between them, such as 1,2,4")
    return [int(part) for part in numbers]


def _of(graph: Graph, seconds: Mapping[str, float]) -> list[float]:
    """Seconds of every call; views take none."""
    return [0.0 if call.task is None else seconds[call.task] for call in graph.calls]


def from_database(graph: Graph, folder: Path) -> list[Kernel]:
    """Every task with the best schedule of a tuning database; unscheduled where it knows none of it."""
    database = open_database(folder)
    kernels = []
    for task in graph.tasks.values():
        record = best_record(database, task)
        if record is None:
            kernels.append(Kernel(task, _unscheduled(task), DEFAULT))
        else:
            kernels.append(Kernel(task, record.as_measure_candidate().sch, DATABASE))
    if all(kernel.source == DEFAULT for kernel in kernels):
        raise InputError(f"{folder}: the database has no schedule of any kernel of {graph.network}; tune it first")
    return kernels


def database_or_default(network: str, folder: Path | None) -> tuple[Graph, list[Kernel]]:
    """A network's graph and kernels, with a database's best schedules or, without one, unscheduled."""
    require_tvm()
    parse_network(network)
    if folder is not None:
        open_database(folder)
    graph = network_graph(network)
    if folder is not None:
        return graph, from_database(graph, folder)
    return graph, [Kernel(task, _unscheduled(task), DEFAULT) for task in graph.tasks.values()]


def without_database(
    graph: Graph, model: CostModel, device: Device, schedules: str, candidates: int, seed: int
) -> list[Kernel]:
    """Every task unscheduled (`schedules` "default"), or with the best predicted of random candidates."""
    if schedules not in (PREDICTED, DEFAULT):
        raise InputError(f"schedules {schedules!r}: expected {PREDICTED} or {DEFAULT}, or a database")
    if schedules == DEFAULT:
        return [Kernel(task, _unscheduled(task), DEFAULT) for task in graph.tasks.values()]
    from tvm.s_tir import Schedule, Trace

    kernels = []
    for task in tqdm(graph.tasks.values(), desc="schedules", disable=None):
        found = []
        for candidate in sample(task, candidates, REPLAY_TRACE, seed):
            schedule = Schedule(task.module())
            Trace.apply_json_to_schedule(json.loads(candidate.trace), schedule)
            found.append(schedule)
        if not found:
            kernels.append(Kernel(task, _unscheduled(task), DEFAULT))
            continue
        score = model.score(features(model.kind, found, [task.module()] * len(found)).rows, device, zero_shot=True)
        kernels.append(Kernel(task, found[int(np.argmax(score))], PREDICTED))
    return kernels


def _unscheduled(task: Task) -> Schedule:
    from tvm.s_tir import Schedule

    return Schedule(task.module())


def predict(model: CostModel, kernels: Sequence[Kernel], device: Device, zero_shot: bool) -> dict[str, float]:
    """{task: predicted seconds}."""
    programs = [kernel.task.module() for kernel in kernels]
    group = features(model.kind, [kernel.schedule for kernel in kernels], programs)
    model.check(group)
    seconds = model.seconds(group.rows, device, zero_shot=zero_shot)
    return {kernel.task.key: float(value) for kernel, value in zip(kernels, seconds, strict=True)}


def memory_bound(task: Task, device: Device, bandwidth_gbs: float) -> float:
    """Seconds that the task's arguments take from memory at that bandwidth, where they are larger than the device's
    last cache; 0 where they fit. A cost model that never saw such a kernel takes it for one that computes.
    """
    size = sum(_element_bytes(kind) * math.prod(shape) for kind, shape in task.arguments)
    cache = device.parameters.get("l3_kib") or device.parameters.get("l2_kib") or 0
    return size / (1e9 * bandwidth_gbs) if size > 1024 * cache else 0.0


def _element_bytes(kind: str) -> int:
    bits = re.match(r"[a-z]+(\d+)", kind)  # float8_e4m3fn has 8
    return max(int(bits[1]) // 8, 1) if bits else 1


def measure_kernels(kernels: Sequence[Kernel], device: str, measuring: Measuring) -> dict[str, float]:
    """{task: seconds} of each kernel alone on its core, its caches warm; NaN where it failed."""
    builder, runner = Worker(work.build), Worker(work.run, measuring.cpu)
    found = {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            for number, kernel in enumerate(tqdm(kernels, desc="measure kernels", disable=None)):
                path = str(Path(folder) / f"{number}.so")
                build = {
                    "do": "build",
                    "task": kernel.task,
                    "trace": trace_json(kernel.schedule),
                    "target": TARGETS[level_of(device)],
                    "path": path,
                }
                run: dict[str, Any] = {
                    "arguments": kernel.task.arguments,
                    "path": path,
                    "slow_s": measuring.limit_s / 10,
                    "budget_s": measuring.budget_s,
                }
                try:
                    run["layouts"] = builder.call(build, measuring.limit_s)  # of weights that the schedule rewrites
                    found[kernel.task.key] = float(runner.call(run, measuring.limit_s).seconds)
                except Failure:
                    found[kernel.task.key] = float("nan")
    finally:
        builder.close()
        runner.close()
    return found


def measure_network(graph: Graph, kernels: Sequence[Kernel], device: str, measuring: Measuring) -> Measured:
    """The network end to end in TVM's virtual machine on one thread, compiled with the kernels' schedules."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "network.so"
        compile_network(graph, kernels, device).export_library(str(library))
        return execute(
            library, network_inputs(graph), budget_s=measuring.network_s, cpu=measuring.cpu, limit_s=measuring.limit_s
        )


def compile_network(graph: Graph, kernels: Sequence[Kernel], device: str) -> Any:
    """TVM's executable of the network, by `compile_relax` with a database of the kernels' schedules."""
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo
    from tvm.s_tir.meta_schedule.database import MemoryDatabase, TuningRecord
    from tvm.s_tir.meta_schedule.relax_integration import compile_relax
    from tvm.target import Target

    target = Target(TARGETS[level_of(device)])
    database = MemoryDatabase()
    for kernel in kernels:
        if kernel.source != DEFAULT:
            module = kernel.task.module()
            arguments = ArgInfo.from_entry_func(module, remove_preproc=False)
            workload = database.commit_workload(module)
            database.commit_tuning_record(TuningRecord(kernel.schedule.trace, workload, [1.0], target, arguments))
    return compile_relax(database, graph.module, target, None)


def network_inputs(graph: Graph) -> list[tuple[str, tuple[int, ...]]]:
    """Type and shape of the network's inputs."""
    found = []
    for parameter in graph.module["main"].params:
        about = parameter.ty
        found.append((str(about.dtype), tuple(int(extent) for extent in about.shape)))
    return found


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None
