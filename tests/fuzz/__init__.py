"""Every reader on mutated files: `python -m tests.fuzz.run`, and a short form of it in `tests/test_fuzz.py`."""
