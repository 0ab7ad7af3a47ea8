"""Labels by gem5: on a stand-in that prints what gem5 printed, and on gem5 itself where GEM5 names one."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

from support.seal import seal
from tests.errors import message
from tests.latency_files import as_version_1
from tests.tracegen.gem5 import gem5_runs
from tracegen.formats.latency import LatencyFile
from tracegen.gem5 import label as by_gem5
from tracegen.gem5.reader import import_gem5
from tracegen.gem5.run_se import isa_of, script
from tracegen.label import label
from uarch.configuration import replace_field
from uarch.gem5.script import gem5_script
from uarch.machine_files import load_machine

ROOT = Path(__file__).parents[3]
O3, MINOR = load_machine("cortex-a72"), load_machine("cortex-a53")
OTHER = replace_field(replace_field(O3, "name", "other"), "l2.latency", 20)


@pytest.fixture
def place(tmp_path):
    """A folder with the stand-in, and the trace and latencies of `touch` that were imported there."""
    replay = shutil.copy(Path(__file__).parent / "gem5_replay.py", tmp_path)
    (tmp_path / "data.json").write_text(json.dumps(str(gem5_runs.DATA)))
    gem5 = tmp_path / "gem5.opt"
    gem5.write_text(f'#!/bin/sh\nexec {sys.executable} {replay} "$@"\n')
    gem5.chmod(0o755)
    run = gem5_runs.copy("o3", tmp_path / "run")
    for name in ("config.json", "run.json"):
        (run / name).write_text((run / name).read_text().replace("/programs", str(tmp_path)))
    shutil.copy(gem5_runs.PROGRAM, tmp_path / "touch")
    import_gem5([run], tmp_path / "touch.trace.h5", latency=tmp_path / "touch.latency.h5", progress=False)
    return tmp_path


def labelled(place, machines, **options):
    return label(
        [place / "touch.trace.h5"],
        machines,
        place / "labels",
        simulator="gem5",
        gem5=place / "gem5.opt",
        progress=False,
        **options,
    )


def runs(place) -> list[str]:
    return (place / "runs").read_text().splitlines() if (place / "runs").exists() else []


def latencies(path) -> tuple[list[str], list[list[int]]]:
    with LatencyFile(path) as file:
        return [machine.name for machine in file.machines], file.read(0, len(file)).tolist()


def test_labels_are_those_of_the_imported_run(place):
    (path,) = labelled(place, [O3, MINOR])
    names, rows = latencies(path)
    assert names == ["cortex-a72", "cortex-a53"]
    with LatencyFile(path) as file:  # as gem5 simulates it: its Minor consults no predictor for X86
        assert MINOR.branch_predictor.kind != "none" == file.machines[1].branch_predictor.kind
    assert rows[0] == latencies(place / "touch.latency.h5")[1][0]
    assert sum(rows[1]) == 4435
    with LatencyFile(path) as file:
        assert (file.simulator, file.start, len(file)) == ("gem5 24.0.0.1", 0, 936)
    words = next(line for line in runs(place) if "O3PipeView" in line).split()
    assert words[words.index("--executable") + 1] == str(place / "touch")
    assert words[words.index("--") :] == ["--", "./touch"]
    assert "PATH=/usr/bin:/bin" in words and "LC_ALL=C" in words


def test_a_window_is_cut_from_the_run(place):
    (path,) = labelled(place, [O3], start=100, count=50)
    assert path.name == "touch-100.latency.h5"
    assert latencies(path)[1][0] == latencies(place / "touch.latency.h5")[1][0][100:150]


def test_two_traces_of_one_name_are_refused(place):
    (place / "b").mkdir()
    traces = [place / "touch.trace.h5", place / "b" / "touch.trace.h5"]
    traces[1].symlink_to(traces[0])
    told = message(
        lambda: label(traces, [O3], place / "labels", simulator="gem5", gem5=place / "gem5.opt", progress=False)
    )
    assert told == "two traces are called 'touch'; label them into two folders"
    assert not runs(place) and not list((place / "labels").glob("*.latency.h5"))


def test_what_is_done_is_not_done_again(place):
    first = labelled(place, [O3, MINOR])
    assert labelled(place, [O3, MINOR]) == first
    assert len(runs(place)) == 2
    assert "holds other labels" in message(lambda: labelled(place, [O3]))


def test_a_killed_run_continues(place, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(by_gem5, "assemble", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            labelled(place, [O3])
    assert not list((place / "labels").glob("*.h5"))
    (path,) = labelled(place, [O3, MINOR])
    assert ["O3PipeView" in line for line in runs(place)] == [True, False]  # each machine once
    assert latencies(path)[0] == ["cortex-a72", "cortex-a53"]
    assert [file.name for file in (place / "labels").iterdir()] == ["touch.latency.h5"]


def test_a_machine_that_gem5_cannot_simulate_is_left_out(place, capsys):
    (place / "fail").write_text("other")
    (path,) = labelled(place, [OTHER, O3])
    assert latencies(path)[0] == ["cortex-a72"]
    assert "touch on other: gem5 stopped with status 1: fatal: wbWidth is too small" in capsys.readouterr().err
    with LatencyFile(path) as file:
        assert list(json.loads(file.attribute("failed", ""))) == ["other"]
    labelled(place, [OTHER, O3])
    assert len(runs(place)) == 2
    assert "touch on other" in capsys.readouterr().err


def test_no_machine_at_all_is_an_error(place):
    (place / "fail").write_text("other")
    assert "other: gem5 stopped" in message(lambda: labelled(place, [OTHER]))
    assert not list((place / "labels").iterdir())


def test_another_sequence_names_the_first_instruction_that_differs(place):
    """An address that is executed first after instruction 300 is replaced by another."""
    wanted = gem5_runs.reference("o3").address
    first = next(index for index, address in enumerate(wanted) if index > 300 and address not in wanted[:index])
    (place / "diverge").write_text(f"0x{wanted[first]:x} 0x{wanted[first] + 0x100000:x}")
    found = message(lambda: labelled(place, [MINOR]))
    assert f"where instruction {first:,} of" in found
    assert f"{wanted[first]:#x}" in found and "import gem5" in found


def test_gem5_must_be_there(place, monkeypatch):
    monkeypatch.delenv("GEM5", raising=False)
    assert "--gem5" in message(lambda: label([place / "touch.trace.h5"], [O3], place / "l", simulator="gem5"))
    assert "no such program" in message(lambda: by_gem5.find_gem5("/no/gem5.opt"))
    assert "is no gem5" in message(lambda: by_gem5.version(Path(shutil.which("true"))))
    assert "embedded, gem5" in message(lambda: label([place / "touch.trace.h5"], [O3], place / "l", simulator="gem4"))


# The script that gem5 runs


def test_the_script_is_the_exported_one():
    text, words = script(["--warmup", "5", "--uarch", "zen4", "--", str(gem5_runs.PROGRAM), "--uarch", "x"])
    assert text == gem5_script(load_machine("zen4"))
    assert words == ["--warmup", "5", "--", str(gem5_runs.PROGRAM), "--uarch", "x"]


def test_the_instruction_set_is_the_programs(tmp_path):
    head = gem5_runs.PROGRAM.read_bytes()[:64]
    for number, isa in ((62, "x86-64"), (183, "aarch64"), (243, "riscv64")):
        (tmp_path / "p").write_bytes(head[:18] + bytes([number, 0]) + head[20:])
        assert isa_of(str(tmp_path / "p")) == isa
        assert script(["--uarch", "cortex-a53", "--", str(tmp_path / "p")])[0] == gem5_script(MINOR, isa)
    (tmp_path / "p").write_text("#!/bin/sh\n")
    assert "interpreter" in message(lambda: isa_of(str(tmp_path / "p")))
    assert "--uarch FILE" in message(lambda: script(["--", "true"]))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--uarch", "none", "--", "true"], "presets: apple-firestorm"),
        (["--uarch", "base", "--", "/no/such"], "No such file"),
        (["--", "true"], "name the machine"),
    ],
)
def test_errors_are_told_as_gem5_can_tell_them(words, told):
    """gem5 v24 aborts on an exit whose status is no number."""
    done = subprocess.run(
        [sys.executable, ROOT / "tracegen" / "gem5" / "run_se.py", *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("run_se.py: ") and told in done.stderr


@pytest.mark.parametrize("name", ["cortex-a53", "cortex-a72", "zen4"])
def test_gem5s_python_needs_no_numpy(name):
    code = f"""import sys
