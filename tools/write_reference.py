"""Write what is generated of the reference: every command with its options, every field of a machine, and a line for
each name of the Python API.

python tools/write_reference.py [--check]. `--check` writes nothing and exits with 1 where a page is stale.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import typing
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from support.errors import InputError
from uarch.configuration import get_field
from uarch.constraints import RELATIONS, RULES
from uarch.machine_files import load_machine, preset_names
from uarch.system_calls import kinds

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"
_GENERATED = "<!-- Written by tools/write_reference.py; do not edit. -->\n"
# What a field means and its unit, where the name does not say it.
_MEANINGS = {
    "name": "Name of the machine in tables.",
    "core": "Kind of core, which decides the fields of `pipeline`.",
    "frequency_ghz": "Clock, in GHz.",
    "fetch_width": "Instructions fetched, a cycle.",
    "decode_width": "Micro-operations decoded, a cycle.",
    "rename_width": "Micro-operations renamed, a cycle.",
    "issue_width": "Micro-operations issued, a cycle.",
    "commit_width": "Micro-operations retired, a cycle.",
    "frontend_delay": "Stages from fetch to decode.",
    "dispatch_delay": "Stages from rename to the issue queue.",
    "rob_entries": "Entries of the reorder buffer, in micro-operations.",
    "issue_queue_entries": "Entries of the issue queue, in micro-operations.",
    "load_queue_entries": "Entries of the load queue.",
    "store_queue_entries": "Entries of the store queue.",
    "int_registers": "Integer registers for renaming; 64 more hold the instruction set's, of which x86-64 takes 38.",
    "fp_registers": "Floating-point and vector registers for renaming, beside 64 as well (x86-64 takes 48).",
    "width": "Instructions a cycle, in every stage.",
    "memory_width": "Memory instructions issued, a cycle.",
    "store_buffer": "Entries of the store buffer.",
    "memory_in_flight": "Memory instructions in flight.",
    "int_alu": "Integer units.",
    "int_mul": "Integer multipliers, which also divide.",
    "fp_add": "Floating-point adders.",
    "fp_mul": "Floating-point multipliers, which also divide; with gem5's x86-64 only x87's, the rest is `simd`.",
    "simd": "Vector units.",
    "load_ports": "Loads, a cycle.",
    "store_ports": "Stores, a cycle.",
    "mul_latency": "Integer multiplication, in cycles, of gem5's microcode; families have their own.",
    "div_latency": "Integer division, in cycles; on x86-64 one of its steps, unless div_step_latency is given.",
    "div_step_latency": "One step of an x86-64 integer division, in cycles; optional.",
    "tlb.entries": "Entries of the first level, each for data and for instructions.",
    "l2_entries": "Entries of the second level.",
    "l2_latency": "Cost of a first-level miss that hits the second level, in cycles.",
    "walk_latency": "Further cost of a page walk, where the second level misses too, in cycles.",
    "page_kib": "Size of data pages, in KiB: 4, or 2048 for huge pages; code has 4; optional.",
    "walk": "What a walk costs besides its latency: nothing, or reads of the page table through the caches; optional.",
    "frames": "Physical pages that caches see: the virtual ones, in order of first touch, or drawn; optional.",
    "first_touch": "Where a first-touched page is: in memory, or in the cache (zeroed by the kernel); optional.",
    "indirect_delay": "Bubble of returns and of indirect jumps to new targets, out of order, in cycles; optional.",
    "call_delay": "Bubble of calls and of returns, out of order, in cycles; optional: returns as `indirect_delay`.",
    "taken_branches": "Taken branches that fetch follows in a cycle, out of order; optional, default 1.",
    "store_lines": "Lines that stores go to in a cycle, of an out-of-order core of a real family; optional, default 1.",
    "store_refetch": "Cost of a store whose line left L1D before its write, in cycles, as `store_lines`; optional.",
    "system_calls.default": "Cycles in the kernel of all kinds that are not given; optional, default 0.",
    **{
        f"system_calls.{kind}": f"Of {', '.join(f'`{name}`' for name in names)}; optional."
        for kind, names in kinds().items()
    },
    "forward_latency": "Store-to-load forwarding out of order, in cycles; optional, gem5's 2 by default.",
    "memory_renaming": "Last stores that memory renaming covers, of cores as `store_lines`; optional, default none.",
    "microcode": "Micro-operations: gem5's or a real family's; optional, gem5 by default.",
    "fp_add_latency": "Floating-point addition, in cycles, of gem5's microcode; families have their own.",
    "fp_mul_latency": "Floating-point multiplication, in cycles, of gem5's microcode; families have their own.",
    "fp_div_latency": "Floating-point division, in cycles, of gem5's microcode; families have their own.",
    "kind": "Direction predictor.",
    "entries": "Entries of its main table; some kinds have fixed sizes.",
    "btb_entries": "Entries of the branch target buffer.",
    "ras_entries": "Entries of the return address stack.",
    "indirect": "Predictor of indirect jumps and calls; optional, gem5's target-table by default.",
    "size_kib": "Capacity, in KiB.",
    "associativity": "Ways.",
    "latency": "Latency of a hit, this level alone, in cycles.",
    "mshrs": "Outstanding misses.",
    "replacement": "Replacement of lines; optional, LRU by default.",
    "fill_cycles": "Cycles between two lines that come into it; optional, default 1.",
    "set_fill_cycles": "The same, of lines of one set; optional, default 1.",
    "prefetcher": "Prefetcher of this level: by instruction (of data), next two lines, 24 of a page; needs 3 `mshrs`.",
    "model": "`simple`, or a named DRAM of `uarch/dram.yaml`.",
    "latency_ns": "Latency of the model `simple`, in nanoseconds.",
    "bandwidth_gbs": "Bandwidth of the model `simple`, in GB/s of 2³⁰ bytes, as gem5's.",
}
_CACHES = ("l1i", "l1d", "l2", "l3")
_OFTEN = 4  # commands: an option that as many have alike is described once
_KINDS = {"int": "N", "integer": "N", "float": "NUMBER", "path": "FILE", "str": "TEXT", "text": "TEXT"}
_SECTIONS = {
    "": "The machine",
    "out-of-order": "pipeline, `core: out-of-order`",
    "in-order": "pipeline, `core: in-order`",
    "functional_units": "functional_units",
    "branch_predictor": "branch_predictor",
    "l1i": "l1i: instruction cache",
    "l1d": "l1d: data cache",
    "l2": "l2: second level",
    "l3": "l3: third level, or null",
    "memory": "memory",
    "tlb": "tlb: optional; without it 64 entries whose misses are free",
    "system_calls": "system_calls: optional; without it the kernel takes no time",
}


def commands() -> str:
    """The page of all commands, from the code that parses them; options of many commands are described once."""
    from analysis.cli.main import app

    root = typer.main.get_command(app)
    found = [(name, command, _options(command)) for name, command in _commands(root, "perfvec")]
    often = Counter(text for _, _, options in found for _, text in options)
    common = [text for text, times in often.most_common() if times >= _OFTEN]
    lines = [
        _GENERATED,
        "# Commands\n",
        "Every command prints this with `--help`. A TARGET is a trace, live-points, a vector, or `-- PROGRAM ARGS…`. "
        "An error is one line on standard error, and the exit status is 2.\n",
        "## Options of many commands\n",
        "\n".join(sorted(common)) + "\n",
    ]
    for name, command, options in found:
        lines += [f"## {name}\n", f"{_text(command.help)}\n"]
        own = [text for _, text in options if text not in common]
        also = [names for names, text in options if text in common]
        if also:
            own.append(f"- Also: {', '.join(also)}.")
        if own:
            lines.append("\n".join(own) + "\n")
    return "\n".join(lines) + "\n"


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The program and its commands: (name, command)."""
    children = getattr(command, "commands", None)
    if children is None or name == "perfvec":
        yield name, command
    for child, one in sorted((children or {}).items()):
        yield from _commands(one, f"{name} {child}")


