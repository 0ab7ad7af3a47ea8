"""Check of this computer for all that the toolkit uses, with the mend where something is missing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from perfvec.architectures import amx
from perfvec.architectures.convolution import Convolution
from perfvec.model import load_model
from perfvec.precision import native_bf16
from perfvec.representation.sample import represent_sampled
from perfvec.training.ranks import device_of
from support.errors import InputError
from support.processors import processors
from tracegen.gem5.label import find_gem5
from tracegen.gem5.label import version as gem5_version
from tracegen.qemu import Execution, trace
from tracegen.qemu.plugin import find_qemu, plugin_for

_PACKAGES = {
    "dask": ("distributed", "--scheduler and --cluster"),
    "search": ("optuna", "tensor autotune"),
    "train": ("tensorboard", "train --tensorboard"),
    "tensor": ("apache-tvm", "tensor collect, tune, replay"),
    "tensor-models": ("pytorch-tabnet", "some cost models of tensor train"),
    "experiment": ("scikit-learn", "experiment caches"),
}


@dataclass(frozen=True)
class Finding:
    """One thing looked for. `missing`: commands that most users want do not work; `absent`: some others do not."""

    what: str
    state: Literal["ok", "absent", "missing"]
    detail: str


def examine() -> Iterator[Finding]:
    """Look for everything, the cheapest first; what is compiled on first use is compiled then, and kept."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = processors()
    machine = f"{platform.machine()}, {cores} cores, {memory:.0f} GiB"
    yield Finding("machine", "ok", f"{machine}, Python {platform.python_version()}")
    yield Finding("PyTorch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads")
    yield _found("GPU", "absent", lambda: torch.cuda.get_device_name(device_of("cuda")))
    yield _found("model", "missing", _model)
    yield _found("representation", "missing", _numbers)
    for isa in ("x86-64", "aarch64", "riscv64"):
        yield _found(f"tracing {isa}", "missing" if isa == "x86-64" else "absent", partial(_tracing, isa))
    yield _found("a program", "missing", _program)
    yield _found("gem5", "absent", lambda: gem5_version(find_gem5(None)))
    for extra, (package, used_by) in _PACKAGES.items():
        yield _found(package, "absent", partial(_version, package, extra, used_by))


def _found(what: str, otherwise: Literal["absent", "missing"], look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, "ok", look())
    except InputError as error:
        return Finding(what, otherwise, str(error))


def _model() -> str:
    model = load_model()
    shape, calibrated = model.foundation.shape, "calibrated" if model.calibration is not None else "not calibrated"
    return f"{model.digest[:12]}…, {shape['architecture']}, {len(model.machines)} machines, {calibrated}"


def _numbers() -> str:
    """Tell in which numbers, and by which code, the shipped model represents programs."""
    if not native_bf16():
        return "float32 through PyTorch (the processor does not multiply bfloat16 faster)"
    architecture = load_model().foundation.architecture
    if not isinstance(architecture, Convolution):
        return "bfloat16 through PyTorch"
    try:
        amx.compiled_for(architecture.width, architecture.kernel)
    except InputError as error:
        return f"bfloat16 through PyTorch ({error})"
    return "bfloat16 on AMX's tiles"


def _tracing(isa: str) -> str:
    qemu = find_qemu(isa)
    plugin_for(qemu)
    run = subprocess.run([str(qemu), "--version"], capture_output=True, text=True, errors="replace", check=False)
    return run.stdout.split("\n", 1)[0].strip() or str(qemu)


def _program() -> str:
    """Trace and represent the beginning of a program, as every question about one begins."""
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("wb") as unheard:
        path = Path(folder) / "true.trace.h5"
        trace(Execution(["true"], stdout=unheard, max_instructions=20_000), path, progress=False)
        vector = represent_sampled(load_model(), path, progress=False)
    return f"{vector.instructions:,} instructions of `true` represented"


def _version(package: str, extra: str, used_by: str) -> str:
    try:
        return f"{importlib.metadata.version(package)}, for {used_by}"
    except importlib.metadata.PackageNotFoundError as error:
        raise InputError(f"for {used_by}: pip install 'perfvec-toolkit[{extra}]'") from error
