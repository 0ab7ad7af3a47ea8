"""Parts of a program, and what each costs on a machine."""
