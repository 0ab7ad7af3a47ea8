"""Fine-tuning as far as it helps: cross-validation over the new records chooses how far.

A booster or a network follows the noise of sixty records as willingly as it learned from twenty thousand, and forgets
the latter. So there are steps, from staying as it is over a factor of a device's latencies to more and more passes over
the records; tasks of the records are left out in turn, and the model takes the first step whose error on those left out
is within one standard error of the best (the rule of Breiman et al., Classification and Regression Trees, 1984,
§3.4.3). The error is the distance of log latencies, not MAPE: MAPE is smallest where predictions are too low, and the
latency of a network is a sum of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfvec.tensor.contract import Budget, CostModel
from perfvec.tensor.metrics import pairwise_accuracy
from perfvec.tensor.records import Records

SHARES = (1 / 8, 1 / 2, 1.0)  # of the budget's passes
FOLDS = 3
_SMALLEST = 4  # records that can be divided
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
    trained yet goes all passes. Every fold takes every step anew, which is some ten budgets over
    two thirds of the records, before what is chosen. Raises InputError where no record was measured.
    """
    records = records.measured()
    if not model.devices:
        model.update(records, budget=budget, seed=seed, source=source)
        return FineTuned(Step(budget.epochs, False), {})
    ranks_only = bool(np.isnan(model.to_seconds(np.zeros(1))).any())
    passes = sorted({0} | {max(round(share * budget.epochs), 1) for share in SHARES})
    steps = [Step(count, factor) for count in passes for factor in ((False,) if ranks_only else (False, True))]
    errors: dict[Step, Floats] = {}
    if len(records) >= _SMALLEST:
        fold = task_folds(records.task, seed)
        errors = {step: _left_out(model, records, fold, step, budget, seed, ranks_only, source) for step in steps}
    step = first_records(errors) if errors else Step(0, False)
    _take(step, model, records, budget, seed, source)
    return FineTuned(step, {step: float(np.nanmean(error)) for step, error in errors.items()})


def _take(step: Step, model: CostModel, records: Records, budget: Budget, seed: int, source: Records | None) -> None:
    if step.factor:
        off = np.log(records.seconds / model.record_latencies(records, zero_shot=True))
        for index in np.unique(records.device):
            name = records.devices[index].name
            factor = float(np.exp(np.median(off[records.device == index])))
            model.factors[name] = model.factors.get(name, 1.0) * factor
    model.update(records, budget=replace(budget, epochs=step.passes), seed=seed, source=source)


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
    budget: Budget,
    seed: int,
    ranks_only: bool,
    source: Records | None,
) -> Floats:
    """[groups] mean error of each task and device when it is left out; NaN of one that has no pair to be ordered."""
    total = dict.fromkeys(np.unique(records.group).tolist(), 0.0)
    for out in range(FOLDS):
        test, copy = records.take(fold == out), model.copy()
        _take(step, copy, records.take(fold != out), budget, seed, source)
        score = copy.score_records(test, zero_shot=True)
        for group in np.unique(test.group).tolist():
            part = test.group == group
            if ranks_only:
                error = 1.0 - pairwise_accuracy(score[part], test.seconds[part], test.group[part])
            else:
                predicted = copy.record_latencies(test.take(part), zero_shot=True)
                error = float(np.abs(np.log(predicted / test.seconds[part])).mean())
            total[group] += error * int(part.sum())
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
