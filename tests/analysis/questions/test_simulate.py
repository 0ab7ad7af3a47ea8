"""Simulated answers: counts of a program that can be counted by hand, and stacks that add up whatever the grouping."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from analysis.parts import flame
from analysis.parts.partition import PARTITIONS
from analysis.parts.simulated_parts import collect
from analysis.questions.difference import diff, difference_text
from analysis.questions.difference import to_json as difference_json
from analysis.questions.profile import annotate, annotation_json, annotation_text, profile, profile_text
from analysis.questions.profile import to_json as profile_json
from analysis.questions.simulate import (
    Span,
    groups_of,
    headline,
    named_traces,
    sections,
    shown,
    shown_stack,
    simulate,
    to_json,
)
from analysis.results.headline import percent
from support.errors import InputError
from tracegen.decode import decode
from tracegen.formats.latency import LatencyFile
from tracegen.formats.trace import Trace
from tracegen.label import label_one
from uarch.machine_files import load_machine
from uarch.timing.simulation import Simulation
from uarch.timing.stack import CAUSES

MACHINES = [load_machine("base"), load_machine("cortex-a53")]


@pytest.fixture(scope="module")
def frame(traces) -> pd.DataFrame:
    return simulate([traces[0]], MACHINES, progress=False)


@pytest.fixture(scope="module")
def simulated(traces):
    """Return both versions in parts, and their costs."""
    (old, costs), (new, _) = (collect(path, MACHINES, progress=False) for path in traces)
    return old, new, costs


def test_cycles_are_those_of_the_simulator(traces, frame):
    with Trace(traces[0]) as trace:
        for machine, cycles in zip(MACHINES, frame["cycles"], strict=True):
            simulation = Simulation(machine, decode(trace.address, trace.code, trace.isa))
            latencies = [simulation.run(chunk) for chunk in trace.chunks(1000)]
            assert np.concatenate(latencies).sum(dtype=np.int64) == cycles == simulation.counters["cycles"]
        assert frame["instructions"].tolist() == [len(trace)] * 2


def test_every_cycle_belongs_to_one_cause(frame):
    causes = frame[[f"stack.{cause}" for cause in CAUSES]].to_numpy()
    assert (causes >= 0).all()
    assert causes.sum(axis=1).tolist() == frame["cycles"].tolist()
    np.testing.assert_allclose(groups_of(frame).sum(axis=1), frame["cpi"])


@pytest.mark.parametrize("by", PARTITIONS)
def test_the_stacks_of_parts_add_up_to_the_run(by, frame, simulated):
    parts, _, costs = simulated
    partition = parts.by(by)
    whole = costs.stacks(partition.sums).sum(axis=0)
    assert whole.tolist() == frame[[f"stack.{cause}" for cause in CAUSES]].to_numpy().tolist()
    table = profile(parts, costs, by)
    for machine, cycles in zip(MACHINES, frame["cycles"], strict=True):
        assert table[f"cycles.{machine.name}"].sum() == cycles
        stack = table[[name for name in table if name.startswith(f"stack.{machine.name}.")]]
        np.testing.assert_array_equal(stack.sum(axis=1), table[f"cycles.{machine.name}"])


def test_instructions_and_contexts_are_finer_than_functions(simulated):
    parts, _, costs = simulated
    functions = profile(parts, costs).set_index("name")
    instructions, contexts = (profile(parts, costs, by) for by in ("instruction", "context"))
    assert instructions["address"].is_unique and len(instructions) > len(contexts) > len(functions)
    assert contexts["name"].str.endswith("main;recursive;chase").sum() == 1
    column = f"cycles.{costs.names[0]}"
    by_name = instructions.groupby(instructions["name"].str.replace(r"[+ ]0x\w+$", "", regex=True))[column].sum()
    assert by_name.to_dict() == functions[column].to_dict()
    assert contexts.groupby("function")[column].sum().to_dict() == functions[column].to_dict()


def test_contexts_add_up_too(frame, simulated):
    parts, _, costs = simulated
    assert costs.cycles(parts.contexts).sum(axis=0).tolist() == frame["cycles"].tolist()
    assert costs.cycles(flame.inclusive(parts))[0].tolist() == frame["cycles"].tolist()


def test_what_a_difference_is_mostly_in_changed_as_it_did(simulated):
    old, new, costs = simulated
    name = costs.names[0]
    for row in diff(old, new, costs).to_dict(orient="records"):
        along = {cause: row.get(f"stack.{name}.{cause}", 0.0) * np.sign(row[f"difference.{name}"]) for cause in CAUSES}
        cause = row[f"cause.{name}"]
        assert along[cause] == max(along.values()) > 0 if cause else max(along.values()) <= 0


def test_differences_of_stacks_add_up(simulated):
    old, new, costs = simulated
    table = diff(old, new, costs)
    for name in costs.names:
        changes = table[[column for column in table if column.startswith(f"stack.{name}.")]]
        np.testing.assert_array_equal(changes.sum(axis=1), table[f"difference.{name}"])
    assert set(table["cause.base"]) <= {*CAUSES, ""}
    assert max(map(len, difference_text(table, costs).splitlines())) <= 80
    document = json.loads(json.dumps(difference_json(table, old, new, costs, "function"), allow_nan=False))
    for group in document["groups"]:
        assert sum(group["stack"][0].values()) == pytest.approx(group["difference"][0])


def test_a_division_waits_for_the_divider(simulated):
    parts, _, costs = simulated
    lines = annotate(parts, costs, "divide")
    divisions = lines[lines["text"].str.startswith("idiv")]
    assert (divisions["cause.base"] == "integer division").all()
    text = annotation_text(lines, costs)
    assert "; integer division" in text
    assert max(map(len, text.splitlines())) <= 80
    document = annotation_json(lines, costs, "divide")
    for line in document["lines"]:
        assert sum(line["stack"][0].values()) == line["cycles"][0]


def test_one_machine_shows_what_its_cycles_are_spent_on(traces):
    parts, costs = collect(traces[0], MACHINES[:1], progress=False)
    table = profile(parts, costs)
    text = profile_text(table, costs, "function")
    assert max(map(len, text.splitlines())) <= 80
    assert text.splitlines()[0].split()[-1] == "order"
    whole = [int(share) for share in text.splitlines()[-1].split()[3:]]
    assert 96 <= sum(whole) <= 104
    document = json.loads(json.dumps(profile_json(table, costs, "function"), allow_nan=False))
    assert document["source"] == "simulated"
    assert sum(sum(group["stack"][0].values()) for group in document["groups"]) == document["cycles"][0]


def test_a_span_is_timed_as_labels_are(traces, tmp_path):
    start, count, warmup = 20_000, 5_000, 3_000
    found = simulate([traces[0]], MACHINES, Span(start, count, warmup), progress=False)
    label_one(traces[0], MACHINES, tmp_path / "l.latency.h5", start, start + count, warmup)
    with LatencyFile(tmp_path / "l.latency.h5") as labels:
        assert found["cycles"].tolist() == labels.cycles().tolist()
    assert found["instructions"].tolist() == [count] * 2


def test_threads_change_nothing(traces, frame):
    again = simulate([traces[0]], MACHINES, threads=2, progress=False)
    pd.testing.assert_frame_equal(again, frame)
    pd.testing.assert_frame_equal(simulate([traces[0]], MACHINES, threads=1, progress=False), frame)


def test_the_terminal_has_80_columns_and_json_is_complete(frame):
    for text in (shown(frame), shown_stack(frame)):
        assert max(map(len, text.splitlines())) <= 80
    document = json.loads(json.dumps(to_json(frame, Span()), allow_nan=False))
    first = document["simulations"][0]
    assert (first["source"], first["interval"], first["uarch"]) == ("simulated", None, "base")
    assert sum(first["stack"].values()) == first["cycles"]
    assert first["l3_mpki"] is not None and document["simulations"][1]["l3_mpki"] is None
    assert len(sections(frame)) == 2


def test_the_headline_weighs_programs_alike_and_counts_those_that_were_sampled(traces):
    frame = simulate(list(traces), MACHINES, progress=False)
    cost = np.log(frame["seconds"]).groupby(frame["uarch"]).mean()
    own = frame[frame["uarch"] == cost.idxmin()]
    said = headline(frame)
    assert said.number == f"{math.sqrt(own['cpi'].prod()):.3g}" and "geometric mean" in said.unit
    assert f"{percent((own['stack.retiring'] / own['cycles']).mean())} of a program's cycles" in said.sentence
    first = frame["program"] == own["program"].iloc[0]
    sampled = headline(frame.assign(half_width=np.where(first, 1000.0, 0.0)))
    assert sampled.source.startswith("simulated, 1 of 2 programs by a sample")


def test_what_cannot_be_simulated_is_told(traces):
    with pytest.raises(InputError, match=r"none from --start 99,000,000,000 on"):
        simulate([traces[0]], MACHINES, Span(start=99_000_000_000), progress=False)
    with pytest.raises(InputError, match="different names"):
        simulate([traces[0]], [MACHINES[0], MACHINES[0]], progress=False)
    with pytest.raises(InputError, match="a vector cannot be simulated"), named_traces(["p.vector.npz"]):
        pass
