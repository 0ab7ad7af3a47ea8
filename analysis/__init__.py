"""The architect's questions: predict, sweep, compare; as tables and as pictures."""
