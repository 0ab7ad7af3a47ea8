"""Live-points: sampled units of a run, with what warms any machine, in one file (docs/explanation/live-points.md)."""
