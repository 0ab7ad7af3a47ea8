"""Single operators as tasks, at the sizes that `operators.yaml` lists."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

import yaml

from support.errors import InputError
from tracegen.tensor.tasks import Task, task_of

if TYPE_CHECKING:
    from tvm.te import Tensor

_Tensors = list["Tensor"]


def sizes() -> dict[str, list[list[int]]]:
    """The sizes of each operator."""
    return yaml.safe_load(files("tracegen.tensor").joinpath("operators.yaml").read_text())


def parse_operator(text: str) -> tuple[str, list[list[int]]]:
    """`NAME` (at all sizes listed) or `NAME:64x64x64` as (name, sizes). InputError names the valid ones."""
    name, colon, size = text.partition(":")
    known = sizes()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
        raise InputError(f"there is no operator {name!r}; {hint}")
    if not colon:
        return name, known[name]
    extents = size.split("x")
    fits = any(len(extents) == len(listed) for listed in known[name]) or name in _OF_SHAPE
    if not all(extent.isdigit() and int(extent) > 0 for extent in extents) or not fits:
        raise InputError(f"{text!r}: {size!r} is no size of {name}; write it as {'x'.join(map(str, known[name][0]))}")
    return name, [[int(extent) for extent in extents]]


def operator_tasks(text: str) -> list[Task]:
    """The tasks of an operator as written for `parse_operator`."""
    import tvm
    from tvm import te

    name, chosen = parse_operator(text)
    listed = sizes()
    tasks = []
    for size in chosen:
        tensors = OPERATORS[name](*size) if name not in _OF_SHAPE else _OF_SHAPE[name](size)
        function = te.create_prim_func(tensors).with_attr("global_symbol", "main")
        function = function.with_attr("tirx.noalias", True)
        extents = "x".join(map(str, size))
        source = name if size in listed.get(name, ()) else f"{name}:{extents}"  # what makes the task again
        tasks.append(task_of(tvm.IRModule({"main": function}), f"{name}_{extents}", {f"operator:{source}": 1}))
    return tasks


def _input(name: str, *shape: int) -> Tensor:
    from tvm import te

    return te.placeholder(shape, "float32", name)


def _matmul(m: int, n: int, k: int) -> _Tensors:
    from tvm import topi

    a, b = _input("A", m, k), _input("B", k, n)
    return [a, b, topi.nn.matmul(a, b)]


def _batch_matmul(batch: int, m: int, n: int, k: int) -> _Tensors:
    from tvm import topi

    a, b = _input("A", batch, m, k), _input("B", batch, k, n)
    return [a, b, topi.nn.batch_matmul(a, b, transpose_b=False)]


def _conv2d_nchw(n: int, h: int, w: int, inputs: int, outputs: int, kernel: int, stride: int) -> _Tensors:
    from tvm import topi

    x, weight = _input("X", n, inputs, h, w), _input("W", outputs, inputs, kernel, kernel)
    return [x, weight, topi.nn.conv2d_nchw(x, weight, stride, kernel // 2, 1)]


def _conv2d_nhwc(n: int, h: int, w: int, inputs: int, outputs: int, kernel: int, stride: int) -> _Tensors:
    from tvm import topi

    x, weight = _input("X", n, h, w, inputs), _input("W", kernel, kernel, inputs, outputs)
    return [x, weight, topi.nn.conv2d_nhwc(x, weight, stride, kernel // 2, 1)]


def _depthwise_nchw(n: int, h: int, w: int, channels: int, kernel: int, stride: int) -> _Tensors:
    from tvm import topi

    x, weight = _input("X", n, channels, h, w), _input("W", channels, 1, kernel, kernel)
    return [x, weight, topi.nn.depthwise_conv2d_nchw(x, weight, stride, kernel // 2, 1)]


def _depthwise_nhwc(n: int, h: int, w: int, channels: int, kernel: int, stride: int) -> _Tensors:
    from tvm import topi

    x, weight = _input("X", n, h, w, channels), _input("W", kernel, kernel, channels, 1)
    return [x, weight, topi.nn.depthwise_conv2d_nhwc(x, weight, stride, kernel // 2, 1)]


def _winograd(n: int, h: int, w: int, inputs: int, outputs: int, kernel: int, stride: int) -> _Tensors:
    from tvm import topi

    x, weight = _input("X", n, h, w, inputs), _input("W", kernel, kernel, inputs, outputs)
    return [x, weight, topi.nn.conv2d_winograd_nhwc(x, weight, stride, kernel // 2, 1, "float32")]


def _softmax(shape: Sequence[int]) -> _Tensors:
    from tvm import topi

    x = _input("X", *shape)
    return [x, topi.nn.softmax(x, -1)]


def _layer_norm(shape: Sequence[int]) -> _Tensors:
    from tvm import topi

    x, scale, shift = _input("X", *shape), _input("scale", shape[-1]), _input("shift", shape[-1])
    return [x, scale, shift, topi.nn.layer_norm(x, scale, shift, [len(shape) - 1])]


def _relu(shape: Sequence[int]) -> _Tensors:
    from tvm import topi

    x = _input("X", *shape)
    return [x, topi.nn.relu(x)]


def _gelu(shape: Sequence[int]) -> _Tensors:
    from tvm import topi

    x = _input("X", *shape)
    return [x, x * (topi.erf(x * 0.7071067811865476) * 0.5 + 0.5)]


def _add(shape: Sequence[int]) -> _Tensors:
    from tvm import topi

    a, b = _input("A", *shape), _input("B", *shape)
    return [a, b, topi.add(a, b)]


def _sum_last(shape: Sequence[int]) -> _Tensors:
    from tvm import topi

    x = _input("X", *shape)
    return [x, topi.sum(x, -1)]


def _sum_first(shape: Sequence[int]) -> _Tensors:
    from tvm import topi

    x = _input("X", *shape)
    return [x, topi.sum(x, 0)]


def _max_pool2d(shape: Sequence[int]) -> _Tensors:
    from tvm import topi

    x = _input("X", *shape)
    return [x, topi.nn.pool2d(x, [3, 3], [2, 2], [1, 1], [1, 1, 1, 1], "max")]


OPERATORS: dict[str, Callable[..., _Tensors]] = {
    "matmul": _matmul,
    "batch_matmul": _batch_matmul,
    "conv2d_nchw": _conv2d_nchw,
    "conv2d_nhwc": _conv2d_nhwc,
    "depthwise_conv2d_nchw": _depthwise_nchw,
    "depthwise_conv2d_nhwc": _depthwise_nhwc,
    "winograd_conv2d_nhwc": _winograd,
}
_OF_SHAPE: dict[str, Callable[[Sequence[int]], _Tensors]] = {
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "relu": _relu,
    "gelu": _gelu,
    "add": _add,
    "sum_last": _sum_last,
    "sum_first": _sum_first,
    "max_pool2d": _max_pool2d,
}
