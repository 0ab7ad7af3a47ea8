"""Work of the worker processes: one builds (tasks, schedules, references, objects, simulations), one runs
(measurements).

A request is a dictionary that can be pickled, and so is the answer. Everything is imported when it is first asked for.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracegen.tensor.worker import Work

if TYPE_CHECKING:
    from tvm.runtime import Tensor

    from tracegen.tensor.layout import Layout
    from tracegen.tensor.reference import Reference


def _tasks(request: dict[str, Any]) -> Any:
    import torch

    from tracegen.tensor.tasks import network_tasks

    torch.set_num_threads(1)
    return network_tasks(request["network"])


def _operators(request: dict[str, Any]) -> Any:
    from tracegen.tensor.operators import operator_tasks

    return operator_tasks(request["operator"])


def _sample(request: dict[str, Any]) -> Any:
    from tracegen.tensor.candidates import sample

    return sample(**request)


def _build(request: dict[str, Any]) -> Any:
    from tracegen.tensor.build import shared_object
    from tracegen.tensor.candidates import scheduled
    from tracegen.tensor.layout import layouts_of

    module = scheduled(request["task"], request["trace"])
    shared_object(module, request["target"], Path(request["path"]))
    return layouts_of(module)


def _reference(request: dict[str, Any]) -> Any:
    from tracegen.tensor.reference import computed

    computed(request["task"]).save(Path(request["path"]))
    return request["path"]


def _simulate(request: dict[str, Any]) -> Any:
    from tracegen.tensor.candidates import scheduled
    from tracegen.tensor.simulated import simulate

    module = scheduled(request["task"], request["trace"])
    return simulate(
        module,
        request["task"],
        request["machines"],
        reference=_expected(request["reference"]),
        isa=request["isa"],
        max_instructions=request["max_instructions"],
    )


def run(request: dict[str, Any]) -> Any:
    """Measure a built candidate (`measure.measure`), and compare its results where there is a reference."""
    from tracegen.tensor.measure import measure

    tensors = _tensors(request["arguments"], request.get("layouts", ()))
    reference = _expected(request.get("reference"))
    if reference is not None:
        reference.spoil(tensors)
    measured = measure(request["path"], tensors, slow_s=request["slow_s"], budget_s=request["budget_s"])
    if reference is None:
        return measured
    return replace(measured, deviation=reference.deviation({at: tensors[at].numpy() for at in reference.outputs}))


@lru_cache(maxsize=2)
def _tensors(specification: tuple[tuple[str, tuple[int, ...]], ...], layouts: tuple[Layout, ...]) -> list[Tensor]:
    import tvm

    from tracegen.tensor.layout import rearranged
    from tracegen.tensor.measure import arguments

    return [tvm.runtime.tensor(array) for array in rearranged(arguments(specification), layouts)]


@lru_cache(maxsize=2)
def _expected(path: str | None) -> Reference | None:
    from tracegen.tensor.reference import Reference

    return None if path is None else Reference.load(Path(path))


_BUILDER: dict[str, Work] = {
    "tasks": _tasks,
    "operators": _operators,
    "sample": _sample,
    "reference": _reference,
    "build": _build,
    "simulate": _simulate,
}


def build(request: dict[str, Any]) -> Any:
    """Do what `request["do"]` says, the rest of it being what that needs."""
    return _BUILDER[request.pop("do")](request)
