"""Machines to and from gem5 v23 and v24 (gem5.org; Lowe-Power et al., arXiv 2007.03152): `table` says which parameter a
field sets, `simulated` which machine stock gem5 simulates for one, `script` writes a gem5 configuration from a machine,
`config` reads a machine from the objects (`objects`) in the `config.json` of a run.
"""
