"""Intervals: quantiles by hand, coverage by construction, the file, the command, what predict and sweep show."""

import json
import math
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.cli.main import main
from analysis.designs import intervals, sweep
from analysis.designs.design import grid_design
from analysis.designs.table import best, fields_of
from analysis.questions import novelty, predict, sweep_tables
from benchmarks.perfvec.calibrate_unlike import calibrate_unlike
from perfvec.evaluate import evaluate
from perfvec.intervals.calibrate import calibrate, coverage
from perfvec.intervals.calibration import (
    LEVELS,
    Calibration,
    Errors,
    Scale,
    UnlikeCalibration,
    WayCalibration,
    calibrate_way,
    calibration_from_json,
    fit_scale,
    left_out_half_widths,
)
from perfvec.intervals.conformal import hierarchical_quantiles
from perfvec.intervals.level import least_groups, require_level
from perfvec.intervals.novelty import program_isolation, program_neighbours
from perfvec.intervals.predicted import around, half_widths
from perfvec.machines.machine_vector import MachineVector
from perfvec.model import load_model, save_model
from perfvec.representation.represent import represent
from perfvec.representation.vector import Sampling
from support.errors import InputError
from tracegen.decode import decode
from tracegen.formats.trace import Trace
from tracegen.qemu import Execution, trace
from uarch.configuration import replace_field
from uarch.machine_files import load_machine, preset_names
from uarch.timing.simulations import simulated_cycles

UNLIKE = Path(__file__).parents[2] / "benchmarks" / "perfvec" / "unlike"


def errors(error, program, machine=None, distance=None, machine_distance=None, new_machines=False):
    """Return the errors of n pairs, each program at distance 1 unless told."""
    ones = np.ones(len(error))
    return Errors(
        np.array(error, float),
        np.array(program),
        np.zeros(len(error), np.int64) if machine is None else machine,
        ones if distance is None else np.array(distance, float),
        0 * ones if machine_distance is None else np.array(machine_distance, float),
        new_machines,
    )


def test_quantiles_by_hand():
    """Nine programs of one score each weigh 0.1 each: the 0.9 quantile is the largest, more is not known."""
    scores = [3, 1, 2, 9, 5, 4, 8, 6, 7]
    found = hierarchical_quantiles(scores, range(9), [0.5, 0.8, 0.9, 0.91])
    assert found.tolist() == [5, 8, 9, math.inf]


def test_a_program_of_many_scores_counts_once():
    """Program 0 has three of the scores and a third of each's weight: 1/12 each, 1/4 for 10 and 20."""
    found = hierarchical_quantiles([1, 2, 3, 10, 20], [0, 0, 0, 1, 2], [1 / 12, 0.25, 0.26, 0.5, 0.75, 0.76])
    assert found.tolist() == [1, 3, 10, 10, 20, math.inf]


def test_how_many_programs_a_level_needs():
    assert [least_groups(level) for level in (0.5, 0.8, 0.9, 0.95)] == [1, 4, 9, 19]
    for level in (0.5, 0.8, 0.9, 0.95):
        for count in (least_groups(level) - 1, least_groups(level)):
            if count:
                (found,) = hierarchical_quantiles(np.ones(count), np.arange(count), [level])
                assert np.isfinite(found) == (count >= least_groups(level))
    for level in (0.4, 1.0, -1, math.nan):
        with pytest.raises(InputError, match="to below 1"):
            require_level(level)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), programs=st.integers(9, 30), level=st.sampled_from([0.5, 0.7, 0.8, 0.9]))
def test_coverage_is_at_least_the_level_for_exchangeable_programs(seed, programs, level):
    """The theorem holds exactly over all choices of the one program that is new: the mean share of its scores at or
    below the quantile of the others is at least the level, whatever the scores, sizes and ties are.
    """
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, 6, programs)
    program = np.repeat(np.arange(programs), sizes)
    scale = np.repeat(np.exp(generator.normal(0, 1, programs)), sizes)  # what the scores of one program share
    scores = np.round(scale * generator.exponential(1, len(program)), 1)
    held = []
    for new in range(programs):
        (quantile,) = hierarchical_quantiles(scores[program != new], program[program != new], [level])
        held.append((scores[program == new] <= quantile).mean())
    assert np.mean(held) >= level - 1e-9


