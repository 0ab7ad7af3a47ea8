"""Kept points: simulated once, whatever was cut short, and of this program alone."""

import numpy as np
import pytest

from analysis.programs.kept import Kept
from analysis.programs.simulable import Estimates, SimulableTrace
from analysis.programs.span import Span
from support.errors import InputError
from uarch.machine_files import load_machine


class Counting:
    """Has three cycles an instruction, in an interval, and counts the machines that it simulates."""

    name, isa, identity, instructions, work = "counting", "x86-64", "1", 10, 10

    def __init__(self):
        self.simulated = []

    def prepare(self):
        pass

    def simulate(self, machines, threads=None):
        self.simulated += [machine.name for machine in machines]
        cycles = np.array([30.0 * machine.frequency_ghz for machine in machines])
        return Estimates(cycles, cycles - 1, cycles + 2, np.outer(cycles, [1e-3, -2e-3]))


MACHINES = [load_machine(name) for name in ("base", "zen4", "haswell")]


def first_deviations():
    return Counting().simulate(MACHINES[:2]).deviations


def test_what_is_kept_is_not_simulated_again(tmp_path):
    first, second = Counting(), Counting()
    found = Kept(first, tmp_path / "new").simulate(MACHINES[:2])
    again = Kept(second, tmp_path / "new").simulate([*MACHINES, MACHINES[0]])
    assert (first.simulated, second.simulated) == (["base", "zen4"], ["haswell"])
    for end in ("cycles", "low", "high"):
        assert getattr(again, end)[[0, 1, 3]].tolist() == getattr(found, end)[[0, 1, 0]].tolist()
    assert (again.high - again.low).tolist() == [3.0] * 4
    assert found.deviations.shape == (2, 2)
    assert again.deviations[[0, 1, 3]].tolist() == found.deviations[[0, 1, 0]].tolist()
    assert found.deviations == pytest.approx(first_deviations(), rel=5e-3)  # three digits are kept
    assert len(Kept(Counting(), tmp_path / "new").simulate([]).cycles) == 0


@pytest.mark.parametrize(
    "damage", [lambda t: t[:-9], lambda t: t + '["x", 1', lambda t: t + '\0\xff\n[1,2,3,4]\n{}\n["x",1,2,3]\n']
)
def test_a_line_that_was_cut_short_is_simulated_again(tmp_path, damage):
    Kept(Counting(), tmp_path).simulate(MACHINES[:2])
    (path,) = tmp_path.iterdir()
    path.write_text(damage(path.read_text()), encoding="latin-1")
    for expected in (MACHINES[1:] if len(damage("0123456789")) < 10 else MACHINES[2:], []):
        program = Counting()
        found = Kept(program, tmp_path).simulate(MACHINES)
        assert program.simulated == [machine.name for machine in expected]
        assert found.cycles.tolist() == [30.0 * machine.frequency_ghz for machine in MACHINES]


def test_each_program_has_its_own_file(tmp_path, traces):
    parts = [
        SimulableTrace(traces[0], span) for span in (Span(), Span(count=2000), Span(1000, 2000), Span(1000, 2000, 5))
    ]
    found = [Kept(part, tmp_path).simulate(MACHINES).cycles.tolist() for part in parts]
    assert len(list(tmp_path.iterdir())) == len(parts)
    assert found == [part.simulate(MACHINES).cycles.tolist() for part in parts]


def test_a_folder_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: cannot be a folder"):
        Kept(Counting(), tmp_path / "file")


def test_in_memory_nothing_is_simulated_twice_and_what_one_takes_is_known():
    program = Counting()
    kept = Kept(program)
    assert kept.seconds_each == 0.0 and not kept.keeps(MACHINES).any()
    kept.simulate(MACHINES[:2])
    assert kept.keeps(MACHINES).tolist() == [True, True, False] and kept.seconds_each > 0
    kept.simulate(MACHINES)
    assert program.simulated == ["base", "zen4", "haswell"]
