"""The architect's questions, a module each."""
