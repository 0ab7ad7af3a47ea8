"""The timing model's caches against valgrind's cachegrind: the same program, the same geometry, misses within 2 %."""

import re
import shutil
import subprocess

import pytest

from tests.conftest import KERNELS
from tracegen.decode import decode
from tracegen.formats.trace import Trace
from tracegen.qemu import Execution, trace
from tracegen.suite.inputs import compile_c
from uarch.configuration import replace_field
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation

L1 = {"size_kib": 16, "associativity": 4}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
@pytest.mark.parametrize(("kernel", "arguments"), [("qsort", ["12000"]), ("spmv", ["1500", "8"])])
def test_misses_are_those_of_cachegrind(kernel, arguments, tmp_path):
    program = tmp_path / kernel
    compile_c(KERNELS / f"{kernel}.c", program, ["-static"])
    geometry = f"{L1['size_kib'] * 1024},{L1['associativity']},64"
    command = [
        "valgrind",
        "--tool=cachegrind",
        "--cache-sim=yes",
        f"--I1={geometry}",
        f"--D1={geometry}",
        "--LL=1048576,16,64",
        f"--cachegrind-out-file={tmp_path / 'out'}",
        str(program),
        *arguments,
    ]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found_lines = re.findall(r"(D1 +misses|I +refs): +([\d,]+)", report)
    expected = {key: int(value.replace(",", "")) for key, value in found_lines}

    trace(Execution([str(program), *arguments], stdout=subprocess.DEVNULL), tmp_path / "t.trace.h5", progress=False)
    machine = load_machine("base")
    for cache in ("l1i", "l1d"):
        machine = replace_field(machine, f"{cache}.prefetcher", "none")
        for field, value in L1.items():
            machine = replace_field(machine, f"{cache}.{field}", value)
    with Trace(tmp_path / "t.trace.h5") as traced:
        simulation = Simulation(machine, decode(traced.address, traced.code, traced.isa))
        for chunk in traced.chunks():
            simulation.run(chunk)
    found = simulation.counters
    assert found["instructions"] == pytest.approx(expected["I   refs"], rel=0.01)
    assert found["l1d_misses"] == pytest.approx(expected["D1  misses"], rel=0.02)