sys.modules.update(dict.fromkeys(("numpy", "numba", "h5py", "capstone")))
sys.path.insert(0, {str(ROOT)!r})
from tracegen.gem5.run_se import script
sys.stdout.write(script(["--uarch", {name!r}, "--", {str(gem5_runs.PROGRAM)!r}])[0])"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == gem5_script(load_machine(name))


def test_a_dynamic_programs_sysroot_is_labelled_with(place):
    facts = json.loads((place / "run" / "run.json").read_text()) | {"sysroot": "/usr/riscv64-linux-gnu"}
    (place / "run" / "run.json").write_text(json.dumps(facts))
    import_gem5([place / "run"], place / "rooted.trace.h5", progress=False)
    label(
        [place / "rooted.trace.h5"], [O3], place / "labels", simulator="gem5", gem5=place / "gem5.opt", progress=False
    )
    assert "--sysroot /usr/riscv64-linux-gnu" in runs(place)[-1]


@pytest.mark.skipif("GEM5" not in os.environ, reason="the environment's GEM5 names no gem5.opt")
def test_gem5_itself_runs_the_script_and_labels(tmp_path):
    gem5_runs.run_gem5(tmp_path, shutil.copy(gem5_runs.PROGRAM, tmp_path / "touch"), "cortex-a72")
    assert (tmp_path / "out").read_text() == "touched\n"
    done = import_gem5([tmp_path / "run"], tmp_path / "t.trace.h5", latency=tmp_path / "t.latency.h5", progress=False)
    assert done.checked and done.instructions == 936
    (whole,) = label([tmp_path / "t.trace.h5"], [O3, MINOR], tmp_path / "l", simulator="gem5", progress=False)
    assert latencies(whole)[1][0] == latencies(tmp_path / "t.latency.h5")[1][0]
    (part,) = label(
        [tmp_path / "t.trace.h5"],
        [O3, MINOR],
        tmp_path / "l",
        start=600,
        count=200,
        warmup=100,
        simulator="gem5",
        progress=False,
    )
    assert [len(row) for row in latencies(part)[1]] == [200, 200]


