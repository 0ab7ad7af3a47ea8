"""Command that examines this computer."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import asdict

import typer

from analysis.cli.options import Json
from analysis.cli.output import print_json

app = typer.Typer()


@app.command("doctor")
def doctor(as_json: Json = False) -> None:
    """Check this computer for what the toolkit uses. Status 1 means that tracing or predicting will not work."""
    from perfvec.doctor import examine

    found = []
    for finding in examine():
        found.append(finding)
        if not as_json:
            line = f"{finding.state:8}{finding.what:18}{finding.detail}"
            print(textwrap.fill(line, 80, subsequent_indent=26 * " ", break_on_hyphens=False), flush=True)
    if as_json:
        print_json([asdict(finding) for finding in found])
    if any(finding.state == "missing" for finding in found):
        sys.exit(1)
