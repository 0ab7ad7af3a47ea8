"""This computer as a machine, and times on it beside predictions."""
