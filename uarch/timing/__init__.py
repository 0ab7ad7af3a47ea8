"""Trace-driven timing: when each executed instruction retires on a machine.

`simulation.Simulation` is the entry point. `static` turns instructions into table rows and `stack` names the causes of
a CPI stack. The model itself is C++ (`core/`, compiled as `_core`): `core/pipeline` has the two cores, `core/branch`
the branch predictors, `core/cache` and `core/memory` the memory hierarchy. State lives in the `Simulation`, so a stream
may come in chunks of any size. `_core.parts` has single parts of the model for tests and exploration.
"""
