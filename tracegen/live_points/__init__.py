"""Live-points: sampled units of a run, with what warms any machine, in one file (docs/explanation/live-points.md)."""

# Defined here so that the command line reads them without NumPy.
UNITS = 384  # that are simulated, by default
LEAST_UNITS = 64
