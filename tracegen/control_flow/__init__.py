"""The shape of a run: basic blocks, edges, loops, calls, phases."""
