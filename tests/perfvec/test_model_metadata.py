"""Metadata of a model that no writer wrote."""

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from perfvec.model import FORMAT, VERSION, content_digest, load_model
from tracegen.features import SCHEMAS
from uarch.errors import InputError


@pytest.mark.parametrize("machines", ["{]", "[" * 100_000, "9" * 5000])
def test_odd_metadata_is_one_line(tmp_path, machines):
    path = tmp_path / "m.safetensors"
    metadata = {"format": FORMAT, "version": str(VERSION), "schema": next(iter(SCHEMAS)), "machines": machines}
    metadata["digest"] = content_digest({"a": torch.zeros(1)}, metadata)
    save_file({"a": np.zeros(1, np.float32)}, path, metadata)
    with pytest.raises(InputError, match="do not fit the schema") as raised:
        load_model(path)
    assert "\n" not in str(raised.value)
