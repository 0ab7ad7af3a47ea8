"""Tables, JSON and files of results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from analysis.figure import Figure
    from analysis.report import Section


def require_outputs(*, csv: Path | None = None, html: Path | None = None, picture: Path | None = None) -> None:
    """Refuse files that cannot be written, before the work."""
    from support.files import require_writable

    if picture is not None:
        from analysis.figure_matplotlib import require_picture

        require_picture(picture)
    for path in (csv, html, picture):
        if path is not None:
            require_writable(path)


def draw(
    title: str, sections: Callable[[], Sequence[Section]], figure: Callable[[], Figure], *,
    html: Path | None, picture: Path | None, subtitle: str = "",
) -> None:  # fmt: skip
    """Write the page and the picture that were asked for."""
    if html is not None:
        from analysis.report import write_report

        write_report(html, title, sections(), subtitle)
    if picture is not None:
        from analysis.figure_matplotlib import write_picture

        write_picture(picture, figure())


def write(frame: pd.DataFrame, document: dict[str, Any], text: str, *, as_json: bool, csv: Path | None) -> None:
    from support.files import atomic_path

    if csv is not None:
        with atomic_path(csv) as temporary:
            frame.to_csv(temporary, index=False)
    print(json.dumps(document, allow_nan=False) if as_json else text)


def write_csv(frame: pd.DataFrame, path: Path | None) -> None:
    from support.files import atomic_path

    if path is not None:
        with atomic_path(path) as temporary:
            frame.to_csv(temporary)


def shown_table(frame: pd.DataFrame) -> str:
    import pandas as pd

    return frame.to_string(index=not isinstance(frame.index, pd.RangeIndex), float_format=lambda value: f"{value:.4g}")
