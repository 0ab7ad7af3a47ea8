"""Live-points wherever a program is asked for: with their vector, made by a trace itself, or refused in one line."""

from dataclasses import replace

import numpy as np
import pytest

import perfvec as pv
from analysis.budget.within import within
from analysis.parts.within import opened_within
from analysis.programs.simulable import SimulableLivePoints, SimulableTrace
from analysis.programs.targets import target_of
from analysis.questions import characterise as character_question
from analysis.questions.predict import answered
from perfvec.representation.live_points import live_points_of_stream, live_points_of_trace, vector_of
from perfvec.representation.represent import represent
from support import cache
from support.errors import InputError
from tracegen.live_points import own
from tracegen.live_points.character import character
from tracegen.live_points.live_points import load, save
from tracegen.live_points.record import of_trace
from tracegen.qemu import Execution, stream, trace
from tracegen.statistics.characterise import characterise
from uarch.machine_files import load_machine


@pytest.fixture(scope="module")
def points(small_model, traces, tmp_path_factory):
    path = tmp_path_factory.mktemp("live-points") / "old.livepoints.h5"
    save(live_points_of_trace(small_model, traces[0], units=64, progress=False), path)
    return path


@pytest.mark.slow
def test_the_vector_in_the_file_answers_for_the_model(small_model, traces, points):
    vector = target_of(small_model, points).vector
    whole = represent(small_model, traces[0], progress=False)
    assert (vector.instructions, vector.trace_digest) == (whole.instructions, whole.trace_digest)
    base = small_model.machine_vectors([load_machine("base")])[0]
    half = vector.sampling.half_width(base)[0] if vector.sampling else 0.0
    assert abs((vector.vector - whole.vector) @ base[0]) <= max(3 * half, 1e-6 * abs(whole.vector @ base[0]))
    frame = answered(small_model, [target_of(small_model, points)], [load_machine("base")], 0.0, progress=False)
    assert frame["cycles"][0] == pytest.approx(vector.vector @ base[0])
    assert list(frame["source"]) == ["table"]


@pytest.mark.slow
def test_a_running_program_leaves_its_vector_in_the_same_pass(small_model, traces, tmp_path):
    program = str(traces[0].with_name("old"))
    # Traced again: a run depends on its environment.
    again = trace(Execution([program]), tmp_path / "old.trace.h5", progress=False).path
    with stream(Execution([program], stdout=2)) as running:
        found = live_points_of_stream(small_model, running, units=64, progress=False)
    vector = vector_of(found, "stream")
    kept = vector_of(live_points_of_trace(small_model, again, units=64, progress=False), again)
    assert vector.instructions == found.instructions == pytest.approx(kept.instructions, rel=0.01)
    base = small_model.machine_vectors([load_machine("base")])[0]
    width = sum(one.sampling.half_width(base)[0] if one.sampling else 0.0 for one in (vector, kept))
    assert abs((vector.vector - kept.vector) @ base[0]) <= max(2 * width, 0.02 * abs(kept.vector @ base[0]))


@pytest.mark.slow
def test_the_vector_of_another_model_or_run_and_none_are_told_in_one_line(small_model, traces, points, tmp_path):
    other = replace(small_model, digest="f" * 64)
    with pytest.raises(InputError, match=r"made by the model .*, not by ffff.*make them again"):
        _ = target_of(other, points).vector
    found = load(points)
    save(replace(found, vector=b""), tmp_path / "bare.livepoints.h5")
    with pytest.raises(InputError, match="holds no vector"):
        _ = target_of(small_model, tmp_path / "bare.livepoints.h5").vector
    save(replace(found, digest="e" * 64), tmp_path / "other.livepoints.h5")
    with pytest.raises(InputError, match="its vector is of another run"):
        _ = target_of(small_model, tmp_path / "other.livepoints.h5").vector
    save(replace(found, vector=found.vector[:-9]), tmp_path / "cut.livepoints.h5")
    with pytest.raises(InputError, match="truncated or foreign"):
        _ = target_of(small_model, tmp_path / "cut.livepoints.h5").vector


def _miss_ratio(document, name, size):
    """Return the largest size's ratio for larger ones: what misses there is met for the first time, in any cache."""
    told = document["lru_miss_ratio"][name]
    return told.get(size, list(told.values())[-1])


@pytest.mark.slow
def test_the_character_is_near_that_of_the_trace(traces, points):
    true, told = characterise(traces[0], progress=False), character(load(points))
    assert told["instructions"] == pytest.approx(true["instructions"], rel=1e-9)
    for name, share in true["mix"].items():
        assert told["mix"][name] == pytest.approx(share, abs=0.03), name
    for name, lines in true["footprint"].items():
        assert told["footprint"][name] == pytest.approx(lines, rel=0.2, abs=20), name
    for name, ratios in true["lru_miss_ratio"].items():
        for size, ratio in ratios.items():
            assert _miss_ratio(told, name, size) == pytest.approx(ratio, abs=0.03), (name, size)
    for window, ipc in true["ideal_ipc"].items():
        assert told["ideal_ipc"][window] == pytest.approx(ipc, rel=0.15), window
    for distance, share in told["producer_within"]["register"].items():
        assert share == pytest.approx(true["producer_within"]["register"][distance], abs=0.03), distance
    assert list(told["producer_within"]) == ["register"]
    (note,) = character_question.ask(points).notes
    assert note.startswith("estimated from sampled units")


