"""Words and numbers in text that is scanned as bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.jit import cached


def encoded(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


@cached(nogil=True)
def begins(text: NDArray[np.uint8], at: int, end: int, word: NDArray[np.uint8]) -> bool:
    """Return whether `word` begins at `at`."""
    if at < 0 or at + len(word) > end:
        return False
    for i in range(len(word)):  # noqa: SIM110 (compiled)
        if text[at + i] != word[i]:
            return False
    return True


@cached(nogil=True)
def decimal(text: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """The number that begins at `at` (-1 for none or one beyond 18 digits), and where it ends."""
    begin = at
    value: Any = np.int64(0)
    while at < end and np.uint8(text[at] - 48) < 10:
        value = value * 10 + np.int64(text[at] - 48)
        at += 1
    if at == begin or at - begin > 18:
        value = np.int64(-1)
    return value, at


@cached(nogil=True)
def hexadecimal(text: NDArray[np.uint8], at: int, end: int) -> tuple[int, int, int]:
    """The bits of the number after `0x` at `at`, where it ends, and its digits (0 for none)."""
    value: Any = np.int64(0)
    if at + 3 > end or text[at] != 48 or text[at + 1] != 120:
        return value, at, 0
    at += 2
    begin = at
    while at < end:
        digit = np.int64(text[at]) - 48
        if digit > 9:
            digit -= 39
            if digit < 10:
                break
        if digit < 0 or digit > 15:
            break
        value = value << 4 | digit
        at += 1
    return value, at, at - begin


@cached(nogil=True)
def line_end(text: NDArray[np.uint8], at: int, length: int) -> int:
    """Return where the line feed after `at` is, `length` where there is none before."""
    while at < length and text[at] != 10:
        at += 1
    return at


@cached(nogil=True)
def number_before(text: NDArray[np.uint8], end: int) -> int:
    """Return where the digits that end at `end` begin."""
    while end > 0 and np.uint8(text[end - 1] - 48) < 10:
        end -= 1
    return end
