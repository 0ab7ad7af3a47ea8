"""`python -m perfvec` is the `perfvec` command."""

from perfvec.cli import main

main()
