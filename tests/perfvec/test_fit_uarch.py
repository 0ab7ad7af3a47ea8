"""`perfvec fit-uarch`: times files, machine vectors, and predictions with intervals, on a tiny trained model."""

import json

import numpy as np
import pytest

from analysis.cli.main import main
from analysis.programs.targets import target_of
from analysis.questions.predict import predict, to_json
from perfvec.evaluate import labelled_segments
from perfvec.machines.fit_uarch import fit_labels, fit_times
from perfvec.machines.machine_vector import MachineVector, load_machine_vector
from perfvec.machines.times import Time, gather, read_times
from perfvec.representation.represent import represent
from support.errors import InputError
from tracegen.formats.latency import LatencyFile
from tracegen.formats.trace import Trace
from uarch.machine_files import load_machine


@pytest.fixture(scope="module")
def vectors(data):
    return {
        path.name.split(".")[0]: represent(data.model, path, progress=False) for path in sorted(data.traces.iterdir())
    }


@pytest.fixture(scope="module")
def measured(data):
    """Cycles of every traced program on the first machine that the table lacks, and that machine."""
    cycles = {}
    for path in sorted(data.encoder_latencies.iterdir()):
        with LatencyFile(path) as file:
            cycles[file.trace] = float(file.cycles()[0])
            machine = file.machines[0]
    return cycles, machine


def write_times(folder, data, cycles, machine):
    lines = ["target,seconds"]
    lines += [
        f"{data.traces / name}.trace.h5,{value / machine.frequency_ghz / 1e9!r}" for name, value in cycles.items()
    ]
    (folder / "times.csv").write_text("\n".join(lines))
    return folder / "times.csv"


def fit_file(data, times, output, **known):
    return fit_times(
        times,
        output,
        load_model=lambda: data.model,
        resolve=lambda model, targets: [target_of(model, one, progress=False).vector for one in targets],
        **known,
    )


@pytest.mark.slow
def test_fitting_to_times_comes_closer_than_the_prior(data, measured, vectors, tmp_path):
    cycles, machine = measured
    fitted = fit_file(
        data,
        write_times(tmp_path, data, cycles, machine),
        tmp_path / "m.machine.npz",
        frequency_ghz=machine.frequency_ghz,
    )
    again = load_machine_vector(tmp_path / "m.machine.npz", data.model)
    assert again.name == "m"
    assert np.array_equal(again.vector, fitted.machine.vector)
    prior = np.abs(fitted.posterior.prior_errors).mean()
    errors = [abs(float(again.vector @ vectors[name].vector) / value - 1) for name, value in cycles.items()]
    assert np.mean(errors) < prior
    table = fitted.table
    assert table["left_out_error"].abs().min() > 0.001
    assert np.allclose(table["left_out"] / table["seconds"] - 1, table["left_out_error"])
    assert again.provenance["prior"] == "mean of the table"
    assert len(again.provenance["traces"]) == 2


@pytest.mark.slow
def test_a_known_configuration_is_the_prior(data, measured, tmp_path):
    cycles, machine = measured
    times = write_times(tmp_path, data, cycles, machine)
    table = fit_file(data, times, tmp_path / "a.machine.npz", uarch="base")
    encoder = fit_file(data, times, tmp_path / "b.machine.npz", uarch="zen4", name="mine")
    assert (table.machine.provenance["prior"], encoder.machine.provenance["prior"]) == ("table", "encoder")
    assert (table.machine.name, encoder.machine.name) == ("base", "mine")
    assert table.machine.frequency_ghz == load_machine("base").frequency_ghz


def squares(data, vector):
    """Return the squares of relative errors over groups of segments, which the fit minimises beside its prior."""
    total = 0.0
    for path in sorted(data.encoder_latencies.iterdir()):
        with LatencyFile(path) as labels, Trace(data.traces / f"{labels.trace}.trace.h5") as trace:
            vectors, cycles = labelled_segments(data.model, trace, labels)
        for group in np.array_split(np.arange(len(vectors)), min(8, len(vectors))):
            predicted, observed = vectors[group].sum(axis=0) @ vector, cycles[0, group].sum()
            total += ((predicted - observed) / max(predicted, observed)) ** 2
    return total


