"""Experiments of the literature, repeated with this toolkit; docs/appendix/studies.md has the results."""
