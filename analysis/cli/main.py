"""The `perfvec` command: every command is a thin call of a documented function.

Tables go to the terminal, `--json` to stdout, progress to stderr. A wrong input is one line on stderr and status 2.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup

from analysis.cli import (
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
    sampling,
    simulating,
    tensor,
    tracing,
    tuning,
    validating,
    workloads,
)
from analysis.cli.output import Command, UsageError
from support.ending import orderly_end
from support.errors import InputError, is_full
from support.release import release
from support.unsealed import ALLOWED


@contextmanager
def _unread() -> Iterator[None]:
    """Ends as SIGPIPE would where the reader of our output is gone: nobody is left to tell."""
    try:
        yield
    except BrokenPipeError:
        _discard(sys.stdout)
        _discard(sys.stderr)
        sys.exit(128 + signal.SIGPIPE)


def _discard(stream: TextIO) -> None:
    """Discard what the stream still holds: it cannot be written, and the interpreter would try again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_standard_streams() -> None:
    """Open those that were closed when the process began: files would get their numbers. Nobody inherits them, and
    output that cannot be printed is an error.
    """
    for number, name, mode in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            os.open(os.devnull, mode)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))


class _Commands(TyperGroup):
    """Typer would take a broken pipe for its own affair, and exit with 1."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse the options of all commands; print help."""
        with _unread():
            return super().make_context(*arguments, **options)

    def invoke(self, context: Any) -> Any:
        """Run a command."""
        with _unread():
            return super().invoke(context)


# At most 80 columns. What a newcomer needs; --help lists everything.
_FIRST_STEPS = """\
How long does a program take on a machine, and why?

Run it once
  perfvec trace -o T.trace.h5 -- PROGRAM ARGS…     record what it executes

How fast is it?
  perfvec predict T.trace.h5 --uarch zen4          time, CPI, interval
  perfvec simulate T.trace.h5 --uarch zen4 --stack cycles, and what they go to

Where does the time go?
  perfvec profile T.trace.h5 --uarch zen4          by function, line or loop

Which machine, which program?
  perfvec sweep T.trace.h5 --base zen4 --vary l2.size_kib=512,1024,2048
  perfvec compare A.trace.h5 B.trace.h5            how alike programs are

perfvec --help lists all commands, perfvec COMMAND --help the options of one.
perfvec uarch list: the machines. perfvec doctor: what this computer has."""

app = typer.Typer(
    name="perfvec",
    cls=_Commands,
    help="Run a program once; then ask how long it takes on any machine, and why.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"perfvec {release()}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    unsealed: Annotated[
        bool, typer.Option("--unsealed", help="Also read HDF5 files without a seal; anywhere before --.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Set what holds for every command, and for the processes that it starts."""
    del version  # handled before
    if unsealed:
        os.environ[ALLOWED] = "1"
    if context.invoked_subcommand is None:
        if context.obj:
            raise InputError("a command is missing before --; try perfvec predict -- PROGRAM ARGS…")
        print(_FIRST_STEPS)


_THEMES = {
    tracing: None,
    labelling: None,
    learning: None,
    representing: None,
    sampling: None,
    predicting: None,
    simulating: None,
    profiling: None,
    comparing: None,
    examining: None,
    validating: None,
    machines: "uarch",
    imports: "import",
    workloads: "suite",
    experiments: "experiment",
    tensor: "tensor",
}
tensor.app.add_typer(tuning.app)
for theme, group in _THEMES.items():
    app.add_typer(theme.app, name=group)
for theme in (*_THEMES, tuning):
    for command in theme.app.registered_commands:
        command.cls = Command


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: what follows `--` is a program and its arguments."""
    unprintable = sys.stdout is None
    _open_standard_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    program: list[str] = []
    if "--" in words:
        cut = words.index("--")
        words, program = words[:cut], words[cut + 1 :]
        if not program:
            _fail(InputError("nothing follows --; write -- PROGRAM ARGS…"))
    words.sort(key=lambda word: word != "--unsealed")  # to the front, where an option of all commands stands
    try:
        with orderly_end(), _unread():
            try:
                sys.exit(app(words, prog_name="perfvec", obj=program, standalone_mode=False) or 0)
            except UsageError as error:
                _refuse(error)
            finally:
                sys.stdout.flush()  # not at the interpreter's end, which tells of a failure in its own words
    except InputError as error:
        _fail(error)
    except UnicodeEncodeError as error:
        if not "\ud800" <= error.object[error.start] <= "\udfff":
            shown = error.object[error.start : error.start + 1]
            _fail(InputError(f"the output's encoding, {error.encoding}, has no {shown!a}; set PYTHONIOENCODING=utf-8"))
        near = error.object[max(0, error.start - 30) : error.end + 10]  # the name of a file, as Python takes it in
        _fail(InputError(f"a name that is not UTF-8 cannot be written: {near!a}; rename the file"))
    except ImportError as error:
        if _out_of_memory(error):
            _fail_of_memory(error)
        if "_core" not in str(error):
            raise
        _fail(InputError(f"a compiled core is missing: run `make core`, or `pip install .` ({error})"))
    except Exception as error:
        if _out_of_memory(error):
            _fail_of_memory(error)
        if unprintable and isinstance(error, OSError) and error.errno == errno.EBADF:
            _discard(sys.stdout)
            _fail(InputError("standard output is closed: there is nowhere to print to"))
        if isinstance(error, OSError) and error.filename is not None and not is_full(error):
            _fail(InputError(f"{error.filename!s}: {(error.strerror or 'unreadable').lower()}"))
        if not is_full(error):
            raise
        _discard(sys.stdout)
        _fail(InputError("the disk is full, or a file larger than is allowed"))


def _refuse(error: Any) -> NoReturn:
    """Tell of a wrong option, argument or command in one line; print the help of a group without a command."""
    told, command = error.format_message(), error.ctx.command_path if error.ctx else "perfvec"
    if "\n" in told:
        print(told, file=sys.stderr)
        sys.exit(2)
    parameter = getattr(error, "param", None)
    if parameter is not None and error.message:  # a wrong value; else something is missing, or unknown
        first, rest = f"{command}: {parameter.opts[-1]}", error.message
    else:
        first, rest = command, f"{told.rstrip('.')}; see {command} --help"
    print(f"{first}: {rest[0].lower()}{rest[1:]}".rstrip("."), file=sys.stderr)
    sys.exit(2)


def _out_of_memory(error: Exception) -> bool:
    """Return whether memory was short for Python, NumPy, PyTorch, or a library that was to be loaded."""
    told = ("can't allocate memory", "failed to map segment", os.strerror(errno.ENOMEM))
    return isinstance(error, MemoryError) or any(words in str(error) for words in told)


def _fail_of_memory(error: Exception) -> NoReturn:
    _fail(InputError(f"memory is short, or limited (ulimit -v): {str(error) or 'an allocation failed'}"))


def _fail(error: InputError) -> NoReturn:
    print(f"perfvec: {' '.join(str(error).split())}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
