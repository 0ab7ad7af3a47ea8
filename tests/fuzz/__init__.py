"""Mutated files, and commands that are killed. `make fuzz` has ten times the cases of the tests, and more."""

import os

CASES = int(os.environ.get("FUZZ_CASES", "1000"))  # of a test that damages one kind of input
