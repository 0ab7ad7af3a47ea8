"""The first words of a page: one number, the answer in a sentence, and where the number comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Headline", "count", "duration", "interval", "joined", "percent", "time_unit"]
_TIMES = ((1.0, "s"), (1e3, "ms"), (1e6, "µs"), (1e9, "ns"))
_COUNTS = ((1e9, "billion"), (1e6, "million"), (1.0, ""))


@dataclass(frozen=True)
class Headline:
    """The head of a page: `number` and `unit` in large letters, the answer in one `sentence`, and its `source`.

    `source` names how the number was found and its interval, as "simulated" or "corrected, 90 % interval −3 % to +4 %".
    """

    number: str
    unit: str
    sentence: str
    source: str


def time_unit(seconds: float) -> tuple[str, float]:
    """The unit in which a time is at least 1, and its number in a second: ("ms", 1e3)."""
    return next(((unit, factor) for factor, unit in _TIMES if abs(seconds) * factor >= 1), ("ns", 1e9))


def duration(seconds: float) -> tuple[str, str]:
    """A time of three digits in the unit in which it is at least 1: ("0.93", "ms")."""
    unit, factor = time_unit(seconds)
    return _three(seconds * factor), unit


def count(number: float) -> str:
    """A count in words of three digits: "4.64 million"."""
    for size, word in _COUNTS:
        if abs(number) >= size:
            return f"{_three(number / size)} {word}".rstrip() if word else f"{number:,.0f}"
    return f"{number:.3g}"


def percent(share: float) -> str:
    """A share of 1 with the digits that tell: "58.8 %", "0.42 %"."""
    return f"{100 * share:.1f} %" if abs(share) >= 0.0995 else f"{100 * share:.2g} %"


def interval(value: float, low: float, high: float, level: float) -> str:
    """The interval of a number as a page tells it: "90 % interval −3 % to +4 %"; "no interval" where none is known."""
    if not low < high:
        return "no interval"
    ends = " to ".join(f"{100 * (end / value - 1):+.1f} %" for end in (low, high))
    return f"{100 * level:g} % interval {ends}".replace("-", "−")


def joined(names: Sequence[str], most: int = 3) -> str:
    """Names as a list in a sentence; of many the number."""
    if len(names) > most:
        return f"{len(names)} programs"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _three(value: float) -> str:
    """Three digits, and all of the whole part."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
