"""The table's rows refined on whole windows: known answers, and a training that ends with it."""

import numpy as np
import pytest

from perfvec.evaluate import evaluate
from perfvec.training.recipe import Recipe
from perfvec.training.table_rows import OTHERS, OUTLIER, PRIOR, refined_row
from perfvec.training.train import train
from support.errors import InputError
from tools.label_rows import label_rows
from tools.label_sampled import label_windows
from tracegen.formats.latency import LatencyFile

RECIPE = Recipe(width=8, layers=1, batch_size=4, sampled_machines=4, instructions=4 * 288 * 40, seed=4)


def test_a_row_that_is_right_stays():
    rng = np.random.default_rng(0)
    vectors, row = rng.uniform(0.5, 1.0, (9, 4)), rng.uniform(1.0, 2.0, 4)
    cycles = vectors @ row
    np.testing.assert_allclose(refined_row(row, (vectors[:3], cycles[:3]), (vectors[3:], cycles[3:])), row)


def test_the_answer_is_the_ridge_regressions():
    """One coordinate: windows R = 1, one of the machine's own of 1.1 cycles and two others of 1 cycle, m₀ = 1."""
    found = refined_row(np.ones(1), (np.ones((1, 1)), np.full(1, 1.1)), (np.ones((2, 1)), np.ones(2)))
    own = 1 / 1.1
    prior = PRIOR * (own**2 + 2) / 3
    assert found[0] == pytest.approx(1 + own * (1 - own) / (own**2 + 2 * OTHERS + prior))


@pytest.mark.parametrize("cycles", [2.0, 3.0])
def test_an_outlier_counts_linearly(cycles):
    """The pull is design · weight · OUTLIER, however far the error is: relative errors of 1/2 and 2/3."""
    moved = refined_row(np.ones(1), (np.ones((1, 1)), np.ones(1)), (np.ones((1, 1)), np.full(1, cycles)))[0] - 1
    design = 1 / cycles
    weight = OTHERS * OUTLIER / (1 - design)
    assert moved == pytest.approx(OTHERS * OUTLIER * design / (1 + weight * design**2 + PRIOR * (1 + design**2) / 2))


def test_other_programs_teach_what_the_own_do_not_show():
    rng = np.random.default_rng(1)
    truth = rng.uniform(0.5, 2.0, 6)
    own, others = np.zeros((4, 6)), rng.uniform(0.0, 1.0, (200, 6))
    own[:, :2] = rng.uniform(0.5, 1.0, (4, 2))
    trained = truth.copy()
    trained[2:] *= 0.9
    found = refined_row(trained, (own, own @ truth), (others, others @ truth))
    assert np.abs(found / truth - 1).mean() < 0.5 * np.abs(trained / truth - 1).mean()


@pytest.mark.slow
def test_training_ends_with_it(data, tmp_path):
    names = sorted(path.name for path in data.latencies.glob("*.latency.h5"))
    own, programs = tmp_path / "own", tmp_path / "programs"
    own.mkdir()
    (own / names[0]).symlink_to(data.latencies / names[0])
    label_windows(data.traces, programs, latencies=data.latencies, windows=4, machines=4, count=2000, seed=99, pool=64)
    label_rows(data.traces, programs, own, tmp_path / "rows", every=1)
    label_rows(data.traces, programs, own, tmp_path / "some", every=2)
    every, some = ({path.name for path in (tmp_path / name).glob("*")} for name in ("rows", "some"))
    assert set() < some < every
    (programs / min(every - some)).unlink()  # which of the others are chosen does not depend on it
    label_rows(data.traces, programs, own, tmp_path / "fewer", every=2)
    assert {path.name for path in (tmp_path / "fewer").glob("*")} == some
    with LatencyFile(own / names[0]) as file:
        machines, digest = list(file.machines), file.trace_digest
    for path in (tmp_path / "rows").iterdir():
        with LatencyFile(path) as file:
            assert list(file.machines[: len(machines)]) == machines and file.trace_digest != digest
    common = {"recipe": RECIPE, "encoder": False, "shards": tmp_path / "s", "progress": False}
    plain = train(data.traces, own, tmp_path / "plain.safetensors", **common)
    refined = train(data.traces, own, tmp_path / "r.safetensors", row_latencies=tmp_path / "rows", **common)
    errors = []
    for model in (plain, refined):
        errors.append(evaluate(model, data.traces, tmp_path / "rows", progress=False)["error"].mean())
    assert errors[1] < errors[0]
    with pytest.raises(InputError, match="label no machine of the table"):
        train(data.traces, own, tmp_path / "m.safetensors", row_latencies=programs, **common)