def _options(command: Any) -> list[tuple[str, str]]:
    """Each argument and option: (its name, the line that describes it)."""
    described = []
    for parameter in command.params:
        option = parameter.param_type_name == "option"
        if parameter.name in ("help", "install_completion", "show_completion") or getattr(parameter, "hidden", False):
            continue
        plain = names = ", ".join(f"`{word}`" for word in (*parameter.opts, *parameter.secondary_opts))
        if not option:
            plain = names = f"`{(parameter.metavar or parameter.name).upper()}{'…' if parameter.nargs == -1 else ''}`"
        elif not parameter.is_flag:
            names += f" *{_kind(parameter)}*"
        default = parameter.default
        shown = option and not parameter.is_flag and isinstance(default, str | int | float) and default != ""
        required = " Required." if option and parameter.required else ""
        told = f" Default: {default}." if shown else ""
        described.append((plain, f"- {names}: {_text(getattr(parameter, 'help', None))}{required}{told}"))
    return described


def _kind(parameter: Any) -> str:
    """Return what an option takes, in a word. Typer keeps the annotation, or a Click type where it is older."""
    descriptor = getattr(parameter, "type_descriptor", None)
    if descriptor is None:
        name = str(parameter.type.name).split(" ")[0]
    else:
        inner = typing.get_args(descriptor.annotation)
        name = getattr(inner[0] if inner else descriptor.annotation, "__name__", "str").lower()
    return _KINDS.get(name, name)


