"""Tracing between places: what is recorded, in which files places are found, and what wrong ones say."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from support.errors import InputError
from tests.digests import trace_digest
from tests.tracegen.conftest import PROGRAMS
from tracegen.formats.trace import Trace
from tracegen.qemu import Execution, Region, parse_place, trace
from tracegen.qemu.region import Place


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The folder of `region` (position-independent, with a library of its own), `fixed` and a library for later."""
    folder = tmp_path_factory.mktemp("region")
    library = str(PROGRAMS / "library.c")
    for command in (
        ["-shared", "-fPIC", "-o", "libown.so", library],
        ["-shared", "-fPIC", "-DNAME=late_work", "-o", "late.so", library],
        ["-pie", "-fPIE", "-o", "region", str(PROGRAMS / "region.c"), "-L.", "-lown", f"-Wl,-rpath,{folder}"],
        ["-static", "-no-pie", "-o", "fixed", str(PROGRAMS / "region.c"), library],
    ):
        subprocess.run(["gcc", "-O1", "-g", "-w", *command], check=True, cwd=folder)
    return folder


@pytest.fixture
def recorded(program, tmp_path):
    """recorded(start=, stop=, returns=, times=): the executed addresses of that region, and whether it was stopped."""

    def run(*arguments, name="region", max_instructions=None, **region):
        places = {key: parse_place(value) if isinstance(value, str) else value for key, value in region.items()}
        command = [str(program / name), *arguments]
        execution = Execution(command, region=Region(**places), stdout=2, max_instructions=max_instructions)
        result = trace(execution, tmp_path / "t.trace.h5", progress=False)
        with Trace(result.path) as file:
            assert file.digest == trace_digest(file.path)
            ids = np.concatenate([chunk.static_id for chunk in file.chunks()])
            assert len(ids) == result.instructions
            return file.address[ids], result

    return run


def kernel(n):
    """Instructions of one call of kernel(n) or library_work(n)."""
    return 3 * n + 3


@pytest.mark.parametrize("name", ["region", "fixed"])
def test_a_function_is_every_call_of_it(recorded, name):
    address, result = recorded(name=name, start="kernel", returns=True)
    assert len(address) == sum(kernel(n) for n in (10, 20, 1, 4, 7))
    assert result.exit_status == 0 and not result.stopped


def test_times_ends_the_program_after_so_many_calls(recorded):
    address, result = recorded(start="kernel", returns=True, times=2)
    assert len(address) == kernel(10) + kernel(20)
    assert result.stopped and result.exit_status is None


def test_what_a_function_calls_is_in_it(recorded):
    address, _ = recorded(start="outer", returns=True)
    around = len(address) - kernel(10) - kernel(20)
    assert 5 <= around <= 20  # of outer itself


def test_recursion_is_one_execution(recorded):
    whole, _ = recorded(start="recursive", returns=True)
    assert len(np.flatnonzero(whole == whole[0])) == 4
    once, _ = recorded(start="recursive", returns=True, times=1)
    assert len(once) == len(whole)


@pytest.mark.parametrize("function", ["library_work", "late_work"])
def test_a_function_of_a_library_is_found_early_and_late(recorded, program, function):
    address, _ = recorded(str(program / "late.so"), start=function, returns=True)
    assert len(address) == kernel(5 if function == "library_work" else 6)


def test_from_one_place_to_another_in_the_same_block(recorded):
    address, _ = recorded(start="kernel_loop", stop="kernel_end")
    assert len(address) == 3 * (10 + 20 + 1 + 4 + 7)
    address, _ = recorded(start="kernel", stop="kernel+3")  # the second instruction's place
    assert len(set(address.tolist())) == 1 and len(address) == 5


def test_addresses_are_of_the_executable_wherever_it_is_loaded(recorded, program):
    listing = subprocess.run(["nm", program / "region"], capture_output=True, text=True, check=True).stdout
    place = next(line.split()[0] for line in listing.splitlines() if line.endswith(" kernel"))
    address, _ = recorded(start=f"0x{place}", returns=True)
    assert len(address) == sum(kernel(n) for n in (10, 20, 1, 4, 7))


def test_from_alone_records_to_the_end_and_to_alone_from_the_start(recorded):
    after, result = recorded(start="main", name="fixed")
    assert result.exit_status == 0
    before, result = recorded(stop="main", name="fixed")
    assert result.stopped
    assert after[0] not in before
    assert len(before) > 1000


def test_max_counts_what_is_recorded(recorded):
    address, _ = recorded(start="kernel", returns=True, max_instructions=50)
    assert len(address) == 50
    whole, _ = recorded(start="kernel", returns=True)
    assert address.tolist() == whole[:50].tolist()


def test_wrong_places_are_named_before_or_after_the_run(recorded, program, tmp_path):
    with pytest.raises(InputError, match=r"no function 'kernle' in fixed; did you mean kernel"):
        recorded(name="fixed", start="kernle", returns=True)
    with pytest.raises(InputError, match=r"no function 'librarywork'.*did you mean library_work"):
        recorded(start="librarywork")  # a library may come late: told at the end
    environment, region = {"LD_PRELOAD": str(program / "late.so")}, Region(start=Place("late_work", 0))
    execution = Execution([str(program / "region")], stdout=2, region=region, env=environment)
    with pytest.raises(InputError, match="never reached late_work"):
        trace(execution, tmp_path / "t.h5", progress=False)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_region_is_named(recorded):
    for text in ("", "5x", "a b", "+3"):
        with pytest.raises(InputError, match="no place in a program"):
            parse_place(text)
    assert parse_place("f+0x10") == Place("f", 16)
    assert parse_place("f+010") == Place("f", 10)
    assert parse_place("0x40") == Place(None, 64)
    with pytest.raises(InputError, match="begins or ends"):
        Region()
    with pytest.raises(InputError, match="at least 1"):
        Region(start=Place("f", 0), times=0)
    with pytest.raises(InputError, match="does not go with a region"):
        Execution(["true"], skip=3, region=Region(start=Place("f", 0)))


@pytest.mark.parametrize(
    ("isa", "flags"),
    [
        ("aarch64", ()),
        ("aarch64", ("-march=armv8.3-a", "-mbranch-protection=pac-ret+leaf")),
        ("aarch64", ("-march=armv8.3-a", "-mbranch-protection=pac-ret+leaf+b-key")),
        ("riscv64", ()),
    ],
    ids=["aarch64", "aarch64-retaa", "aarch64-retab", "riscv64"],
)
def test_returns_are_known_on_other_isas(build, tmp_path, isa, flags):
    command, region = [str(build("behave", "-static", *flags, isa=isa))], Region(start=Place("work", 0), returns=True)
    result = trace(Execution(command, region=region), tmp_path / "t.h5", progress=False)
    with Trace(result.path) as file:
        start, size, names = file.symbols()
        at = names.index("work")
        assert np.all((file.address >= start[at]) & (file.address < start[at] + size[at]))
        assert result.exit_status == 0 and result.instructions >= 4000


def test_more_instructions_than_the_tracer_counts_are_refused():
    for options in ({"max_instructions": 2**64 - 1}, {"max_instructions": 0}, {"skip": 2**64}, {"skip": -1}):
        with pytest.raises(InputError, match=r"must be from [01] to 1,000,000,000,000,000,000"):
            Execution(["true"], **options)
