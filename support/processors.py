"""Processors that this process may use."""

import os


def processors() -> int:
    """Return how many there are: those that the scheduler lets this process run on."""
    return len(os.sched_getaffinity(0))
