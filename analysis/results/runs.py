"""Tables of runs as people read them: counts in thousands, times in a unit that fits."""

from __future__ import annotations

import pandas as pd

from analysis.results.headline import duration


def legible(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with `instructions` and `cycles` as whole numbers, and `seconds` as a `time` with its unit."""
    counts = {name: frame[name].map("{:,.0f}".format) for name in ("instructions", "cycles") if name in frame}
    times = frame["seconds"].map(lambda seconds: " ".join(duration(seconds)))
    return frame.assign(**counts, seconds=times).rename(columns={"seconds": "time"})
