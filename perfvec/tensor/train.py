"""Train one model on all measured records of a dataset, or fine-tune one that is there, and write it."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from typing import Any

from perfvec.tensor.configuration import Entry
from perfvec.tensor.contract import Budget
from perfvec.tensor.fine_tuning import Step, fine_tune
from perfvec.tensor.model_file import describe, load_model, save_model
from perfvec.tensor.models import make
from perfvec.tensor.records import read_records
from support.files import require_writable


@dataclass(frozen=True)
class Trained:
    """Summary of `train`: the model's file has it as provenance."""

    model: str
    records: int
    devices: tuple[str, ...]
    seconds: float
    fine_tuned: Step | None = None  # how far cross-validation let it go


def train(
    dataset: str | os.PathLike[str],
    output: str | os.PathLike[str],
    entry: Entry,
    *,
    budget: Budget,
    seed: int = 0,
    initial: str | os.PathLike[str] | None = None,
) -> Trained:
    """Write a model of `entry` trained on `dataset`; of `initial`, fine-tuned as far as helps, where that is given.

    Raises InputError where the dataset has no measured records or not the features that the model reads.
    """
    require_writable(output)
    model = make(entry.model, entry.parameters) if initial is None else load_model(initial)
    records = read_records(dataset, [model.kind]).measured()
    before: list[Any] = [] if initial is None else [describe(initial)["provenance"]]
    began = time.process_time()
    step, errors = None, {}
    if initial is None:
        model.fit(records, budget=budget, seed=seed)
    else:
        tuned = fine_tune(model, records, budget=budget, seed=seed)
        step, errors = tuned.step, tuned.errors
    seconds = time.process_time() - began
    provenance = {
        "dataset": str(dataset),
        "digest": records.digest,
        "records": len(records),
        "seed": seed,
        "budget": asdict(budget),
        "train_seconds": seconds,
        "before": before,
        "fine_tuned": None if step is None else asdict(step),
        "left_out": [{**asdict(other), "error": error} for other, error in errors.items()],
    }
    save_model(model, output, provenance)
    return Trained(model.NAME, len(records), tuple(device.name for device in model.devices), seconds, step)