def test_the_scale_follows_the_distance():
    """Errors that grow as the square root of the distance have the slope 1/2; the nearest bounds what is nearer."""
    distance = np.array([0.01, 0.04, 0.16, 0.64, 2.56])
    scale = fit_scale(errors(0.1 * np.sqrt(distance), range(5), distance=distance))
    assert (scale.slope, scale.least) == (pytest.approx(0.5), pytest.approx(0.01))
    assert scale.of([0.04, 0.0001, np.nan], 0.0).tolist() == pytest.approx([0.2, 0.1, 1.0])
    assert scale.of(1.0, [0.3, 1.0, 2.5, np.nan]).tolist() == pytest.approx([1.0, 1.0, 2.5, 1.0])
    assert fit_scale(errors(0.1 / distance, range(5), distance=distance)).slope == 0.0  # never narrower farther away
    assert fit_scale(errors([0.1, 0.2], [0, 1], distance=[0.1, 0.9])).slope == 0.0  # too few to say
    distance = np.repeat([1.0, 4.0, 16.0], 3)
    error = np.sqrt(distance) * np.array([1] * 8 + [100])  # one pair of nine is no program
    assert fit_scale(errors(error, np.repeat(range(3), 3), distance=distance)).slope == pytest.approx(0.5)


def test_half_widths_by_hand():
    """Ten programs at two distances, errors in proportion to them: the widths are too."""
    distance = np.array([0.1] * 5 + [0.4] * 5)
    error = distance * np.array([1, 2, 3, 4, 5] * 2)
    way = calibrate_way(errors(error * np.tile([1, -1], 5), range(10), distance=distance))
    assert (way.programs, way.machines, way.pairs) == (10, 1, 10)
    assert way.scale.slope == pytest.approx(1.0)
    assert way.quantile(0.9) == pytest.approx(5.0)  # 0.9 · 11 = 9.9: the tenth score
    assert way.quantile(0.7) == pytest.approx(4.0)  # 7.7: the eighth
    assert way.quantile(0.92) == math.inf
    assert way.half_width(0.9, [0.1, 0.4, 0.8], 0.0).tolist() == pytest.approx([0.5, 2.0, 4.0])
    assert way.half_width(0.9, 0.4, 3.0) == pytest.approx(6.0)


def test_few_machines_bound_what_is_known_of_new_ones():
    program, machine = np.divmod(np.arange(100), 5)
    known = errors(np.full(100, 0.1), program, machine)
    assert np.isfinite(calibrate_way(known).quantile(0.9))
    assert calibrate_way(replace(known, new_machines=True)).quantile(0.9) == math.inf
    assert calibrate_way(replace(known, new_machines=True)).quantile(0.8) == pytest.approx(0.1)


def test_a_prediction_below_zero_is_missed_by_every_interval():
    found = calibrate_way(errors([0.1] * 17 + [math.inf] * 3, range(20)))
    assert found.quantile(0.8) == pytest.approx(0.1)
    assert found.quantile(0.9) == math.inf


def test_left_out_programs_are_judged_by_the_others():
    """The one program that is off by 3 has the others' width; theirs is its error, as it is the tenth of ten."""
    known = errors([3.0] + [1.0] * 10, range(11))
    assert left_out_half_widths(known, 0.9).tolist() == pytest.approx([1.0] + [3.0] * 10)
    pairs = pd.DataFrame(
        {
            "way": "table",
            "core": "in-order",
            "program": range(11),
            "machine_digest": "m",
            "error": known.error,
            "half_width": left_out_half_widths(known, 0.9),
        }
    )
    (row,) = coverage(pairs, 0.9).to_dict(orient="records")
    assert row["covered"] == pytest.approx(10 / 11)
    assert (row["least_program"], row["programs_below"], row["programs"]) == (0.0, 1, 11)
    assert row["median_high"] == pytest.approx(math.e**3 - 1)
    new = replace(errors([0.1] * 110, np.repeat(range(11), 10), np.tile(range(10), 11)), new_machines=True)
    assert left_out_half_widths(new, 0.9) == pytest.approx(0.1)  # 10 programs and 9 machines are left: enough
    assert np.isinf(left_out_half_widths(new, 0.91)).all()


def test_around_adds_in_quadrature():
    low, high = around(np.array([100.0, 100.0, -1.0]), np.array([0.3, np.nan, 0.3]), np.array([40.0, 40.0, 40.0]))
    assert (low[0], high[0]) == (pytest.approx(100 * math.exp(-0.5)), pytest.approx(100 * math.exp(0.5)))
    assert np.isnan([low[1:], high[1:]]).all()