def _text(text: str | None) -> str:
    plain = " ".join((text or "").replace("\b", "").split())
    return re.sub(r"<|\*(?=\.)|\[", lambda found: "\\" + found.group(0), plain)


def configuration() -> str:
    """The page of a machine's fields, from the table that checks them and the presets."""
    machines = [load_machine(name) for name in preset_names()]
    lines = [
        _GENERATED,
        "# Machine configuration\n",
        "A machine is a YAML or JSON file. `perfvec uarch show zen4` prints one to start from. Fields are required "
        "unless called optional, and `l3` may be null. Unknown fields are errors. [To and from "
        "gem5](../how-to/machines.md#to-and-from-gem5). *Presets* is the range over the "
        f"{len(machines)} presets.\n",
    ]
    for section, title in _SECTIONS.items():
        rows = [name for name in RULES if name.rpartition(".")[0] == section]
        lines += [f"## {title}\n", "| field | meaning | allowed | presets |", "|---|---|---|---|"]
        for name in rows:
            lines.append(f"| `{_shown(name)}` | {_meaning(name)} | {_allowed(name)} | {_range(machines, name)} |")
        lines.append("")
    lines += ["## Relations between fields\n", "A machine that breaks one of these is refused.\n"]
    lines += ["| fields | rule |", "|---|---|"]
    lines += [f"| {', '.join(f'`{field}`' for field in fields)} | {rule} |" for rule, fields in _relations().items()]
    return "\n".join(lines) + "\n"


def _relations() -> dict[str, list[str]]:
    """Each rule between fields, and the fields that it bounds; a rule of every cache level is one."""
    fields: dict[str, list[str]] = {}
    for relation in RELATIONS:
        level = relation.field.partition(".")[0]
        rule = re.sub(r" = \{[^}]*\}|\{|\}", "", relation.bound)
        rule = rule.replace("with predictor branch_predictor.kind", "unless branch_predictor.kind is none")
        rule = rule.replace(f"{level}.", "") if level in _CACHES else rule
        rule = re.sub(r"\b\w+\.\w+|\b(size_kib|associativity)\b", r"`\g<0>`", rule)
        fields.setdefault(rule, []).append(relation.field)
    return fields


def _shown(name: str) -> str:
    section, _, field = name.rpartition(".")
    return f"pipeline.{field}" if section in ("out-of-order", "in-order") else name


def _meaning(name: str) -> str:
    return _MEANINGS.get(name) or _MEANINGS[name.rpartition(".")[2]]


def _allowed(name: str) -> str:
    rule = RULES[name]
    if rule.names is not None:
        return ", ".join(f"`{value}`" for value in rule.names())
    if rule.type is str:
        return "text"
    low, high = (f"{end:,.0f}" if end == int(end) else f"{end:g}" for end in (rule.low, rule.high))
    return f"{low} to {high}" + (", power of two" if rule.power_of_two else "")


def _range(machines: list[Any], name: str) -> str:
    section, _, _ = name.rpartition(".")
    found = []
    for machine in machines:
        if section in ("out-of-order", "in-order") and machine.core != section:
            continue
        try:
            found.append(get_field(machine, _shown(name)))
        except InputError:
            continue
    numbers = [value for value in found if isinstance(value, int | float)]
    if not numbers:
        return ""
    return f"{min(numbers):,g} to {max(numbers):,g}"


def api() -> str:
    """The page of the Python API, with its list of names: the rest is written by hand."""
    import perfvec

    lines = []
    for name in sorted(set(perfvec.__all__) - {"__version__"}, key=str.lower):
        value = getattr(perfvec, name)
        parameters = "" if inspect.isclass(value) else f"({', '.join(inspect.signature(value).parameters)})"
        said = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
        lines.append(f"- `pv.{name}{parameters}`: {said}")
    before, _, rest = (REFERENCE / "api.md").read_text().partition(_NAMES)
    return before + _NAMES + "\n\n" + "\n".join(lines) + "\n\n" + _END + rest.partition(_END)[2]


_NAMES, _END = "<!-- names: written by tools/write_reference.py -->", "<!-- end names -->"
PAGES = {"commands.md": commands, "configuration.md": configuration, "api.md": api}


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="Write nothing; exit with 1 where a page is stale.")
    check = parser.parse_args().check
    stale = []
    for name, make in PAGES.items():
        path, text = REFERENCE / name, make()
        if check and (not path.is_file() or path.read_text() != text):
            stale.append(name)
        elif not check:
            path.write_text(text)
    if stale:
        print(f"stale: {', '.join(stale)}; run python tools/write_reference.py", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
