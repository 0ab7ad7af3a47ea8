"""Contents of executables: ELF, DWARF, the source line of an address."""
