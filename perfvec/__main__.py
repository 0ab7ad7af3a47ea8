"""`python -m perfvec` is the `perfvec` command."""

from analysis.cli.main import main

main()
