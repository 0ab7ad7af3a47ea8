import pytest

from uarch.text import parse_json


@pytest.mark.parametrize("text", ["{]", "[" * 100_000, "9" * 5000, b"\xff"])
def test_every_fault_of_json_is_a_value_error(text):
    with pytest.raises(ValueError):
        parse_json(text)
