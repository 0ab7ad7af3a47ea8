"""The release that is installed."""

from __future__ import annotations


def release() -> str:
    """Return the toolkit's version, or "0 (a checkout that is not installed)"."""
    from importlib.metadata import PackageNotFoundError, version  # a third of the time that importing perfvec takes

    try:
        return version("perfvec-toolkit")
    except PackageNotFoundError:
        return "0 (a checkout that is not installed)"
