"""TVM, which compiles tensor programs: of the version whose interfaces this package uses, or one clear line."""

from __future__ import annotations

import importlib.util
import sys
import types
from importlib import metadata
from pathlib import Path

from support.errors import InputError

TVM_VERSION, FFI_VERSION = "0.27.0.post1", "0.1.14.post1"


def require_tvm() -> None:
    """Raise InputError unless the right TVM is installed.

    A newer apache-tvm-ffi crashes in `tvm.ir.save_json`, so it is as necessary as TVM's own version.
    """
    for package, version in (("apache-tvm", TVM_VERSION), ("apache-tvm-ffi", FFI_VERSION)):
        try:
            found = metadata.version(package)
        except metadata.PackageNotFoundError:
            found = None
        if found != version:
            raise InputError(
                f"{package} {version} is needed, {f'{found} is' if found else 'none is'} installed; "
                "run pip install 'perfvec-toolkit[tensor]'"
            )


def without_tensor_intrinsics() -> None:
    """Keep TVM from loading its table of tensor intrinsics: 6 to 16 s of parsing GPU scripts, of no use to float code.

    `TuneContext` and the builder import `tvm.s_tir.tensor_intrin` unconditionally; its modules stay importable.
    """
    name = "tvm.s_tir.tensor_intrin"
    if name in sys.modules:
        return
    import tvm.s_tir

    found = importlib.util.find_spec("tvm")
    assert found is not None and found.origin is not None
    package = types.ModuleType(name)
    package.__path__ = [str(Path(found.origin).parent / "s_tir" / "tensor_intrin")]
    sys.modules[name] = package
    tvm.s_tir.tensor_intrin = package
