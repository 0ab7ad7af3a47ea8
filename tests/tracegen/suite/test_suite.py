"""The catalogue of workloads: complete entries, deterministic inputs, runs that go on after failures and kills."""

import re
import shutil
import subprocess
import sys
import time
from concurrent import futures
from pathlib import Path
from random import Random

import pytest

from support.errors import InputError
from tests.digests import trace_digest
from tracegen.formats.trace import Trace
from tracegen.suite import catalogue, packages_missing, random_loops, random_phases, run, select, table, tracing
from tracegen.suite.inputs import compile_c, input_file
from tracegen.suite.table import markdown
from tracegen.suite.workloads import Workload

REPOSITORY = Path(__file__).parents[3]
# The programs of nearly every machine, in order: others belong into the other sets.
DEFAULT = (
    "gzip gunzip bzip2 xz zstd gzip-fast perl perl-sieve awk sh sqlite jq sort grep sed wc tr cut diff od sha256sum "
    "md5sum base64 factor bc cc1 as objdump nm cpp find tar k_matmul k_stream k_stream_small k_chase k_chase_small "
    "k_spmv k_qsort k_fft k_nbody k_hash k_life k_tree k_mandelbrot k_queens k_interpreter"
).split()


def test_the_default_set_is_what_every_machine_has():
    assert [name for name, workload in catalogue().items() if workload.set == "default"] == DEFAULT


@pytest.mark.slow
def test_kernels_are_compiled_at_their_level(tmp_path):
    commands = {w.optimise: w.prepare(tmp_path, tmp_path)[0] for w in select(set_name="mix")}
    assert sorted(commands) == [1, 2, 3]
    assert len({Path(command[0]).read_bytes() for command in commands.values()}) == 3