@pytest.mark.filterwarnings("error")
def test_an_interval_without_an_end_is_none():
    assert np.isnan(around(np.array([100.0]), np.array([1e4]))).all()


def way(quantile, slope=0.0):
    return WayCalibration(Scale(slope, 0.01), np.where(LEVELS <= 0.9, quantile, np.inf), 12, 12, 144)


@pytest.fixture(scope="module")
def calibrated(data):
    """Half widths of 0.2 on machines of the table and 0.5 by the encoder, at every level up to 0.9."""
    return replace(data.model, calibration=Calibration({"table": way(0.2), "encoder": way(0.5)}, {"folds": ["a"]}))


@pytest.fixture(scope="module")
def vector(data):
    return represent(data.model, data.traces / "qsort.trace.h5", progress=False)


def test_the_file_keeps_it_and_the_digest(data, calibrated, tmp_path):
    """The digest does not change: vectors of the uncalibrated model stay its own."""
    save_model(calibrated, tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    assert again.digest == data.model.digest
    assert again.calibration.provenance == {"folds": ["a"]}
    assert again.calibration.ways["encoder"].scale == Scale(0.0, 0.01)
    for level in (0.5, 0.873, 0.9, 0.93):
        assert again.calibration.ways["table"].quantile(level) == calibrated.calibration.ways["table"].quantile(level)
    assert np.array_equal(again.table(), data.model.table())
    more = (tmp_path / "m.safetensors").stat().st_size - data.model_file.stat().st_size
    assert more < 100_000
    save_model(replace(again, calibration=None), tmp_path / "n.safetensors")
    assert load_model(tmp_path / "n.safetensors").calibration is None


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"format": "perfvec-calibration/9"}, "this release reads"),
        ({"levels": [0.5]}, "this release reads"),
        ({"ways": {"table": {}}}, "damaged"),
        ({"ways": None}, "damaged"),
        ({"ways": {"table": way(0.2, slope=3.0)}}, "cannot be"),
        ({"ways": {"table": way(-0.2)}}, "cannot be"),
    ],
)
def test_a_wrong_calibration_is_one_line(change, match):
    ways = change.get("ways")
    if isinstance(ways, dict) and isinstance(ways["table"], WayCalibration):
        change = {"ways": Calibration(ways).to_json()["ways"]}
    with pytest.raises(InputError, match=match):
        calibration_from_json(Calibration({"table": way(0.2)}).to_json() | change)


def test_isolation_is_the_distance_to_the_kth_nearest(data):
    generator = np.random.default_rng(1)
    known, asked = generator.normal(size=(len(data.model.programs), 32)), generator.normal(size=(5, 32))
    model = replace(data.model, program_vectors=known)
    cosine = asked @ known.T / np.linalg.norm(asked, axis=1)[:, None] / np.linalg.norm(known, axis=1)
    for k in (1, 2, len(known), 99):
        expected = np.sort(1 - cosine, axis=1)[:, min(k, len(known)) - 1]
        assert program_isolation(model, 7 * asked, k) == pytest.approx(expected)
    assert program_isolation(replace(data.model, program_vectors=None), asked, 1) is None


def test_the_usual_distance_is_that_of_the_loneliest(data):
    """Two programs at 0.1 from each other, a third at 0.3 from the nearer of them."""
    angles = np.arccos([1.0, 0.9, 0.7]) * [1, 1, -1]
    known = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    model = replace(data.model, programs=data.model.programs[:1] * 3, program_vectors=known)
    found = program_neighbours(model, np.array([[0.0, 1.0]]))
    assert found is not None and found.usual == pytest.approx(0.3)


