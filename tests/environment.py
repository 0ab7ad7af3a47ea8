"""An environment for traced programs, whose run would otherwise depend on where and how the tests are run."""

from __future__ import annotations


def environment(variables: int) -> dict[str, str]:
    """So many variables of equal length. The C library takes some 500 instructions for each before `main`."""
    return {f"VARIABLE_{k}": "x" * 20 for k in range(variables)}
