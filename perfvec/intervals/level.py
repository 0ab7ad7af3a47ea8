"""Level: the probability with which an interval shall hold."""

from __future__ import annotations

import math

from support.errors import InputError

DEFAULT_LEVEL = 0.9


def require_level(level: float) -> None:
    """Raises InputError unless an interval can have this level."""
    if not 0.5 <= level < 1.0:
        raise InputError(f"--level {level:g}: an interval holds with a probability from 0.5 to below 1, as 0.9")


def least_groups(level: float) -> int:
    """Return the number K of programs (or machines) that a finite quantile needs: K / (K + 1) ≥ level."""
    return math.ceil(level / (1 - level) - 1e-9)