@pytest.mark.slow
def test_of_a_whole_run_the_character_is_that_of_the_trace(traces):
    found = of_trace(traces[0], units=1 << 20, progress=False)
    true, told = characterise(traces[0], progress=False), character(found)
    del true["producer_within"]["memory"]
    assert told == true


@pytest.fixture
def long_trace(traces, tmp_path, monkeypatch):
    """A trace that counts as longer than what its live-points pass, in a folder of its own."""
    path = tmp_path / "old.trace.h5"
    path.write_bytes(traces[0].read_bytes())
    for folder in ("budget", "parts"):
        monkeypatch.setattr(f"analysis.{folder}.within.LEAST_SAMPLED", 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return path


@pytest.mark.slow
def test_a_trace_makes_its_own_once_and_anew_where_it_changed(small_model, traces, long_trace, capsys):
    target = target_of(small_model, long_trace)
    (kept,) = within([target], 64, 100.0)
    assert isinstance(kept.simulable, SimulableTrace)  # short enough for the budget
    (sampled,) = within([target], 64, 0.05)
    assert isinstance(sampled.simulable, SimulableLivePoints)
    beside = long_trace.with_name("old.trace.livepoints.h5")
    made = beside.stat().st_mtime_ns
    assert "sampling its live-points once" in capsys.readouterr().err
    within([target_of(small_model, long_trace)], 64, 0.05)
    assert beside.stat().st_mtime_ns == made and capsys.readouterr().err == ""
    assert not list(long_trace.parent.glob(".*.part"))
    long_trace.write_bytes(traces[1].read_bytes())  # another program under the same name
    within([target_of(small_model, long_trace)], 64, 0.05)
    assert load(beside).digest == SimulableTrace(traces[1]).digest
    beside.write_bytes(beside.read_bytes()[:-100])
    within([target_of(small_model, long_trace)], 64, 0.05)
    assert load(beside).digest == SimulableTrace(traces[1]).digest


@pytest.mark.slow
def test_a_folder_that_takes_no_file_has_them_in_the_cache_or_in_memory(long_trace, tmp_path, monkeypatch, capsys):
    long_trace.with_name("old.trace.livepoints.h5").mkdir()  # no file can be made there, whoever runs this
    own.own_live_points(long_trace, progress=False)
    assert len(list((tmp_path / "cache" / "perfvec" / "live-points").iterdir())) == 1
    capsys.readouterr()
    own.own_live_points(long_trace, progress=False)
    assert capsys.readouterr().err == ""  # found again
    monkeypatch.setattr(cache, "cache_folders", list)
    found = own.own_live_points(long_trace, progress=False)
    assert found.instructions > 0 and "kept in" not in capsys.readouterr().err


@pytest.mark.slow
def test_what_a_user_made_is_used_and_never_replaced(long_trace):
    mine = long_trace.with_name("old.livepoints.h5")
    save(of_trace(long_trace, units=64, seed=5, progress=False), mine)
    assert own.own_live_points(long_trace, progress=False).seed == 5
    before = mine.read_bytes()
    save(replace(load(mine), digest="d" * 64), mine)
    other = mine.read_bytes()
    assert own.own_live_points(long_trace, progress=False).seed == 0
    assert mine.read_bytes() == other != before


@pytest.mark.slow
def test_a_budget_that_a_long_trace_does_not_fit_is_answered_by_its_live_points(small_model, long_trace):
    machines = [load_machine("base"), load_machine("cortex-a53")]
    target = target_of(small_model, long_trace)
    truth = target.simulable.simulate(machines).cycles
    frame = answered(small_model, [target], machines, 0.004, progress=False)
    assert not set(frame["source"]) & {"corrected"}
    target = target_of(small_model, long_trace)
    (sampled,) = within([target], 64, 0.05)
    found = sampled.simulable.simulate(machines)
    assert np.all((found.low <= truth * 1.05) & (found.high >= truth * 0.95))


@pytest.mark.slow
def test_parts_of_live_points_are_compared(small_model, points, traces, long_trace):
    with opened_within([points, traces[0]], 1, 100.0) as ((old, new), simulated):
        assert simulated and old.name == new.name
    with opened_within([long_trace, traces[0]], 1, 0.9 * 2 * 64 * 1024 / 5e6) as (_, simulated):
        assert isinstance(simulated, bool)
    with (
        pytest.raises(InputError, match="live-points hold no parts for the model"),
        opened_within([points, points], 1, 0.0),
    ):
        pass
    found = pv.diff(points, points, "base", model=small_model)
    assert found.table["difference.base"].abs().max() == 0


@pytest.mark.slow
def test_questions_that_live_points_cannot_answer_say_so_in_one_line(small_model, points):
    for ask in (
        lambda: pv.phases(points),
        lambda: pv.profile(points, "base", budget=0, model=small_model),
        lambda: pv.represent(points, model=small_model),
        lambda: pv.characterise(points, max_instructions=1000),
    ):
        with pytest.raises(InputError) as error:
            ask()
        assert "live-points" in str(error.value) and "\n" not in str(error.value)
