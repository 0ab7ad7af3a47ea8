"""`python -m analysis.cli` is the `perfvec` command."""

from analysis.cli.main import main

main()
