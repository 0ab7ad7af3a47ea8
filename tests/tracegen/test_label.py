"""Labels: of which warm-up they are, and that their counters are of the labelled window."""

import h5py
import pytest

from support.errors import InputError
from support.seal import seal
from tests.latency_files import as_version_1
from tracegen.formats.latency import LatencyFile
from tracegen.label import label
from tracegen.qemu import Execution, trace
from tracegen.suite.inputs import compile_c


def labelled(data, folder, **options):
    (path,) = label(
        [data.traces / "qsort.trace.h5"], data.machines[:2], folder, **{"start": 30_000, "progress": False} | options
    )
    return path


def test_counters_are_of_the_window(data, tmp_path):
    with LatencyFile(labelled(data, tmp_path)) as file:
        values, columns = file.counters()
        assert (values[:, columns.index("instructions")] == len(file)).all()
        assert values[:, columns.index("cycles")] == pytest.approx(file.cycles(), abs=100)  # of a burst at the ends


def test_touches_warm_caches_as_all_that_was_executed_does(data, tmp_path):
    counts = []
    for folder, options in (("all", {}), ("touched", {"touches": True}), ("cold", {"start": 0})):
        path = labelled(data, tmp_path / folder, **{"warmup": 1_000, "count": 5_000} | options)
        with LatencyFile(path) as file:
            values, columns = file.counters()
            counts.append(values[:, [columns.index(name) for name in ("cycles", "l1d_misses", "l2_misses")]])
    everything, touched, cold = counts
    assert touched == pytest.approx(everything, rel=0.03, abs=3)
    assert (cold[:, 1] > 2 * everything[:, 1]).any()


@pytest.mark.parametrize("other", [{"touches": True}, {"warmup": 5_000}])
def test_labels_behind_another_warm_up_are_others(data, tmp_path, other):
    path = labelled(data, tmp_path)
    written = path.read_bytes()
    assert labelled(data, tmp_path).read_bytes() == written
    with pytest.raises(InputError, match="holds other labels"):
        labelled(data, tmp_path, **other)
    assert path.read_bytes() == written


def test_two_traces_of_one_name_are_refused(data, tmp_path):
    (tmp_path / "b").mkdir()
    other = tmp_path / "b" / "qsort.trace.h5"
    other.symlink_to(data.traces / other.name)
    with pytest.raises(InputError, match="two traces are called 'qsort'; label them into two folders"):
        label([data.traces / other.name, other], data.machines[:1], tmp_path / "labels", progress=False)
    assert not (tmp_path / "labels").exists()


def test_a_long_string_is_labelled_with_all_its_cycles(data, tmp_path):
    """An instruction that clears a MiB takes more cycles than 16 bits hold."""
    (tmp_path / "clear.c").write_text(
        "static char area[1 << 20];\n"
        "int main(void) { void *at = area; unsigned long n = sizeof area;\n"
        'asm volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(1) : "memory"); return 0; }\n'
    )
    compile_c(tmp_path / "clear.c", tmp_path / "clear", ["-O1", "-static"])
    trace(Execution([str(tmp_path / "clear")]), tmp_path / "clear.trace.h5", progress=False)
    (path,) = label([tmp_path / "clear.trace.h5"], data.machines[:2], tmp_path, progress=False)
    with LatencyFile(path) as file:
        values, columns = file.counters()
        assert file.read(0, len(file)).max() > 65_535
        assert values[:, columns.index("cycles")] == pytest.approx(file.cycles(), abs=100)


def test_labels_that_an_older_release_cut_are_made_anew(data, tmp_path):
    path = labelled(data, tmp_path)
    with LatencyFile(path) as file:
        expected = file.read(0, len(file))
    as_version_1(path)
    whole = path.stat().st_mtime_ns
    assert labelled(data, tmp_path) == path and path.stat().st_mtime_ns == whole  # nothing was cut
    with h5py.File(path, "r+") as file:
        file["latency"][1, 7] = 65_535
    seal(path)
    with LatencyFile(labelled(data, tmp_path)) as file:
        assert file.version == 2 and (file.read(0, len(file)) == expected).all()
