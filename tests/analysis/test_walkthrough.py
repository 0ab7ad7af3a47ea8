"""The notebook's cells run from top to bottom, and what is kept of them is small."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "analysis" / "walkthrough.ipynb"


def test_the_notebook_runs(tmp_path):
    output = tmp_path / "out.ipynb"
    found = subprocess.run(
        [sys.executable, "tools/execute_notebook.py", str(NOTEBOOK), "-o", str(output)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "INSTRUCTIONS": "4000", "PYTHONPATH": str(ROOT)},
    )
    assert found.returncode == 0, found.stderr[-2000:]
    cells = [cell for cell in json.loads(output.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert sum("image/png" in result.get("data", {}) for cell in cells for result in cell["outputs"]) == 3


def test_what_is_kept_is_small():
    assert NOTEBOOK.stat().st_size < 500_000