def test_labels_that_an_older_release_cut_are_not_taken_for_whole_ones(place):
    (path,) = labelled(place, [O3])
    as_version_1(path)
    assert labelled(place, [O3]) == [path]  # nothing was cut
    with h5py.File(path, "r+") as file:
        file["latency"][0, 7] = 65_535
    seal(path)
    assert "an older release cut a latency in it; move it away" in message(lambda: labelled(place, [O3]))


def test_labels_behind_another_warm_up_are_others(place):
    (path,) = labelled(place, [O3])
    with h5py.File(path, "r+") as file:
        file.attrs["warmup"] = 100
    seal(path)
    assert "holds other labels (another trace, window, warm-up" in message(lambda: labelled(place, [O3]))


def test_parts_of_an_older_release_are_not_gone_on_with(place, monkeypatch):
    window = by_gem5.find_window(place / "touch.trace.h5", 0, None, 0)
    now = window.key("gem5 24.0.0.1")
    monkeypatch.setattr(by_gem5, "VERSION", 1)
    assert window.key("gem5 24.0.0.1") != now


def test_two_runs_do_not_label_one_window_at_the_same_time(place):
    window = by_gem5.find_window(place / "touch.trace.h5", 0, None, 0)
    parts = place / "labels" / f".touch.latency.h5.{window.key('gem5 24.0.0.1')}.parts"
    parts.mkdir(parents=True)
    with (parts / ".lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert "another run is labelling it" in message(lambda: labelled(place, [O3], warmup=0))
        assert parts.is_dir() and not (place / "labels" / "touch.latency.h5").exists()
    assert labelled(place, [O3], warmup=0) and not parts.exists()
