"""Predictions of a saved model for the candidates of a dataset or log: a table, best first in each task and device."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from perfvec.tensor.contract import CostModel
from perfvec.tensor.model_file import load_model
from perfvec.tensor.records import feature_group
from support.errors import InputError
from tracegen.tensor.dataset import Dataset, Device
from tracegen.tensor.read import read


def predict(
    model_file: str | os.PathLike[str],
    dataset: str | os.PathLike[str],
    *,
    devices: list[str] | None = None,
    top: int = 0,
    zero_shot: bool = False,
) -> pd.DataFrame:
    """A row per candidate and device: the task's name and its number in the dataset, schedule, device, score, predicted
    seconds (NaN from a model that only ranks), and measured ones where the dataset has them (median of its records).

    `devices`: names; by default the dataset's that the model knows, with `zero_shot` all of the dataset's. `top`: only
    so many of each task, by score. `dataset` may also be whatever `perfvec tensor read` reads (primitives only).
    Raises InputError for other features than the model's, and for unknown devices.
    """
    model = load_model(model_file)
    with ExitStack() as stack:
        data = stack.enter_context(Dataset(_as_dataset(Path(dataset), stack)))
        data.path = Path(dataset)  # what its messages name, also where a log was read into a file of our own
        if not data.schedule_count:
            raise InputError(f"{dataset}: has no candidates to predict")
        group = feature_group(data, model.kind)
        model.check(group)
        rows = group.rows
        there = {row["name"]: Device(row["name"], row["parameters"]) for row in data.devices.to_dict("records")}
        table = data.table()
        task, names = data.task_of.astype(np.int64), data.tasks["name"].to_numpy()
    parts = []
    for device in _devices(model, there, devices, zero_shot, str(dataset)):
        score = model.score(rows, device, zero_shot=zero_shot)
        parts.append(
            pd.DataFrame(
                {
                    "task": names[task],
                    "task_id": task,
                    "schedule": np.arange(len(rows)),
                    "device": device.name,
                    "score": score,
                    "predicted_s": model.latencies(score, device),
                }
            )
        )
    frame = pd.concat(parts, ignore_index=True)
    table = table.assign(device=np.array(list(there), object)[table["device"].to_numpy()] if len(table) else [])
    measured = table.groupby(["schedule", "device"])["seconds"].median().rename("measured_s").reset_index()
    frame = frame.merge(measured.astype({"schedule": np.int64}), on=["schedule", "device"], how="left")
    frame = frame.sort_values(["task_id", "device", "score"], ascending=[True, True, False], kind="stable")
    if top:
        frame = frame.groupby(["task_id", "device"], sort=False).head(top)
    return frame.reset_index(drop=True)


def _as_dataset(path: Path, stack: ExitStack) -> Path:
    """The path itself where it is a dataset; a log or folder is read into one that lives as long as `stack`."""
    if path.suffix == ".h5" or not path.exists():
        return path
    folder = Path(stack.enter_context(TemporaryDirectory()))
    read(paths=[path], output=folder / "log.tensor.h5", progress=False)
    return folder / "log.tensor.h5"


def _devices(
    model: CostModel, there: dict[str, Device], asked: list[str] | None, zero_shot: bool, path: str
) -> list[Device]:
    known = {device.name: device for device in model.devices}
    if asked:
        for name in asked:
            if name not in known and not (zero_shot and name in there):
                places = f"the model knows {', '.join(known)}" + (
                    "" if name not in there else "; --zero-shot asks it anyway"
                )
                raise InputError(f"{path}: device {name!r} did not train the model; {places}")
        return [known.get(name) or there[name] for name in asked]
    chosen = [device for name, device in there.items() if zero_shot or name in known]
    if not chosen:
        raise InputError(
            f"{path}: devices ({', '.join(there) or 'none'}) did not train the model (which knows {', '.join(known)}); "
            "name one with --device, or ask with --zero-shot"
        )
    return [known.get(device.name, device) for device in chosen]
