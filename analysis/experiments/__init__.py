"""Experiments of the literature, repeated with this toolkit; EXPERIMENTS.md has their results."""
