"""How alike programs are: cosine distances between their vectors, and a dendrogram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import dendrogram, linkage
from scipy.spatial.distance import squareform

from analysis import style
from perfvec.vector import ProgramVector
from uarch.errors import InputError


def compare(programs: Sequence[ProgramVector]) -> pd.DataFrame:
    """[P, P] cosine distances, 1 − cos of the angle: 0 for programs that behave alike per instruction, at most 2.

    The angle does not depend on how long the programs run. Raises InputError for fewer than two programs or vectors
    of different models.
    """
    if len(programs) < 2:
        raise InputError(f"comparing needs at least two programs; {len(programs)} given")
    if len({program.model for program in programs}) > 1:
        raise InputError("the vectors were made by different models; represent all with one")
    matrix = np.stack([program.vector / np.linalg.norm(program.vector) for program in programs])
    distance = np.clip(1.0 - matrix @ matrix.T, 0.0, 2.0)
    np.fill_diagonal(distance, 0.0)
    names = _distinct([program.program for program in programs])
    return pd.DataFrame((distance + distance.T) / 2, index=names, columns=names)


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, numbered where they repeat (two runs of one program)."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if names.count(name) == 1 else f"{name}#{seen[name]}")
    return result


def to_json(distance: pd.DataFrame) -> dict[str, Any]:
    """The `--json` document."""
    return {"programs": list(distance.index), "distance": distance.to_numpy().tolist()}


def plot(distance: pd.DataFrame) -> Figure:
    """Average-linkage dendrogram."""
    figure, axes = style.axes(width=7, height=1.2 + 0.35 * len(distance))
    tree = linkage(squareform(distance.to_numpy(), checks=False), method="average")
    dendrogram(
        tree, labels=list(distance.index), orientation="right", ax=axes, color_threshold=0,
        above_threshold_color=style.colour(0),
    )  # fmt: skip
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("cosine distance")
    return figure
