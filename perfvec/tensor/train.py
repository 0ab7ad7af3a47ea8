"""Train one model on all measured records of a dataset, or fine-tune one that is there, and write it."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from perfvec.tensor.configuration import Entry
from perfvec.tensor.contract import Budget, CostModel
from perfvec.tensor.fine_tuning import Step, fine_tune
from perfvec.tensor.model_file import FORMAT, describe, load_model, save_model
from perfvec.tensor.models import make
from perfvec.tensor.records import Records, read_records
from perfvec.tensor.trained_on import task_digests
from support.errors import InputError
from support.kinds import require_output


@dataclass(frozen=True)
class Trained:
    """Summary of `train`: the model's file has it as provenance."""

    model: str
    records: int
    devices: tuple[str, ...]
    seconds: float
    fine_tuned: Step | None = None  # how far cross-validation let it go
    curve: list[dict[str, float]] = field(default_factory=list)  # of every pass: see `loop.Learned`


def train(
    dataset: str | os.PathLike[str],
    output: str | os.PathLike[str],
    entry: Entry,
    *,
    budget: Budget,
    seed: int = 0,
    initial: str | os.PathLike[str] | None = None,
    validation: float = 0.1,
    on: str = "cpu",
) -> Trained:
    """Write a model of `entry` trained on `dataset`; of `initial`, fine-tuned as far as helps, where that is given.

    Where the budget has patience, a share `validation` of the tasks is not learned from but says when to stop. `on`:
    the device that networks compute on. Raises InputError where the dataset has no measured records or not the
    features that the model reads, and where the training diverges.
    """
    require_output(output, FORMAT)
    model = make(entry.model, entry.parameters) if initial is None else load_model(initial)
    model.use(on)
    records = read_records(dataset, [model.kind]).measured()
    if initial is None and len(records) < 2:
        raise InputError(f"{dataset}: one measured record; a model learns from two at least")
    held: Records | None = None
    if budget.patience and initial is None:
        held, records = _held_tasks(records, validation, seed)
        if len(records) < 2:
            raise InputError(f"{dataset}: one measured record is left to learn from; a model learns from two at least")
    before: list[Any] = [] if initial is None else [describe(initial)["provenance"]]
    began = time.process_time()
    step, errors = None, {}
    if initial is None:
        model.fit(records, budget=budget, seed=seed, validation=held)
    else:
        tuned = fine_tune(model, records, budget=budget, seed=seed)
        step, errors = tuned.step, tuned.errors
    seconds = time.process_time() - began
    _require_scores(model, records)
    pairs = task_digests(records)
    provenance = {
        "dataset": str(dataset),
        "digest": records.digest,
        "trained_on": sorted(pairs if held is None else pairs | task_digests(held)),
        "records": len(records),
        "seed": seed,
        "budget": asdict(budget),
        "train_seconds": seconds,
        "validation_records": 0 if held is None else len(held),
        "curve": model.curve,
        "before": before,
        "fine_tuned": None if step is None else asdict(step),
        "left_out": [{**asdict(other), "error": error} for other, error in errors.items()],
    }
    save_model(model, output, provenance)
    names = tuple(device.name for device in model.devices)
    return Trained(model.NAME, len(records), names, seconds, step, model.curve)


def _require_scores(model: CostModel, records: Records) -> None:
    """Raise InputError where the training diverged: a score of what it learned from is no number."""
    lost = int(np.sum(~np.isfinite(model.score_records(records))))
    if lost:
        raise InputError(
            f"{model.NAME}: the training diverged ({lost:,} of {len(records):,} scores are no numbers), and no model "
            "was written; lower learning_rate"
        )


def _held_tasks(records: Records, share: float, seed: int) -> tuple[Records, Records]:
    """(the records of a share of the tasks, at least one, and all others)."""
    tasks = np.random.default_rng(seed).permutation(np.unique(records.task))
    if len(tasks) < 2:
        raise InputError(f"{records.source}: one task has records; early stopping needs two, or patience 0")
    held = np.isin(records.task, tasks[: max(round(share * len(tasks)), 1)])
    return records.take(held), records.take(~held)
