"""Prediction, sweep and comparison: known numbers by hand, JSON documents, pages that load nothing from elsewhere."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.designs import sweep
from analysis.designs.design import grid_design
from analysis.designs.table import pareto_front
from analysis.designs.vary import parse_vary
from analysis.questions import compare, predict, sweep_tables
from analysis.results.page import write_page
from perfvec.representation.vector import ProgramVector
from support.errors import InputError
from uarch.configuration import get_field
from uarch.machine_files import load_machine


def vector(name, values, instructions=100, model="m"):
    values = np.array(values, float)
    return ProgramVector(name, "x86-64", model, "t", instructions, values, np.array([instructions]), values[None])


def test_predictions_are_dot_products(data):
    program = vector("p", np.arange(data.model.foundation.width) + 1.0)
    machines = list(data.machines)
    frame = predict.predict(data.model, [program], machines)
    expected = data.model.table() @ program.vector
    assert np.allclose(frame["cycles"], expected)
    assert np.allclose(frame["seconds"], expected / [m.frequency_ghz * 1e9 for m in machines])
    assert np.allclose(frame["cpi"] * frame["ipc"], 1.0)
    document = predict.to_json(frame)["predictions"][0]
    assert {"program", "uarch", "instructions", "cycles", "seconds", "cpi", "interval"} <= set(document)
    assert document["interval"] is None


def test_grid_sets_the_fields_it_names():
    columns = grid_design(load_machine("base"), {"l1d.size_kib": [16, 64], "l2.latency": [8, 9, 10]}).columns
    machines = [columns.machine(row, "point") for row in range(columns.count)]
    assert [(get_field(m, "l1d.size_kib"), get_field(m, "l2.latency")) for m in machines] == [
        (16, 8),
        (16, 9),
        (16, 10),
        (64, 8),
        (64, 9),
        (64, 10),
    ]


def test_sweep_has_a_row_a_point_and_a_pareto_front(data):
    program = vector("p", np.ones(data.model.foundation.width))
    grid = {"l1d.size_kib": [16, 32, 64], "l2.size_kib": [256, 512]}
    frame = sweep.run(data.model, [program], grid_design(load_machine("base"), grid))
    assert len(frame) == 6
    document = sweep_tables.to_json(frame)
    assert document["points"][1]["uarch"] == {"l1d.size_kib": 16, "l2.size_kib": 512}
    assert 0 in document["pareto"]  # the smallest machine cannot be dominated
    smallest = frame["seconds"].idxmin()
    assert smallest in document["pareto"] or (frame["seconds"] == frame["seconds"][smallest]).sum() > 1


def test_pareto_by_hand():
    frame = pd.DataFrame({"size": [1, 2, 3, 3], "kind": ["a", "a", "a", "b"], "seconds": [3.0, 1.0, 2.0, 9.0]})
    assert pareto_front(frame, ["size", "kind"]).tolist() == [True, True, False, True]


def test_a_shorter_latency_is_no_cheaper():
    """A slow cache that is as fast in time is on the front, as is the quickest; what is slower with the same is not."""
    frame = pd.DataFrame({"seconds": [1.0, 2.0, 2.0, 3.0], "l3.latency": [20, 30, 50, 50]})
    assert pareto_front(frame, ["l3.latency"]).tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    ("texts", "match"),
    [
        ([], "empty sweep"),
        (["l1d.size_kib"], "must read"),
        (["l1d.size_kib=x"], "l1d.size_kib"),
        (["nosuch=1"], "nosuch"),
        (["l1d.size_kib=16", "l1d.size_kib=32"], "twice"),
    ],
)
def test_a_wrong_vary_is_one_line(texts, match):
    with pytest.raises(InputError, match=match):
        parse_vary(texts)


def test_an_impossible_value_is_told():
    with pytest.raises(InputError, match="associativity"):
        grid_design(load_machine("base"), {"l1d.associativity": [100_000]})


def test_cosine_distances_by_hand():
    frame = compare.compare([vector("a", [1, 0]), vector("b", [0, 2]), vector("b", [3, 3])])
    assert frame.index.tolist() == ["a", "b#1", "b#2"]
    half = 1 - 1 / np.sqrt(2)
    assert np.allclose(frame, [[0, 1, half], [1, 0, half], [half, half, 0]])
    assert compare.to_json(frame)["programs"] == ["a", "b#1", "b#2"]


def test_comparing_needs_two_of_one_model():
    with pytest.raises(InputError, match="two"):
        compare.compare([vector("a", [1, 0])])
    with pytest.raises(InputError, match="different models"):
        compare.compare([vector("a", [1, 0]), vector("b", [1, 0], model="n")])


def test_a_report_is_self_contained(data, tmp_path):
    program = vector("a<b>", np.ones(data.model.foundation.width))
    frame = predict.predict(data.model, [program, replace(program, program="c")], list(data.machines))
    page = write_page(tmp_path / "r.html", "T", predict.sections(frame)).read_text()
    assert page.count('data-figure="') == 2
    for loaded in ("src=", "<link", "@import", "@TITLE@"):
        assert loaded not in page
    assert "<td>a<b>" not in page
    assert "default-src 'none'" in page
