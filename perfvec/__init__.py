"""Learning: the instruction foundation model, machine vectors, program vectors."""
