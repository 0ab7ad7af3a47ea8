"""Answers within a budget of seconds: simulated, corrected, or the model's."""
