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
    from analysis.api import Error as Error
    from analysis.api import LivePointsFile as LivePointsFile
    from analysis.api import Program as Program
    from analysis.api import Result as Result
    from analysis.api import TraceFile as TraceFile
    from analysis.api import attribute as attribute
    from analysis.api import characterise as characterise
    from analysis.api import compare as compare
    from analysis.api import diff as diff
    from analysis.api import explore as explore
    from analysis.api import import_champsim as import_champsim
    from analysis.api import import_gem5 as import_gem5
    from analysis.api import live_points as live_points
    from analysis.api import load as load
    from analysis.api import load_model as load_model
    from analysis.api import machine as machine
    from analysis.api import phases as phases
    from analysis.api import predict as predict
    from analysis.api import presets as presets
    from analysis.api import profile as profile
    from analysis.api import report as report
    from analysis.api import represent as represent
    from analysis.api import simulate as simulate
    from analysis.api import subset as subset
    from analysis.api import sweep as sweep
    from analysis.api import tiling as tiling
    from analysis.api import trace as trace

_API = (
    "Error",
    "LivePointsFile",
    "Program",
    "Result",
    "TraceFile",
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
)
__all__ = [*_API, "__version__"]


def __getattr__(name: str) -> Any:
    """Load a name of the API, or the version, on its first use."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version  # a third of the time that the import takes

        try:
            return version("perfvec-toolkit")
        except PackageNotFoundError:
            return "0 (a checkout that is not installed)"
    if name in _API:
        value = getattr(import_module("analysis.api"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
