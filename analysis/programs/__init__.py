"""Programs that are asked about: traces, live-points, vectors."""
