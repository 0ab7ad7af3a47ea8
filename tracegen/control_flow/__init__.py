"""The shape of a run: basic blocks, edges, loops, calls, phases."""

MOST_PHASES = 30  # defined here so that the command line reads it without Numba
