"""End of a collection: a dataset with features, and beside it TVM's own MetaSchedule database.

Features need the scheduled programs, which are rebuilt from the traces: some 50 ms each. They are kept in the work
folder, so that they are extracted once however often the dataset is written.
"""

from __future__ import annotations

import base64
import json
import struct
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from support.errors import InputError
from support.files import atomic_path
from tracegen.tensor import compact_ast, dataset, primitives, statements
from tracegen.tensor.build import TARGETS, level_of
from tracegen.tensor.candidates import scheduled
from tracegen.tensor.collect import work_file
from tracegen.tensor.database import RECORDS, WORKLOADS
from tracegen.tensor.dataset import DatasetWriter, Device, Outcome
from tracegen.tensor.journal import BUILD_FAILED, INVALID, RUN_FAILED, TIMEOUT, TOO_LONG, Journal
from tracegen.tensor.reference import TOLERANCE
from tracegen.tensor.simulated import PREFIX, VECTOR_BYTES, isa_of
from uarch.configuration import machine_from_dict
from uarch.devices import load_device, machine_device

_OUTCOMES = {
    "": Outcome.OK,
    BUILD_FAILED: Outcome.BUILD_FAILED,
    RUN_FAILED: Outcome.RUN_FAILED,
    TIMEOUT: Outcome.TIMEOUT,
    INVALID: Outcome.INVALID,
    TOO_LONG: Outcome.TIMEOUT,
}
_VERSIONS = {"primitives": primitives.VERSION, "statements": statements.VERSION, "ast": compact_ast.VERSION}
_BATCH = 256  # schedules in a file of features
_FAILED_S = 1e10  # what TVM writes for a candidate that failed

_Features = dict[str, Any]


def finish(output: Path, features: bool = True, progress: bool = True) -> int:
    """Write the dataset `output` from its work file, as far as that has come; returns the number of records.

    `features`: with statement features and compact ASTs; a schedule that TVM cannot lower has no rows of them.
    """
    with Journal(work_file(output), writable=False) as journal:
        write_databases(journal, output.with_name(output.name.removesuffix(".h5").removesuffix(".tensor") + ".tvm"))
        versions = _VERSIONS if features else {"primitives": _VERSIONS["primitives"]}
        provenance = {
            "made by": "perfvec tensor collect",
            "sessions": journal.sessions,
            "again": _again(journal),
            "compared": _compared(journal),
            "machines": journal.machines,
        }
        rows = _features(journal, output, progress) if features else iter(())
        with DatasetWriter(output, provenance=provenance, features=versions) as writer:
            task_of = {}
            for key in dict.fromkeys(key for key, _ in journal.schedules):
                task = journal.tasks[key]
                task_of[key] = writer.task(
                    dataset.Task(
                        key,
                        task.name,
                        operator=statements.operator_class(task.module()),
                        shape=[[kind, list(extents)] for kind, extents in task.arguments],
                        flops=task.flops,
                        networks=task.networks,
                    )
                )
            schedule_of = []
            for key, candidate in journal.schedules:
                given = {"primitives": _primitives(candidate.trace)} | next(rows, {})
                schedule_of.append(
                    writer.schedule(
                        task_of[key], candidate.trace, kind="metaschedule", origin=candidate.origin, features=given
                    )
                )
            for record in journal.records.values():
                device = writer.device(_device(record.device, journal))
                seconds = float("nan") if record.seconds is None else record.seconds
                spread = float("nan") if record.spread is None else record.spread
                writer.record(
                    schedule_of[record.schedule],
                    device,
                    seconds,
                    spread=spread,
                    repeats=record.repeats,
                    outcome=_OUTCOMES[record.error],
                )
            return writer.records


def _again(journal: Journal) -> dict[str, float] | None:
    """Return how far repeated measurements of the same candidate lie from the first: relative differences."""
    pairs = ((record.seconds, journal.records[record.schedule, record.device].seconds) for record in journal.repeated)
    found = [abs(second - first) / first for second, first in pairs if second is not None and first is not None]
    if not found:
        return None
    median, high = np.percentile(found, (50, 90))
    return {"pairs": len(found), "median": float(median), "p90": float(high)}


def _compared(journal: Journal) -> dict[str, float]:
    """Return how many records' results were compared with the task's own, and the right ones' deviation from them."""
    found = [record.deviation for record in journal.records.values() if record.deviation is not None]
    wrong = sum(record.error == INVALID for record in journal.records.values())
    return {"records": len(found) + wrong, "largest": max(found, default=0.0), "tolerance": TOLERANCE}


def _primitives(trace: str) -> NDArray[np.float32]:
    """Rows of the trace; none where it has a primitive that they cannot express."""
    try:
        return primitives.rows(trace, "metaschedule")
    except InputError:
        return np.empty((0, primitives.WIDTH), np.float32)


