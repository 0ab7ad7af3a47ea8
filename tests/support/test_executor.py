"""Tasks on processes and on a Dask cluster of separate processes: results, errors, a worker that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing import active_children
from pathlib import Path
from threading import Timer

import pytest
from distributed import LocalCluster

from support import executor
from support.errors import InputError
from support.executor import Local, connect, start_cluster
from tests.cluster import workers


def square(number):
    return number * number


def refuse(number):
    if number == 2:
        raise InputError(f"{number} is wrong")
    return number


def die_once(marks: Path):
    """SIGKILLs its worker the first time."""
    try:
        (marks / "died").touch(exist_ok=False)
    except FileExistsError:
        return os.getpid()
    os.kill(os.getpid(), signal.SIGKILL)


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def slow(path: Path):
    time.sleep(0.2)
    path.touch()


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    with workers(2) as address, connect(address, None) as cluster:
        yield cluster


def every_result_comes_with_its_number(some):
    assert sorted(some.map(square, [3, 1, 2])) == [(0, 9), (1, 1), (2, 4)]
    assert list(some.map(square, [])) == []


@pytest.mark.slow
def test_every_result_of_this_machine_comes_with_its_number():
    every_result_comes_with_its_number(Local(2))
    every_result_comes_with_its_number(Local(2, threads=True))


def test_every_result_of_a_cluster_comes_with_its_number(dask):
    every_result_comes_with_its_number(dask)


def keep_busy(folder: Path):
    (folder / str(os.getpid())).touch()
    time.sleep(120)


@pytest.mark.slow
def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    program = "from tests.support.test_executor import *\nlist(Local(2).map(keep_busy, [Path(sys.argv[1])] * 2))"
    parent = subprocess.Popen([sys.executable, "-c", program, tmp_path], stderr=subprocess.DEVNULL)
    wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
    workers = [int(path.name) for path in tmp_path.iterdir()]
    parent.kill()
    parent.wait()
    wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_tasks_error_is_the_callers(dask):
    for some in (Local(2), dask):
        with pytest.raises(InputError, match="2 is wrong"):
            list(some.map(refuse, [1, 2, 3]))


def refuse_or_wait(path: Path | None):
    if path is None:
        time.sleep(0.5)  # the other has begun
        raise InputError("no path")
    (path / "begun").touch()
    time.sleep(2)
    (path / "ended").touch()


def test_an_error_comes_when_all_processes_have_ended(tmp_path):
    with pytest.raises(InputError, match="no path"):
        list(Local(2).map(refuse_or_wait, [tmp_path, None]))
    assert not (tmp_path / "begun").exists() or (tmp_path / "ended").exists()
    assert active_children() == []


def test_what_was_not_begun_is_dropped_with_the_caller(dask, tmp_path):
    done = dask.map(slow, [tmp_path / str(k) for k in range(40)])
    next(done)
    done.close()
    time.sleep(0.8)  # what was begun ends
    begun = len(list(tmp_path.iterdir()))
    time.sleep(0.8)
    assert 1 <= begun == len(list(tmp_path.iterdir())) < 40


def test_a_killed_workers_task_runs_again(dask, tmp_path):
    assert [number for number, _ in dask.map(die_once, [tmp_path])] == [0]
    assert (tmp_path / "died").exists()


def test_a_task_that_ends_every_worker_is_one_line(dask):
    with pytest.raises(InputError, match="ended every worker"):
        list(dask.map(die, [0]))


def test_a_worker_that_does_not_see_a_file_is_named(dask, tmp_path):
    path = tmp_path / "given"
    path.write_text("four")
    assert list(dask.map(square, [2], lambda item: [path, tmp_path])) == [(0, 4)]

    def lost(item):
        yield path  # seen by the caller, then gone
        path.unlink()

    with pytest.raises(InputError, match=rf"worker tcp://\S+ on \S+ does not see {path}"):
        list(dask.map(square, [2], lost))


def test_a_worker_of_another_release_is_named(dask, monkeypatch):
    monkeypatch.setattr(executor, "release", lambda: "0.0")
    with pytest.raises(InputError, match=r"worker tcp://\S+ on \S+ has release \S+, the caller 0\.0"):
        list(dask.map(square, [2]))


def test_a_cluster_without_a_worker_is_told_of(monkeypatch, capsys):
    monkeypatch.setattr(executor, "NO_WORKER_S", 0.2)
    with LocalCluster(n_workers=0, dashboard_address=":0") as cluster, connect(cluster.scheduler_address, None) as dask:
        later = Timer(1.0, cluster.scale, [1])
        later.start()
        assert list(dask.map(square, [2])) == [(0, 4)]
        later.join()
    assert capsys.readouterr().err.count("the cluster has no worker; waiting for one") == 1


def test_a_cluster_file_leaves_ctrl_c_as_it_is(monkeypatch, tmp_path):
    """dask-jobqueue's import, here anew, sets a handler."""
    for name in [name for name in sys.modules if name.startswith("dask_jobqueue")]:
        monkeypatch.delitem(sys.modules, name)
    before = signal.getsignal(signal.SIGINT)
    (tmp_path / "cluster.yaml").write_text("kind: cloud")
    with pytest.raises(InputError, match="kind is"):
        start_cluster(tmp_path / "cluster.yaml")
    assert "dask_jobqueue.runner" in sys.modules and signal.getsignal(signal.SIGINT) is before


