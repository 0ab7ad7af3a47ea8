"""A compiled network run for its time, in a process of its own: `python -m analysis.tensor.execute NETWORK.so …`.

One thread; one warm-up, then single runs until there are 100 or the budget is spent, 5 at least. Prints JSON: the
median without outliers, the spread and the number of runs (`tracegen.tensor.measure.summary`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from support.errors import InputError
from tracegen.tensor.measure import Measured, arguments, summary

_MOST, _FEWEST = 100, 5
Specification = Sequence[tuple[str, tuple[int, ...]]]  # type and shape of each input


def execute(library: Path, inputs: Specification, *, budget_s: float, cpu: int | None, limit_s: float) -> Measured:
    """Time the function `main` of a compiled Relax program. Raises InputError where it crashes or takes too long."""
    request = json.dumps({"library": str(library), "inputs": inputs, "budget_s": budget_s, "cpu": cpu})
    environment = os.environ | {"TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "analysis.tensor.execute", request]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise InputError(f"the network did not run within {limit_s:.0f} s") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"]
        raise InputError(f"the compiled network does not run ({lines[-1][:200]})")
    return Measured(**json.loads(done.stdout.strip().splitlines()[-1]))


def _main(request: dict[str, Any]) -> None:
    if request["cpu"] is not None:
        os.sched_setaffinity(0, {request["cpu"]})
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(tvm.runtime.load_module(request["library"]), tvm.cpu())
    tensors = [
        tvm.runtime.tensor(array) for array in arguments([(kind, tuple(shape)) for kind, shape in request["inputs"]])
    ]
    function = machine["main"]
    function(*tensors)
    deadline = time.perf_counter() + request["budget_s"]
    times: list[float] = []
    while len(times) < _FEWEST or (len(times) < _MOST and time.perf_counter() < deadline):
        began = time.perf_counter()
        function(*tensors)
        times.append(time.perf_counter() - began)
    print(json.dumps(asdict(summary(times))))


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
