"""Trace-driven timing: when each executed instruction retires on a machine.

`simulation.Simulation` is the way in. `static` turns instructions into table rows, `out_of_order` and `in_order` hold
the two cores, `frontend` what they share, `caches` and `memory` the hierarchy, `ports` the contention for units, and
`predictors` the branch predictors. All state is in numpy arrays, so chunks of any size continue one another.
"""
