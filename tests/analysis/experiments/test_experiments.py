"""The cache-size study: designs, quality of choices, the compared methods on functions whose answer is known."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from analysis.experiments import caches, dubach, ipek, li, machine_vectors, simulations, surface
from analysis.experiments.simulations import Intervals
from analysis.experiments.study import MethodTimes, Study, designs_of, quality, spread
from support.errors import InputError
from tests.analysis.vectors import shipped
from tracegen.formats.latency import LatencyFile
from tracegen.label import label
from uarch.machine_files import load_machine

pytestmark = pytest.mark.skipif(
    find_spec("sklearn") is None, reason="the compared methods need scikit-learn (extra `experiment`)"
)


def study(cycles, trained=(0,)):
    machines, sizes = designs_of(load_machine("cortex-a53"))
    cycles = np.asarray(cycles, float)
    names = tuple(f"p{number}" for number in range(len(cycles)))
    return Study(names, tuple(machines), sizes, cycles, np.ones(cycles.shape), trained)


def smooth(weight):
    """Times that fall with the caches, faster with the L1 where `weight` is large."""
    _, sizes = designs_of(load_machine("cortex-a53"))
    l1, l2 = np.log2(sizes).T
    return 100 + weight * (7 - l1) ** 2 + (13 - l2) ** 1.5


def test_the_36_designs():
    machines, sizes = designs_of(load_machine("cortex-a53"))
    assert len(machines) == len({machine.name for machine in machines}) == 36
    assert [(m.l1d.size_kib, m.l2.size_kib) for m in machines] == [tuple(row) for row in sizes]
    assert sizes[7].tolist() == [8, 512]


def test_quality_by_hand():
    found = study(np.full((1, 36), 10.0))  # equal times: the smallest caches are the best
    cost = found.cost
    assert cost[0] == 1000 + 40 + 256
    time = np.full((1, 36), 5.0)
    time[0, 1] = 0.1  # the method believes in 4 KiB and 512 KiB
    above, better, chosen = quality(found, MethodTimes(time, np.zeros(time.shape, bool)))
    assert chosen.tolist() == [1]
    assert above[0] == pytest.approx(cost[1] / cost[0] - 1)
    assert better.tolist() == [int((cost < cost[1]).sum())]


def test_designs_spread_over_the_space():
    x = study(np.ones((1, 36))).coordinates
    assert spread(x, 4) == [0, 35, 5, 30]  # the corners
    assert li.orthogonal(x)[:4] == [0, 35, 5, 30]


def test_networks_learn_a_smooth_function():
    x, cycles = study(np.ones((1, 36))).coordinates, smooth(2.0)
    found = ipek.ensemble(x[::2], cycles[::2], x, seed=0)
    assert np.abs(found / cycles - 1).mean() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("method", [ipek.answer, li.answer])
def test_methods_count_what_they_simulate(method):
    found = method(study([smooth(0.5), smooth(3.0)]), 0)
    assert found.simulated.sum(axis=1).tolist() in ([9, 9], [10, 10])
    assert np.abs(found.time / np.array([smooth(0.5), smooth(3.0)]) - 1).mean() < 0.1
    exact = found.simulated
    assert np.array_equal(found.time[exact], np.array([smooth(0.5), smooth(3.0)])[exact])


def test_a_mixture_of_known_programs_is_predicted_from_responses():
    known = [smooth(0.3), smooth(3.0)]
    found = dubach.answer(study([*known, 0.5 * known[0] + 2 * known[1]], trained=(0, 1)), 0, training=20)
    assert found.simulated.sum(axis=1).tolist() == [20, 20, 4]
    assert np.abs(found.time[2] / (0.5 * known[0] + 2 * known[1]) - 1).mean() < 0.08


def test_machine_vectors_are_fitted_to_few_simulations():
    """Twelve simulations show that the truth is another polynomial of the sizes than the encoder's."""
    model = shipped()
    machines, _ = designs_of(load_machine("cortex-a53"))
    x = study(np.ones((1, 36))).coordinates
    basis = machine_vectors.monomials(x)
    prior = np.linalg.lstsq(basis, model.encoder.vectors(machines), rcond=None)[0]
    generator = np.random.default_rng(1)
    table = model.table()
    vectors = np.linalg.lstsq(table, 1e4 * (1 + generator.random((len(table), 40))), rcond=1e-2)[0].T
    truth = (basis * np.array([1.5, 0.6, 0.6, 1, 1, 1])) @ prior
    intervals = [
        Intervals(f"p{n}", np.repeat(truth @ own.T, simulations.EVERY, axis=1), own, np.ones(36), 1.0)
        for n, own in enumerate(vectors.reshape(10, 4, -1))
    ]
    found = caches.study_of(intervals, machines, designs_of(load_machine("cortex-a53"))[1], ["p0", "p1", "p2"])
    assert found.trained == (0, 1, 2)

    def error(answer):
        return np.abs(answer.time / found.cycles - 1)[3:].mean()

    fitted = machine_vectors.fitted(model, found, intervals)
    assert fitted.simulated.sum() == 12
    assert error(fitted) < 0.5 * error(machine_vectors.zero_shot(model, found, intervals))