def test_a_cluster_without_its_library_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    with pytest.raises(InputError, match=r"dask-jobqueue is not installed; pip install 'perfvec-toolkit\[dask\]'"):
        start_cluster(tmp_path / "cluster.yaml")


def test_no_scheduler_and_two_are_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(executor, "CONNECT_S", 0.5)
    with (
        pytest.raises(InputError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"),
        connect("tcp://127.0.0.1:9", None),
    ):
        pass
    with pytest.raises(InputError, match="give one of them"), connect("tcp://127.0.0.1:9", tmp_path):
        pass
    with pytest.raises(InputError, match=r"cannot connect to tls://\S+ \(TLS"), connect("tls://127.0.0.1:9", None):
        pass


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- slurm", "holds no mapping"),
        ("kind: cloud", "kind is 'cloud'"),
        ("{kind: slurm, jobs: none}", "jobs is 'none'"),
        ("{kind: slurm, cores: 4, memory: 8GB, colour: red}", "refuses it"),
        ("{kind: slurm, memory: 8GB}", "refuses it"),
        ("{kind: [", "not valid yaml"),
    ],
)
def test_a_wrong_cluster_file_is_one_line(tmp_path, text, says):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=says) as error:
        start_cluster(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.slow
def test_jobs_are_submitted_as_the_file_says(tmp_path, monkeypatch):
    """A script in the place of sbatch keeps what it is given and starts no job."""
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(f'#!/bin/sh\ncp "$1" "{tmp_path}/job.$$"\necho 7\n')
    scancel = tmp_path / "scancel"
    scancel.write_text("#!/bin/sh\n")
    for script in (sbatch, scancel):
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    path = tmp_path / "c.yaml"
    path.write_text("{kind: slurm, jobs: 2, cores: 16, processes: 8, memory: 64GB, walltime: '02:00:00', queue: long}")
    with start_cluster(path):
        deadline = time.monotonic() + 30
        while len(list(tmp_path.glob("job.*"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
    first, second = (job.read_text() for job in tmp_path.glob("job.*"))
    for line in (
        "#SBATCH -p long",
        "#SBATCH --cpus-per-task=16",
        "#SBATCH -t 02:00:00",
        "--nworkers 8",
        "--nthreads 2",
    ):
        assert line in first and line in second


@pytest.mark.slow
def test_jobs_of_this_machine_do_the_work(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("{kind: local, jobs: 1, cores: 1, memory: 2GB}")
    with connect(None, path) as cluster:
        assert sorted(cluster.map(square, [3, 1])) == [(0, 9), (1, 1)]


@pytest.mark.slow
def test_a_killed_process_of_this_machine_is_one_line():
    with pytest.raises(InputError, match="a worker process was killed"):
        list(Local(2).map(die, [1, 2]))
