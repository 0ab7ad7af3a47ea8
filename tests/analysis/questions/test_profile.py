"""Profiles of a program that can be counted by hand: every partition adds up to the whole prediction."""

import json
import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import perfvec as pv
from analysis.parts import flame
from analysis.parts.costs import predicted
from analysis.parts.partition import PARTITIONS
from analysis.parts.predicted_parts import collect
from analysis.questions import difference
from analysis.questions.profile import annotate, annotation_text, plot, profile, profile_text, result, to_json
from analysis.results.page import Section, write_page
from analysis.results.text import columns
from support.errors import InputError
from tests.analysis.conftest import PROGRAM
from tracegen.control_flow.edges import Edges
from tracegen.qemu import Execution, trace

SOURCE = PROGRAM.read_text().splitlines()


def line_of(text):
    (found,) = [number for number, line in enumerate(SOURCE, 1) if text in line]
    return found


@pytest.fixture(scope="module")
def machines(small_model):
    return list(small_model.machines)


@pytest.fixture(scope="module")
def costs(small_model, machines):
    return predicted(small_model, machines)


@pytest.mark.parametrize("by", PARTITIONS)
def test_parts_add_up_to_the_prediction(by, small_model, wholes, both, machines, costs):
    whole = wholes[0]
    expected = small_model.table() @ whole.vector
    frame = profile(both[0], costs, by)
    scale = np.abs(whole.vector) @ np.abs(small_model.table()).T  # what the sums may cancel from
    for machine, cycles, bound in zip(machines, expected, scale, strict=True):
        assert frame[f"cycles.{machine.name}"].sum() == pytest.approx(cycles, abs=1e-5 * bound)
        assert frame[f"share.{machine.name}"].sum() == pytest.approx(1.0)
    assert frame["instructions"].sum() == whole.instructions
    assert (frame["instructions"] > 0).all()
    assert frame["name"].is_unique or by == "line"  # lines of files with one name


def test_loops_are_those_of_the_source(small_model, both, costs):
    frame = profile(both[0], costs, "loop")
    loops = frame[frame["file"].str.endswith("parts.c")].set_index(["function", "line"])
    inner = loops.loc[("divide", line_of("k <= 3"))]
    assert (inner["depth"], inner["entries"], inner["iterations"]) == (2, 50, 150)
    outer = loops.loc[("divide", line_of("i <= n"))]
    assert (outer["depth"], outer["entries"], outer["iterations"]) == (1, 2, 50)
    chase = loops.loc[("chase", line_of("i < n"))]
    assert (chase["depth"], chase["entries"], chase["iterations"]) == (1, 1, 100)
    assert len(loops) == 4


