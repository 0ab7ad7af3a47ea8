"""Profile a program once, predict its run time on any microarchitecture.

`import perfvec as pv` gives the Python API (`analysis.api`), loaded when a name of it is first used:

    trace = pv.trace(["gzip", "-c", "records.csv"])
    program = pv.represent(trace)
    pv.predict(program, machines=["zen4", "my.yaml"])

The package itself holds what learns: the instruction foundation model, machine vectors, program vectors.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.api import *

__all__ = [
    "Error",
    "LivePointsFile",
    "Program",
    "Result",
    "TraceFile",
    "__version__",
    "attribute",
    "characterise",
    "compare",
    "diff",
    "explore",
    "import_champsim",
    "import_gem5",
    "live_points",
    "load",
    "load_model",
    "machine",
    "phases",
    "predict",
    "presets",
    "profile",
    "report",
    "represent",
    "simulate",
    "subset",
    "sweep",
    "tiling",
    "trace",
]


def __getattr__(name: str) -> Any:
    """Load a name of the API, or the version, on its first use."""
    if name == "__version__":
        from support.release import release

        return release()
    if name in __all__:
        value = getattr(import_module("analysis.api"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
