"""Machines as vectors: the encoder of configurations, vectors fitted to labels or times, and their uncertainty."""
