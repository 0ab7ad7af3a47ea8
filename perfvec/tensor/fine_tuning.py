"""Fine-tuning as far as it helps: cross-validation over the new records chooses how far.

A booster or a network follows the noise of sixty records as willingly as it learned from twenty thousand, and forgets
the latter. So there are steps, from staying as it is over a factor of a device's latencies to more and more passes over
the records; tasks of the records are left out in turn, and the model takes the first step whose error on those left out
is within one standard error of the best (the rule of Breiman et al., Classification and Regression Trees, 1984,
§3.4.3). The error is the distance of log latencies, not MAPE: MAPE is smallest where predictions are too low, and the
latency of a network is a sum of them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from perfvec.tensor.contract import Budget, CostModel
from perfvec.tensor.metrics import pairwise_accuracy
from perfvec.tensor.records import Records

SHARES = (1 / 8, 1 / 2, 1.0)  # of the budget's passes
FOLDS = 3
_LEARNED = (FOLDS - 1) / FOLDS  # share of the records that is not left out
_SMALLEST = 4  # records that can be divided
_LEAST_S = 1e-3  # of a part: a budget of no seconds at all has no progress
Floats = NDArray[np.float64]


@dataclass(frozen=True, order=True)
class Step:
    """`passes` over the new records, after a factor for each of their devices where it has one."""

    passes: int
    factor: bool


@dataclass(frozen=True)
class FineTuned:
    """The step that was taken, and of each step the mean error on records left out: the distance of log latencies, of a
    model that only ranks the share of misordered pairs. No errors below four records.
    """

    step: Step
    errors: dict[Step, float]


def fine_tune(
    model: CostModel, records: Records, *, budget: Budget, seed: int = 0, source: Records | None = None
) -> FineTuned:
    """Update `model` with `records`, for at most `budget.epochs` passes; afterwards it knows their devices.

    `source`: candidates that trained the model, for CDMPP's discrepancy between source and target. A model that was not
    trained yet goes all passes. Every fold takes every step anew, which is some ten times all passes over two thirds of
    the records, before what is chosen. `budget.seconds` is of all of this: a part gets what is left, by its share of
    the passes that are left, and steps that no time is left for are not judged. Raises InputError where no record was
    measured.
    """
    records = records.measured()
    if not model.devices:
        model.update(records, budget=budget, seed=seed, source=source)
        return FineTuned(Step(budget.epochs, False), {})
    ranks_only = bool(np.isnan(model.to_seconds(np.zeros(1))).any())
    passes = sorted({0} | {max(round(share * budget.epochs), 1) for share in SHARES})
    steps = [Step(count, factor) for count in passes for factor in ((False,) if ranks_only else (False, True))]
    errors: dict[Step, Floats] = {}
    judged = not ranks_only or np.isfinite(pairwise_accuracy(np.zeros(len(records)), records.seconds, records.group))
    folds = FOLDS if len(records) >= _SMALLEST and judged else 0
    clock = _Clock(budget, folds * sum(step.passes for step in steps) * _LEARNED + budget.epochs)
    with tqdm(total=folds * len(steps) + 1, desc="fine-tune", leave=False, disable=None, unit="part") as bar:
        if folds:
            fold = task_folds(records.task, seed)
            for step in steps:
                if clock.late and errors:
                    break
                errors[step] = _left_out(model, records, fold, step, clock, seed, ranks_only, source, bar)
        if not any(np.isfinite(error).any() for error in errors.values()):
            errors = {}  # no pair was to be ordered
        step = first_records(errors) if errors else Step(0, False)
        _take(step, model, records, clock.share(step, 1.0), seed, source)
    return FineTuned(step, {step: float(np.nanmean(error)) for step, error in errors.items()})


class _Clock:
    """Divides a budget's processor seconds among parts, of `work` passes over all records together, the last of which
    has the budget's.
    """

    def __init__(self, budget: Budget, work: float) -> None:
        self._budget, self._work = budget, work
        self._last_s = (budget.seconds or 0.0) * budget.epochs / max(work, 1)
        self._began = time.process_time()

    @property
    def late(self) -> bool:
        """Return whether no more is left than the last part should have."""
        return self._budget.seconds is not None and self._left() <= self._last_s

    def share(self, step: Step, share: float) -> Budget:
        """The budget of a step over a share of the records: of the seconds left, its share of the work left."""
        own, left = step.passes * share, self._work
        self._work -= own
        if self._budget.seconds is None:
            return replace(self._budget, epochs=step.passes)
        seconds = self._left() * own / left if own else self._left()
        return replace(self._budget, epochs=step.passes, seconds=max(seconds, _LEAST_S))

    def _left(self) -> float:
        return (self._budget.seconds or 0.0) - (time.process_time() - self._began)


def _take(step: Step, model: CostModel, records: Records, budget: Budget, seed: int, source: Records | None) -> None:
    """Take a step with its own budget."""
    if step.factor:
        off = np.log(records.seconds / model.record_latencies(records, zero_shot=True))
        for index in np.unique(records.device):
            name = records.devices[index].name
            factor = float(np.exp(np.median(off[records.device == index])))
            model.factors[name] = model.factors.get(name, 1.0) * factor
    model.update(records, budget=budget, seed=seed, source=source)


def task_folds(task: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """[n] the fold that each record is left out with: all of a task in one, unless there are fewer tasks than folds."""
    unit = task if len(np.unique(task)) >= FOLDS else np.arange(len(task))
    units, index = np.unique(unit, return_inverse=True)
    return np.asarray(np.random.default_rng(seed).permutation(len(units))[index] % FOLDS, np.int64)


def _left_out(
    model: CostModel,
    records: Records,
    fold: NDArray[np.int64],
    step: Step,
    clock: _Clock,
    seed: int,
    ranks_only: bool,
    source: Records | None,
    bar: Any,
) -> Floats:
    """[groups] mean error of each task and device when it is left out; NaN of one that has no pair to be ordered."""
    total = dict.fromkeys(np.unique(records.group).tolist(), 0.0)
    for out in range(FOLDS):
        test, copy = records.take(fold == out), model.copy()
        _take(step, copy, records.take(fold != out), clock.share(step, _LEARNED), seed, source)
        judge = copy.score_records if ranks_only else copy.record_latencies
        said = judge(test, zero_shot=True)
        for group in np.unique(test.group).tolist():
            part = test.group == group
            if ranks_only:
                error = 1.0 - pairwise_accuracy(said[part], test.seconds[part], test.group[part])
            else:
                error = float(np.abs(np.log(said[part] / test.seconds[part])).mean())
            total[group] += error * int(part.sum())
        bar.update()
    return np.array([error / np.sum(records.group == group) for group, error in total.items()])


def first_records(errors: dict[Step, Floats]) -> Step:
    """The first step whose mean error exceeds the best's by at most the standard error of their difference."""
    best = min(errors, key=lambda step: (float(np.nanmean(errors[step])), step))
    for step in sorted(errors):
        worse = errors[step] - errors[best]
        worse = worse[np.isfinite(worse)]
        if not len(worse) or worse.mean() <= worse.std(ddof=min(1, len(worse) - 1)) / np.sqrt(len(worse)):
            return step
    return best
