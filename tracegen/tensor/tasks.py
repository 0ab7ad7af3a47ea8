"""Tasks: the distinct tensor programs of networks, and of single operators, before any schedule.

A network becomes tasks by torch.export, TVM's Relax importer, batch normalisations folded into convolutions, and
Relax's `zero` pipeline, which lowers and fuses operators. The same program in two networks is one task with two
weights (how often it occurs).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from support.errors import InputError
from tracegen.tensor.networks import network_named

if TYPE_CHECKING:
    from tvm.ir import IRModule
    from tvm.target import Target


@dataclass(frozen=True)
class Task:
    """A tensor program to schedule.

    `workload` is TVM's own JSON of the program; `arguments` are [type, shape] pairs in the order of the call;
    `networks` says how often each network runs it.
    """

    key: str
    name: str
    arguments: tuple[tuple[str, tuple[int, ...]], ...]
    flops: float
    workload: str
    networks: dict[str, int] = field(default_factory=dict, compare=False)

    def as_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "name": self.name,
            "arguments": [[t, list(s)] for t, s in self.arguments],
            "flops": self.flops,
            "networks": self.networks,
            "workload": self.workload,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Task:
        arguments = tuple((kind, tuple(shape)) for kind, shape in document["arguments"])
        return cls(**(document | {"arguments": arguments}))

    def module(self) -> IRModule:
        """The program, as TVM's."""
        import tvm

        return tvm.ir.load_json(self.workload)


def arguments_of(module: IRModule) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Type and shape of each argument of the module's function."""
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo

    found = (argument.as_json() for argument in ArgInfo.from_entry_func(module, remove_preproc=True))
    return tuple((str(kind), tuple(int(extent) for extent in shape)) for _, kind, shape in found)


def task_of(module: IRModule, name: str, networks: dict[str, int] | None = None) -> Task:
    """The task of an IRModule with one function `main`."""
    import tvm
    import tvm_ffi
    from tvm.s_tir.analysis import estimate_tir_flops

    try:
        flops = float(estimate_tir_flops(module))
    except Exception:  # TVM raises its own errors for what it cannot count
        flops = math.nan
    key = f"{tvm_ffi.structural_hash(module) % (1 << 64):016x}"
    return Task(key, name, arguments_of(module), flops, tvm.ir.save_json(module), dict(networks or {}))


def parse_network(text: str) -> tuple[str, int, int | None, int | None]:
    """`NAME[:batch=B][,size=S][,layers=L]` as (name, batch, size, layers); None: the network's own."""
    name, _, rest = text.partition(":")
    values: dict[str, int] = {}
    for part in filter(None, rest.split(",")):
        option, _, value = part.partition("=")
        if option not in ("batch", "size", "layers") or not value.isdigit() or int(value) < 1:
            raise InputError(f"{text!r}: {part!r} is no option of a network; write NAME:batch=4,size=128")
        values[option] = int(value)
    if "layers" in values and not network_named(name).layers:
        raise InputError(f"{text!r}: the layers of {name} differ, so their number is no option of it")
    network_named(name)
    return name, values.get("batch", 1), values.get("size"), values.get("layers")


def network_module(text: str, layers: int | None = None) -> IRModule:
    """The network written as for `parse_network` in Relax, before its operators are lowered: what TVM compiles.

    `layers`: with so many of its alike layers, whatever `text` says.
    """
    import torch
    from tvm import relax
    from tvm.relax.frontend.torch import from_exported_program

    name, batch, size, written = parse_network(text)
    network = network_named(name)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch's, of its own classes
        try:
            exported = torch.export.export(network.module(size, layers or written), (network.example(batch, size),))
        except RuntimeError as error:
            raise InputError(f"{text!r}: the network does not take this size ({str(error).splitlines()[0]})") from error
        module = from_exported_program(exported)
    for step in (
        relax.transform.FoldBatchnormToConv2D(),
        relax.transform.DecomposeOpsForInference(),
        relax.transform.FoldConstant(),
    ):
        module = step(module)
    return module


def lowered(module: IRModule) -> IRModule:
    """A Relax module whose operators are calls of kernels, fused: those that TVM looks for in a tuning database."""
    from tvm import relax

    with _target():
        return relax.get_pipeline("zero")(module)


def network_tasks(text: str) -> list[Task]:
    """The tasks of a network as written for `parse_network`, in the order of their first use.

    Of a network with more than three alike layers, those with two and with three are extracted: each layer more calls
    the same tasks as often as the third does, so that the whole of a large network is never in memory.
    """
    name, _, _, written = parse_network(text)
    layers = written or network_named(name).layers
    if layers <= 3:
        return whole_network_tasks(text)
    two, three = whole_network_tasks(text, 2), whole_network_tasks(text, 3)
    before = {task.key: task.networks[text] for task in two}
    found = []
    for task in three:
        calls = task.networks[text]
        more = calls - before.get(task.key, 0)
        found.append(replace(task, networks={text: calls + (layers - 3) * more}))
    if any(task.networks[text] < 1 for task in found) or {task.key for task in three} != set(before):
        return whole_network_tasks(text)  # not all layers are alike to TVM
    return found


def whole_network_tasks(text: str, layers: int | None = None) -> list[Task]:
    from tvm.s_tir import meta_schedule

    extracted = meta_schedule.relax_integration.extract_tasks(lowered(network_module(text, layers)), _target())
    return [task_of(task.dispatched[0], task.task_name, {text: int(task.weight)}) for task in extracted]


def _target() -> Target:
    from tvm.target import Target

    return Target({"kind": "llvm", "num-cores": 1})


def merged(tasks: Iterable[Task]) -> list[Task]:
    """One task for each distinct program, with the weights of all networks."""
    by_key: dict[str, Task] = {}
    for task in tasks:
        known = by_key.get(task.key)
        by_key[task.key] = replace(known, networks=known.networks | task.networks) if known else task
    return list(by_key.values())