def test_unlike_programs_have_at_least_the_width_of_such(data, calibrated, vector):
    """Ten programs off by 0.1 to 1.0: 0.9 of eleven is the tenth's. Those nearer keep their way's width."""
    unlike = calibrate_unlike(np.linspace(-1, -0.1, 10), np.arange(10), 3, distance=0.5, neighbours=1)
    assert unlike.half_width(0.9, np.array([0.4, 0.5, 0.6])).tolist() == [0.0, 0.0, pytest.approx(1.0)]
    assert unlike.half_width(0.95, np.array([0.4, 0.6])).tolist() == [0.0, math.inf]
    far = replace(vector, vector=-vector.vector, trace_digest="0" * 64)  # opposite to all that trained it
    model = replace(calibrated, calibration=replace(calibrated.calibration, unlike=unlike))
    assert half_widths(model, [vector, far], ["table", "encoder"], np.zeros(2), 0.9).tolist() == [
        [pytest.approx(0.2), pytest.approx(0.5)],
        [pytest.approx(1.0), pytest.approx(1.0)],
    ]
    machines = half_widths(model, [vector], ["encoder"] * 3, np.array([1.0, 1.9, 2.1]), 0.9)
    np.testing.assert_allclose(machines, [[0.5, 0.95, np.nan]])  # beyond twice the usual distance nothing tells
    again = calibration_from_json(json.loads(json.dumps(model.calibration.to_json()))).unlike
    assert isinstance(again, UnlikeCalibration) and np.array_equal(again.quantiles, unlike.quantiles)
    assert replace(again, quantiles=0) == replace(unlike, quantiles=0)
    for wrong in ({"distance": 0}, {"neighbours": 0}, {"quantiles": [1.0]}, {"programs": "x"}):
        document = model.calibration.to_json()
        with pytest.raises(InputError):
            calibration_from_json(document | {"unlike": document["unlike"] | wrong})
    (row,) = [row for row in novelty.novelty(model, [vector, far], []).to_dict("records") if row["outside"]]
    assert row["distance"] > 0.5 == row["usual"]
    seen = replace(far, trace_digest=data.model.programs[0].digest)  # it trained the model
    assert not novelty.novelty(model, [seen], [])["outside"].any()


def test_predictions_have_the_interval_of_their_way(data, calibrated, vector):
    strange = replace_field(load_machine("zen4"), "l1d.size_kib", 64)
    mine = MachineVector("mine", 2.0, data.model.digest, data.model.table()[0], np.zeros((32, 32)), 0.1)
    frame = predict.predict(calibrated, [vector], [data.machines[0], strange, mine])
    assert list(frame["interval_of"]) == ["model", "model", "machine"]
    assert list(frame["machine_vector"]) == ["table", "encoder", "fitted"]
    table, encoder, fitted = frame.to_dict(orient="records")
    assert table["high"] / table["cycles"] == pytest.approx(math.exp(0.2))
    assert table["low"] / table["cycles"] == pytest.approx(math.exp(-0.2))
    assert encoder["high"] / encoder["cycles"] >= math.exp(0.5) * (1 - 1e-12)  # wider where the machine is far off
    assert fitted["high"] / fitted["cycles"] == pytest.approx(1 + 1.6448536 * 0.1)
    first = predict.to_json(frame)["predictions"][0]
    assert first["interval"] == [table["low"], table["high"]]
    assert (first["interval_of"], first["level"]) == (["model"], 0.9)
    assert predict.terminal_table(frame)["90%"].iloc[0] == "-18% +22%"
    assert "90%" in predict.sections(frame)[0].text


def test_what_has_no_interval_says_why(data, calibrated, vector):
    machines = list(data.machines[:1])
    plain = predict.predict(data.model, [vector], machines)
    assert plain["low"].isna().all()
    assert list(plain["interval_of"]) == [""]
    assert predict.to_json(plain)["predictions"][0]["interval"] is None
    assert list(predict.terminal_table(plain).columns)[-1] == "source"
    (line,) = predict.notes(data.model, plain)
    assert "no calibration" in line
    below = predict.predict(data.model, [replace(vector, vector=-vector.vector)], machines)
    assert any("not above 0 cycles" in line for line in predict.notes(data.model, below))
    high = predict.predict(calibrated, [vector], machines, level=0.95)
    assert high["low"].isna().all()
    (line,) = predict.notes(calibrated, high)
    assert "12 programs" in line and "needs 19" in line
    other = replace(calibrated, calibration=Calibration({"encoder": way(0.5)}))
    (line,) = predict.notes(other, predict.predict(other, [vector], machines))
    assert "'table'" in line
    assert predict.notes(calibrated, predict.predict(calibrated, [vector], machines)) == []


