"""Reference results of a task: the results that those of its scheduled programs must agree with.

The reference is the task's own program without any schedule, compiled once a task for the generic processor of this
machine's kind and called with the arguments that every candidate is measured with (`measure.arguments`). Results are
compared after the measurement, so that what is measured has its caches as before.

The deviation of a result is the largest of |result − reference| / max(|reference|, root mean square of all of the
reference), over the elements of all outputs. Sums in another order deviate by some 1e-7 to 1e-5 in single precision;
an output of n terms that lacks one deviates by about 1/√n. `TOLERANCE` lies between the two for n up to a million. An
element that was not written is NaN, which agrees with nothing but a NaN of the reference; integers must be equal.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from support.files import atomic_path
from tracegen.tensor.measure import arguments
from tracegen.tensor.tasks import Task
from tracegen.tensor.worker import Failure, Worker

if TYPE_CHECKING:
    from tvm.ir import IRModule
    from tvm.runtime import Tensor

TOLERANCE = 1e-3
_LIMIT_S = 300.0
_GENERIC: dict[str, object] = {"kind": "llvm", "num-cores": 1}


@dataclass(frozen=True)
class Reference:
    """Expected outputs: {index of the argument: array}."""

    outputs: Mapping[int, NDArray[Any]]

    def spoil(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite the outputs among a program's arguments, so that what it does not write is not taken for right."""
        for index, expected in self.outputs.items():
            tensors[index].copyfrom(unwritten(expected.shape, expected.dtype))

    def deviation(self, found: Mapping[int, NDArray[Any]]) -> float:
        """Return how far outputs lie from the expected ones (module docstring); infinite if not comparable."""
        return max((_deviation(found[index], expected) for index, expected in self.outputs.items()), default=0.0)

    @classmethod
    def load(cls, path: Path) -> Reference:
        with np.load(path) as stored:
            return cls({int(name): stored[name] for name in stored.files})

    def save(self, path: Path) -> None:
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, **{str(index): array for index, array in self.outputs.items()})  # type: ignore[arg-type]


class References:
    """The references of a collection's tasks, files in a folder: made by a worker when a task first needs its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, str | None] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._made

    def __getitem__(self, key: str) -> str | None:
        """The task's file; None where its own program does not run."""
        return self._made[key]

    def send(self, task: Task, worker: Worker) -> None:
        """Ask a builder for the task's reference."""
        worker.send({"do": "reference", "task": task, "path": str(self._folder / f"{task.key}.npz")}, _LIMIT_S)

    def made(self, task: Task, worker: Worker) -> bool:
        """Return whether the builder that was asked is done."""
        try:
            path: str | None = worker.reply()
            if path is None:
                return False
        except Failure as failure:
            tqdm.write(f"{task.name}: results are not compared, its own program does not run ({failure})", sys.stderr)
            path = None
        self._made[task.key] = path
        return True


def unwritten(shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """Return an output's content before the call: NaN, or a number that no program computes from small ones."""
    kind = np.dtype(kind)
    if kind.kind == "f":
        return np.full(shape, np.nan, kind)
    return np.full(shape, True if kind.kind == "b" else np.iinfo(kind).max, kind)


def computed(task: Task) -> Reference:
    """The results of the task's unscheduled program."""
    import tvm

    from tracegen.tensor.build import shared_object

    module = task.module()
    tensors = [tvm.runtime.tensor(array) for array in arguments(task.arguments)]
    with TemporaryDirectory(prefix="perfvec-reference-") as folder:
        path = Path(folder) / f"{task.key}.so"  # a name of its own: the loader takes equal names for equal libraries
        shared_object(module, _GENERIC, path)
        tvm.runtime.load_module(str(path))["main"](*tensors)
    return Reference({index: tensors[index].numpy() for index in outputs(module)})


def outputs(module: IRModule) -> list[int]:
    """Return which arguments the module's function writes."""
    import tvm_ffi
    from tvm.tirx.stmt import BufferStore

    stored: set[int] = set()
    tvm_ffi.structural_walk(module["main"], [(BufferStore, lambda store: stored.add(store.buffer.id_))])
    return [index for index, parameter in enumerate(module["main"].params) if parameter.id_ in stored]


def _deviation(found: NDArray[Any], expected: NDArray[Any]) -> float:
    if found.shape != expected.shape:
        return math.inf
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(found, expected) else math.inf
    known = np.isfinite(expected)
    if not known.all():
        if not np.array_equal(found[~known], expected[~known], equal_nan=True):
            return math.inf
        found, expected = found[known], expected[known]
    if not expected.size:
        return 0.0
    size = math.sqrt(float(np.mean(np.square(expected, dtype=np.float64)))) or 1.0
    worst = float((np.abs(found - expected) / np.maximum(np.abs(expected), size)).max())
    return worst if worst == worst else math.inf
