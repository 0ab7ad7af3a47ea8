"""The `perfvec` command: every command is a thin call of a documented function (`perfvec/commands/`).

Tables go to the terminal, `--json` to stdout, progress to stderr. A wrong input is one line on stderr and status 2.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from perfvec.commands import (
    comparing,
    examining,
    experiments,
    imports,
    labelling,
    learning,
    machines,
    predicting,
    profiling,
    representing,
    simulating,
    tensor,
    tracing,
    tuning,
    workloads,
)
from uarch.errors import InputError

app = typer.Typer(
    name="perfvec", help="Profile a program once, predict its run time on any microarchitecture.",
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
)  # fmt: skip
for theme in (tracing, labelling, learning, representing, predicting, simulating, profiling, comparing, examining):
    app.add_typer(theme.app)
app.add_typer(machines.app, name="uarch")
app.add_typer(imports.app, name="import")
app.add_typer(workloads.app, name="suite")
app.add_typer(experiments.app, name="experiment")
tensor.app.add_typer(tuning.app)
app.add_typer(tensor.app, name="tensor")


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: what follows `--` is a program and its arguments."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    program: list[str] = []
    if "--" in words:
        cut = words.index("--")
        words, program = words[:cut], words[cut + 1 :]
        if not program:
            _fail(InputError("nothing follows --; write -- PROGRAM ARGS…"))
    try:
        app(words, obj=program, standalone_mode=True)
    except InputError as error:
        _fail(error)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output is gone; nobody is left to tell
        sys.exit(141)


def _fail(error: InputError) -> None:
    print(f"perfvec: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
