"""Execute a notebook's code cells and keep their outputs, without Jupyter.

python tools/execute_notebook.py NOTEBOOK [-o FILE]. A cell's output is what it prints and, of the value of its last
expression, a picture, a table or its repr (nbformat 4.5). The first error ends it, with the cell's number.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def execute(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with new outputs. Whatever a cell raises is raised, with a note of which cell it was."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            try:
                cell = {**cell, "execution_count": number, "outputs": _run("".join(cell["source"]), namespace, number)}
            except BaseException as error:
                print(f"cell {number}: {error!r}", file=sys.stderr)
                raise
        cells.append(cell)
    return {**notebook, "cells": cells}


def _run(source: str, namespace: dict[str, Any], number: int) -> list[dict[str, Any]]:
    tree = ast.parse(source, f"cell {number}")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    if value is not None:
        outputs.append(
            {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": _shown(value)}
        )
    return outputs


def _shown(value: Any) -> dict[str, Any]:
    data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(keepends=True)
    if hasattr(value, "_repr_png_"):
        data["image/png"] = base64.b64encode(value._repr_png_()).decode()
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description="Execute a notebook and keep its outputs.")
    parser.add_argument("notebook", type=Path)
    parser.add_argument("-o", "--output", type=Path, help="Where to; in place by default.")
    options = parser.parse_args()
    executed = execute(json.loads(options.notebook.read_text()))
    (options.output or options.notebook).write_text(json.dumps(executed, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
