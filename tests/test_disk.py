"""Messages where output cannot be written: a reader that is gone, a full disk."""

import os
import resource
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.command import INSTALLED as COMMAND
from tests.command import perfvec
from tracegen.qemu import Execution, trace

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("arguments", [["uarch", "show", "zen4"], ["uarch", "sample", "300"], ["--help"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_is_gone_ends_a_command_as_sigpipe_would(arguments, unbuffered):
    reading, writing = os.pipe()
    os.close(reading)
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run([*COMMAND, *arguments], stdout=writing, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_standard_output_on_a_full_disk_is_one_line(unbuffered):
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        done = subprocess.run(
            [*COMMAND, "uarch", "show", "zen4"], stdout=full, stderr=subprocess.PIPE, env=environment, check=False
        )
    assert done.returncode == 2
    assert done.stderr == b"perfvec: the disk is full, or a file larger than is allowed\n"


_SMALL = """mount -t tmpfs -o size=256k none "$0" && head -c "$1" /dev/zero > "$0/filling" && shift
"$@"
status=$?
ls -A "$0"
exit $status"""


@pytest.fixture
def on_small_disk(tmp_path):
    """on_small_disk(room, arguments): a command, `{disk}` a disk with room for so many KiB; what it left there."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def unshared(*words):
        prefix = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
        return subprocess.run([*prefix, *words], capture_output=True, text=True, check=False)

    if unshared("mount", "-t", "tmpfs", "none", str(disk)).returncode != 0:
        pytest.skip("a small disk cannot be mounted here")

    def run(room, arguments):
        words = [str(word).format(disk=disk) for word in arguments]
        return unshared("sh", "-c", _SMALL, str(disk), str((256 - room) << 10), *COMMAND, *words)

    return run


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    path = tmp_path_factory.mktemp("traced") / "sort.trace.h5"
    trace(Execution(["sort", "--version"], stdout=2, max_instructions=20_000), path, progress=False)
    return path


WRITING = [
    "trace -o {disk}/x.trace.h5 -- sort --version",
    "represent {trace} -o {disk}/x.vector.npz",
    "report {trace} -o {disk}/x.html --uarch base --budget 0",
    "label {trace} -o {disk} --uarch base",
    "features {trace} -o {disk}",
]


@contextmanager
def limit(kib):
    """Limit the size of written files, as `ulimit -f` does."""
    before, compiled = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # Python would cut a module's short, and all later imports of it would fail
    resource.setrlimit(resource.RLIMIT_FSIZE, (kib << 10, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = compiled


@pytest.mark.parametrize("kib", [1, 3])
@pytest.mark.parametrize("command", WRITING[1:])  # what is traced has the limit too
def test_a_limit_on_the_size_of_files_is_one_line_and_leaves_nothing(traced, tmp_path, kib, command):
    words = command.format(trace=traced, disk=tmp_path).split()
    with limit(kib):
        done = perfvec(*words)
    assert done.returncode == 2, done.stderr
    said = [line for line in done.stderr.splitlines() if "beyond what the encoder" not in line]
    assert len(said) == 1 and "larger than is allowed" in said[0], done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("command", "room"), [*((one, 0) for one in WRITING), (WRITING[0], 4), (WRITING[4], 4)])
def test_a_full_disk_is_one_line_and_leaves_nothing(traced, on_small_disk, room, command):
    done = on_small_disk(room, command.replace("{trace}", str(traced)).split())
    assert done.returncode == 2, done.stderr
    said = [line for line in done.stderr.splitlines() if "beyond what the encoder" not in line]
    assert len(said) == 1 and "the disk is full" in said[0], done.stderr
    assert done.stdout.splitlines()[-1] == "filling"