@pytest.mark.slow
def test_fitting_to_labels_agrees_with_their_times(data, measured, tmp_path):
    cycles, machine = measured
    fitted = fit_labels(
        data.model, data.traces, data.encoder_latencies, tmp_path / "m.machine.npz", uarch=machine.name, progress=False
    )
    seconds = dict(zip(fitted.table["program"], fitted.table["seconds"], strict=True))
    assert seconds == pytest.approx({name: value / machine.frequency_ghz / 1e9 for name, value in cycles.items()})
    again = load_machine_vector(tmp_path / "m.machine.npz", data.model)
    prior = data.model.encoder.vectors([machine])[0]
    assert again.provenance["prior"] == "encoder"
    assert squares(data, again.vector) < squares(data, prior)
    with pytest.raises(InputError, match="pick one"):
        fit_labels(data.model, data.traces, data.encoder_latencies, tmp_path / "n.machine.npz", progress=False)
    with pytest.raises(InputError, match="labels no machine 'nosuch'"):
        fit_labels(
            data.model, data.traces, data.encoder_latencies, tmp_path / "n.machine.npz", uarch="nosuch", progress=False
        )


def test_the_interval_of_a_fitted_machine(data, vectors, tmp_path):
    width = data.model.foundation.width
    factor = np.zeros((width, width))
    machine = MachineVector("mine", 2.0, data.model.digest, data.model.table()[0], factor, 0.1)
    frame = predict(data.model, list(vectors.values()), [load_machine("base"), machine], level=0.95)
    base, mine = to_json(frame)["predictions"][:2]
    assert base["interval"] is None
    assert mine["machine_vector"] == "fitted"
    assert mine["interval"] == pytest.approx([mine["cycles"] * (1 - 0.1959964), mine["cycles"] * (1 + 0.1959964)])
    assert mine["seconds"] == pytest.approx(mine["cycles"] / 2e9)


@pytest.mark.slow
def test_the_commands(data, measured, tmp_path, capsys):
    cycles, machine = measured
    times, output = write_times(tmp_path, data, cycles, machine), tmp_path / "m.machine.npz"
    common = ["--model", str(data.model_file), "--json"]
    with pytest.raises(SystemExit) as left:
        main(["fit-uarch", "--times", str(times), "--frequency-ghz", "2.5", "-o", str(output), *common])
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert left.value.code == 0
    assert {row["program"] for row in document["times"]} == {"qsort", "matmul"}
    assert document["frequency_ghz"] == 2.5
    assert all(warning in printed.err for warning in document["warnings"])
    with pytest.raises(SystemExit):
        main(["predict", str(data.traces / "qsort.trace.h5"), "--uarch", str(output), "--uarch", "base", *common])
    predictions = json.loads(capsys.readouterr().out)["predictions"]
    low, high = predictions[0]["interval"]
    assert 0 <= low < predictions[0]["cycles"] < high
    assert predictions[1]["interval"] is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no times"),
        ("target,second\na,1", "unknown column 'second' .did you mean seconds"),
        ("target\na", "needs one of the columns 'seconds' and 'cycles'"),
        ("target,seconds,cycles\na,1,2", "and not both"),
        ("seconds\n1", "needs one of the columns 'program' and 'target'"),
        ("target,seconds\na,1\nb,0", "line 3: seconds = '0' must be positive"),
        ("target,seconds\na,-1", "must be positive"),
        ("target,seconds\na,nan", "must be a finite number"),
        ("target,seconds\na,fast", "line 2: seconds = 'fast' must be a finite number"),
        ("target,seconds\n,1", "target is missing"),
        ("target,seconds\na", "seconds = None must be a finite number"),
        ("target,seconds,uncertainty\na,1,-1", "uncertainty = '-1' must not be negative"),
    ],
)
def test_a_wrong_times_file_is_one_line(text, message, tmp_path):
    path = tmp_path / "times.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as raised:
        read_times(path)
    assert "\n" not in str(raised.value)


