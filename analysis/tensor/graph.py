"""A network as TVM executes it: calls of kernels, and which waits for which.

The Relax program is the one that the tasks come from (`tracegen.tensor.tasks`), so its kernels are the tasks. Reshapes
that move no data are calls without a kernel.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from support.errors import InputError
from tracegen.tensor.installation import require_tvm, without_tensor_intrinsics
from tracegen.tensor.tasks import Task, lowered, network_module, task_of

if TYPE_CHECKING:
    from tvm.ir import IRModule


@dataclass(frozen=True)
class Call:
    """`task`: key of the kernel's task; None of a view. `predecessors`: numbers of calls whose results it reads."""

    name: str
    task: str | None
    predecessors: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """The calls of one inference in program order, and their distinct tasks by key, weighted by their calls.

    `module` is the network before lowering: TVM's compiler lowers it itself, and only what it lowered as here does it
    find in a tuning database.
    """

    network: str
    module: IRModule
    calls: tuple[Call, ...]
    tasks: dict[str, Task]

    @property
    def weights(self) -> dict[str, int]:
        """{task: calls}."""
        return {key: task.networks[self.network] for key, task in self.tasks.items()}


def network_graph(text: str) -> Graph:
    """The graph of a network written as for `tracegen.tensor.tasks.parse_network`. Raises InputError."""
    require_tvm()
    without_tensor_intrinsics()
    return module_graph(network_module(text), text)


def module_graph(module: IRModule, network: str) -> Graph:
    """The graph of a Relax module with one function `main`, before its operators are lowered."""
    from tvm import relax
    from tvm.s_tir.meta_schedule.tune_context import _normalize_mod

    viewed = relax.transform.RewriteDataflowReshape()(lowered(module))
    key_of: dict[str, str] = {}
    tasks: dict[str, Task] = {}
    calls: list[Call] = []
    results: dict[Any, set[int]] = {}  # variable → the calls that it needs
    for binding in _bindings(viewed["main"]):
        value = binding.value
        needed = set().union(*(results.get(variable, set()) for variable in _variables(value)), set())
        if isinstance(value, relax.Call):
            name, task = _operator(value), None
            if name == "relax.call_tir":
                symbol = value.args[0]
                name = str(symbol.name_hint)
                if name not in key_of:
                    found = task_of(_normalize_mod(viewed[symbol]), name)
                    key_of[name] = found.key
                    tasks.setdefault(found.key, found)
                task = key_of[name]
            elif name not in _VIEWS:
                raise InputError(f"{network}: its graph calls {name}, which is no kernel; it cannot be replayed")
            needed_here, needed = needed, {len(calls)}
            calls.append(Call(name, task, tuple(sorted(needed_here))))
        results[binding.var] = needed
    count = Counter(call.task for call in calls)
    weighted = {key: replace(task, networks={network: count[key]}) for key, task in tasks.items()}
    if not weighted:
        raise InputError(f"{network}: its graph has no kernels")
    return Graph(network, module, tuple(calls), weighted)


_VIEWS = ("relax.reshape", "relax.memory.view", "relax.shape_of")


def _operator(call: Any) -> str:
    return str(getattr(call.op, "name", call.op))


def _bindings(function: Any) -> list[Any]:
    """All bindings of a function without branches."""
    body = function.body
    return [binding for block in body.blocks for binding in block.bindings]


def _variables(value: Any) -> list[Any]:
    """The variables that an expression reads."""
    from tvm import relax

    if isinstance(value, relax.Var):
        return [value]
    if isinstance(value, relax.Tuple):
        return [variable for part in value.fields for variable in _variables(part)]
    if isinstance(value, relax.TupleGetItem):
        return _variables(value.tuple_value)
    if isinstance(value, relax.Call):
        return [variable for argument in value.args for variable in _variables(argument)]
    return []
