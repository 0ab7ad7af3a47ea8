"""The table of a sweep, a row a program and point: its fields, its best points, its Pareto front."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.budget.budget import SOURCES, Answer
from analysis.designs.design import Design
from analysis.designs.outcome import Outcome
from analysis.designs.pareto import cells, front, front_over_fields, front_over_points
from uarch.columns import MOST_POINTS
from uarch.configuration import Machine

_RESULTS = (
    "program",
    "source",
    "cycles",
    "seconds",
    "low",
    "high",
    "low_seconds",
    "high_seconds",
    "change",
    "change_low",
    "change_high",
    "cost",
    "objective",
    "pareto",
)


_MOST_COMPARED = 10_000  # points of a search or sample, each with all others
_MOST_FIELDS = 8  # of more, hardly a point is larger in none


def of_answers(
    design: Design, outcome: Outcome, programs: Sequence[str], answers: Sequence[Answer], base: Machine | None = None
) -> pd.DataFrame:
    """The table of `run` from an answer a program; with columns `low` and `high` (seconds) where any has intervals.

    With a `base`, whose cycles the answers have: also `change`, a point's time over its time less 1, and the ends of
    this number's interval, `change_low` and `change_high`, NaN where there is none.
    """
    known = any(not np.isnan(one.low).all() for one in answers)
    frames = []
    for program, one in zip(programs, answers, strict=True):
        source = pd.Categorical.from_codes(one.source, categories=pd.Index(SOURCES))
        frame = design.fields.assign(program=program, source=source, **outcome.columns(one.cycles))
        if known:
            each = frame["seconds"] / one.cycles
            frame = frame.assign(low=one.low * each, high=one.high * each)
        if base is not None:
            ratio = (frame["seconds"] / one.base).to_numpy() * (base.frequency_ghz * 1e9)
            ends = (
                ("change", np.ones(len(ratio))),
                ("change_low", np.exp(-one.apart)),
                ("change_high", np.exp(one.apart)),
            )
            frame = frame.assign(**{name: ratio * end - 1 for name, end in ends})
        frames.append(frame.assign(pareto=_front(frame, fields_of(design.fields))))
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)


def outcome_of(frame: pd.DataFrame) -> str:
    """Return what a sweep's points are ordered by: the objective where there is one, else the time."""
    return "objective" if "objective" in frame else "seconds"


def fields_of(frame: pd.DataFrame) -> list[str]:
    """The varied fields of a sweep's table."""
    return [str(column) for column in frame.columns if column not in _RESULTS]


def best(frame: pd.DataFrame, k: int) -> pd.DataFrame:
    """The `k` best points of each program, the best first; the index is that of the whole table."""
    parts = [part.nsmallest(k, outcome_of(frame)) for _, part in frame.groupby("program", sort=False)]
    return pd.concat(parts)


def told_sources(frame: pd.DataFrame) -> str:
    """Return how many points have each source, as "64 simulated, 9,936 corrected"."""
    counts = frame["source"].value_counts()
    return ", ".join(f"{counts[source]:,} {source}" for source in SOURCES if counts.get(source, 0))


def is_of_time_alone(frame: pd.DataFrame) -> bool:
    """Tell whether the front is the fastest point: without a cost, over many fields or too many points to compare."""
    points, fields = frame[frame["program"] == frame["program"].iloc[0]], fields_of(frame)
    many = len(points) > _MOST_COMPARED and _cells(points, fields) > MOST_POINTS
    return "cost" not in frame and (many or len(fields) > _MOST_FIELDS)


def _front(frame: pd.DataFrame, fields: Sequence[str]) -> NDArray[np.bool_]:
    if "cost" in frame:
        return front(frame["seconds"].to_numpy(), frame["cost"].to_numpy())
    if is_of_time_alone(frame):
        return front(frame["seconds"].to_numpy(), np.zeros(len(frame)))
    return pareto_front(frame, fields)


def pareto_front(frame: pd.DataFrame, fields: Sequence[str]) -> NDArray[np.bool_]:
    """Points not dominated in (seconds, every numeric field) among equal kinds: smaller is better, but a latency or a
    delay is cheaper the longer it is. What a machine lacks is cheaper than any that it could have.
    """
    numeric = [field for field in fields if pd.api.types.is_numeric_dtype(frame[field])]
    signs = [-1 if re.search("latency|delay|cycles", field) else 1 for field in numeric]
    costs = [sign * frame[field].to_numpy(float) for field, sign in zip(numeric, signs, strict=True)]
    costs = [np.where(np.isnan(cost), -np.inf, cost) for cost in costs]  # what is not there costs nothing
    kinds = [pd.factorize(frame[field].astype(str))[0] for field in fields if field not in numeric]
    over = front_over_fields if _cells(frame, fields) <= MOST_POINTS else front_over_points
    found = over(frame["seconds"].to_numpy(float), costs, kinds)
    lacking = frame[[field for field in fields if field not in numeric]].isna().to_numpy()
    return _unbeaten_by_lacking(found, np.column_stack([frame["seconds"], *costs]), np.array(kinds).T, lacking)


def _unbeaten_by_lacking(
    front: NDArray[np.bool_], values: NDArray[np.float64], kinds: NDArray[np.int64], lacking: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """[n] of a front over groups of equal `kinds` [n, K] those that no point which lacks some of these kinds (`lacking`
    [n, K]) matches or beats: it has the other kinds, and no value [n, V] is larger.
    """
    rivals = np.flatnonzero(front & lacking.any(axis=1))
    found = front.copy()
    for place in np.flatnonzero(front) if len(rivals) else ():
        alike = (lacking[rivals] & ~lacking[place] | (kinds[rivals] == kinds[place])).all(axis=1) & (rivals != place)
        found[place] = not (alike & (values[rivals] <= values[place]).all(axis=1)).any()
    return found


def _cells(frame: pd.DataFrame, fields: Sequence[str]) -> int:
    return cells([frame[field].to_numpy() for field in fields if pd.api.types.is_numeric_dtype(frame[field])])
