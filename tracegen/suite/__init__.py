"""A catalogue of workloads: real programs and small kernels with generated inputs, traced side by side, resumably."""

from __future__ import annotations

from tracegen.suite.table import table
from tracegen.suite.tracing import Traced, run
from tracegen.suite.workloads import Workload, catalogue, packages_missing, select

__all__ = ["Traced", "Workload", "catalogue", "packages_missing", "run", "select", "table"]
