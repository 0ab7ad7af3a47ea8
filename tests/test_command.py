"""The command line on real input: the whole line from a binary to predictions, and what wrong input says."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.command import INSTALLED, perfvec
from tests.digests import trace_digest
from tracegen.formats.trace import Trace

pytestmark = pytest.mark.slow


def test_smoke_from_a_binary_to_predictions(data, tmp_path):
    text = tmp_path / "text"
    text.write_text("".join(f"{number * 7919 % 1000}\n" for number in range(3000)))
    trace_file, vector_file = tmp_path / "t.trace.h5", tmp_path / "t.vector.npz"
    words = ["trace", "-o", trace_file, "--max-instructions", "30000", "--", "sort", "-n", text]
    traced = subprocess.run([*INSTALLED, *words], capture_output=True, text=True, check=False)
    assert traced.returncode == 0, traced.stderr
    with Trace(trace_file) as trace:
        assert len(trace) == 30_000
        assert trace.digest == trace_digest(trace.path)
    model = ("--model", data.model_file)
    assert perfvec("represent", trace_file, "-o", vector_file, *model).returncode == 0

    both = ("predict", vector_file, trace_file, "--uarch", "base", "--uarch", "zen4", "--json", *model)
    rows = json.loads(perfvec(*both, "--budget", 0).stdout)["predictions"]
    assert [row["uarch"] for row in rows] == ["base", "zen4", "base", "zen4"]
    assert "simulated" not in {row["source"] for row in rows}
    simulated = json.loads(perfvec(*both).stdout)["predictions"]
    assert [row["source"] for row in simulated[2:]] == ["simulated", "simulated"]
    assert simulated[:2] == rows[:2]
    assert rows[0]["cycles"] == pytest.approx(rows[2]["cycles"])
    assert rows[0]["instructions"] == 30_000

    page, csv = tmp_path / "s.html", tmp_path / "s.csv"
    swept = perfvec(
        "sweep",
        vector_file,
        "--base",
        "base",
        "--vary",
        "l1d.size_kib=16,32",
        "--vary",
        "l2.size_kib=256,512",
        "--json",
        "--html",
        page,
        "--csv",
        csv,
        *model,
    )
    assert len(json.loads(swept.stdout)["points"]) == 4
    assert "data-figure=" in page.read_text()
    assert len(csv.read_text().splitlines()) == 5

    compared = perfvec(
        "compare", vector_file, data.traces / "qsort.trace.h5", data.traces / "matmul.trace.h5", "--json", *model
    )
    document = json.loads(compared.stdout)
    assert document["programs"] == ["t", "qsort", "matmul"]
    assert document["distance"][1][1] == 0


def test_a_program_is_traced_on_the_fly(data):
    found = perfvec("predict", "--model", data.model_file, "--uarch", "base", "--json", "--", "true")
    (row,) = json.loads(found.stdout)["predictions"]
    assert row["program"] == "true"
    assert row["cpi"] > 0


def test_a_program_is_simulated_on_the_fly(tmp_path):
    page, picture, csv = tmp_path / "s.html", tmp_path / "s.svg", tmp_path / "s.csv"
    found = perfvec(
        "simulate",
        "--uarch",
        "base",
        "--uarch",
        "cortex-a53",
        "--json",
        "--html",
        page,
        "--picture",
        picture,
        "--csv",
        csv,
        "--",
        "true",
    )
    document = json.loads(found.stdout)
    rows = document["simulations"]
    assert [(row["program"], row["uarch"], row["source"]) for row in rows] == [
        ("true", "base", "simulated"),
        ("true", "cortex-a53", "simulated"),
    ]
    for row in rows:
        assert sum(row["stack"].values()) == row["cycles"]
        assert row["cpi"] * row["instructions"] == pytest.approx(row["cycles"])
    assert "data-figure=" in page.read_text()
    assert picture.read_text().startswith("<?xml")
    assert len(csv.read_text().splitlines()) == 3


def test_parts_are_simulated(data):
    target = data.traces / "qsort.trace.h5"
    arguments = ("profile", target, "--simulate", "--uarch", "base", "--max-instructions", 20_000, "--json")
    document = json.loads(perfvec(*arguments).stdout)
    whole = perfvec("simulate", target, "--count", 20_000, "--uarch", "base", "--json")
    (row,) = json.loads(whole.stdout)["simulations"]
    assert document["source"] == "simulated"
    assert sum(group["cycles"][0] for group in document["groups"]) == row["cycles"]


def test_a_sweep_within_a_budget(data, tmp_path):
    target, page, csv = data.traces / "qsort.trace.h5", tmp_path / "s.html", tmp_path / "s.csv"
    grid = ("--base", "base", "--vary", "l1d.size_kib=8,32", "--vary", "l2.latency=8,12")
    found = perfvec("sweep", target, *grid, "--json", "--html", page, "--csv", csv)
    document = json.loads(found.stdout)
    assert {point["source"] for point in document["points"]} == {"simulated"}
    assert "simulated" in page.read_text() and "simulated" in csv.read_text()
    wide = perfvec(
        "sweep", target, "--space", "default", "--sample", 10_000, "--budget", 4, "--best", 3, "--csv", csv
    )  # more than the budget allows, on any machine
    assert wide.returncode == 0, wide.stderr
    header, *rows = csv.read_text().splitlines()
    column = header.split(",").index("source")
    assert {row.split(",")[column] for row in rows} == {"simulated", "corrected"}
    assert max(map(len, wide.stdout.splitlines())) <= 80
    none = perfvec("sweep", target, *grid, "--budget", 0.0001, "--json", "--model", data.model_file)
    assert {point["source"] for point in json.loads(none.stdout)["points"]} == {"zero-shot"}
    assert sum("not one point" in line for line in none.stderr.splitlines()) == 1


def test_a_sweep_is_simulated_point_by_point(data):
    target = data.traces / "qsort.trace.h5"
    grid = ("--base", "base", "--vary", "l1d.size_kib=8,32", "--vary", "pipeline.rob_entries=128,192")
    found = perfvec("sweep", "--simulate", target, *grid, "--cost", "l1d.size_kib", "--count", 20_000, "--json")
    document = json.loads(found.stdout)
    assert {point["source"] for point in document["points"]} == {"simulated"}
    assert document["best_intervals"] == [None] * 4
    for point in document["points"]:
        if point["uarch"] == {"l1d.size_kib": 32, "pipeline.rob_entries": 192}:
            (row,) = json.loads(perfvec("simulate", target, "--uarch", "base", "--count", 20_000, "--json").stdout)[
                "simulations"
            ]
            assert row["cycles"] == point["cycles"]  # the base itself
    refused = perfvec("sweep", "--simulate", target, *grid, "--search", 3)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("p.vector.npz",), "p.vector.npz: a vector cannot be simulated; give the trace (*.trace.h5)"),
        (("none.trace.h5",), "none.trace.h5"),
        ((), "no target"),
        (("none.trace.h5", "--uarch", "m.machine.npz"), "a fitted vector cannot be simulated"),
        (("none.trace.h5", "--uarch", "base", "--uarch", "base"), "different names"),
        (("none.trace.h5", "--uarch", "zen44"), "zen4"),
    ],
)
def test_what_cannot_be_simulated_is_one_line(arguments, said):
    found = perfvec("simulate", *arguments)
    assert found.returncode == 2 and not found.stdout
    assert said in found.stderr and len(found.stderr.splitlines()) == 1


def test_a_program_does_not_run_where_a_named_target_cannot_be_simulated(tmp_path, data):
    program = ("--uarch", "base", "--", "sh", "-c", f"touch {tmp_path}/ran")
    for named in (tmp_path / "none.trace.h5", tmp_path / "none.livepoints.h5"):
        refused = perfvec("simulate", named, *program)
        assert refused.returncode == 2 and f"{named}: no such file" in refused.stderr
    short = perfvec("simulate", data.traces / "qsort.trace.h5", "--start", 10**9, *program)
    assert short.returncode == 2 and "lower it" in short.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("simulate", "{trace}", "--csv", "{trace}"), "--csv {trace}: it is an input too"),
        (("simulate", "{trace}", "--html", "-"), "--html -: name a file"),
        (("simulate", "{link}", "--html", "{trace}"), "--html {trace}: it is an input too"),
        (("predict", "{trace}", "--picture", "{tmp}/./p.svg", "--csv", "{tmp}/p.svg"), "--csv writes it too"),
        (("profile", "{trace}", "--uarch", "{machine}", "--folded", "{machine}"), "--folded {machine}: it is an input"),
        (("profile", "{trace}", "--uarch", "base", "--folded", "{tmp}/none/f"), "none does not exist"),
        (("represent", "{trace}", "-o", "{trace}"), "--output {trace}: it is an input too"),
        (("trace", "-o", "{trace}", "--", "cat", "{trace}"), "--output {trace}: it is an input too"),
        (("uarch", "import", "{machine}", "-o", "{machine}"), "--output {machine}: it is an input too"),
        (("uarch", "host", "-o", "{tmp}/h.yaml", "--html", "{tmp}/h.yaml"), "--output writes it too"),
    ],
)
def test_an_output_replaces_neither_an_input_nor_another_output(data, tmp_path, words, told):
    names = {name: tmp_path / name for name in ("trace", "link", "machine")} | {"tmp": tmp_path}
    shutil.copy(data.traces / "qsort.trace.h5", names["trace"])
    names["link"].symlink_to(names["trace"])
    names["machine"].write_text(perfvec("uarch", "show", "base").stdout)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    refused = perfvec(*(word.format(**names) for word in words))
    assert refused.returncode == 2 and not refused.stdout
    assert told.format(**names) in refused.stderr and len(refused.stderr.splitlines()) == 1
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_long_word_of_a_program_is_no_path(tmp_path):
    traced = perfvec("trace", "-o", tmp_path / "t.trace.h5", "--", "sh", "-c", f"exit 7 # {'a' * 5000}")
    assert traced.returncode == 7


def test_a_model_may_be_calibrated_in_place(data, tmp_path):
    model = tmp_path / "m.safetensors"
    shutil.copy(data.model_file, model)
    folders = ("--traces", tmp_path, "--latencies", tmp_path)
    in_place = perfvec("calibrate", *folders, "--fold", data.model_file, "--model", model, "-o", model)
    assert "no *.trace.h5" in in_place.stderr  # beyond the outputs
    fold = perfvec("calibrate", *folders, "--fold", model, "-o", model)
    assert "it is an input too" in fold.stderr


def test_nothing_is_written_where_a_function_is_absent(data, tmp_path):
    target = data.traces / "qsort.trace.h5"
    words = ("--uarch", "base", "--annotate", "nofunc", "--folded", tmp_path / "f", "--csv", tmp_path / "c")
    refused = perfvec("profile", target, *words)
    assert refused.returncode == 2 and "'nofunc'" in refused.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("simulate", "t", "--count", 0), "perfvec simulate: --count: "),
        (("simulate", "t", "--start", "abc"), "perfvec simulate: --start: "),
        (("simulate", "t", "--strat", 1), "perfvec simulate: no such option: --strat"),
        (("simulate", "t", "--start"), "perfvec simulate: option '--start' requires an argument; see perfvec simulate"),
        (("trace", "--", "true"), "perfvec trace: missing option '-o' / '--output'; see perfvec trace --help"),
        (("simulat",), "perfvec: no such command 'simulat'"),
        (("uarch", "lst"), "perfvec uarch: no such command 'lst'"),
        (("--nothing",), "perfvec: no such option: --nothing"),
    ],
)
def test_a_wrong_option_or_command_is_one_line(words, told):
    refused = perfvec(*words)
    assert refused.returncode == 2 and not refused.stdout
    assert refused.stderr.startswith(told) and len(refused.stderr.splitlines()) == 1


def test_a_group_without_a_command_prints_its_help():
    assert "Usage: perfvec uarch" in perfvec("uarch").stderr


def test_the_exit_status_is_passed_through(tmp_path):
    assert perfvec("trace", "-o", tmp_path / "t.trace.h5", "--", "sh", "-c", "exit 7").returncode == 7


def test_labels_and_evaluation_by_command(data, tmp_path):
    labelled = perfvec("label", data.traces / "qsort.trace.h5", "--uarch", "base", "--count", 20_000, "-o", tmp_path)
    assert labelled.stdout.strip() == str(tmp_path / "qsort.latency.h5")
    found = perfvec("evaluate", "--model", data.model_file, "--traces", data.traces, "--latencies", tmp_path, "--json")
    document = json.loads(found.stdout)
    assert document["summary"][0]["programs"] == "seen"
    assert document["pairs"][0]["uarch"] == "base"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["trace", "-o", "{tmp}/t.trace.h5", "--", "no-such-program"], "no-such-program"),
        (["evaluate", "--traces", "{tmp}", "--latencies", "{tmp}", "--task", "pairs"], "--task belongs to --what-if"),
        (
            ["evaluate", "--what-if", "--traces", "{tmp}", "-o", "{tmp}/w", "--by", "program"],
            "leave it or --what-if out",
        ),
        (
            [
                "fit-uarch",
                "--traces",
                "{tmp}",
                "--latencies",
                "{tmp}",
                "--frequency-ghz",
                "1",
                "-o",
                "{tmp}/m.machine.npz",
            ],
            "leave --frequency-ghz out",
        ),
        (["trace", "-o", "{tmp}/t.trace.h5", "--", "{tmp}/text"], "text"),
        (["trace", "-o", "{tmp}/none/t.trace.h5", "--", "true"], "does not exist"),
        (["trace", "-o", "{tmp}/t.trace.h5", "--skip", "900000000", "--", "true"], "nothing was recorded"),
        (["trace", "-o", "{tmp}/t.trace.h5"], "-- PROGRAM"),
        (["predict", "--model", "{model}"], "no target"),
        (["predict", "{tmp}/absent.trace.h5", "--model", "{model}"], "no such file"),
        (["predict", "{tmp}/text", "--model", "{model}"], "not an HDF5 file"),
        (["predict", "{trace}", "--model", "{tmp}/text"], "expected a model"),
        (["predict", "{trace}", "--model", "{model}", "--uarch", "zen-4"], "zen4"),
        (["predict", "{trace}", "--model", "{model}", "--uarch", "{tmp}/odd.yaml"], "odd.yaml"),
        (["sweep", "{trace}", "--base", "base", "--model", "{model}"], "empty sweep"),
        (["sweep", "{trace}", "--base", "base", "--vary", "l1d.sise_kib=3", "--model", "{model}"], "l1d.size_kib"),
        (["sweep", "{trace}", "--base", "base", "--vary", "l1d.size_kib=-3", "--model", "{model}"], "l1d.size_kib"),
        (["compare", "--model", "{model}"], "two"),
        (["compare", "{trace}", "--model", "{model}"], "of the model"),  # the shipped library is of the shipped one
        (["profile", "{trace}", "--model", "{model}"], "--uarch"),
        (["simulate", "{trace}", "--uarch", "base", "--max-instructions", "1000"], "--count"),
        (["profile", "{trace}", "--model", "{model}", "--uarch", "base", "--by", "functions"], "function, line, loop"),
        (["diff", "{trace}", "{tmp}/text", "--model", "{model}", "--uarch", "base"], "not an HDF5 file"),
        (["attribute", "{trace}", "--model", "{model}"], "--uarch"),
        (["label", "{trace}", "-o", "{tmp}"], "no machine"),
        (["train", "--traces", "{tmp}", "--latencies", "{tmp}", "-o", "{tmp}/m.safetensors"], "no *.trace.h5"),
        (["suite", "run", "-o", "{tmp}", "nosuch"], "nosuch"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(data, tmp_path, arguments, says):
    (tmp_path / "text").write_text("plain text")
    (tmp_path / "odd.yaml").write_text("name: odd\ncore: sideways\n")
    before = sorted(tmp_path.iterdir())
    found = perfvec(
        *(word.format(tmp=tmp_path, model=data.model_file, trace=data.traces / "qsort.trace.h5") for word in arguments)
    )
    assert found.returncode == 2, found.stderr
    lines = [line for line in found.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, found.stderr
    assert says in lines[0]
    assert found.stdout == ""
    assert sorted(tmp_path.iterdir()) == before  # nothing half-written


@pytest.mark.parametrize(
    "command", [["trace", "-o", "x", "--", b"./a\xff"], ["trace", "-o", "x", "--", "true", b"\xff"]]
)
def test_a_name_that_is_not_utf8_works_or_is_one_line(tmp_path, command):
    shutil.copy("/bin/true", os.fsencode(tmp_path) + b"/a\xff")
    before = sorted(tmp_path.iterdir())
    done = subprocess.run([*INSTALLED, *command], capture_output=True, cwd=tmp_path, check=False)
    assert len(done.stderr.splitlines()) == 1
    if done.returncode:
        assert done.returncode == 2 and b"a name that is not UTF-8 cannot be written: 'a\\udcff'" in done.stderr
        assert sorted(tmp_path.iterdir()) == before


def test_an_output_that_is_not_utf8_is_told_as_such(data):
    words = [*INSTALLED, "simulate", data.traces / "qsort.trace.h5", "--uarch", "base", "--count", "1000"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, capture_output=True, env=environment, check=False)
    assert done.returncode == 2 and b"the output's encoding, ascii, has no '" in done.stderr
    assert done.stderr.count(b"\n") == 1 and b"set PYTHONIOENCODING=utf-8" in done.stderr


@pytest.mark.parametrize("command", [["report", "-o", "x", "--uarch", "base"], ["predict"]])
def test_a_trace_whose_name_is_not_utf8_is_told_before_it_is_read(tmp_path, command):
    trace = os.fsencode(tmp_path) + b"/a\xff.trace.h5"
    shutil.copy("/bin/true", trace)
    words = [*INSTALLED, command[0], trace, *command[1:]]
    done = subprocess.run(words, capture_output=True, cwd=tmp_path, check=False)
    assert done.returncode == 2 and b"not UTF-8 cannot be written: " in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_the_system_refuses_is_one_line(tmp_path):
    done = perfvec("predict", f"{'a' * 5000}.vector.npz")
    assert done.returncode == 2 and done.stderr.startswith("perfvec: aaa") and len(done.stderr.splitlines()) == 1
    assert "file name too long" in done.stderr


@pytest.mark.parametrize("core", ["uarch.timing._core", "tracegen.live_points._core"])
def test_no_compiled_core_is_one_line(core):
    program = (
        f"import sys; sys.modules['{core}'] = None; from analysis.cli.main import main; "
        "main(['simulate', 'none.trace.h5', '--uarch', 'base'])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert found.returncode == 2 and len(found.stderr.splitlines()) == 1
    assert "run `make core`" in found.stderr


def test_no_qemu_is_named(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = perfvec("trace", "-o", tmp_path / "t.trace.h5", "--", "/bin/true")
    assert found.returncode == 2
    assert "qemu-user" in found.stderr


def test_presets_and_their_differences():
    listed = perfvec("uarch", "list")
    assert len(listed.stdout.splitlines()) >= 8
    assert "zen4" in listed.stdout
    assert "frequency_ghz" in perfvec("uarch", "diff", "zen2", "zen4").stdout
    assert json.loads(perfvec("uarch", "show", "zen2", "--json").stdout)["core"] == "out-of-order"


_CLOSED = "perfvec: standard output is closed: there is nowhere to print to\n"


@pytest.mark.parametrize(
    ("closed", "words", "status", "told"),
    [
        (">&-", "simulate {trace} --uarch base", 2, _CLOSED),
        (">&-", "--version", 2, _CLOSED),
        ("2>&-", "trace -o {made} -- sh -c 'echo said'", 0, ""),
        (">&- 2>&- <&-", "trace -o {made} -- true", 0, ""),
    ],
)
def test_closed_standard_streams(data, tmp_path, closed, words, status, told):
    made = tmp_path / "made.trace.h5"
    command = words.format(trace=data.traces / "qsort.trace.h5", made=made)
    shell = f"{' '.join(map(str, INSTALLED))} {command} {closed}"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (status, told)
    assert made.exists() == (status == 0)
    assert done.stdout == ("said\n" if "said" in words else "")


_SHORT_OF_MEMORY = """
import resource, sys
import h5py
from analysis.cli.main import main
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (4 << 20),) * 2)
main(sys.argv[1:])
"""


def test_short_memory_is_one_line(tmp_path):
    made = tmp_path / "made.trace.h5"
    words = [sys.executable, "-c", _SHORT_OF_MEMORY, "trace", "-o", str(made), "--", "true"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and not made.exists()
    assert done.stderr.startswith("perfvec: memory is short, or limited (ulimit -v): ") and done.stderr.count("\n") == 1
