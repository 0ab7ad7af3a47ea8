"""Confidence in predictions: distance from the training set, and intervals calibrated on held-out programs."""
