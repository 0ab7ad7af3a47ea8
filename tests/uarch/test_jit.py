"""Kernels are compiled by one process and read by the others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Each process tells how often it compiled: what is read from the disk is not saved again.
_PROGRAM = """
import sys
import numba.core.caching as caching
from uarch.jit import kernel

saved = []
save = caching.Cache.save_overload
caching.Cache.save_overload = lambda cache, *parts: (saved.append(parts), save(cache, *parts))[1]


@kernel
def total(count: int) -> int:
    value = 0
    for k in range(count):
        value += k
    return value


print("ready", flush=True)
sys.stdin.readline()
print(total(1000), total(10), len(saved), flush=True)
"""


def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(_PROGRAM)
    environment = os.environ | {"TMPDIR": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    processes = [
        subprocess.Popen(
            [sys.executable, script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    lines = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [line[:2] for line in lines] == [["499500", "45"]] * 3
    assert sorted(int(line[2]) for line in lines) == [0, 0, 1]
