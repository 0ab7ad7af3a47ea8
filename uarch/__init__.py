"""Machines: configuration, presets, the design space, and the trace-driven timing model that labels traces."""