@pytest.mark.slow
def test_intervals_are_timed_as_labels_are_and_kept(data, tmp_path, monkeypatch):
    monkeypatch.setattr(simulations, "INTERVAL_INSTRUCTIONS", 4096)
    traces, machines = sorted(data.traces.iterdir()), [load_machine("cortex-a53"), load_machine("base")]
    found = simulations.measure(data.model, traces, machines, tmp_path, start=20_000, count=20_000, progress=False)
    assert [program.program for program in found] == ["matmul", "qsort"]
    label(traces[:1], machines, tmp_path / "l", start=20_000, count=4 * 4096, workers=1, progress=False)
    with LatencyFile(tmp_path / "l" / "matmul-20000.latency.h5") as labels:
        expected = labels.read(0, 4 * 4096).reshape(2, 4, 4096).sum(axis=2)
    assert np.array_equal(found[0].cycles, expected)
    assert found[0].vectors.shape == (1, data.model.foundation.width)

    def fail(*_):
        raise AssertionError("simulated again")

    whole = {path: path.read_bytes() for path in tmp_path.glob("*.npz")}
    for path, content in whole.items():  # damaged: made again
        path.write_bytes(
            content[: len(content) // 2] + bytes([content[len(content) // 2] ^ 255]) + content[len(content) // 2 + 1 :]
        )
    simulations.measure(data.model, traces, machines, tmp_path, start=20_000, count=20_000, progress=False)
    assert len(whole) >= 2
    monkeypatch.setattr(simulations, "simulate_intervals", fail)
    again = simulations.measure(data.model, traces, machines, tmp_path, start=20_000, count=20_000, progress=False)
    assert np.array_equal(again[1].cycles, found[1].cycles)
    other = replace(data.model, digest="other")  # labels stay, vectors are made for this model
    assert simulations.measure(other, traces, machines, tmp_path, start=20_000, count=20_000, progress=False)


@pytest.mark.slow
def test_the_whole_study(data, tmp_path, monkeypatch):
    monkeypatch.setattr(simulations, "INTERVAL_INSTRUCTIONS", 4096)
    result = caches.caches(
        data.model,
        sorted(data.traces.iterdir()),
        load_machine("cortex-a53"),
        tmp_path,
        train=["qsort"],
        l1=(4, 16, 64),
        l2=(64, 256, 1024),
        start=20_000,
        count=40_000,
        repeats=1,
        progress=False,
    )
    table = result.methods.set_index("method")
    assert table.loc["exhaustive", "simulations"] == 18
    assert table.loc["exhaustive", ["above", "better"]].tolist() == [0, 0]
    assert table.loc["PerfVec zero-shot", "simulations"] == 0
    assert (table["above"] >= 0).all()
    assert len(result.choices) == 2 * len(table)
    assert "exhaustive" not in caches.headline(result).sentence  # which nothing is better than
    best = result.methods.assign(above=0.0)  # of equal ones the cheapest is named
    assert "PerfVec zero-shot" in caches.headline(replace(result, methods=best)).sentence
    assert {"fitted", "zero-shot"} <= set(caches.shown(result).split())
    assert "PerfVec fitted" in caches.shown(result)
    assert max(map(len, caches.shown(result).splitlines())) <= 80
    assert result.to_json()["trained"] == ["qsort"]


def test_what_cannot_be_studied(data, tmp_path):
    traces, base = sorted(data.traces.iterdir()), load_machine("cortex-a53")
    with pytest.raises(InputError, match="every trace is shorter"):
        caches.caches(data.model, traces * 2, base, tmp_path, count=1 << 20, progress=False)
    intervals = [Intervals(n, np.ones((36, 1)), np.ones((1, 4)), np.ones(36), 1.0) for n in ("a", "b", "c")]
    with pytest.raises(InputError, match="give at least 4 traces"):
        caches.caches(data.model, [tmp_path / "never read"] * 3, base, tmp_path, progress=False)
    with pytest.raises(InputError, match="give at least 4 traces"):
        caches.study_of(intervals, *designs_of(base))
    with pytest.raises(InputError, match="--train x"):
        caches.study_of(intervals, *designs_of(base), ["x"])


@pytest.mark.slow
def test_a_surface_through_few_designs_finds_a_smooth_optimum():
    found = study([smooth(2.0), smooth(0.5)])
    answer = surface.answer(found, 0, simulations=8)
    assert answer.simulated.sum() == 16
    above, _, chosen = quality(found, answer)
    assert (above < 0.03).all()
    assert answer.simulated[[0, 1], chosen].all()
    assert np.array_equal(answer.time[answer.simulated], found.cycles[answer.simulated])


@pytest.mark.slow
def test_a_budget_is_as_many_designs_as_it_has_time_for():
    found = replace(study([smooth(2.0), smooth(0.5)]), seconds=np.stack([np.full(36, 0.5), np.full(36, 0.25)]))
    answer = surface.answer(found, 0, seconds=2.9)
    assert answer.simulated.sum(axis=1).tolist() == [5, 11]
    with pytest.raises(InputError, match=r"--budget 0\.3: not one design of .* each takes about 0\.5 s"):
        surface.answer(found, 0, seconds=0.3)


def test_one_design_for_all_is_that_of_the_smallest_geometric_mean():
    cycles = np.stack([np.full(36, 4.0), np.full(36, 9.0), np.full(36, 50.0)])
    cycles[:, 7] *= 0.5
    found = caches.one_for_all(study(cycles, trained=(0, 1)))
    assert found.time[2, 6:8] == pytest.approx([6, 3])
    assert found.simulated.sum(axis=1).tolist() == [36, 36, 0]
