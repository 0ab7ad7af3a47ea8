"""Live-points: sampled units of a run, with what warms any machine, in one file (README.md)."""
