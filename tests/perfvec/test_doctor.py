"""`perfvec doctor` against the real machine, and against one where things are missing."""

import json

import pytest

from perfvec.doctor import examine
from tests.command import perfvec


@pytest.fixture(scope="module")
def found():
    """Findings of this computer by name, with a gem5 that is none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEM5", "/bin/no-such-gem5")
        return {finding.what: finding for finding in examine()}


def test_here_programs_can_be_traced_and_represented(found):
    for what in ("machine", "PyTorch", "model", "representation", "tracing x86-64", "a program"):
        assert found[what].state == "ok", found[what]
    assert "qemu-x86_64 version" in found["tracing x86-64"].detail
    assert found["representation"].detail.startswith(("bfloat16", "float32"))


@pytest.mark.slow
def test_json_and_lines_say_the_same():
    told = json.loads(perfvec("doctor", "--json").stdout)
    lines = [line for line in perfvec("doctor").stdout.splitlines() if not line.startswith(" ")]  # a long one goes on
    assert [line[:8].strip() for line in lines] == [finding["state"] for finding in told]
    assert all(finding["what"] in line for finding, line in zip(told, lines, strict=True))


@pytest.mark.slow
def test_without_qemu_and_a_compiler_it_says_so_and_fails(tmp_path, monkeypatch):
    for name, value in {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "CC": ""}.items():
        monkeypatch.setenv(name, value)
    run = perfvec("doctor", "--json")
    found = {finding["what"]: finding for finding in json.loads(run.stdout)}
    assert run.returncode == 1 and run.stderr == ""
    assert (
        found["tracing x86-64"]["state"] == "missing" and "apt install qemu-user" in found["tracing x86-64"]["detail"]
    )
    assert found["a program"]["state"] == "missing"
    assert found["tracing riscv64"]["state"] == "absent"


def test_gem5_that_is_none_is_told(found):
    assert found["gem5"].state == "absent" and "/bin/no-such-gem5" in found["gem5"].detail