def test_sampling_adds_in_quadrature(data, calibrated, vector):
    """A sample of one stratum, 9 degrees of freedom, whose standard deviation is 5 % of the cycles on any machine."""
    factors = (0.05 * vector.vector)[None].astype(np.float32)
    known = Sampling(1024, 60, 10, factors, np.zeros(1, np.int32), np.array([9.0]))
    sampled, machines = replace(vector, sampling=known), list(data.machines[:1])
    (row,) = predict.predict(calibrated, [sampled], machines).to_dict(orient="records")
    (alone,) = predict.predict(data.model, [sampled], machines).to_dict(orient="records")
    assert (row["interval_of"], alone["interval_of"]) == ("model, sampling", "sampling")
    own = 1.8331129 * 0.05  # Student's t, 9 degrees of freedom, 95 %
    assert alone["high"] / alone["cycles"] == pytest.approx(1 + own, rel=1e-6)
    assert alone["low"] / alone["cycles"] == pytest.approx(1 - own, rel=1e-6)
    assert math.log(row["high"] / row["cycles"]) == pytest.approx(math.hypot(0.2, own), rel=1e-6)
    assert row["low"] * row["high"] == pytest.approx(row["cycles"] ** 2)
    (wider,) = predict.predict(data.model, [sampled], machines, level=0.95).to_dict(orient="records")
    assert wider["high"] / wider["cycles"] == pytest.approx(1 + 2.2621572 * 0.05, rel=1e-6)


def test_a_sweeps_best_points_have_intervals(data, calibrated, vector):
    design = grid_design(load_machine("base"), {"l1d.size_kib": [16, 32, 64]})
    other = replace(vector, program="other", vector=vector.vector * 2)
    frame = sweep.run(calibrated, [vector, other], design)
    chosen = intervals.of_points(calibrated, [vector, other], design.columns, best(frame, 2))
    assert fields_of(chosen) == ["l1d.size_kib"]
    for row in chosen.to_dict(orient="records"):
        machine = replace_field(load_machine("base"), "l1d.size_kib", row["l1d.size_kib"])
        program = other if row["program"] == "other" else vector
        (known,) = predict.predict(calibrated, [program], [machine]).to_dict(orient="records")
        if known["machine_vector"] == "encoder":
            ratio = known["seconds"] / known["cycles"]
            assert (row["low"], row["high"]) == pytest.approx((known["low"] * ratio, known["high"] * ratio), rel=1e-4)
        assert row["low"] < row["seconds"] < row["high"]
    document = sweep_tables.to_json(frame, chosen=chosen)
    assert document["best_intervals"] == [[row.low, row.high] for row in chosen.itertuples()]
    assert all("interval" not in point for point in document["points"])  # of the model's alone
    points = sweep_tables.to_json(chosen.reset_index(drop=True))["points"]
    assert [point["interval"] for point in points] == document["best_intervals"]
    assert "interval" in sweep_tables.terminal_tables(chosen, ["l1d.size_kib"])[0]
    without = intervals.of_points(data.model, [vector, other], design.columns, best(frame, 2))
    assert sweep_tables.to_json(frame, chosen=without)["best_intervals"] == [None] * 4
    assert "interval" not in sweep_tables.terminal_tables(without, ["l1d.size_kib"])[0]


def folds_of(data):
    """Two models as if each had left one of the two programs out."""
    found = []
    for left_out in range(2):
        kept = [1 - left_out]
        programs, vectors = (data.model.programs[1 - left_out],), data.model.program_vectors[kept]
        found.append(replace(data.model, programs=programs, program_vectors=vectors, digest=f"fold {left_out}"))
    return found


@pytest.mark.slow
def test_calibrating_on_folds(data):
    found = calibrate(data.model, folds_of(data), data.traces, data.latencies, level=0.5, progress=False)
    pairs = found.pairs
    assert len(pairs) == 2 * len(data.machines)
    assert set(pairs["way"]) == {"table"}
    known = found.model.calibration.ways["table"]
    assert (known.programs, known.machines) == (2, len(data.machines))
    assert np.isfinite(known.quantile(0.6)) and known.quantile(0.9) == math.inf
    assert found.warnings == []
    assert found.model.digest == data.model.digest
    judged = evaluate(folds_of(data), data.traces, data.latencies, progress=False)
    judged = judged[judged["programs"] == "unseen"]
    assert np.allclose(pairs["error"], np.log(judged["simulated_cycles"] / judged["predicted_cycles"]))
    vector = represent(data.model, data.traces / "qsort.trace.h5", progress=False)
    seen = pairs[pairs["program"] == "qsort"].set_index("uarch")["error"]
    frame = predict.predict(found.model, [vector], list(data.machines), level=0.6)
    assert frame["low"].notna().all()
    assert set(seen.index) == set(frame["uarch"])
    with pytest.raises(InputError, match="every labelled program trained it"):
        calibrate(data.model, [data.model], data.traces, data.latencies, progress=False)
    with pytest.raises(InputError, match="no fold model"):
        calibrate(data.model, [], data.traces, data.latencies, progress=False)


