"""Similarity of programs: cosine distances between their vectors, the nearest of a library, a dendrogram, a map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from analysis.programs.targets import check_model
from analysis.results.figure import Axis, Dendrogram, Figure, HeatMap, Panel, Points, distinct
from analysis.results.headline import Headline, joined
from analysis.results.page import Section
from analysis.results.result import Result, table_text
from perfvec.model import Model
from perfvec.representation import library
from perfvec.representation.vector import ProgramVector, load_vector
from support.errors import InputError

MAPS = ("pca", "tsne")
_PERPLEXITY = 30.0  # at most: scikit-learn's default
_FEWEST = 4  # programs that t-SNE takes
_SCALE = "1 - cosine of the angle: 0 the same behaviour, 1 unrelated, 2 opposite"
_MAP_TEXT = {
    "pca": "The two principal components of the vectors' directions.",
    "tsne": "t-SNE of the cosine distances: who is near whom tells, how far apart groups are does not.",
}


def ask(
    programs: Sequence[ProgramVector], library: Sequence[ProgramVector] = (), k: int = 5, method: str = "pca"
) -> Result:
    """Answer how alike programs are and, of a `library`, which `k` are nearest to each.

    The table is that of `nearest` where there is a library, else of `compare`. One program alone is compared with the
    library. Raises InputError.
    """
    if method not in MAPS:
        raise InputError(f"--map {method}: expected {' or '.join(MAPS)}")
    found = nearest(programs, library, k) if library else None
    if len(programs) == 1 and found is not None and not len(found):
        raise InputError(f"the library holds no program but {programs[0].program}; name another, or a second target")
    everyone = [*programs] if len(programs) > 1 else [*programs, *_apart(library, programs)]
    distance = compare(everyone)
    place = plane(everyone, method)

    def text() -> str:
        tables = [_text(distance)] if len(programs) > 1 else []
        return "\n".join([*tables, *([] if found is None or not len(found) else [table_text(found)]), "", _SCALE])

    return Result(
        "How alike programs are",
        distance if found is None else found,
        document=lambda: to_json(distance, place, found),
        text=text,
        sections=lambda: sections(distance, place, found, own=len(programs)),
        picture=lambda: plot(distance),
        headline=lambda: headline(distance, found, alone=len(programs) == 1),
    )


def _apart(library: Sequence[ProgramVector], programs: Sequence[ProgramVector]) -> list[ProgramVector]:
    """The library's programs, those by other names that are called as one of `programs`."""
    names = {program.program for program in programs}
    return [replace(one, program=f"{one.program} (library)") if one.program in names else one for one in library]


def headline(distance: pd.DataFrame, found: pd.DataFrame | None, *, alone: bool = False) -> Headline:
    """The two programs that are most alike, and the nearest of the library; of one program `alone` only this."""
    source = "the model's program vectors; a distance has no interval"
    if alone and found is not None:
        near = found.iloc[0]
        sentence = f"Of the library {near['nearest']} is the most like {near['program']}. 0 means the same behaviour "
        return Headline(f"{near['distance']:.3g}", "cosine distance", f"{sentence}per instruction.", source)
    values = distance.to_numpy() + np.diag(np.full(len(distance), np.inf))
    first, second = (str(distance.index[int(k)]) for k in np.unravel_index(int(values.argmin()), values.shape))
    least, most = float(values.min()), float(distance.to_numpy().max())
    sentence = f"{joined([first, second])} are the most alike of {len(distance)} programs"
    sentence += f"; the farthest two are {most:.3g} apart. 0 means the same behaviour per instruction."
    if found is not None and len(found):
        near = found.iloc[0]
        sentence += f" Nearest to {near['program']} in the library is {near['nearest']} ({near['distance']:.3g})."
    return Headline(f"{least:.3g}", "cosine distance", sentence, source)


def compare(programs: Sequence[ProgramVector]) -> pd.DataFrame:
    """[P, P] cosine distances, 1 − cos of the angle: 0 for programs that behave alike per instruction, at most 2.

    The angle does not depend on how long the programs run. Raises InputError for fewer than two programs or vectors
    of different models.
    """
    if len(programs) < 2:
        raise InputError(f"comparing needs at least two programs; {len(programs)} given")
    matrix = directions(programs)
    distance = np.clip(1.0 - matrix @ matrix.T, 0.0, 2.0)
    distance[distance < 1e-12] = 0.0  # rounding
    names = distinct([program.program for program in programs])
    return pd.DataFrame((distance + distance.T) / 2, index=names, columns=names)


