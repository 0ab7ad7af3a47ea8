"""A machine and a program, simulated by stock gem5 (v23 and v24, syscall emulation, classic caches). gem5 runs this
file:

    gem5.opt tracegen/gem5/run_se.py --uarch FILE [--fast-forward N] [--warmup N] [--max-instructions N] -- PROGRAM
    ARGS...

FILE is a preset's name or a machine's YAML or JSON. What is executed is the text that `perfvec uarch export --gem5`
writes, so there is one table of what a field sets (`uarch.gem5.table`) and no second script. The instruction set is the
program's own. `--help` after `--uarch FILE` shows every option.

It runs inside gem5's Python, which needs nothing but PyYAML besides itself (Debian: python3-yaml; else a PYTHONPATH
with any PyYAML of 6.0 or later; a virtual environment of this toolkit beside it is found by itself).
"""

from __future__ import annotations

import shutil
import struct
import sys
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
MACHINES = {62: "x86-64", 183: "aarch64", 243: "riscv64"}  # e_machine of the ELF header


def script(words: list[str]) -> tuple[str, list[str]]:
    """The configuration script for a command line, and the words that are left to it. Raises InputError."""
    from support.errors import InputError
    from uarch.gem5.script import gem5_script
    from uarch.machine_files import load_machine

    own, program = (words[: words.index("--")], words[words.index("--") :]) if "--" in words else (words, [])
    if "--uarch" not in own[:-1]:
        raise InputError("name the machine: run_se.py --uarch FILE [OPTIONS] -- PROGRAM ... (a preset, YAML or JSON)")
    at = own.index("--uarch")
    machine, rest = load_machine(own[at + 1]), own[:at] + own[at + 2 :] + program
    isa = isa_of(program[1]) if len(program) > 1 else "x86-64"
    return gem5_script(machine, isa), rest


def isa_of(program: str) -> str:
    """The instruction set that an ELF program is for. Raises InputError."""
    from support.errors import InputError

    path = shutil.which(program) or program
    try:
        with Path(path).open("rb") as file:
            head = file.read(20)
    except OSError as error:
        raise InputError(f"{program}: {error.strerror}; name a program that can be run") from None
    machine = struct.unpack("<H", head[18:20])[0] if len(head) == 20 and head[:6] == b"\x7fELF\x02\x01" else 0
    if machine not in MACHINES:
        raise InputError(f"{path}: no ELF program for {', '.join(MACHINES.values())}; of a script name the interpreter")
    return MACHINES[machine]


def find_modules() -> None:
    """Put the toolkit and, where gem5's Python lacks it, PyYAML on the path."""
    sys.path.insert(0, str(ROOT))
    try:
        import yaml  # noqa: F401
    except ImportError:
        sys.path += [str(path) for path in sorted(ROOT.glob(".venv/lib/python3*/site-packages"))]


def stop(reason: str) -> NoReturn:
    """End with the message. gem5 v24 takes nothing but a number as the status of an exit: `sys.exit(reason)` would
    abort it, without the reason.
    """
    print(f"run_se.py: {reason}", file=sys.stderr)
    sys.exit(2)


def main() -> None:
    find_modules()
    try:
        from support.errors import InputError
    except ImportError as error:
        stop(str(error))
    try:
        text, words = script(sys.argv[1:])
    except ImportError as error:
        stop(f"{error}: gem5's Python needs PyYAML (apt install python3-yaml, or set PYTHONPATH)")
    except InputError as error:
        stop(str(error))
    sys.argv[1:] = words
    exec(compile(text, "the exported script", "exec"), {"__name__": "__m5_main__"})


if __name__ in ("__main__", "__m5_main__"):
    main()