@pytest.mark.slow
def test_machines_that_a_fold_never_met_calibrate_the_encoder(data):
    found = calibrate(data.model, folds_of(data), data.traces, data.encoder_latencies, progress=False)
    assert set(found.pairs["way"]) == {"encoder", "fitted"}
    encoder = found.pairs[found.pairs["way"] == "encoder"]
    assert (encoder["machine_distance"] > 0).all()
    assert (found.pairs.loc[found.pairs["way"] == "fitted", "machine_distance"] == 0).all()
    assert len(encoder) == 2 * 4
    assert len(found.warnings) == 2 and "too few for 0.9: 9 are needed of each" in found.warnings[0]


@pytest.mark.slow
def test_the_command(data, tmp_path, capsys):
    files = []
    for number, fold in enumerate(folds_of(data)):
        files += ["--fold", str(tmp_path / f"{number}.safetensors")]
        save_model(fold, tmp_path / f"{number}.safetensors")
    output = tmp_path / "calibrated.safetensors"
    common = ["--model", str(data.model_file), *files, "--traces", str(data.traces), "--latencies", str(data.latencies)]
    with pytest.raises(SystemExit) as left:
        main(["calibrate", *common, "--level", "0.5", "-o", str(output), "--csv", str(tmp_path / "p.csv"), "--json"])
    assert left.value.code == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["pairs"]) == 2 * len(data.machines)
    assert document["coverage"][0]["level"] == 0.5
    assert len(pd.read_csv(tmp_path / "p.csv")) == len(document["pairs"])
    with pytest.raises(SystemExit):
        main(["calibrate", *common])
    printed = capsys.readouterr()
    assert "too few for 0.9" in printed.err
    assert "covered" in printed.out
    target = [str(data.traces / "qsort.trace.h5"), "--uarch", "base", "--model", str(output), "--json", "--budget", "0"]
    with pytest.raises(SystemExit):
        main(["predict", *target, "--level", "0.5"])
    printed = capsys.readouterr()
    (prediction,) = json.loads(printed.out)["predictions"]
    assert prediction["interval"][0] < prediction["cycles"] < prediction["interval"][1]
    assert "calibration" not in printed.err
    with pytest.raises(SystemExit):
        main(["predict", *target])
    printed = capsys.readouterr()
    assert json.loads(printed.out)["predictions"][0]["interval"] is None
    assert "needs 9" in printed.err
    for wrong in (["predict", *target, "--level", "2"], ["calibrate", *common, "--level", "0"]):
        with pytest.raises(SystemExit) as left:
            main(wrong)
        assert left.value.code == 2
        assert "from 0.5 to below 1" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-x86_64 is not installed")
def test_the_shipped_model_knows_that_a_pointer_chase_is_unlike_what_it_met(tmp_path):
    """Issue 31: 61 % off on a chase through 1.3 MB, without a word, inside its interval on a quarter of the presets."""
    program, path = tmp_path / "chase", tmp_path / "chase.trace.h5"
    subprocess.run(["gcc", "-O2", "-static", "-o", program, UNLIKE / "chase.c"], check=True)
    trace(Execution([str(program), "1300"], skip=2_000_000, max_instructions=300_000), path, progress=False)
    model, machines = load_model(), [load_machine(name) for name in preset_names()]
    vector = represent(model, path, progress=False)
    (line,) = novelty.warnings(novelty.novelty(model, [vector], []))
    assert line.startswith("program chase: unlike what trained the model: distance 0.")
    frame = predict.predict(model, [vector], machines)
    with Trace(path) as file:
        cycles = simulated_cycles(machines, decode(file.address, file.code, file.isa), file.chunks(1 << 18))
    assert ((frame["low"] <= cycles) & (cycles <= frame["high"])).mean() >= 0.9
