"""Two tiny operators, four schedules each, really measured: once for all tests and processes."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import made_once

OPERATORS = ("matmul:16x16x16", "softmax:8x8")


@pytest.fixture(scope="session")
def collected(tvm: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with its work file and TVM's database; to change, a test copies the folder."""
    from tracegen.tensor.collect import collect
    from tracegen.tensor.finish import finish
    from tracegen.tensor.plan import Plan

    def make(folder: Path) -> None:
        plan = Plan(operators=OPERATORS, devices=("x86-64-v2",), schedules=4, round=2, again=0.5, budget_s=0.02)
        collect(plan, folder / "tiny.tensor.h5", progress=False)
        finish(folder / "tiny.tensor.h5", progress=False)

    return made_once(tmp_path_factory, "collected", make) / "tiny.tensor.h5"
