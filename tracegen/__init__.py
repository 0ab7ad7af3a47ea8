"""Runs become data: tracing, decoding, stack distances, branch entropies, features, labels."""