def directions(programs: Sequence[ProgramVector]) -> NDArray[np.float64]:
    """[P, d] the vectors at length 1. Raises InputError for vectors of different models, or one that is all zero."""
    if len({program.model for program in programs}) > 1:
        raise InputError("the vectors were made by different models; represent all with one")
    matrix = np.stack([program.vector for program in programs])
    length = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not length.all():
        raise InputError(f"{programs[int(np.argmin(length))].program}: its vector is all zeros; it has no direction")
    return matrix / length


def load_library(source: str | Path, model: Model) -> list[ProgramVector]:
    """The programs of a library: the shipped one (`suite`), a file (`*.library.npz`), or a folder of vectors
    (`*.vector.npz`, by their names). Raises InputError where there is none, or one is broken or of another model.
    """
    if str(source) == "suite":
        return library.load_library(None, model)
    if Path(source).name.endswith(library.SUFFIX):
        return library.load_library(source, model)
    paths = sorted(Path(source).glob("*.vector.npz"))
    if not paths:
        raise InputError(
            f"{source}: no *.vector.npz there; a library is a folder of them, a *{library.SUFFIX}, or suite (shipped)"
        )
    return [check_model(load_vector(path), model, str(path)) for path in paths]


def nearest(programs: Sequence[ProgramVector], library: Sequence[ProgramVector], k: int = 5) -> pd.DataFrame:
    """The `k` programs of a library that are most like each of `programs`: `program`, `nearest`, `distance` (cosine).

    A program's own trace is passed over. Raises InputError for vectors of different models.
    """
    matrix = directions([*programs, *library])
    distance = np.clip(1.0 - matrix[: len(programs)] @ matrix[len(programs) :].T, 0.0, 2.0)
    rows = []
    for program, distances in zip(programs, distance, strict=True):
        order = [n for n in np.argsort(distances, kind="stable") if library[n].trace_digest != program.trace_digest]
        rows += [
            {"program": program.program, "nearest": library[n].program, "distance": float(distances[n])}
            for n in order[:k]
        ]
    return pd.DataFrame(rows, columns=["program", "nearest", "distance"])


def plane(programs: Sequence[ProgramVector], method: str = "pca") -> pd.DataFrame:
    """The programs' directions in two dimensions: index the program, columns `x`, `y`; `attrs["method"]`.

    `pca`: the two principal components; `attrs["explained"]` has their shares of the variance. `tsne`: t-SNE (van der
    Maaten & Hinton, JMLR 9, 2008), which keeps neighbours together where two components put unlike programs on top of
    each other, and gives distances between groups no meaning; the same programs get the same map. Raises InputError for
    another method, fewer than four programs to it, or where scikit-learn is not installed.
    """
    if method not in MAPS:
        raise InputError(f"map {method!r}: expected {' or '.join(MAPS)}")
    matrix = directions(programs)
    components = _components(matrix, [program.program for program in programs])
    return components if method == "pca" else _neighbours(matrix, components)


