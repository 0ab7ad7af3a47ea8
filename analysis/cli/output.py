"""Outputs of commands: files are checked before the work, and results rendered as text, JSON and files."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from analysis.cli.options import Csv, Html, Json, Picture
from analysis.results.result import Result
from support.errors import InputError

UsageError: Any = typer.BadParameter.__base__  # Click's, which Typer has under no public name
_FILES = ("csv", "html", "picture", "folded", "latency", "state", "points", "curve")  # and what -o names
_REPLACED = {("calibrate", "model_file"), ("train", "initial")}  # inputs that the output may take the place of
_OPTIONS = {"as_json": (Json, False), "csv": (Csv, None), "html": (Html, None), "picture": (Picture, None)}


def answers(*names: str) -> Callable[[Callable[..., Result]], Callable[..., None]]:
    """Make a command of a function that returns a Result: add the options `names` and render the result.

    `names` are of as_json, csv, html and picture, all four by default.
    """
    chosen = {name: _OPTIONS[name] for name in names or _OPTIONS}

    def decorate(question: Callable[..., Result]) -> Callable[..., None]:
        signature = inspect.signature(question, eval_str=True)

        def command(*arguments: Any, **options: Any) -> None:
            outputs = {name: options.pop(name, default) for name, (_, default) in _OPTIONS.items()}
            render(question(*arguments, **options), **outputs)

        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in chosen.items()
        ]
        parameters = [*signature.parameters.values(), *added]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        command.__name__, command.__doc__ = question.__name__, question.__doc__
        command.__module__ = question.__module__
        return command

    return decorate


def render(result: Result, *, as_json: bool, csv: Path | None, html: Path | None, picture: Path | None) -> None:
    """Print a result as text or JSON, its notes on stderr, and write the files that were asked for."""
    for note in result.notes:
        print(f"perfvec: {note}", file=sys.stderr)
    if csv is not None:
        result.to_csv(csv)
    if html is not None:
        result.to_html(html)
    if picture is not None:
        result.to_picture(picture)
    print(result.to_json() if as_json else result.text())


def print_json(document: Any) -> None:
    """Print what a light command lists, as `Result.to_json` does: such a command needs no table (pandas)."""
    print(json.dumps(document, allow_nan=False))


class Command(TyperCommand):
    """A command that refuses its outputs before it runs (`require_outputs`)."""

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        """Parse the words of the command; errors name it."""
        try:
            return super().parse_args(context, args)
        except UsageError as error:
            error.ctx = error.ctx or context
            raise

    def invoke(self, context: Any) -> Any:
        """Run the command. Raises InputError for what it cannot write, or should not."""
        outputs: dict[str, str | os.PathLike[str]] = {}
        inputs: list[object] = list(context.obj or ())
        for parameter in self.params:
            value = context.params.get(parameter.name)
            if parameter.name in _FILES or "-o" in parameter.opts:
                if isinstance(value, str | os.PathLike):
                    outputs[parameter.opts[-1]] = value
            elif (context.info_name, parameter.name) not in _REPLACED:
                inputs += value if isinstance(value, list | tuple) else [value]
        require_outputs(outputs, [value for value in inputs if isinstance(value, str | os.PathLike)])
        return super().invoke(context)


def require_outputs(
    outputs: Mapping[str, str | os.PathLike[str]], inputs: Iterable[str | os.PathLike[str]] = ()
) -> None:
    """Refuse files that cannot be written, and those that would replace an input or each other.

    `outputs` are by option; of `inputs`, words of the command line, those that name files count. Raises InputError.
    """
    from support.files import require_writable

    # A Path would not take a word of a program that is too long for one.
    taken = {os.path.realpath(word): "it is an input too" for word in inputs if os.path.isfile(word)}  # noqa: PTH113
    for option, path in outputs.items():
        if os.fspath(path) == "-":
            raise InputError(f"{option} -: name a file; standard output has the table, or --json where there is one")
        if option == "--picture":
            from analysis.results.figure_matplotlib import require_picture

            require_picture(Path(path))
        if option.removeprefix("--") in _FILES:
            require_writable(path)
        place = os.path.realpath(path)
        if place in taken:
            raise InputError(f"{option} {os.fspath(path)}: {taken[place]}; name another file")
        taken[place] = f"{option} writes it too"