@pytest.mark.parametrize(
    ("generator", "loops"),
    [
        (random_loops.source, random_loops.LOOPS),
        (random_phases.source, random_phases.PHASES),
        (random_phases.long_source, random_phases.LONG_PHASES),
    ],
)
def test_a_seed_gives_one_text_and_another_another(generator, loops):
    texts = [generator(seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert all(text.count("for (long i = 0; i < n; i++)") == loops for text in texts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("generator", "seed"),
    [(source, seed) for source in (random_loops.source, random_phases.source) for seed in (1, 2, 3)]
    + [(random_phases.long_source, seed) for seed in (44, 46)],
)
def test_random_programs_stay_within_their_memory(tmp_path, generator, seed):
    (tmp_path / "program.c").write_text(generator(seed))
    compile_c(tmp_path / "program.c", tmp_path / "program", ["-w", "-g", "-fsanitize=address,bounds"])
    done = subprocess.run([tmp_path / "program", "2"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_random_phases_reach_the_extremes():
    draw = Random(0)
    drawn = [random_phases.Phase.drawn(draw) for _ in range(1000)]
    assert sum(phase.body > 200 and not phase.branches and phase.chains >= 6 for phase in drawn) > 20  # ciphers
    assert sum(phase.pattern == "sequential" and phase.loads > 0.7 and phase.body < 8 for phase in drawn) > 5  # streams
    assert sum(phase.pattern == "chase" and phase.pointers == 1 and phase.log_size > 20 for phase in drawn) > 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
def test_laps_stay_within_their_sets(tmp_path, seed):
    kernel = REPOSITORY / "tracegen" / "suite" / "kernels" / "laps.c"
    compile_c(kernel, tmp_path / "laps", ["-g", "-fsanitize=address,bounds,shift"])
    done = subprocess.run([tmp_path / "laps", str(seed), "20", "10"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_program_names_its_package_and_every_kernel_its_file():
    for workload in catalogue().values():
        assert bool(workload.package) + bool(workload.kernel) + (workload.generated is not None) == 1, workload.name
        if workload.kernel:
            assert (REPOSITORY / "tracegen" / "suite" / "kernels" / f"{workload.kernel}.c").exists()
    assert len({w.package for w in catalogue().values()}) > 60


def test_programs_that_lack_are_left_out_and_their_packages_named():
    absent = Workload("absent", "text", ("no-such-program",), "debian", package="absent-package")
    assert packages_missing([absent, *(w for w in catalogue().values() if w.kernel)]) == ["absent-package"]
    assert all(w.available for w in select())
    with pytest.raises(InputError, match="unknown set 'no'; one of default, debian, mix, loops"):
        select(set_name="no")


@pytest.mark.slow
def test_every_input_is_known_and_the_same_each_time(tmp_path):
    names = {w.stdin for w in catalogue().values() if w.stdin}
    for workload in catalogue().values():
        names |= {m[1] for word in workload.command if (m := re.match(r"^\{(\w+)\}(?=$|/)", word))}
    for name in names - {"kernel", "scratch", "assembly", "object"}:
        one, two = input_file(name, tmp_path / "a"), input_file(name, tmp_path / "b")
        assert one.read_bytes() == two.read_bytes() != b"", name


@pytest.mark.slow
def test_a_failing_workload_is_told_and_stops_no_other(tmp_path, monkeypatch):
    known = {
        "gone": Workload("gone", "text", ("/no/such/program",), "default"),
        "odd": Workload("odd", "text", ("sh", "-c", "echo went wrong >&2; exit 3"), "default"),
        "accepted": Workload("accepted", "text", ("sh", "-c", "exit 3"), "default", status=(3,)),
        "skipping": Workload("skipping", "text", ("sh", "-c", "exit 0"), "default", skip=10**12),
        "scratch": Workload("scratch", "text", ("sh", "-c", ': > "$0"', "{scratch}/made"), "default"),
    }
    monkeypatch.setattr(tracing, "select", lambda names, set_name: list(known.values()))
    traced = run([], tmp_path, 5_000_000, progress=False)
    assert list(traced.instructions) == ["accepted", "scratch"]
    assert "no such program" in traced.failures["gone"]
    assert traced.failures["odd"] == "the program ended with status 3: went wrong"
    assert "nothing was recorded" in traced.failures["skipping"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "accepted.trace.h5", "scratch.trace.h5"]


@pytest.mark.slow
def test_a_killed_run_leaves_no_half_file_and_the_next_goes_on(tmp_path):
    words = [sys.executable, "-m", "perfvec", "suite", "run", "-o", str(tmp_path), "--max-instructions"]
    first = subprocess.Popen([*words, "4000000000", "k_interpreter"], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not any(p.is_file() for p in tmp_path.glob(".k_interpreter.work/**/*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    first.kill()
    first.wait()
    assert list(tmp_path.glob(".*.work"))
    assert not list(tmp_path.glob("*.trace.h5"))
    second = subprocess.run([*words, "100000", "k_interpreter", "k_life"], capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    assert second.stdout.split() == ["k_interpreter", "100,000", "k_life", "100,000"]
    assert not list(tmp_path.glob(".*.work"))
    with Trace(tmp_path / "k_interpreter.trace.h5") as trace:
        assert trace.digest == trace_digest(trace.path)
    (tmp_path / "k_life.trace.h5").unlink()
    before = (tmp_path / "k_interpreter.trace.h5").stat().st_mtime_ns
    assert (
        list(run(["k_interpreter", "k_life"], tmp_path, 100_000, progress=False).instructions.values()) == [100_000] * 2
    )
    assert (tmp_path / "k_interpreter.trace.h5").stat().st_mtime_ns == before


def test_two_runs_in_one_folder_are_refused(tmp_path):
    with tracing.alone(tmp_path), pytest.raises(InputError, match="another suite run"):
        run(["k_queens"], tmp_path, 100_000, progress=False)


@pytest.mark.slow
def test_a_worker_that_outlives_its_run_is_waited_for(tmp_path):
    """Its folder is its own until it ends, and the trace that it made meanwhile stays."""
    run(["k_queens"], tmp_path / "its", 100_000, progress=False)
    folder = tmp_path / "both"
    (folder / ".k_queens.work").mkdir(parents=True)
    with futures.ThreadPoolExecutor(1) as other:
        with tracing.at_work(folder / ".k_queens.work"):
            again = other.submit(run, ["k_queens"], folder, 200_000, progress=False)
            with pytest.raises(futures.TimeoutError):
                again.result(timeout=1.5)
            assert (folder / ".k_queens.work").exists()
            (tmp_path / "its" / "k_queens.trace.h5").rename(folder / "k_queens.trace.h5")
        assert again.result(timeout=60).instructions == {"k_queens": 100_000}
    assert not list(folder.glob(".k_queens*"))


@pytest.mark.slow
def test_the_table_has_a_row_a_trace(tmp_path):
    run(["k_queens", "k_chase"], tmp_path, 200_000, progress=False)
    shutil.copy(tmp_path / "k_queens.trace.h5", tmp_path / "mine.trace.h5")
    rows = table(tmp_path, progress=False)
    assert [(row["program"], row["group"]) for row in rows] == [
        ("k_chase", "kernel"),
        ("k_queens", "kernel"),
        ("mine", ""),
    ]
    assert rows[0]["instructions"] == 200_000
    assert rows[0]["data_kib"] > 100  # it begins by linking a ring of 24,000 nodes
    assert 0 < rows[1]["branches"] < 1
    assert markdown(rows).splitlines()[2].startswith("| k_chase | kernel | 200,000 |")
    with pytest.raises(InputError, match=r"no \*\.trace\.h5 here"):
        table(tmp_path / "inputs", progress=False)


def test_what_does_not_compile_is_said_by_its_error(tmp_path):
    (tmp_path / "a.c").write_text("int main(void) {\n    return TILE;\n}\n")
    with pytest.raises(InputError, match=r"a.c failed: .*error: .*TILE"):
        compile_c(tmp_path / "a.c", tmp_path / "a", [])
