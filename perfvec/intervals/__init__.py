"""Confidence in predictions: distance from the training set, and intervals calibrated on programs that were left out.
"""
