"""The answer to a question: one object that is a table, a picture, a page, JSON and text.

Every question of `analysis` returns a `Result`. The command line renders it with `analysis.cli.output`, a notebook by
`_repr_html_`. Pictures, pages and documents are made when they are first asked for, so a result costs its table.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from support.errors import InputError
from support.text import short

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Canvas

    from analysis.results.figure import Figure
    from analysis.results.headline import Headline
    from analysis.results.page import Section

_COLUMNS = 80  # of the terminal
_SHORTEST = 16  # letters of a name that is cut
_MOST_ROWS = 60  # of the table that a notebook shows
_MADE_LATER = ("document", "text", "sections", "picture", "headline")
Own = TypeVar("Own", bound="Result")
T = TypeVar("T")
Document: TypeAlias = "dict[str, Any] | list[dict[Any, Any]]"  # what --json prints


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The answer to a question about programs and machines.

    Attributes:
        title: One line.
        table: The numbers, a pandas DataFrame; `--csv` writes it. Column names carry units: `cycles`, `seconds`,
            `l2.size_kib`, `low_cycles`; `cpi`, `ipc` and `share` are ratios.
        notes: Remarks about the numbers, a line each, as of points that are left out.

    `str(result)` is the text that the command prints, with the notes, which that prints on stderr. A result can be
    pickled, so that other processes (multiprocessing, joblib, Dask) may return it; its pages are made then.

    >>> import perfvec as pv
    >>> result = pv.predict("T.trace.h5", "zen4")
    >>> result.title, len(result.table), list(result.json)
    ('Predicted run times', 1, ['predictions', 'outside'])
    >>> result.to_csv("T.csv").startswith("program,uarch,instructions,cycles")
    True
    """

    title: str
    table: pd.DataFrame
    document: Callable[[], Document]
    text: Callable[[], str]
    sections: Callable[[], Sequence[Section]]  # of the page
    picture: Callable[[], Figure] | None = None
    subtitle: str = ""  # of the page
    notes: tuple[str, ...] = ()
    headline: Callable[[], Headline] | None = None  # what the page says first

    def __post_init__(self) -> None:
        import pandas as pd

        # What its reader does to the table changes no text, document or picture. From pandas 3 on writing makes a copy.
        object.__setattr__(self, "table", self.table.copy(deep=pd.__version__ < "3"))

    def __getstate__(self) -> dict[str, Any]:
        made = {name: make() for name in _MADE_LATER if (make := getattr(self, name)) is not None}
        return self.__dict__ | {name: partial(_given, value) for name, value in made.items()}

    @property
    def json(self) -> Any:
        """The document that `--json` prints, as Python objects."""
        return self.document()

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the document as JSON text; write it to `path` if given."""
        return self._written(json.dumps(self.document(), allow_nan=False), path)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the table as CSV; write it to `path` if given. Row numbers are left out, row names are kept."""
        text = str(self.table.to_csv(index=self._has_row_names()))
        return self._written(text, path)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return one self-contained page of interactive figures and tables; write it to `path` if given."""
        from analysis.results.page import page

        first = None if self.headline is None else self.headline()
        said = " ".join(f"{line.removesuffix('.')}." for line in (self.subtitle, *self.notes) if line)
        return self._written(page(self.title, self.sections(), said, first), path)

    def sourced_sections(self) -> list[Section]:
        """The page's sections, each with its own source: for a page of several answers."""
        source = "" if self.headline is None else self.headline().source
        return [replace(one, source=one.source or source) for one in self.sections()]

    def figure(self) -> Canvas:
        """Draw the picture with matplotlib. Raises InputError where the answer has none."""
        from analysis.results.figure_matplotlib import canvas

        return canvas(self._picture())

    def to_picture(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture, its format by the suffix (.png, .svg, .pdf). Raises InputError for another suffix."""
        from analysis.results.figure_matplotlib import write_picture

        return write_picture(path, self._picture())

    def noted(self: Own, lines: Sequence[str]) -> Own:
        """The same answer, with these remarks first."""
        return replace(self, notes=(*lines, *self.notes))

    def with_text(self: Own, text: Callable[[], str]) -> Own:
        """The same answer, told in other words."""
        return replace(self, text=text)

    def __str__(self) -> str:
        return "\n".join([self.text(), *map(filled, self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the picture and the table, for a notebook."""
        import html

        first = [] if self.headline is None else [self.headline().sentence]
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in (*first, *self.notes))
        drawn = ""
        if self.picture is not None:
            buffer = io.StringIO()
            self.figure().savefig(buffer, format="svg")
            drawn = buffer.getvalue()
            drawn = drawn[drawn.index("<svg") :]
        table = self.table.to_html(max_rows=_MOST_ROWS, index=self._has_row_names(), border=0)
        return f"<h4>{html.escape(self.title)}</h4>{drawn}{notes}{table}"

    def _has_row_names(self) -> bool:
        import pandas as pd

        return not isinstance(self.table.index, pd.RangeIndex)

    def _picture(self) -> Figure:
        if self.picture is None:
            raise InputError(f"{self.title}: this answer has no picture; take its table")
        return self.picture()

    @staticmethod
    def _written(text: str, path: str | os.PathLike[str] | None) -> str:
        from support.files import write_text

        if path is not None:
            write_text(path, text)
        return text


def _given(value: T) -> T:
    return value


def of_table(
    title: str,
    table: pd.DataFrame,
    document: Callable[[], Document],
    text: Callable[[], str] | None = None,
    *,
    notes: Sequence[str] = (),
    headline: Callable[[], Headline] | None = None,
) -> Result:
    """An answer that is a table and has no picture; its text is the table unless another is given."""

    def sections() -> Sequence[Section]:
        from analysis.results.page import Section

        return [Section(title, table=table)]

    return Result(
        title, table, document, text or (lambda: table_text(table)), sections, notes=tuple(notes), headline=headline
    )


def to_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as JSON may hold them; what is not known is null."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def filled(text: str) -> str:
    """Text for the terminal: lines of more than 80 columns are broken, what follows is indented."""
    lines = (fill(line, _COLUMNS, subsequent_indent="  ", break_on_hyphens=False) for line in text.splitlines())
    return "\n".join(lines)


def table_text(frame: pd.DataFrame) -> str:
    """A table for the terminal, four digits a number; row numbers are left out.

    Where it is wider than 80 columns, its longest names are cut, and only then is it printed in blocks.
    """
    import pandas as pd

    index = not isinstance(frame.index, pd.RangeIndex)

    def text(width: int | None) -> str:
        return frame.to_string(index=index, float_format=lambda value: f"{value:.4g}", line_width=width)

    def excess() -> int:
        return max(map(len, text(None).splitlines())) - _COLUMNS

    if (over := excess()) > 0:
        lengths = {
            name: max(map(len, frame[name]), default=0)
            for name in frame
            if all(isinstance(v, str) for v in frame[name])
        }
        longest = max(lengths, key=lambda name: lengths[name], default=None)
        if longest is not None and lengths[longest] - over >= _SHORTEST:
            frame = frame.copy()
            frame[longest] = [short(name, lengths[longest] - over) for name in frame[longest]]
    if excess() <= 0:
        return text(None)
    return "\n".join(line.rstrip() for line in text(_COLUMNS).splitlines())
