"""Check that a gem5 source tree has every class, parameter and port that the exported scripts name, and they a unit for
every class of operations.

    python -m benchmarks.uarch.check_gem5_names GEM5_SOURCE

The scripts run on `gem5_stand_in`, which records what they make; the tree's Python files are parsed, not run.
"""

import ast
import contextlib
import sys
from pathlib import Path

from tests.uarch import gem5_stand_in
from uarch.configuration import replace_field
from uarch.constraints import REPLACEMENT_POLICIES
from uarch.gem5.script import gem5_script
from uarch.machine_files import load_machine, preset_names

METHODS = {"memory_mode", "createThreads", "createInterruptController", "scheduleInstStop", "totalInsts"}
SET_BY_GEM5 = {"isa", "interrupts", "stop"}  # by createThreads and createInterruptController, or by the stand-in


def classes(source: Path) -> dict[str, tuple[list[str], set[str]]]:
    """Class → its bases, and the names that its body defines."""
    found: dict[str, tuple[list[str], set[str]]] = {}
    for path in (source / "src").rglob("*.py"):
        try:
            tree = ast.parse(path.read_text())
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names = {
                    target.id
                    for item in node.body
                    if isinstance(item, ast.Assign)
                    for target in item.targets
                    if isinstance(target, ast.Name)
                }
                names |= {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
                for call in ast.walk(node):  # methods that are written in C++
                    if isinstance(call, ast.Call) and ast.unparse(call.func) == "PyBindMethod":
                        names.add(ast.literal_eval(call.args[0]))
                bases, known = found.get(node.name, ([], set()))
                found[node.name] = (bases + [ast.unparse(base).split(".")[-1] for base in node.bases], known | names)
    return found


def operation_classes(source: Path) -> frozenset[str]:
    """The classes of operations that functional units may do."""
    tree = ast.parse((source / "src/cpu/FuncUnit.py").read_text())
    values = (
        item.value
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name == "OpClass"
        for item in node.body
        if isinstance(item, ast.Assign)
    )
    return frozenset(name for value in values for name in ast.literal_eval(value)) - {"No_OpClass"}


def members(known: dict[str, tuple[list[str], set[str]]], name: str) -> set[str]:
    bases, names = known.get(name, ([], set()))
    return names.union(*(members(known, base) for base in bases if base != name))


def objects(top: object) -> list[gem5_stand_in.SimObject]:
    found, pending = [], [top]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending += item
        elif isinstance(item, gem5_stand_in.SimObject) and item not in found:
            found.append(item)
            pending += item.parameters.values()
    return found


def main() -> int:
    source = Path(sys.argv[1])
    known = classes(source)
    every = {name for version in gem5_stand_in.VERSIONS.values() for name in version.lacks}
    operations = operation_classes(source)
    version = gem5_stand_in.Version(frozenset(every - known.keys()), operations)
    machines = [load_machine(name) for name in preset_names()]
    machines += [replace_field(load_machine("base"), "l2.replacement", policy) for policy in REPLACEMENT_POLICIES]
    missing: set[str] = set()
    checked: set[tuple[str, str]] = set()
    for isa in ("x86-64", "aarch64", "riscv64"):
        for machine in machines:
            arguments = [
                "--fast-forward",
                "9",
                "--warmup",
                "9",
                "--max-instructions",
                "9",
                "--sysroot",
                "/",
                "--",
                "true",
            ]
            with contextlib.redirect_stdout(None):
                root = gem5_stand_in.run_root(gem5_script(machine, isa), arguments, version)
            for item in objects(root):
                kind = type(item).__name__
                if kind in ("Workload", "Interrupts") or kind.endswith(("ISA", "MMU")):
                    continue
                if kind not in known:
                    missing.add(f"{kind} ({isa})")
                    continue
                have = members(known, kind)
                children = {child for child, value in item.parameters.items() if objects(value)}
                free = kind in ("Root", "System")  # children of any name may hang there
                for used in {*item.parameters, *item.ports} - SET_BY_GEM5:
                    checked.add((kind, used))
                    if used not in have and not (free and used in children):
                        missing.add(f"{kind}.{used} ({isa})")
                if kind.endswith("CPU"):
                    missing |= {f"{kind}.{method}() ({isa})" for method in METHODS if method not in have}
    missing |= {f"a unit for {name}" for name in operations - gem5_stand_in.OPERATIONS}
    kinds = {kind for kind, _ in checked}
    print(f"{len(checked)} names of {len(kinds)} classes checked; missing: {sorted(missing) or 'none'}")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
