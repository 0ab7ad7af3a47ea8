"""The line of an error, checked."""

from collections.abc import Callable

import pytest

from support.errors import InputError


def message(action: Callable[[], object]) -> str:
    """The one line of the InputError that an action raises."""
    with pytest.raises(InputError) as caught:
        action()
    text = str(caught.value)
    assert "\n" not in text
    return text
