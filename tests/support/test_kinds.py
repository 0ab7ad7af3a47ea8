"""An output replaces a file of its own kind, and no other."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from support.arrays import save_arrays
from support.errors import InputError
from support.files import sealed_h5
from support.kinds import format_of, require_output


@pytest.fixture
def files(tmp_path):
    """Files of three containers by the format that they name."""
    with sealed_h5(tmp_path / "h5") as file:
        file.attrs["format"] = "of-h5"
    save_arrays(tmp_path / "npz", "of-npz/2", {"rows": np.zeros(3)})
    save_file({"rows": np.zeros(3)}, tmp_path / "model", {"format": "of-safetensors"})
    return {"of-h5": tmp_path / "h5", "of-npz": tmp_path / "npz", "of-safetensors": tmp_path / "model"}


def test_a_file_names_its_format(files):
    assert {format_of(path): path for path in files.values()} == files


def test_an_output_replaces_one_of_its_kind_of_any_version(files):
    for name, path in files.items():
        require_output(path, f"{name}/9")
        with pytest.raises(InputError, match="is no other file, and would be replaced by one; name another"):
            require_output(path, "other")


@pytest.mark.parametrize(
    "content", [b"int main() {}\n", b"PK\3\4", b"\x89HDF\r\n\x1a\n", b"x", b"\2" + b"\0" * 7 + b"{}"]
)
def test_a_file_that_is_not_ours_is_not_replaced(tmp_path, content):
    (tmp_path / "kept").write_bytes(content)
    with pytest.raises(InputError, match="kept: is no perfvec-trace file"):
        require_output(tmp_path / "kept", "perfvec-trace")


def test_an_empty_file_or_none_is_no_loss(tmp_path):
    require_output(tmp_path / "new", "perfvec-trace")
    (tmp_path / "empty").touch()
    require_output(tmp_path / "empty", "perfvec-trace")
