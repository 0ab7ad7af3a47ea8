import pytest

from support.errors import InputError
from support.text import parse_json


@pytest.mark.parametrize("text", ["{]", "[" * 100_000, "9" * 5000, b"\xff"])
def test_every_fault_of_json_is_a_value_error(text):
    with pytest.raises(ValueError):
        parse_json(text)


def test_a_long_message_is_cut_in_the_middle():
    text = str(InputError(f"x.yaml: width = {'9' * 5000} must be positive"))
    assert text.startswith("x.yaml: width = 999") and text.endswith("999 must be positive") and len(text) < 700
    assert str(InputError("short")) == "short"
