"""Machines that join the table by a fit to labels."""

from dataclasses import replace

import numpy as np
import pytest

from perfvec.evaluate import labelled_segments
from perfvec.model import load_model, save_model
from perfvec.training.fitted_table import fit_table
from perfvec.training.split import Split
from perfvec.training.train import train
from support.errors import InputError
from tracegen.formats.latency import LatencyFile
from tracegen.formats.trace import Trace
from uarch.configuration import replace_field


@pytest.fixture(scope="module")
def model(data):
    return fit_table(data.model, data.traces, data.encoder_latencies, progress=False)


def test_they_are_the_machines_of_the_labels_and_known_from_then_on(data, model):
    with LatencyFile(next(data.encoder_latencies.iterdir())) as labels:
        machines = list(labels.machines)
    assert list(model.fitted_machines) == machines
    vectors, origin = model.machine_vectors([*machines, data.machines[0]])
    assert origin == ["fitted"] * len(machines) + ["table"]
    assert (vectors[:-1] == model.fitted_vectors).all()


@pytest.mark.slow
def test_they_fit_their_labels_better_than_the_encoder(data, model):
    """The fit minimises squares of relative errors over groups of segments, beside the distance to its prior."""
    prior = model.encoder.vectors(list(model.fitted_machines))
    squares = {"fitted": 0.0, "prior": 0.0}
    for path in sorted(data.encoder_latencies.iterdir()):
        with LatencyFile(path) as labels, Trace(data.traces / f"{labels.trace}.trace.h5") as trace:
            vectors, cycles = labelled_segments(model, trace, labels)
            for machine, observed in zip(labels.machines, cycles, strict=True):
                row = model.fitted_machines.index(machine)
                groups = np.array_split(np.arange(len(vectors)), min(8, len(vectors)))
                for name, vector in (("fitted", model.fitted_vectors[row]), ("prior", prior[row])):
                    for group in groups:
                        squares[name] += (vectors[group].sum(axis=0) @ vector / observed[group].sum() - 1) ** 2
    assert squares["fitted"] < squares["prior"]


@pytest.mark.slow
def test_machines_that_trained_the_model_stay_as_they_are(data):
    again = fit_table(data.model, data.traces, data.latencies, progress=False)
    assert again.fitted_machines == () and again.machines == data.model.machines


def test_the_file_keeps_them(model, tmp_path):
    save_model(model, tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    assert again.fitted_machines == model.fitted_machines
    np.testing.assert_allclose(again.fitted_vectors, model.fitted_vectors, rtol=1e-6)


def test_labels_of_a_program_that_the_model_has_not_seen_are_refused(data):
    stranger = replace(data.model, programs=data.model.programs[:1])
    with pytest.raises(InputError, match="which did not train the model"):
        fit_table(stranger, data.traces, data.encoder_latencies, progress=False)


def test_they_are_refused_before_the_training(data, tmp_path):
    output = tmp_path / "m.safetensors"
    name = data.model.programs[0].name
    with pytest.raises(InputError, match=f"labels '{name}', which did not train the model"):
        train(
            data.traces,
            data.latencies,
            output,
            split=Split(exclude=(name,)),
            table_latencies=data.encoder_latencies,
            progress=False,
        )
    assert not (tmp_path / ".m.safetensors.work" / "checkpoint.pt").exists()


def test_machines_that_were_fitted_before_stay(data, model, tmp_path):
    first = replace(model, fitted_machines=model.fitted_machines[:1], fitted_vectors=model.fitted_vectors[:1] * 2)
    mine = (replace_field(data.machines[0], "frequency_ghz", 1.25), *model.fitted_machines[:1])
    kept = replace(first, fitted_machines=mine, fitted_vectors=np.repeat(first.fitted_vectors, 2, axis=0))
    again = fit_table(kept, data.traces, data.encoder_latencies, progress=False)
    assert again.fitted_machines == (mine[0], *model.fitted_machines)  # what is labelled is fitted anew
    assert (again.fitted_vectors[0] == kept.fitted_vectors[0]).all()
    assert again.fitted_vectors[1:] == pytest.approx(model.fitted_vectors)
