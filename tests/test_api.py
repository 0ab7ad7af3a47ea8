"""The Python API: its examples run, `import perfvec` stays light, errors are one line."""

import doctest
import importlib.metadata
import json
import lzma
import pickle
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import perfvec as pv
from analysis import api
from analysis.questions.simulate import SimulationResult, Stack
from analysis.questions.sweep import Sweep
from tests.command import succeeding
from tests.tracegen.gem5 import gem5_runs
from tracegen.suite.inputs import compile_c
from uarch.configuration import Machine
from uarch.machine_files import load_machine, save_machines

KERNELS = Path(__file__).parents[1] / "tracegen" / "suite" / "kernels"
HEAVY = ("torch", "pandas", "numpy", "matplotlib", "plotly", "h5py", "scipy", "analysis")
_FINDER = doctest.DocTestFinder()
_CLASSES = {"Result": pv.Result, "Error": pv.Error, "Machine": Machine, "Stack": Stack, "Sweep": Sweep}
_CLASSES |= {"SimulationResult": SimulationResult}
EXAMPLES = [
    test
    for found in (_FINDER.find(api, "pv"), *(_FINDER.find(one, f"pv.{name}") for name, one in _CLASSES.items()))
    for test in found
    if test.examples
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two traces, T and U, a machine file, a run of gem5 and a ChampSim trace, as examples have it."""
    folder = tmp_path_factory.mktemp("examples")
    for name, kernel, argument in (("T", "qsort", "800"), ("U", "matmul", "24")):
        compile_c(KERNELS / f"{kernel}.c", folder / kernel, ["-static", "-g"])
        pv.trace([str(folder / kernel), argument], folder / f"{name}.trace.h5", max_instructions=20_000)
    save_machines([load_machine("zen4").with_(name="my", l2__size_kib=2048)], folder)
    gem5_runs.copy("o3", folder / "m5out")
    (folder / "touch").symlink_to(gem5_runs.PROGRAM)
    records = b"".join(struct.pack("<Q56x", 0x400000 + 4 * k) for k in range(1001))  # no branches, nothing accessed
    (folder / "line.champsimtrace.xz").write_bytes(lzma.compress(records, preset=0))
    return folder


def loaded_by(statement):
    """Return which heavy modules a fresh interpreter has after the statement, and the seconds that it took."""
    code = (
        "import sys, time; began = time.perf_counter()\n"
        f"{statement}\n"
        f"print(time.perf_counter() - began, *[name for name in {HEAVY!r} if name in sys.modules])"
    )
    seconds, *names = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    return float(seconds), names


def test_the_import_is_light():
    tries = [loaded_by("import perfvec") for _ in range(3)]
    assert all(names == [] for _, names in tries)
    assert min(seconds for seconds, _ in tries) < 0.3


def test_a_machine_needs_no_tensors():
    _, names = loaded_by("import perfvec as pv; pv.machine('zen4').with_(l2__size_kib=1024)")
    assert not {"torch", "pandas", "matplotlib", "plotly", "h5py"} & set(names)


def test_a_machine_is_what_its_file_holds():
    zen4 = pv.machine("zen4")
    assert pv.machine(zen4.to_dict()) == zen4
    with pytest.raises(pv.Error, match="core cannot vary"):
        pv.sweep("T.trace.h5", base="zen4", vary={"core": ["in-order"]})


def test_every_name_is_there_and_documented():
    for name in pv.__all__:
        value = getattr(pv, name)
        assert name == "__version__" or value.__doc__
    assert set(pv.__all__) - {"__version__"} <= set(api.__all__)
    assert set(pv.__all__) <= set(dir(pv))
    assert pv.__version__ == importlib.metadata.version("perfvec-toolkit")
    submodules = {path.stem for path in Path(pv.__file__).parent.iterdir()} - {"__init__"}
    assert not submodules & set(pv.__all__)  # importing one would hide the function
    with pytest.raises(AttributeError, match="no attribute 'predicted'"):
        _ = pv.predicted


def test_every_question_has_an_example():
    named = {example.name.split(".")[1] for example in EXAMPLES}
    assert {*pv.__all__, *_CLASSES} - {"__version__"} <= named


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples_of_docstrings(example, folder, monkeypatch):
    monkeypatch.chdir(folder)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    report = []
    runner.run(example, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


@pytest.mark.slow
def test_the_snippet(folder, tmp_path, monkeypatch):
    """The page of docs/reference/api.md, on a real program."""
    monkeypatch.chdir(folder)
    (tmp_path / "records.csv").write_text("".join(f"{k},{k * 7919 % 1000}\n" for k in range(2000)))
    trace = pv.trace(["gzip", "-c", str(tmp_path / "records.csv")], max_instructions=50_000)
    assert trace.path.exists()
    program = pv.represent(trace)
    predicted = pv.predict(program, machines=["zen4", "my.yaml"])
    assert list(predicted.table["uarch"]) == ["zen4", "my"]
    assert set(predicted.table["source"]) == {"simulated"}

    swept = pv.sweep(program, base="zen4", vary={"l2.size_kib": [256, 512, 1024]}, budget=20)
    assert sorted(swept.table["l2.size_kib"]) == [256, 512, 1024]
    simulation = pv.simulate(trace, "zen4")
    functions = simulation.stack.by("function")
    for parts in (functions, simulation.stack.by("context"), simulation.stack.by("instruction")):
        assert parts.table["cycles.zen4"].sum() == simulation.table["cycles"].sum()
    assert simulation.table["cycles"].sum() == predicted.table["cycles"].iloc[0]
    compared = pv.compare([program, "T.trace.h5", pv.load("U.trace.h5")])
    assert compared.table.shape == (3, 3)
    assert pv.profile(trace, "zen4").table["instructions"].sum() == 50_000
    assert pv.machine("zen4").with_(l2__size_kib=1024).l2.size_kib == 1024
    path = trace.path
    del trace, program, simulation, functions, parts, swept
    assert not path.exists()  # a temporary trace goes with the last object that needs it


def test_a_result_has_every_form(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    result = pv.predict(["T.trace.h5", "U.trace.h5"], ["zen4", "cortex-a53"])
    assert json.loads(result.to_json()) == json.loads(result.to_json(tmp_path / "r.json")) == result.json
    assert result.to_csv(tmp_path / "r.csv").startswith("program,uarch,instructions,cycles,seconds")
    assert "low_cycles" in result.table
    assert "<html" in result.to_html(tmp_path / "r.html")
    assert len(result.figure().axes) == 1
    assert result.to_picture(tmp_path / "r.svg").exists()
    assert max(map(len, str(result).splitlines())) <= 80
    assert "<svg" in result._repr_html_() and "<table" in result._repr_html_()
    for file in ("r.json", "r.csv", "r.html"):
        assert (tmp_path / file).stat().st_size


@pytest.mark.slow
def test_the_command_prints_the_api(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for words, result in (
        (["predict", "T.trace.h5", "--uarch", "zen4"], pv.predict("T.trace.h5", "zen4")),
        (["simulate", "T.trace.h5", "--uarch", "zen4"], pv.simulate("T.trace.h5", "zen4")),
        (["profile", "T.trace.h5", "--uarch", "zen4"], pv.profile("T.trace.h5", "zen4")),
        (["compare", "T.trace.h5", "U.trace.h5"], pv.compare(["T.trace.h5", "U.trace.h5"])),
    ):
        for option, expected in (([], result.text()), (["--json"], result.to_json())):
            assert succeeding(*words, *option) == expected + "\n"


@pytest.mark.parametrize(
    ("question", "told"),
    [
        (lambda: pv.machine("zen5"), "zen5 is neither a preset"),
        (lambda: pv.machine("zen4").with_(l2__size=3), "unknown field l2.size"),
        (lambda: pv.trace("gzip -c"), "a command is a list of words"),
        (lambda: pv.trace([]), "no program to trace"),
        (lambda: pv.load("none.trace.h5"), "none.trace.h5"),
        (lambda: pv.predict([], "zen4"), "no program"),
        (lambda: pv.sweep("T.trace.h5", base="zen4"), "an empty sweep"),
        (lambda: pv.profile("T.trace.h5", None), "say on which machine"),
        (lambda: pv.profile("T.trace.h5", "zen4", "colour"), "colour"),
        (lambda: pv.simulate("T.vector.npz", "zen4"), "a vector cannot be simulated"),
        (lambda: pv.simulate(["T.trace.h5", "U.trace.h5"], "zen4").stack.by("function"), "is of one trace"),
        (lambda: pv.attribute("T.trace.h5", "zen4.machine.npz"), "a fitted vector cannot be simulated"),
        (lambda: pv.characterise("T.trace.h5").figure(), "has no picture"),
        (lambda: pv.predict("T.trace.h5", ["zen4", "zen4"]), "must have different names"),
        (lambda: pv.predict(["T.trace.h5", "./T.trace.h5"], "zen4"), "./T.trace.h5: is named twice"),
        (lambda: pv.predict(None, "zen4"), "no program"),
        (lambda: pv.simulate([], "zen4"), "no program"),
        (lambda: pv.simulate("T.trace.h5", 3), "3: is no machine"),
        (lambda: pv.simulate("T.trace.h5", "zen4", count=0), "count = 0 must be at least 1"),
        (lambda: pv.simulate("T.trace.h5", "zen4", start=-1), "start = -1 must be at least 0"),
        (lambda: pv.simulate("T.trace.h5", "zen4", warmup=-1), "warmup = -1 must be at least 0"),
        (lambda: pv.sweep("T.trace.h5", base="zen4", vary={"l2.size_kib": 512}), "must be a list of values, as [512]"),
        (lambda: pv.sweep("T.trace.h5", base="zen4", vary={"l2.size_kib": "512"}), "must be a list of values"),
        (lambda: pv.sweep("T.trace.h5", base="zen4", vary={"l2.size_kib": [512]}, count=0), "count = 0 must be"),
        (lambda: pv.phases("T.trace.h5", interval=0), "interval = 0 must be at least 1"),
        (lambda: pv.phases("T.trace.h5", most=0), "most = 0 must be at least 1"),
        (lambda: pv.live_points("T.trace.h5", seed=-1), "seed = -1 must be at least 0"),
        (lambda: pv.profile("T.trace.h5", "zen4", rows=0), "rows = 0 must be at least 1"),
        (lambda: pv.sweep("T.trace.h5", base="zen4", vary={"l2.size_kib": [512]}, best=0), "best = 0 must be"),
        (lambda: pv.sweep("T.trace.h5", space="default", sample=8, seed=-3), "seed = -3 must be at least 0"),
        (lambda: pv.compare(["T.trace.h5"], library="suite", nearest=0), "nearest = 0 must be at least 1"),
        (lambda: pv.characterise("T.trace.h5", max_instructions=0), "max_instructions = 0 must be"),
        (lambda: pv.simulate("T.trace.h5", "zen4", threads=0), "threads = 0 must be at least 1"),
        (lambda: pv.simulate(["T.trace.h5", "T.trace.h5"], "zen4"), "T.trace.h5: is named twice"),
        (lambda: pv.phases("T.trace.h5", interval=1e3), "interval = 1000.0 must be a whole number"),
        (lambda: pv.trace(["true"], max_instructions=1e3), "max_instructions = 1000.0 must be a whole number"),
        (lambda: pv.trace(["echo", 3]), "words are texts or paths, as '3', not 3"),
        (lambda: pv.predict("T.trace.h5", []), "no machine: name one or more"),
        (
            lambda: pv.simulate(pv.represent("T.trace.h5", max_instructions=9000), "zen4"),
            "represents 9,000 instructions",
        ),
    ],
)
def test_errors_are_one_line(folder, monkeypatch, question, told):
    monkeypatch.chdir(folder)
    with pytest.raises(pv.Error) as raised:
        question()
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_a_run_lost_is_told(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.warns(UserWarning, match="child processes that are not recorded: 1"):
        found = pv.trace(["sh", "-c", "true & wait; exit 3"])
    assert found.exit_status == 3 and len(found.notes) == 1
    with pytest.warns(UserWarning, match="the program became .* which is not traced"):
        pv.trace(["sh", "-c", "exec true"])
    with pytest.warns(UserWarning, match="sh: ended by signal 11"):
        found = pv.trace(["sh", "-c", "kill -SEGV $$"], "killed.trace.h5")
    assert pv.load("killed.trace.h5").notes == found.notes
    for question in (pv.simulate, pv.predict, pv.profile):
        assert question(found, "zen4").notes[:1] == found.notes
        assert found.notes[0][:40] in str(question(found, "zen4"))
    assert pv.trace([Path("/bin/true"), folder], max_instructions=1000).notes == ()


def test_an_interrupted_run_is_no_trace_that_one_asked_for(folder):
    code = (
        "import os, signal, threading, perfvec as pv\n"
        "threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "pv.trace(['sh', '-c', 'while :; do :; done'])\n"
        "print('went on')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode in (1, -signal.SIGINT)
    assert "KeyboardInterrupt" in done.stderr and done.stdout == ""


def test_an_import_says_what_it_assumed_and_checked(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert "agrees with stats.txt" in pv.import_gem5("m5out", program="touch").notes


def test_what_represents_a_trace_is_a_program_for_every_question(folder, monkeypatch):
    monkeypatch.chdir(folder)
    program = pv.represent("T.trace.h5")
    cycles = int(pv.simulate("T.trace.h5", "zen4").table["cycles"].sum())
    assert pv.simulate([program], "zen4").table["cycles"].sum() == cycles
    assert pv.profile(program, "zen4").table["cycles.zen4"].sum() == cycles
    assert pv.diff(program, program, "zen4").table["difference.zen4"].abs().max() == 0
    assert pv.characterise(program).json == pv.characterise("T.trace.h5").json
    program.save("alone.vector.npz")
    with pytest.raises(pv.Error, match="a vector holds no instructions"):
        pv.simulate(pv.load("alone.vector.npz"), "zen4")


def test_a_stack_keeps_the_temporary_trace_that_its_parts_need(folder, monkeypatch):
    monkeypatch.chdir(folder)
    simulation = pv.simulate(pv.trace(["true"], max_instructions=20_000), "zen4")
    assert simulation.stack.by("function").table["cycles.zen4"].sum() == simulation.table["cycles"].sum()


def test_machines_are_any_series_of_them(folder, monkeypatch):
    monkeypatch.chdir(folder)
    names = ["zen4", "zen2"]
    expected = list(pv.predict("T.trace.h5", names).table["cycles"])
    for machines in (np.array(names), pd.Series(names), (pv.machine(name) for name in names)):
        assert list(pv.predict("T.trace.h5", machines).table["cycles"]) == expected
    sizes = [pv.machine("zen4").with_(l2__size_kib=size) for size in np.array([512, 2048])]
    assert [machine.l2.size_kib for machine in sizes] == [512, 2048]


def test_what_a_reader_does_to_a_table_changes_no_text(folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = pv.profile("T.trace.h5", "zen4")
    before = str(result), result.to_json()
    result.table["cycles.zen4"] = 0
    assert (str(result), result.to_json()) == before


@pytest.mark.parametrize(
    "ask",
    [
        lambda: pv.simulate("T.trace.h5", ["zen4", "base"]),
        lambda: pv.sweep("T.trace.h5", base="zen4", vary={"l2.size_kib": [512, 1024]}, budget=1),
        lambda: pv.compare(["T.trace.h5", "U.trace.h5"]),
        lambda: pv.report("T.trace.h5", ["zen4"]),
    ],
)
def test_a_result_can_be_pickled(folder, monkeypatch, ask):
    monkeypatch.chdir(folder)
    result = ask()
    again = pickle.loads(pickle.dumps(result))
    assert type(again) is type(result) and str(again) == str(result)
    assert again.to_json() == result.to_json() and again.to_html() == result.to_html()
    pd.testing.assert_frame_equal(again.table, result.table)
    if result.picture is not None:
        assert len(again.figure().axes) == len(result.figure().axes)
    if isinstance(result, SimulationResult):
        assert again.stack.by("function").to_json() == result.stack.by("function").to_json()


def test_points_that_are_left_out_are_told_in_every_form(folder, monkeypatch):
    monkeypatch.chdir(folder)
    swept = pv.sweep("T.trace.h5", base="zen4", vary={"pipeline.rob_entries": [16, 320, 512]})
    assert len(swept.table) == 2
    assert "1 of 3 points" in str(swept) and "1 of 3 points" in swept.to_html()


def test_latencies_that_a_family_replaces_are_told(folder, monkeypatch):
    monkeypatch.chdir(folder)
    fields = {"functional_units.mul_latency": [3, 7], "l2.latency": [10, 14]}
    told = "functional_units.mul_latency: microcode zen4 has latencies of its own, so this changes next to nothing"
    assert told in pv.sweep("T.trace.h5", base="zen4-native", vary=fields).notes
    assert not any("latencies of its own" in note for note in pv.sweep("T.trace.h5", base="zen4", vary=fields).notes)


def test_a_copy_of_a_preset_is_named_after_its_file(folder, monkeypatch):
    monkeypatch.chdir(folder)
    save_machines([load_machine("zen4")], "copies")
    (folder / "copies" / "zen4.yaml").rename("copy.yaml")
    for question in (api.simulable, lambda machines: api.predictable(None, machines)):
        assert [machine.name for machine in question(["zen4", "copy.yaml", "my.yaml"])] == ["zen4", "copy", "my"]
        assert [machine.name for machine in question("copy.yaml")] == ["zen4"]
    for command in ("predict", "simulate"):
        printed = succeeding(command, "T.trace.h5", "--uarch", "zen4", "--uarch", "copy.yaml")
        assert {"zen4", "copy"} <= set(printed.split())


@pytest.mark.slow
def test_live_points_have_parts(folder, monkeypatch):
    monkeypatch.chdir(folder)
    points = pv.live_points("T.trace.h5", units=64)
    simulation = pv.simulate(points, "zen4")
    parts = simulation.stack.by("function").table
    assert parts["cycles.zen4"].sum() == pytest.approx(simulation.table["cycles"].iloc[0])
    assert pv.load(points).instructions == 20_000


def test_a_function_is_traced(tmp_path):
    compile_c(KERNELS / "qsort.c", tmp_path / "qsort", ["-static", "-O1"])
    whole = pv.trace([str(tmp_path / "qsort"), "50"])
    part = pv.trace([str(tmp_path / "qsort"), "50"], tmp_path / "part.trace.h5", region="sort")
    assert 0 < part.instructions < whole.instructions
    assert part.path == tmp_path / "part.trace.h5"


@pytest.mark.parametrize("budget", [float("nan"), -1])
def test_a_budget_is_seconds(folder, budget):
    with pytest.raises(pv.Error, match=r"budget = .*: give seconds, 0 or more"):
        pv.predict(folder / "T.trace.h5", "zen4", budget=budget)
