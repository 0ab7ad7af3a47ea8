"""What executables hold: ELF, DWARF, the source line of an address."""