def _device(name: str, journal: Journal) -> Device:
    """A device's hardware parameters: those of its computer; of a simulated one, its machine's, and what timed it."""
    if not name.startswith(PREFIX):  # journals of before computers were kept: this one
        return Device(name, journal.computers.get(name) or load_device(level_of(name)).to_dict())
    machine = journal.machines.get(name)  # not there in journals of before it was kept: presets
    device = load_device(name.removeprefix(PREFIX)) if machine is None else machine_device(machine_from_dict(machine))
    parameters = replace(device, isa=isa_of(name), vector_bytes=VECTOR_BYTES).to_dict()
    simulator = journal.simulators.get(name)
    return Device(name, parameters | ({"simulator": simulator} if simulator else {}))


def _features(journal: Journal, output: Path, progress: bool) -> Iterator[_Features]:
    """Statement features and compact AST of each schedule, in order."""
    folder = work_file(output).parent / "-".join(["features", statements.VERSION, compact_ast.VERSION])
    folder.mkdir(exist_ok=True)
    with tqdm(total=len(journal.schedules), desc="features", disable=None if progress else True) as bar:
        for begin in range(0, len(journal.schedules), _BATCH):
            end = min(begin + _BATCH, len(journal.schedules))
            path = folder / f"{begin}-{end}.npz"
            if not path.exists():
                found = [_extracted(journal, number, bar) for number in range(begin, end)]
                with atomic_path(path) as temporary, temporary.open("wb") as stream:
                    np.savez_compressed(stream, **_packed(found))  # type: ignore[arg-type]
                for old in folder.glob(f"{begin}-*.npz"):
                    if old != path:
                        old.unlink()
            else:
                bar.update(end - begin)
            with np.load(path) as stored:
                yield from _unpacked(dict(stored), end - begin)


def _extracted(journal: Journal, number: int, bar: tqdm) -> tuple[NDArray[Any], ...]:
    key, candidate = journal.schedules[number]
    bar.update()
    try:
        module = scheduled(journal.tasks[key], candidate.trace)
        values, position = compact_ast.compact_ast(module)
        return statements.statement_features([module])[0], values, position
    except (InputError, ValueError, RuntimeError) as error:
        tqdm.write(f"schedule {number} of {journal.tasks[key].name}: no features ({error})", file=sys.stderr)
        empty = np.empty((0, compact_ast.WIDTH), np.float32)
        return np.empty((0, len(statements.COLUMNS)), np.float32), empty, np.empty(0, np.int32)


_PARTS = ("statements", "ast", "position")


def _packed(found: list[tuple[NDArray[Any], ...]]) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {"statement_rows": np.array([len(item[0]) for item in found])}
    arrays["ast_rows"] = np.array([len(item[1]) for item in found])
    return arrays | {name: np.concatenate([item[at] for item in found]) for at, name in enumerate(_PARTS)}


def _unpacked(arrays: dict[str, NDArray[Any]], count: int) -> Iterator[_Features]:
    statement, leaf = 0, 0
    for index in range(count):
        statement_end = statement + int(arrays["statement_rows"][index])
        leaf_end = leaf + int(arrays["ast_rows"][index])
        ast = (arrays["ast"][leaf:leaf_end], arrays["position"][leaf:leaf_end])
        yield {"statements": arrays["statements"][statement:statement_end], "ast": ast}
        statement, leaf = statement_end, leaf_end


def write_databases(journal: Journal, folder: Path) -> None:
    """TVM's own MetaSchedule databases, one a device, `folder/DEVICE/`: for `ms.database.JSONDatabase`."""

    for device in dict.fromkeys(name for _, name in journal.records if level_of(name) in TARGETS):
        place, target = folder / device, TARGETS[level_of(device)]
        place.mkdir(parents=True, exist_ok=True)
        row_of: dict[str, int] = {}
        with atomic_path(place / WORKLOADS) as temporary, temporary.open("w") as stream:
            for key in dict.fromkeys(
                journal.schedules[number][0] for number, name in journal.records if name == device
            ):
                row_of[key] = len(row_of)
                text = journal.tasks[key].workload.encode()
                module = base64.b64encode(struct.pack("<Q", len(text)) + text).decode()
                stream.write(json.dumps([str(int(key, 16)), module]) + "\n")
        with atomic_path(place / RECORDS) as temporary, temporary.open("w") as stream:
            for (number, name), record in journal.records.items():
                if name != device:
                    continue
                key, candidate = journal.schedules[number]
                arguments = [["TENSOR", kind, list(extents)] for kind, extents in journal.tasks[key].arguments]
                times = [_FAILED_S if record.seconds is None else record.seconds]
                stream.write(json.dumps([row_of[key], [json.loads(candidate.trace), times, target, arguments]]) + "\n")
