"""Metadata of a model that no writer wrote."""

import json
import time

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from perfvec.model import FORMAT, VERSION, FoundationModel, content_digest, load_model
from support.errors import InputError
from tracegen.features import SCHEMAS, get_schema
from uarch.machine_files import load_machine


@pytest.mark.parametrize("machines", ["{]", "[" * 100_000, "9" * 5000])
def test_odd_metadata_is_one_line(tmp_path, machines):
    path = tmp_path / "m.safetensors"
    metadata = {"format": FORMAT, "version": str(VERSION), "schema": next(iter(SCHEMAS)), "machines": machines}
    metadata["digest"] = content_digest({"a": torch.zeros(1)}, metadata)
    save_file({"a": np.zeros(1, np.float32)}, path, metadata)
    with pytest.raises(InputError, match="do not fit the schema") as raised:
        load_model(path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "change",
    [
        {"layers": 10**6},
        {"layers": 0},
        {"layers": "two"},
        {"width": 10**6},
        {"width": -1},
        {"heads": 3},
        {"architecture": "mlp"},
        {"architecture": "convolution", "layers": 2, "kernel": 10**9},
    ],
)
def test_a_shape_that_is_not_the_weights_is_refused_before_it_is_built(tmp_path, change):
    schema = next(iter(SCHEMAS))
    model = FoundationModel(get_schema(schema), 1, width=8, layers=1)
    tensors = {f"foundation.{name}": value for name, value in model.state_dict().items()}
    metadata = {"format": FORMAT, "version": str(VERSION), "schema": schema, "shape": json.dumps(model.shape | change)}
    metadata |= {"machines": json.dumps([load_machine("base").to_dict()]), "programs": "[]", "recipe": "{}"}
    metadata["digest"] = content_digest(tensors, metadata)
    path = tmp_path / "m.safetensors"
    save_file({name: value.numpy() for name, value in tensors.items()}, path, metadata)
    began = time.process_time()
    with pytest.raises(InputError, match=r"m\.safetensors: ") as raised:
        load_model(path)
    assert "\n" not in str(raised.value) and time.process_time() - began < 2.0
