"""A trained cost model as one safetensors file: arrays, and JSON that says what they are and what made them.

Nothing is pickled: boosters are their libraries' own text, as bytes. The JSON names the model and its parameters, the
feature group with version and width, the devices with their parameters, the digest of the training data, and the seed.
A digest of all that is compared before any library parses its part: a damaged booster can crash the one that reads it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from perfvec.tensor.contract import CostModel, State
from perfvec.tensor.models import make
from support.arrays import digest
from support.errors import InputError
from support.files import atomic_path
from support.text import parse_json
from tracegen.tensor.dataset import Device

FORMAT = "perfvec-tensor-model"
VERSION = 2
SHIPPED = Path(__file__).parents[1] / "weights" / "tensor.safetensors"


def save_model(model: CostModel, path: str | os.PathLike[str], provenance: Mapping[str, Any] | None = None) -> None:
    """Write a trained model, atomically; `provenance` (data's digest, seed, budget, …) is kept as it is."""
    state = model.state()
    document = {
        "model": model.NAME,
        "parameters": asdict(model.parameters),
        "features": {"kind": model.kind, "version": model.feature_version, "width": model.width},
        "devices": [
            {"name": device.name, "parameters": dict(device.parameters), "factor": model.factors.get(device.name, 1.0)}
            for device in model.devices
        ],
        "notes": state.notes,
        "provenance": dict(provenance or {}),
    }
    metadata = {"format": FORMAT, "version": str(VERSION), "document": json.dumps(document)}
    arrays = {name: np.ascontiguousarray(array) for name, array in state.arrays.items()}
    metadata["digest"] = _digest(arrays, metadata)
    with atomic_path(path) as temporary:
        temporary.write_bytes(save(arrays, metadata))


def load_model(path: str | os.PathLike[str]) -> CostModel:
    """Read a model, or the one called "shipped"; `describe` has its provenance.

    Raises InputError for foreign, damaged or other versions' files.
    """
    metadata, arrays = _read(Path(path))
    try:
        document = parse_json(metadata["document"])
        model = make(document["model"], document["parameters"], where=str(path))
        model.devices = tuple(Device(device["name"], device["parameters"]) for device in document["devices"])
        factors = {device["name"]: float(device["factor"]) for device in document["devices"]}
        model.factors = {name: factor for name, factor in factors.items() if factor != 1.0}
        model.feature_version = str(document["features"]["version"])
        model.width = int(document["features"]["width"])
        model.restore(State(arrays, document["notes"]))
    except InputError:
        raise
    except Exception as error:  # what a library raises for weights that do not fit is its own affair
        line = " ".join(str(error).split())[:160] or type(error).__name__
        raise InputError(f"{path}: the model's weights do not fit what its metadata says: {line}") from error
    return model


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON document of a model's file: model, parameters, features, devices, provenance."""
    metadata, _ = _read(Path(path))
    try:
        document = parse_json(metadata["document"])
        return {name: document[name] for name in ("model", "parameters", "features", "devices", "provenance")}
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: its metadata do not describe a tensor cost model") from error


def _read(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    if path == Path("shipped"):
        path = SHIPPED
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected a tensor cost model (*.safetensors)")
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, TypeError, ValueError) as error:  # also of types that NumPy has not
        raise InputError(f"{path}: truncated, or not a safetensors file; expected a tensor cost model") from error
    if metadata.get("format") != FORMAT:
        raise InputError(f"{path}: a safetensors file, but not a tensor cost model (format {FORMAT!r})")
    if metadata.get("version") != str(VERSION):
        raise InputError(f"{path}: version {metadata.get('version')} of {FORMAT}; this release reads {VERSION}")
    if metadata.get("digest") != _digest(arrays, metadata):
        raise InputError(f"{path}: damaged: its content has another digest than it says; restore it, or train again")
    return metadata, arrays


def _digest(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> str:
    texts = {f"metadata {name}": np.asarray(text) for name, text in metadata.items() if name != "digest"}
    return digest(texts | {f"array {name}": array for name, array in arrays.items()})