def _components(matrix: NDArray[np.float64], names: Sequence[str]) -> pd.DataFrame:
    """The two principal components, by singular values."""
    centred = matrix - matrix.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    left, singular = left[:, :2], np.pad(singular, (0, 2))
    place = np.zeros((len(matrix), 2))
    place[:, : left.shape[1]] = left * singular[: left.shape[1]]
    place *= np.where(place[np.abs(place).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)  # the farthest point is positive
    frame = pd.DataFrame(place, columns=["x", "y"], index=distinct(names))
    total = float((singular**2).sum())
    frame.attrs |= {"method": "pca", "explained": [float(s**2) / total if total else 0.0 for s in singular[:2]]}
    return frame


def _neighbours(matrix: NDArray[np.float64], components: pd.DataFrame) -> pd.DataFrame:
    """t-SNE from the principal components on, as small as scikit-learn begins. Between vectors of length 1 the squared
    Euclidean distances that it takes are twice the cosine ones.
    """
    if len(matrix) < _FEWEST:
        raise InputError(f"{len(matrix)} programs are too few for t-SNE; give at least {_FEWEST}, or take the map pca")
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        raise InputError("t-SNE needs scikit-learn: pip install 'perfvec-toolkit[experiment]'") from None
    begin = components.to_numpy() * (1e-4 / max(float(components["x"].std(ddof=0)), 1e-30))
    embedding = TSNE(
        perplexity=min(_PERPLEXITY, (len(matrix) - 1) / 3),
        init=begin.astype(np.float32),
        method="exact",
        random_state=0,
    )
    frame = pd.DataFrame(embedding.fit_transform(matrix), columns=["x", "y"], index=components.index)
    frame.attrs["method"] = "tsne"
    return frame


def to_json(
    distance: pd.DataFrame, place: pd.DataFrame | None = None, found: pd.DataFrame | None = None
) -> dict[str, Any]:
    """The `--json` document: of `compare`, and of `plane` (`explained` only of `pca`) and `nearest` where given."""
    document: dict[str, Any] = {"programs": list(distance.index), "distance": distance.to_numpy().tolist()}
    if place is not None:
        document |= {"map": place.to_numpy().tolist(), "map_method": place.attrs["method"]}
        if "explained" in place.attrs:
            document["explained"] = place.attrs["explained"]
    if found is not None:
        document["nearest"] = found.to_dict(orient="records")
    return document


def sections(
    distance: pd.DataFrame, place: pd.DataFrame, found: pd.DataFrame | None, own: int | None = None
) -> list[Section]:
    """The parts of the HTML report; the first `own` programs are the user's (by default all), others a library's."""
    parts = [
        Section("How alike they are", "Cosine distances of their vectors, joined by the average.", plot(distance)),
        Section("Map", _MAP_TEXT[place.attrs["method"]], plot_plane(place, own), place),
        Section("Distances", "Every pair, in the order of the tree above.", plot_matrix(distance), distance),
    ]
    if found is not None:
        parts.append(Section("Nearest programs of the library", table=found))
    return parts


def _text(distance: pd.DataFrame, width: int = 80) -> str:
    """The distances for the terminal: the matrix where it fits, else the nearest other of each program."""
    text = distance.to_string(float_format="{:.4g}".format)
    if max(len(line) for line in text.splitlines()) <= width:
        return text
    others = distance.mask(np.eye(len(distance), dtype=bool))
    nearest_one = pd.DataFrame({"nearest": others.idxmin(axis=1), "distance": others.min(axis=1)})
    return nearest_one.to_string(float_format="{:.4g}".format)


def plot(distance: pd.DataFrame) -> Figure:
    """Average-linkage dendrogram."""
    tree = Dendrogram(list(distance.index), _tree(distance))
    return Figure([Panel([tree], x=Axis("cosine distance", zero=True))], height=1.2 + 0.35 * len(distance))


def _tree(distance: pd.DataFrame) -> NDArray[np.float64]:
    return linkage(squareform(distance.to_numpy(), checks=False), method="average")


def plot_matrix(distance: pd.DataFrame) -> Figure:
    """All distances; programs that are alike stand together."""
    order = leaves_list(_tree(distance))
    names = [str(distance.index[number]) for number in order]
    values = distance.to_numpy()[np.ix_(order, order)]
    cells = HeatMap(names, names, values, "cosine distance", numbers=len(names) <= 12)
    return Figure([Panel([cells])], width=8, height=max(2.5, min(1.5 + 0.35 * len(names), 12)))


def plot_plane(frame: pd.DataFrame, own: int | None = None) -> Figure:
    """The map of `plane`: programs that are near each other behave alike. `own`: as in `sections`."""
    names = [str(name) for name in frame.index]
    mine, others = slice(0, own), slice(len(names) if own is None else own, None)
    points = [Points("yours" if names[others] else "", frame["x"][mine], frame["y"][mine], names[mine], labelled=True)]
    if names[others]:
        points.insert(0, Points("library", frame["x"][others], frame["y"][others], names[others], faint=True))
    if frame.attrs["method"] == "pca":
        first, second = frame.attrs["explained"]
        x, y = Axis(f"first principal component ({first:.0%} of the variance)"), Axis(f"second ({second:.0%})")
    else:
        x, y = Axis("t-SNE, first"), Axis("second")
    return Figure([Panel(points, x=x, y=y)], height=5)
