"""A reader of files, and those that it shall refuse."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.mutate import mutated, with_other_values


@dataclass(frozen=True)
class Reader:
    """`make` writes a file of the name, always the same; `read` gives what is in one, comparable by its repr.

    Of a `sealed` file nothing but the whole is read: one that is changed is refused, or gives what it gave before. Half
    of the mutations of a file with `values` are of the content of its datasets.
    """

    name: str
    make: Callable[[Path], object]
    read: Callable[[Path], object]
    sealed: bool = False
    text: bool = False
    values: bool = False

    def mutated(self, data: bytes, dice: random.Random) -> bytes:
        """The data of a file with a change."""
        if self.values and dice.random() < 0.5:
            return with_other_values(data, dice)
        return mutated(data, dice, text=self.text)
