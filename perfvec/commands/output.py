"""Tables, JSON and files of results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def emit(
    frame: pd.DataFrame, document: Callable[[], dict[str, Any]], plot: Callable[[], Figure], title: str, *,
    as_json: bool, csv: Path | None, html: Path | None, picture: Path | None, shown: pd.DataFrame | None = None,
) -> None:  # fmt: skip
    """Print the table or its JSON, and write the files that were asked for."""
    from analysis.report import Section, write_picture, write_report
    from tracegen.files import atomic_path

    if csv is not None:
        with atomic_path(csv) as temporary:
            frame.to_csv(temporary)
    if html is not None:
        write_report(html, title, [Section(title, figure=plot(), table=frame)])
    if picture is not None:
        write_picture(picture, plot())
    if as_json:
        print(json.dumps(document(), allow_nan=False))
    else:
        print(shown_table(frame if shown is None else shown))


def write(frame: pd.DataFrame, document: dict[str, Any], text: str, *, as_json: bool, csv: Path | None) -> None:
    from tracegen.files import atomic_path

    if csv is not None:
        with atomic_path(csv) as temporary:
            frame.to_csv(temporary, index=False)
    print(json.dumps(document, allow_nan=False) if as_json else text)


def write_csv(frame: pd.DataFrame, path: Path | None) -> None:
    from tracegen.files import atomic_path

    if path is not None:
        with atomic_path(path) as temporary:
            frame.to_csv(temporary)


def shown_table(frame: pd.DataFrame) -> str:
    import pandas as pd

    return frame.to_string(index=not isinstance(frame.index, pd.RangeIndex), float_format=lambda value: f"{value:.4g}")
