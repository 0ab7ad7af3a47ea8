"""Tensor programs as data: tasks, candidate schedules, measured latencies, and features of scheduled programs."""
