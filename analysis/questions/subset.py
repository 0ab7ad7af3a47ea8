"""Benchmark subsetting: the k programs of a suite that best stand for the rest, and the error that they make.

Programs are points, by their logarithmic CPI on many machines, or by the directions of their vectors; the k that stand
for the rest are the medoids of k clusters (partitioning around medoids: Kaufman & Rousseeuw 1987), each weighted by its
cluster's share of the suite, as Eeckhout, Vandierendonck & De Bosschere (PACT 2002) subset SPEC. The error is that
of a subset's weighted geometric mean CPI against the suite's, on machines that took no part in choosing.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from analysis.designs.sweep import encoder_of, require_model
from analysis.questions.compare import directions
from analysis.results.figure import Axis, Bars, Figure, Panel, distinct
from analysis.results.headline import Headline, percent
from analysis.results.page import Section
from analysis.results.result import Result
from perfvec.machines.columns import cycles_of_columns
from perfvec.model import Model
from perfvec.representation.vector import ProgramVector
from support.errors import InputError
from uarch.space_columns import sample_columns

ON = ("machines", "vectors")
_RANDOM = 200  # random subsets that the choice is held against


@dataclass(frozen=True)
class Subset:
    """`members`: one row a chosen program, the heaviest first: `program`, `weight`, `stands_for`. `errors`: one row for
    the subset, one for random ones of equal size (equal weights; averages): `subset`, `mean`, `worst`, fractions of the
    suite's geometric mean CPI over `machines` sampled machines.
    """

    members: pd.DataFrame
    errors: pd.DataFrame
    machines: int

    def to_json(self) -> dict[str, Any]:
        """The `--json` document."""
        return {
            "subset": self.members.to_dict(orient="records"),
            "errors": self.errors.to_dict(orient="records"),
            "machines": self.machines,
        }


def subset_text(found: Subset, width: int = 80) -> str:
    """The tables of the terminal, at most `width` letters wide."""
    lines = [f"{'program':24} weight  stands for"]
    for member in found.members.to_dict(orient="records"):
        head = f"{str(member['program'])[:24]:24} {member['weight']:6.1%}  "
        indent = " " * len(head)
        lines += textwrap.wrap(head + (str(member["stands_for"]) or "itself"), width, subsequent_indent=indent)
    lines += ["", f"error of the suite's geometric mean CPI, {found.machines:,} sampled machines"]
    lines += [f"{row.subset:24} mean {row.mean:6.2%}  worst {row.worst:6.2%}" for row in found.errors.itertuples()]
    return "\n".join(lines)


def sections(found: Subset) -> list[Section]:
    """The parts of the HTML report."""
    text = f"Of the suite's geometric mean CPI, over {found.machines:,} sampled machines that took no part in choosing."
    return [
        Section("The programs", "Weights are shares of the suite.", plot(found), found.members),
        Section("The error that they make", text, plot_errors(found), found.errors),
    ]


def plot(found: Subset) -> Figure:
    """The weight of each program of the subset."""
    members = found.members
    text = [f"stands for {others or 'itself'}" for others in members["stands_for"]]
    bars = Bars("", [str(name) for name in members["program"]], members["weight"] * 100, text=text)
    panel = Panel([bars], x=Axis("weight, %", zero=True), sideways=True)
    return Figure([panel], height=1.2 + 0.32 * len(members))


def plot_errors(found: Subset) -> Figure:
    """Mean and worst error of the subset, beside random ones."""
    errors = found.errors
    bars = [Bars(kind, list(errors["subset"]), errors[kind] * 100) for kind in ("mean", "worst")]
    return Figure([Panel(bars, x=Axis("error, %", zero=True), sideways=True)], height=2.4)


def result(found: Subset, programs: int) -> Result:
    """Answer which of so many `programs` stand for the others; the table is `Subset.members`."""
    return Result(
        f"{len(found.members)} programs that stand for {programs}",
        found.members,
        document=found.to_json,
        text=lambda: subset_text(found),
        sections=lambda: sections(found),
        picture=lambda: plot(found),
        headline=lambda: headline(found, programs),
    )


def headline(found: Subset, programs: int) -> Headline:
    """The mean error of the subset, and its programs."""
    error = found.errors.iloc[0]
    names = ", ".join(map(str, found.members["program"]))
    sentence = (
        f"{names} {'stand' if len(found.members) > 1 else 'stands'} for {programs} programs: the geometric mean of "
    )
    sentence += (
        f"their CPI is {percent(float(error['mean']))} off on average, {percent(float(error['worst']))} at worst."
    )
    source = f"the model on {found.machines:,} sampled machines that took no part in choosing"
    return Headline(percent(float(error["mean"])), "mean error", sentence, source)


def subset(
    model: Model,
    programs: Sequence[ProgramVector],
    k: int,
    *,
    on: str = "machines",
    space: str = "default",
    machines: int = 1000,
    seed: int = 0,
) -> Subset:
    """The `k` programs that stand for `programs`. As many machines are sampled to choose by as to judge.

    Raises InputError for a k that is not below the number of programs, or vectors of different models.
    """
    require_model(model, programs)
    if not 1 <= k < len(programs):
        raise InputError(f"-k {k} must be from 1 to {len(programs) - 1}: fewer than the {len(programs)} programs")
    if on not in ON:
        raise InputError(f"--on {on} must be one of {', '.join(ON)}")
    if machines < 1:
        raise InputError(f"number of machines = {machines} must be at least 1")
    encoder = encoder_of(model)
    vectors = np.stack([program.vector / program.instructions for program in programs])
    cpi = cycles_of_columns(encoder, sample_columns(2 * machines, seed, space), vectors)
    if (cpi <= 0).any():
        low = int(np.argmin(cpi.min(axis=0)))
        raise InputError(f"{programs[low].program}: its predicted CPI is not above 0 on every machine; leave it out")
    profiles = np.log(cpi)
    points = profiles[::2].T if on == "machines" else directions(programs)
    distance = cdist(points, points) / np.sqrt(points.shape[1])
    chosen, cluster = medoids(distance, k)
    weights = np.bincount(cluster, minlength=k) / len(programs)
    names = distinct([program.program for program in programs])
    members = pd.DataFrame(
        {
            "program": [names[medoid] for medoid in chosen],
            "weight": weights,
            "stands_for": [
                " ".join(names[p] for p in np.flatnonzero(cluster == number) if p != medoid)
                for number, medoid in enumerate(chosen)
            ],
        }
    )
    judged = profiles[1::2]
    mean, worst = error(judged, chosen, weights)
    draw = np.random.default_rng(seed)
    random = [error(judged, draw.choice(len(programs), k, replace=False), np.full(k, 1 / k)) for _ in range(_RANDOM)]
    average = np.mean(random, axis=0)
    errors = pd.DataFrame(
        {"subset": ["chosen", f"random ({_RANDOM}, average)"], "mean": [mean, average[0]], "worst": [worst, average[1]]}
    )
    members = members.sort_values("weight", ascending=False, kind="stable", ignore_index=True)
    return Subset(members, errors, len(judged))


def error(
    profiles: NDArray[np.float64], chosen: NDArray[np.int64], weights: NDArray[np.float64]
) -> tuple[float, float]:
    """Mean and worst over machines of |estimated / true − 1| for the geometric mean CPI of all programs.

    `profiles` [machines, P] logarithmic CPIs.
    """
    relative = np.abs(np.expm1(profiles[:, chosen] @ weights - profiles.mean(axis=1)))
    return float(relative.mean()), float(relative.max())


def medoids(distance: NDArray[np.float64], k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """([k] medoids, [P] the cluster of each point) of distances [P, P]: PAM's BUILD, then SWAP to a local optimum.

    The sum of the points' distances to their medoids falls in every step; the same for the same distances.
    """
    chosen = [int(distance.sum(axis=1).argmin())]
    nearest = distance[chosen[0]]
    while len(chosen) < k:
        gain = np.minimum(nearest, distance).sum(axis=1)
        gain[chosen] = np.inf
        chosen.append(int(gain.argmin()))
        nearest = np.minimum(nearest, distance[chosen[-1]])
    total = float(nearest.sum())
    while True:
        best, swap = total, None
        for place in range(k):
            others = [medoid for index, medoid in enumerate(chosen) if index != place]
            rest = distance[others].min(axis=0) if others else np.full(len(distance), np.inf)
            sums = np.minimum(rest, distance).sum(axis=1)
            sums[others] = np.inf
            candidate = int(sums.argmin())
            if sums[candidate] < best * (1 - 1e-12):
                best, swap = float(sums[candidate]), (place, candidate)
        if swap is None:
            break
        chosen[swap[0]], total = swap[1], best
    result = np.array(chosen)
    cluster = distance[result].argmin(axis=0)
    cluster[result] = np.arange(k)  # of equal points each medoid keeps itself
    return result, cluster
