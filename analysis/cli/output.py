"""The one renderer of results: --json, --csv, --html and --picture of every command that answers a question."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from analysis.cli.options import Csv, Html, Json, Picture
from analysis.results.result import Result

_OPTIONS = {"as_json": (Json, False), "csv": (Csv, None), "html": (Html, None), "picture": (Picture, None)}


def answers(*names: str) -> Callable[[Callable[..., Result]], Callable[..., None]]:
    """Make a command of a function that returns a Result: add the options `names` and render the result.

    `names` are of as_json, csv, html and picture, all four by default. Files that cannot be written are refused before
    the function runs.
    """
    chosen = {name: _OPTIONS[name] for name in names or _OPTIONS}

    def decorate(question: Callable[..., Result]) -> Callable[..., None]:
        signature = inspect.signature(question, eval_str=True)

        def command(*arguments: Any, **options: Any) -> None:
            outputs = {name: options.pop(name, default) for name, (_, default) in _OPTIONS.items()}
            require_outputs(outputs["csv"], outputs["html"], outputs["picture"])
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
    print(result.to_json() if as_json else str(result))


def require_outputs(csv: Path | None = None, html: Path | None = None, picture: Path | None = None) -> None:
    """Refuse files that cannot be written, before the work. Raises InputError."""
    from support.files import require_writable

    if picture is not None:
        from analysis.results.figure_matplotlib import require_picture

        require_picture(picture)
    for path in (csv, html, picture):
        if path is not None:
            require_writable(path)