def test_entries_do_not_need_every_repeat(both, costs):
    """A sample of the run misses the edges behind its units."""
    parts = both[0]
    source, target, times = parts.edges
    fewer = replace(parts, edges=Edges(source, target, np.where(source >= target, times // 2 + 1, times)))
    frame = profile(fewer, costs, "loop")
    loops = frame[frame["file"].str.endswith("parts.c")].set_index(["function", "line"])
    inner = loops.loc[("divide", line_of("k <= 3"))]
    assert (inner["entries"], inner["iterations"]) == (50, 150)


def test_ratio_is_of_seconds(small_model, both, machines, costs):
    frame = profile(both[0], costs, "class")
    base, other = machines
    row = frame[frame[f"cycles.{base.name}"] > 0].iloc[0]
    seconds = [row[f"cycles.{machine.name}"] / machine.frequency_ghz for machine in machines]
    assert row[f"ratio.{other.name}"] == pytest.approx(seconds[1] / seconds[0])
    negative = frame[frame[f"cycles.{base.name}"] <= 0]
    assert negative[f"ratio.{other.name}"].isna().all()


def test_intervals_have_the_length_that_is_asked(small_model, traces, costs):
    parts = collect(small_model, traces[0], interval=7_000, max_instructions=20_000, progress=False)
    frame = profile(parts, costs, "interval")
    assert frame["first"].tolist() == [0, 7_000, 14_000]
    assert frame["instructions"].tolist() == [7_000, 7_000, 6_000]
    assert list(plot(frame, costs, "interval").panels[0].marks[0].x) == [
        0,
        7_000,
        14_000,
        20_000,
    ]  # to the last one's end
    every, some = (profile_text(frame, costs, "interval", rows).splitlines() for rows in (None, 2))
    assert len(every) == len(some) == 5 and some[-2].startswith("1 more") and not every[-2].startswith("1 more")


@pytest.mark.parametrize("by", PARTITIONS)
def test_the_terminal_has_80_columns_and_json_is_complete(by, small_model, both, costs):
    frame = profile(both[0], costs, by)
    text = profile_text(frame, costs, by, 5)
    assert max(map(len, text.splitlines())) <= 80
    assert f"{both[0].statics.instructions.sum():,}" in text.splitlines()[-1]
    document = json.loads(json.dumps(to_json(frame, costs, by), allow_nan=False))
    assert len(document["groups"]) == len(frame)
    assert np.sum([group["cycles"] for group in document["groups"]], axis=0) == pytest.approx(document["cycles"])


@pytest.mark.parametrize(("count", "told"), [(1, "base: cycles."), (2, "Under a machine's name: cycles; time: ")])
def test_the_terminal_says_what_is_in_cycles(count, told, small_model, both):
    costs = predicted(small_model, small_model.machines[:count])
    assert f"\n{told}" in str(result(both[0], costs))
    assert str(result(both[0], costs, annotated="divide")).splitlines()[0].endswith("  cycles")


def test_annotation_has_every_instruction_and_its_source(small_model, both, machines, costs):
    frame = annotate(both[0], costs, "divide")
    functions = profile(both[0], costs).set_index("name").loc["divide"]
    for machine in machines:
        assert frame[f"cycles.{machine.name}"].sum() == pytest.approx(functions[f"cycles.{machine.name}"])
    division = frame[frame["text"].str.startswith("idiv") & (frame["source"].str.contains("n / "))]
    assert division["instructions"].tolist() == [150]
    assert division["line"].tolist() == [line_of("n / ")]
    text = annotation_text(frame, costs)
    assert "sum += n / (i + k + sum % 3);" in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_is_estimated_as_never_executed_keeps_its_cycles(both, machines, costs):
    """Weights of live-points may be negative: estimated executions are 0 or fewer, and cycles are not."""
    parts = both[0]
    counts = parts.statics.instructions.copy()
    rows = np.flatnonzero((parts.function == parts.functions.index("divide")) & (counts > 0))
    counts[rows] = -(np.arange(len(rows)) % 2)
    odd = replace(parts, statics=replace(parts.statics, instructions=counts))
    expected = profile(parts, costs).set_index("name").loc["divide"]
    found = profile(odd, costs).set_index("name").loc["divide"]
    for machine in machines:
        assert found[f"cycles.{machine.name}"] == pytest.approx(expected[f"cycles.{machine.name}"])
        assert annotate(odd, costs, "divide")[f"cycles.{machine.name}"].sum() == pytest.approx(
            expected[f"cycles.{machine.name}"]
        )


def test_a_function_that_is_not_there_is_told(small_model, both, costs):
    with pytest.raises(InputError, match=r"'dividee' \(did you mean divide\?\)"):
        annotate(both[0], costs, "dividee")


def test_contexts_are_who_called(both):
    parts = both[0]
    names = parts.context_names()
    stacks = {match[1] for match in (re.search(r"(?:^|;)(main(?:;.*)?)$", name) for name in names) if match}
    assert {"main", "main;divide", "main;leaves;divide", "main;recursive", "main;recursive;chase"} <= stacks
    assert not any("leaves;main" in name or "recursive;recursive" in name for name in names)
    assert not any("leaves;longjmp;divide" in name for name in names)  # after longjmp main goes on
    inclusive = flame.inclusive(parts)
    np.testing.assert_allclose(inclusive.vectors[0], parts.whole, rtol=1e-9, atol=1e-6)
    assert inclusive.instructions[0] == parts.statics.instructions.sum()
    main = next(k for k, name in enumerate(names) if name.endswith(";main") or name == "main")
    below = [k for k, name in enumerate(names) if name == names[main] or name.startswith(names[main] + ";")]
    assert inclusive.instructions[main] == parts.contexts.instructions[below].sum()


def test_folded_stacks_are_whole_cycles(small_model, both, costs):
    lines = flame.folded(both[0], costs).splitlines()
    assert all(re.fullmatch(r"\S.* \d+ \d+", line) for line in lines)
    vectors = both[0].contexts.vectors @ small_model.table().T
    total = np.maximum(np.rint(vectors), 0).sum(axis=0)
    assert np.sum([[int(word) for word in line.split()[-2:]] for line in lines], axis=0).tolist() == total.tolist()


def test_the_page_stands_alone_and_holds_the_graph(small_model, both, costs, tmp_path):
    odd = replace(both[0], program="old</script>@DATA@")
    frame = profile(odd, costs)
    sections = [flame.section(odd, costs), Section("<by function>", table=frame)]
    page = write_page(tmp_path / "f.html", "T", sections).read_text()
    for loaded in ("src=", "<link", "@import", "http:", "https:", "<by function>", "old</script>"):
        assert loaded not in page
    data = json.loads(re.search(r'<script class="flame-data" type="application/json">(.*?)</script>', page, re.S)[1])
    count = len(data["parent"])
    assert data["parent"][0] == -1
    assert all(0 <= parent < k for k, parent in enumerate(data["parent"]) if k)
    assert len(data["name"]) == len(data["instructions"]) == len(data["cycles"][0]) == count
    assert data["cycles"][0][0] == pytest.approx(both[0].whole @ small_model.table()[0], abs=0.06)
    assert "divide" in {data["names"][number] for number in data["name"]}


def test_two_machines_of_one_name_are_told(small_model, both, machines):
    with pytest.raises(InputError, match="different names"):
        predicted(small_model, [machines[0], machines[0]])


def test_a_vector_cannot_be_taken_apart(small_model, tmp_path):
    with pytest.raises(InputError, match="give the trace"):
        collect(small_model, tmp_path / "p.vector.npz")


def test_a_trace_that_fits_the_budget_is_simulated(small_model, traces, capsys):
    simulated = pv.profile(traces[0], ["base", "cortex-a53"], model=small_model)
    truth = pv.simulate(traces[0], ["base", "cortex-a53"]).table["cycles"]
    assert simulated.json["source"] == "simulated"
    assert simulated.json["cycles"] == truth.tolist()
    assert str(simulated).endswith("\n\nsource: simulated, every instruction")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("budget", "told"), [(0.0, ""), (1e-9, "more than --budget 1e-09; the model answers\n")])
def test_a_trace_that_does_not_is_predicted(budget, told, small_model, traces, wholes, capsys):
    found = pv.profile(traces[0], "base", budget=budget, model=small_model)
    assert found.json["source"] == "predicted"
    assert found.json["cycles"] == pytest.approx([float(small_model.table()[0] @ wholes[0].vector)])
    assert str(found).endswith("\n\nsource: predicted by the model alone; parts have no interval")
    assert capsys.readouterr().err.endswith(told)


def test_parts_by_time_are_never_of_live_points(small_model, traces):
    found = pv.profile(traces[0], "base", "interval", budget=1e-9, model=small_model)
    assert found.table["instructions"].sum() == pv.load(traces[0]).instructions


def test_the_headline_tells_a_loop_or_line_from_code_outside(small_model, both, costs):
    parts = both[0]
    only = parts.function == parts.functions.index("recursive")  # has lines, and no loop
    vectors = np.outer(only & parts.executed, costs.machine_vectors[0])
    chosen = replace(parts, statics=replace(parts.statics, vectors=vectors))
    bare = replace(chosen, lines=chosen.lines.assign(file="", line=0))
    for odd, by, named in (
        (chosen, "loop", "Code of recursive outside loops takes"),
        (chosen, "line", "The line parts.c:"),
        (bare, "line", "Code of recursive without lines takes"),
    ):
        assert result(odd, costs, by).headline().sentence.startswith(named)
    none = replace(parts, statics=replace(parts.statics, vectors=np.zeros_like(vectors)))
    changed = difference.result(none, chosen, costs, "loop").headline()
    assert ". Code of recursive outside loops changed most, by +" in changed.sentence


def test_a_stripped_program_says_what_is_missing(small_model, traces, tmp_path):
    subprocess.run(["gcc", "-O1", "-static", "-s", "-o", tmp_path / "bare", PROGRAM], check=True)
    bare = trace(Execution([str(tmp_path / "bare")]), tmp_path / "bare.trace.h5", progress=False).path
    for by in ("function", "line", "loop"):
        found = pv.profile(bare, "base", by, model=small_model)
        assert "\n[program]: code without symbols (stripped)\n\nsource:" in str(found)
        assert found.headline().sentence.endswith("[program]: code without symbols (stripped).")
    assert "without symbols" not in str(pv.profile(traces[0], "base", model=small_model))


def test_code_that_a_program_makes_is_not_called_stripped(small_model, tmp_path):
    (tmp_path / "jit.c").write_text("""
#include <string.h>
#include <sys/mman.h>
int main(void) {
    static const unsigned char code[] = {0xff, 0xcf, 0x75, 0xfc, 0xc3};  /* dec edi; jnz; ret */
    void *page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    ((void (*)(int))page)(100000);
    return 0;
}
""")
    subprocess.run(["gcc", "-O1", "-static", "-o", tmp_path / "jit", tmp_path / "jit.c"], check=True)
    made = trace(Execution([str(tmp_path / "jit")]), tmp_path / "jit.trace.h5", progress=False).path
    text = str(pv.profile(made, "base", model=small_model))
    assert "[unknown]: code of no file" in text and "stripped" not in text


def test_names_that_would_look_alike_stand_above_their_cells():
    rows = [["main;" + "f" * 90 + middle + "g" * 20, "7", "x" * 60] for middle in "ab"]
    first, *alike = columns(["context", "cycles", "text"], rows).splitlines()
    assert first.split() == ["context", "cycles", "text"]
    assert [line.split()[0] for line in alike[1::2]] == ["7", "7"] and max(map(len, alike)) <= 80
    assert alike[0] != alike[2] and "…" in alike[0]
    other = [["a" * 30 + "b" + "c" * 30, "7", "x" * 60], ["a" * 30 + "d" + "c" * 30, "7", "x" * 60], ["e", "1", ""]]
    lines = columns(["context", "cycles", "text"], other).splitlines()[1:]
    assert (lines[0], lines[2], lines[4].split()[0]) == (other[0][0], other[1][0], "e")
    only = columns(["context", "cycles", "text"], other[1:]).splitlines()
    assert len(only) == 3 and "…" in only[1]
    assert columns(["context", "cycles", "text"], other[1:], apart=True).splitlines()[1] == other[1][0]
