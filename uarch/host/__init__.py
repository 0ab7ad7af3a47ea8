"""This computer as a machine: what it tells, what is measured, and what is assumed of the nearest preset.

counters.py      the kernel's counters of cycles and missed branches, where it has them
told.py          processor, caches, features, as the kernel and CPUID tell them
probes.c         micro-benchmarks: pointer chases, bandwidth, snippets of assembly
snippets.py      the snippets: chains, throughputs, windows, branches
probe.py         builds the program, runs it, medians and spread
measure.py       every measurement, as curves and numbers
describe.py      the machine, with the origin of every field
machine_file.py  the machine as a YAML file whose comments name the origins
"""
