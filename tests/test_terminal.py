"""Tables of the main commands fit a terminal of 80 columns."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pandas as pd
import pytest

from analysis.cli.main import main
from analysis.results.result import table_text
from analysis.results.text import columns
from tests.analysis.vectors import program
from tests.command import INSTALLED
from uarch.machine_files import preset_names

PARTS = Path(__file__).parent / "analysis" / "parts.c"
DATASET = Path(__file__).parent / "perfvec" / "tensor" / "data" / "x86-64.tensor.h5"
COMMANDS = [
    "",
    "--help",
    "sweep --help",
    "doctor",
    "suite list",
    "uarch list",
    "uarch spaces",
    "uarch diff zen2 zen4",
    "uarch show zen4",
    "predict T.trace.h5 --uarch zen4 --uarch cortex-a53 --uarch neoverse-n1",
    "predict a-program-of-mine.vector.npz another.vector.npz",
    "simulate T.trace.h5 --uarch zen4",
    "simulate T.trace.h5",
    "simulate T.trace.h5 --stack",
    "profile T.trace.h5 --uarch zen4 --simulate",
    "profile T.trace.h5 --uarch zen4 --by line --simulate",
    "profile T.trace.h5 --uarch zen4-native --by class --simulate",
    "profile T.trace.h5 --uarch zen4 --uarch cortex-a53 --by loop --simulate",
    "profile T.trace.h5 --uarch zen4 --annotate divide --simulate",
    "diff T.trace.h5 U.trace.h5 --uarch zen4 --simulate",
    "attribute another.vector.npz --uarch zen4 --uarch cortex-a53",
    "sweep T.trace.h5 --base zen4 --vary l2.size_kib=512,1024 --vary l1d.size_kib=32,64 --cost l2.size_kib",
    "sweep a-program-of-mine.vector.npz another.vector.npz --space default --sample 200 --cost l2.size_kib",
    "compare a-program-of-mine.vector.npz another.vector.npz --library suite",
    "subset a-program-of-mine.vector.npz another.vector.npz third.vector.npz -k 2 --sample 20",
    "characterise T.trace.h5",
    "phases T.trace.h5 --interval 5000",
    "phases T.trace.h5 --interval 1000",
    "suite table .",
    f"tensor card {DATASET}",
    f"tensor limits {DATASET}",
    f"tensor select {DATASET} -o part.tensor.h5 --judge mean --seeds 1",
    f"tensor train {DATASET} --model mean -o mean.safetensors",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terminal")
    for name, flags in (("T", []), ("U", ["-DMORE"])):
        subprocess.run(["gcc", "-O1", "-g", "-static", *flags, "-o", folder / name, PARTS], check=True)
        command = [*INSTALLED, "trace", "-o", f"{name}.trace.h5", "--", f"./{name}"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    for seed, name in enumerate(("a-program-of-mine", "another", "third")):
        program(name, seed, 123_456_789).save(folder / f"{name}.vector.npz")
    return folder


@pytest.mark.parametrize("cycles", ["4,640,975", "7,154,077,123"])
def test_parts_with_many_cycles_fit_80_columns(cycles):
    shares = "ret fetch front branch exec loads ports full order".split()
    names = ["sum list.c:9 in a long name", "whole"]
    table = columns(["loop", "zen4", "share", *shares], [[name, cycles, "100.0%", *["0"] * 9] for name in names])
    assert max(map(len, table.splitlines())) <= 80
    assert all(cycles in line for line in table.splitlines()[1:])


@pytest.mark.parametrize("cycles", ["4,640,975", "10,564,077,123"])
def test_a_cause_is_cut_before_a_number(cycles):
    cause = "misprediction, found at execution"
    rows = [[name, cycles, cycles, f"-{cycles}", "-100.0%", cause] for name in ("__strcmp_avx2_rtm", "whole")]
    first = columns(["zen4", "old", "new", "change", "of all", ""], rows, remarks=True).splitlines()[1]
    assert len(first) <= 80 and first.count(cycles) == 3
    assert first.split("% ")[1].strip().startswith("misp") and first.endswith("ution")
    short_names = columns(["zen4", "old", "cause"], [["f", cycles, cause]], remarks=True)
    assert cause in short_names


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_fits_80_columns(command, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    try:
        main(command.split())
    except SystemExit as end:
        assert end.code in (0, None)
    printed = capsys.readouterr().out
    assert printed.strip()
    wide = [line for line in printed.splitlines() if len(line) > 80]
    assert not wide, "\n".join(wide)


def test_every_preset_is_in_the_widest_tables():
    assert len(preset_names()) >= 13  # what the commands above without --uarch print


def test_a_long_name_is_cut_before_a_table_is_split():
    names = ["first" + "x" * 60 + "last", "short"]
    lines = table_text(pd.DataFrame({"name": names, "calls": [1, 2], "predicted_s": [1e-5, 2.0]})).splitlines()
    assert len(lines) == 3 and max(map(len, lines)) <= 80
    assert lines[1].split()[0].startswith("firstx") and lines[1].split()[0].endswith("xlast")
    assert "…" not in table_text(pd.DataFrame({"name": names}))  # that fits
    wide = pd.DataFrame(columns=[letter * 30 for letter in "abc"])
    assert "a" * 30 in table_text(wide)  # of no rows
