"""The cache-size study: PerfVec beside three methods that simulate, with the embedded timing model as the truth."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from analysis.experiments import dubach, ipek, li, machine_vectors, surface
from analysis.experiments.simulations import EVERY, INTERVAL_INSTRUCTIONS, Intervals, measure
from analysis.experiments.study import L1_KIB, L2_KIB, MethodTimes, Study, designs_of, quality
from analysis.questions.subset import medoids
from analysis.results.figure import Axis, Figure, Panel, Points
from analysis.results.headline import Headline, percent
from analysis.results.page import Section
from analysis.results.result import Result, filled
from analysis.results.text import columns
from perfvec.model import Model
from support.errors import InputError
from uarch.configuration import Machine

TRAINED = 3
EXHAUSTIVE = "exhaustive"
REPEATS = 5  # of what draws at random
START = 2_000_000
COUNT = 2_097_152


@dataclass(frozen=True)
class Comparison:
    """`methods`, a row each: `method`, `programs` judged, `simulations`, `simulation_s`, `representation_s` and
    `learning_s` (seconds of CPU time), `above` and `above_worst` (the chosen design's objective above the smallest,
    fractions: the mean over programs, and the worst program's), `better` (designs that are better, on average),
    `optimum` (share of programs for which the best design was chosen), `unseen_above` (the mean over the programs that
    no method learned from beforehand). Of methods that draw at random all are averages over `repeats`. `choices`: a row
    per method and program.
    """

    methods: pd.DataFrame
    choices: pd.DataFrame
    study: Study
    repeats: int

    def to_json(self) -> dict[str, Any]:
        """The `--json` document."""
        study = self.study
        return {
            "methods": self.methods.to_dict(orient="records"),
            "choices": self.choices.to_dict(orient="records"),
            "repeats": self.repeats,
            "designs": study.sizes.tolist(),
            "trained": [study.programs[number] for number in study.trained],
            "cycles": dict(zip(study.programs, study.cycles.tolist(), strict=True)),
        }


def caches(
    model: Model,
    traces: Sequence[str | os.PathLike[str]],
    base: Machine,
    folder: str | os.PathLike[str],
    *,
    train: Sequence[str] = (),
    l1: Sequence[int] = L1_KIB,
    l2: Sequence[int] = L2_KIB,
    start: int = START,
    count: int = COUNT,
    repeats: int = REPEATS,
    budget: float | None = None,
    progress: bool = True,
) -> Comparison:
    """Simulate every trace on every design (kept in `folder`), let the methods choose, judge their choices.

    `train` names the programs to learn from beforehand; by default the TRAINED medoids of the vectors' directions,
    which takes no simulation. `budget`: seconds of a processor in which the surface's designs of each program are
    simulated, by the time that they took; by default it has `surface.SIMULATIONS` of them. Raises InputError for fewer
    programs than one more than those, an unknown name, or a budget for no design.
    """
    require_scikit_learn()
    _require_enough(len(traces), train)
    machines, sizes = designs_of(base, l1, l2)
    intervals = measure(model, traces, machines, folder, start=start, count=count, progress=progress)
    study = study_of(intervals, machines, sizes, train)
    methods: list[tuple[str, Callable[[int], MethodTimes], bool]] = [
        ("Ïpek 2006", lambda seed: ipek.answer(study, seed), True),
        ("Dubach 2007", lambda seed: dubach.answer(study, seed), True),
        ("Li 2016", lambda seed: li.answer(study, seed), True),
        ("surface", lambda seed: surface.answer(study, seed, seconds=budget), False),
        ("PerfVec fitted", lambda _: machine_vectors.fitted(model, study, intervals), False),
        ("PerfVec zero-shot", lambda _: machine_vectors.zero_shot(model, study, intervals), False),
        ("one for all", lambda _: one_for_all(study), False),
        (EXHAUSTIVE, lambda _: MethodTimes(study.cycles, np.ones(study.cycles.shape, bool)), False),
    ]
    rows, choices = [], []
    for name, method, random in methods:
        began, count_of = time.process_time(), repeats if random else 1
        answers = [method(seed) for seed in range(count_of)]
        learning = (time.process_time() - began) / count_of
        represented = (
            sum(program.representation_seconds for program in intervals) if name.startswith("PerfVec") else 0.0
        )
        judged = [quality(study, answer) for answer in answers]
        above, better = np.mean([j[0] for j in judged], axis=0), np.mean([j[1] for j in judged], axis=0)
        unseen = np.setdiff1d(np.arange(len(intervals)), study.trained)
        rows.append(
            {
                "method": name,
                "programs": len(intervals),
                "simulations": float(np.mean([answer.simulated.sum() for answer in answers])),
                "simulation_s": float(np.mean([study.seconds[answer.simulated].sum() for answer in answers])),
                "representation_s": represented,
                "learning_s": learning,
                "above": float(above.mean()),
                "above_worst": float(above.max()),
                "better": float(better.mean()),
                "optimum": float(np.mean([(j[1] == 0).mean() for j in judged])),
                "unseen_above": float(above[unseen].mean()),
            }
        )
        choices += [
            {
                "method": name,
                "program": program,
                "trained": number in study.trained,
                "above": float(judged[0][0][number]),
                "better": float(judged[0][1][number]),
                "l1_kib": float(sizes[judged[0][2][number], 0]),
                "l2_kib": float(sizes[judged[0][2][number], 1]),
            }
            for number, program in enumerate(study.programs)
        ]
    return Comparison(pd.DataFrame(rows), pd.DataFrame(choices), study, repeats)


def require_scikit_learn() -> None:
    """Raise InputError unless it is installed."""
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise InputError("the compared methods need scikit-learn: pip install 'perfvec-toolkit[experiment]'") from error


def _require_enough(programs: int, train: Sequence[str]) -> None:
    wanted = len(set(train)) or TRAINED
    if programs <= wanted:
        raise InputError(f"{programs} programs, {wanted} of them to learn from: give at least {wanted + 1} traces")


def study_of(
    intervals: Sequence[Intervals], machines: Sequence[Machine], sizes: NDArray[np.float64], train: Sequence[str] = ()
) -> Study:
    """The study of measured programs. Raises InputError for an unknown name in `train`, or too few programs."""
    names = tuple(program.program for program in intervals)
    for name in train:
        if name not in names:
            raise InputError(f"--train {name}: no such program among the traces ({', '.join(names)[:200]})")
    _require_enough(len(names), train)
    if train:
        trained = sorted({names.index(name) for name in train})
    else:
        directions = np.stack([program.vector for program in intervals])
        distance = cdist(directions, directions, "cosine")
        trained = sorted(medoids(distance, TRAINED)[0].tolist())
    return Study(
        names,
        tuple(machines),
        sizes,
        np.stack([program.cycles.sum(axis=1) for program in intervals]),
        np.stack([program.simulation_seconds for program in intervals]),
        tuple(trained),
    )


def one_for_all(study: Study) -> MethodTimes:
    """No model: every program gets the design that is best for the trained programs together, all simulated on it (the
    geometric mean of their objectives)."""
    simulated = np.zeros(study.cycles.shape, bool)
    simulated[list(study.trained)] = True
    mean = np.exp(np.log(study.cycles[list(study.trained)]).mean(axis=0))
    return MethodTimes(np.broadcast_to(mean, study.cycles.shape), simulated)


def answer(result: Comparison) -> Result:
    """The comparison as an answer; the table is `methods`."""
    return Result(
        "Cache sizes",
        result.methods,
        document=result.to_json,
        text=lambda: shown(result),
        sections=lambda: sections(result),
        picture=lambda: plot(result),
        headline=lambda: headline(result),
    )


def headline(result: Comparison) -> Headline:
    """The method whose choices are nearest to the optimum, beside simulating every design."""
    methods = result.methods[result.methods["method"] != EXHAUSTIVE]
    best = methods.sort_values(["above", "simulations"], kind="stable").iloc[0]
    study = result.study
    sentence = f"Designs chosen by {best['method']} are {percent(float(best['above']))} above the best of "
    sentence += f"{len(study.sizes)}, on average over {_counted(study.programs)}, with "
    sentence += f"{float(best['simulations']):,.0f} simulations."
    return Headline(percent(float(best["above"])), "above the optimum", sentence, "simulated, every design")


def shown(result: Comparison) -> str:
    """The table of the terminal."""
    table = result.methods
    frame = pd.DataFrame(
        {
            "method": table["method"],
            "sims": table["simulations"].map("{:,.0f}".format),
            "simulate": table["simulation_s"].map("{:,.0f} s".format),
            "vectors": table["representation_s"].map("{:,.0f} s".format),
            "learn": table["learning_s"].map("{:,.1f} s".format),
            "above": table["above"].map("{:.1%}".format),
            "unseen": table["unseen_above"].map("{:.1%}".format),
            "worst": table["above_worst"].map("{:.1%}".format),
            "better": table["better"].map("{:.1f}".format),
            "optimum": table["optimum"].map("{:.0%}".format),
        }
    )
    trained = ", ".join(result.study.programs[number] for number in result.study.trained)
    counts = f"{_counted(result.study.programs)}, {len(result.study.sizes)} designs"
    told = filled(f"{counts}; learned from beforehand: {trained}")
    return f"{columns(list(map(str, frame)), frame.to_numpy().tolist())}\n{told}"


def sections(result: Comparison) -> list[Section]:
    """The parts of the HTML report."""
    text = (
        f"Objective: time · (1000 + 10 · L1 KiB + L2 KiB). Intervals of {INTERVAL_INSTRUCTIONS:,} instructions, one "
        f"of {EVERY} "
        f"represented; random methods: averages of {result.repeats}."
    )
    return [
        Section("How far the chosen designs are from the best", text, plot(result), result.methods),
        Section("Each program's choice", "The first repetition's design.", table=result.choices),
    ]


def plot(result: Comparison) -> Figure:
    """Plot how far each method's choices are above the optimum, over what it simulated."""
    table = result.methods
    points = Points("", table["simulations"], 100 * table["above"], list(table["method"]), labelled=True)
    panel = Panel(
        [points], x=Axis("simulations", zero=True), y=Axis("objective above the optimum, %", zero=True, unit="%")
    )
    return Figure([panel], width=7, height=4)


def _counted(programs: Sequence[str]) -> str:
    return "1 program" if len(programs) == 1 else f"{len(programs)} programs"
