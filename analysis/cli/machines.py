"""Machines: list, show, diff, sample, this computer, to and from gem5."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.inputs import machines_named
from analysis.cli.options import Html, Json
from analysis.cli.output import print_json, render
from support.errors import InputError

if TYPE_CHECKING:
    from uarch.configuration import Machine

app = typer.Typer(help="Show, compare, sample, import and export machines.", no_args_is_help=True)


@app.command("list")
def uarch_list(as_json: Json = False) -> None:
    """List the presets."""
    from uarch.machine_files import native_names, preset_names

    found = machines_named([*preset_names(), *native_names()])
    if as_json:
        print_json([machine.to_dict() for machine in found])
        return
    _print_machines(found)


def _print_machines(machines: Sequence[Machine]) -> None:
    """A line a machine, in 80 columns."""
    print(f"{'machine':18} {'core':12} {'GHz':>5} {'L1I':>4} {'L1D':>4} {'L2':>6} {'L3':>6} memory, caches KiB")
    for machine in machines:
        l1i, l1d, l2, l3 = (
            str(level.size_kib) if level else "-" for level in (machine.l1i, machine.l1d, machine.l2, machine.l3)
        )
        print(
            f"{machine.name:18} {machine.core:12} {machine.frequency_ghz:5.2f} {l1i:>4} {l1d:>4} {l2:>6} {l3:>6} "
            f"{machine.memory.model}"
        )


@app.command("show")
def uarch_show(name: Annotated[str, typer.Argument(help="Preset or file.")], as_json: Json = False) -> None:
    """Show one machine's configuration.

    And its error on real processors, where that was measured.
    """
    from textwrap import fill

    from uarch.machine_files import machine_yaml
    from uarch.stated_error import stated_errors

    machine = machines_named([name])[0]
    if as_json:
        print_json(machine.to_dict())
        return
    for stated in stated_errors(name):
        print(fill(f"# {stated}", 80, subsequent_indent="#   "))
    print(machine_yaml(machine).rstrip("\n"))


@app.command("diff")
def uarch_diff(first: str, second: str) -> None:
    """Show the fields in which two machines differ."""
    from uarch.configuration import field_names, get_field

    one, other = machines_named([first, second])
    names = list(dict.fromkeys([*field_names(one), *field_names(other)]))
    for name in names:
        values = [get_field(m, name) if name in field_names(m) else "-" for m in (one, other)]
        if values[0] != values[1]:
            print(f"{name:36} {values[0]!s:>14} {values[1]!s:>14}")


@app.command("export")
def uarch_export(
    machine: Annotated[str, typer.Argument(help="Preset or file.")],
    gem5: Annotated[
        bool, typer.Option("--gem5", help="Write a configuration script for stock gem5 v23 or v24.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write; by default the terminal.")
    ] = None,
    isa: Annotated[str, typer.Option(help="x86-64, aarch64 or riscv64.")] = "x86-64",
) -> None:
    """Export a machine to gem5.

    perfvec uarch export --gem5 zen4 -o zen4.py, then gem5.opt zen4.py -- PROGRAM ARGS…
    """
    from support.files import write_text
    from uarch.gem5.script import gem5_script
    from uarch.gem5.simulated import as_simulated

    if not gem5:
        raise InputError("say for which simulator: --gem5")
    chosen = machines_named([machine])[0]
    text = gem5_script(chosen, isa)
    for note in as_simulated(chosen, isa)[1]:
        print(note, file=sys.stderr)
    if output is None:
        print(text, end="")
        return
    write_text(output, text)


@app.command("import")
def uarch_import(
    config: Annotated[Path, typer.Argument(help="config.json of a gem5 output folder.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="YAML file to write; by default the terminal.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The machine's name; by default the folder's.")] = None,
    base: Annotated[
        str | None, typer.Option(help="Machine (preset or file) for the fields that gem5 does not have.")
    ] = None,
) -> None:
    """Import the machine that a gem5 run simulated. Each assumption is one line on stderr."""
    from support.files import write_text
    from uarch.gem5.config import import_config
    from uarch.machine_files import machine_yaml

    machine, notes = import_config(config, name=name, base=machines_named([base])[0] if base else None)
    for note in notes:
        print(note, file=sys.stderr)
    if output is None:
        print(machine_yaml(machine), end="")
        return
    write_text(output, machine_yaml(machine))


@app.command("host")
def uarch_host(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="YAML file to write; its comments say what was measured.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=3, help="Repeats of each measurement.")] = 7,
    as_json: Json = False,
    html: Html = None,
) -> None:
    """Describe this computer as a machine.

    Fields are read, measured, or assumed from the nearest preset. Takes half a minute.
    """
    from analysis.real_computers.host import host
    from support.files import require_writable, write_text
    from uarch.host.machine_file import machine_file

    if output is not None:
        if output.suffix not in (".yaml", ".yml"):
            raise InputError(f"{output}: the name of a machine file ends in .yaml")
        require_writable(output)
    described, answer = host(repeats=repeats, name=output.stem if output else "host")
    if output is not None:
        write_text(output, machine_file(described))
    render(answer, as_json=as_json, csv=None, html=html, picture=None)


@app.command("sample")
def uarch_sample(
    count: Annotated[int, typer.Argument(min=1, help="Number of machines.")],
    space: Annotated[str, typer.Option(help="Design space: a name (perfvec uarch spaces) or a YAML file.")] = "default",
    method: Annotated[str, typer.Option(help="sobol or lhs (Latin hypercube).")] = "sobol",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample.")] = 0,
    base: Annotated[str | None, typer.Option(help="Machine for the fields that the space does not vary.")] = None,
    as_json: Json = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder to write, with one YAML file for each machine.")
    ] = None,
) -> None:
    """Sample machines from a design space."""
    from uarch.machine_files import save_machines
    from uarch.space import sample

    machines = sample(count, seed, space, method, base)
    if output is not None:
        save_machines(machines, output)
    if as_json:
        print_json([machine.to_dict() for machine in machines])
    elif output is None:
        _print_machines(machines)


@app.command("spaces")
def uarch_spaces(as_json: Json = False) -> None:
    """List the named design spaces."""
    from uarch.space import load_space, space_names

    spaces = [load_space(name) for name in space_names()]
    if as_json:
        print_json([{"name": s.name, "description": s.description, "varied": s.varied} for s in spaces])
        return
    for space in spaces:
        head = f"{space.name:12} {len(space.varied):3} fields  "
        print(textwrap.fill(space.description, 80, initial_indent=head, subsequent_indent=" " * len(head)))