def test_times_as_json(tmp_path):
    path = tmp_path / "times.json"
    path.write_text(json.dumps([{"program": "a", "cycles": 5, "uncertainty": 0.5}, {"program": "b", "cycles": 7.5}]))
    unit, times = read_times(path)
    assert unit == "cycles"
    assert [(time.target, time.value, time.deviation) for time in times] == [("a", 5, 0.5), ("b", 7.5, 0)]
    for wrong in ("{]", "[" * 100_000, "9" * 5000, '[{"program": "a", "cycles": ' + "9" * 5000 + "}]"):
        path.write_text(wrong)
        with pytest.raises(InputError, match="neither CSV nor JSON") as raised:
            read_times(path)
        assert "\n" not in str(raised.value)
    path.write_text('[{"program": "a", "cycles": ' + "9" * 4000 + "}]")
    with pytest.raises(InputError, match="must be a finite number"):
        read_times(path)


def test_repetitions_are_averaged_and_contradictions_refused(vectors):
    vector = vectors["qsort"]
    observed, names = gather([Time("a", 1.0, 0.0), Time("a", 1.04, 0.0)], [vector, vector], 2e9)
    assert names == ["qsort"]
    assert observed.cycles == pytest.approx([2.04e9])
    assert observed.uncertainty == pytest.approx([0.02 / 1.02])  # the standard error of the mean of two
    with pytest.raises(InputError, match=r"contradictory times, 1 and 1\.5"):
        gather([Time("a", 1.0, 0.0), Time("a", 1.5, 0.0)], [vector, vector], 1e9)
    gather([Time("a", 1.0, 0.2), Time("a", 1.5, 0.2)], [vector, vector], 1e9)  # within their uncertainty
    alike, _ = gather([Time("a", 10.0, 1.0)] * 2, [vector, vector], 1e9)
    assert alike.uncertainty == pytest.approx([0.1 / np.sqrt(2)])


def test_a_vector_of_another_trace_is_refused(data, vectors):
    trace = str(data.traces / "qsort.trace.h5")
    gather([Time("q", 1.0, 0.0, trace)], [vectors["qsort"]], 1.0)
    with pytest.raises(InputError, match="made of a trace"):
        gather([Time("m", 1.0, 0.0, trace)], [vectors["matmul"]], 1.0)


def test_the_clock_must_be_known(data, measured, tmp_path):
    times = write_times(tmp_path, data, *measured)
    with pytest.raises(InputError, match="give --frequency-ghz"):
        fit_file(data, times, tmp_path / "m.machine.npz")
    with pytest.raises(InputError, match="above 0 and below 100"):
        fit_file(data, times, tmp_path / "m.machine.npz", frequency_ghz=float("nan"))


def test_wrong_machine_vectors_are_refused(data, tmp_path):
    width = data.model.foundation.width
    path = tmp_path / "m.machine.npz"
    good = MachineVector("m", 2.0, data.model.digest, np.ones(width), np.eye(width), 0.1)
    good.save(path)
    assert load_machine_vector(path, data.model).noise == 0.1
    MachineVector("m", 2.0, "another", good.vector, good.factor, 0.1).save(path)
    with pytest.raises(InputError, match="fitted with the model another"):
        load_machine_vector(path, data.model)
    MachineVector("m", 2.0, data.model.digest, good.vector * np.nan, good.factor, 0.1).save(path)
    with pytest.raises(InputError, match="non-finite"):
        load_machine_vector(path)
    good.save(path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match="truncated or foreign"):
        load_machine_vector(path)
    with pytest.raises(InputError, match="no such file"):
        load_machine_vector(tmp_path / "none.machine.npz")


@pytest.mark.parametrize("name", ["a" * 5000, "a/" * 5000, "a" * 300])
def test_a_target_that_no_file_can_be_called_is_one_line(tmp_path, name):
    (tmp_path / "t.csv").write_text(f"target,seconds\n{name},1\n")
    with pytest.raises(InputError, match=r"t\.csv: .* cannot be a file's name") as raised:
        read_times(tmp_path / "t.csv")
    assert len(str(raised.value)) < 300
