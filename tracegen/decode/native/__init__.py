"""Micro-operations of real processors, by an instruction's form.

`x86_64_form.py` and `aarch64_form.py` say what the form of an instruction is, `table.py` reads a family's table
(`zen3.json`, …, written by tools/write_native_micro_operations.py from LLVM's scheduling models), `crack.py` gives
static instructions a family's micro-operations instead of gem5's, by the rules of the instruction set (`x86_64.py`,
`aarch64.py`).
"""
