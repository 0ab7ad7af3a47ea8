"""Programs among programs: novelty, the nearest of a library, the map, subsets."""

import json
from dataclasses import replace
from itertools import combinations
from shutil import copyfile

import numpy as np
import pytest

from analysis.programs.names import names_apart
from analysis.programs.targets import Target, targets_of
from analysis.questions import compare, novelty, simulate, subset
from analysis.questions.explore import explore
from analysis.questions.sweep import SweepQuestion
from perfvec.model import load_model, save_model
from support.errors import InputError
from tests.analysis.vectors import program, shipped
from uarch.configuration import replace_field
from uarch.machine_files import load_machine


def test_programs_of_one_name_are_told_apart(data, tmp_path):
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        copyfile(data.traces / "qsort.trace.h5", tmp_path / folder / "p.trace.h5")
    paths = [f"{tmp_path}/{folder}/p.trace.h5" for folder in ("old", "new")]
    names = [path.removesuffix(".trace.h5") for path in paths]
    assert names_apart(["p", "q", "p"], [paths[0], "q.trace.h5", None]) == [names[0], "q", "p"]
    frame = simulate.simulate(paths, [load_machine("base")], progress=False)
    assert frame["program"].tolist() == names
    with targets_of(data.model, paths, progress=False) as targets:
        assert [target.name for target in targets] == [target.vector.program for target in targets] == names
        swept = SweepQuestion(base=load_machine("base"), vary={"l2.size_kib": [256, 512]})
        assert set(swept.ask(data.model, targets, 100.0).table["program"]) == set(names)
    assert compare.compare([program("a"), program("b")]).to_numpy().tolist() == [[0, 0], [0, 0]]


def with_vector(name, vector, **changes):
    return replace(program(name), vector=np.array(vector, float), **changes)


def test_a_model_keeps_its_programs_vectors(data, tmp_path):
    assert data.model.program_vectors.shape == (len(data.model.programs), data.model.foundation.width)
    save_model(data.model, tmp_path / "m.safetensors")
    assert np.allclose(load_model(tmp_path / "m.safetensors").program_vectors, data.model.program_vectors)


def test_programs_unlike_the_training_programs_are_told():
    width, count = shipped().foundation.width, len(shipped().programs)
    vectors = np.ones((count, width))
    vectors[:, 0] += np.arange(count) * 0.01
    model = replace(shipped(), program_vectors=vectors)
    far = np.zeros(width)
    far[3] = 1.0
    found = novelty.novelty(model, [with_vector("like", vectors[2] * 70), with_vector("far", far)], [])
    assert found["outside"].tolist() == [False, True]
    assert found["nearest"][0] == model.programs[2].name
    (line,) = novelty.warnings(found)
    assert line.startswith("program far: unlike")
    assert [row["name"] for row in novelty.to_json(found)] == ["far"]
    (section,) = novelty.sections(found)
    assert section.table["name"].tolist() == ["far"]
    assert novelty.sections(found.head(1)) == []


def test_questions_over_many_machines_tell_of_unlike_programs(tmp_path):
    width, count = shipped().foundation.width, len(shipped().programs)
    vectors = np.ones((count, width))
    vectors[:, 0] += np.arange(count) * 0.01
    model = replace(shipped(), program_vectors=vectors)
    far = with_vector("<far>", np.eye(width)[3], model=model.digest)
    question = SweepQuestion(base=load_machine("base"), vary={"l2.size_kib": [256, 512]})
    notes = question.ask(model, [Target(None, lambda: far)], 0.0, progress=False).notes
    assert [note.split(":")[0] for note in notes] == ["program <far>"]
    page = explore(tmp_path / "p.html", model, [far]).read_text()
    assert '<p class="warning">program &lt;far&gt;: unlike what trained the model' in page
    like = with_vector("like", vectors[2] * 70, model=model.digest)
    assert 'class="warning"' not in explore(tmp_path / "p.html", model, [like]).read_text()


def test_machines_unlike_the_table_are_told():
    odd = load_machine("base")
    for field, value in (("frequency_ghz", 20.0), ("l2.latency", 500), ("l1d.latency", 500), ("l1i.latency", 400)):
        odd = replace_field(odd, field, value)
    found = novelty.novelty(shipped(), [program()], [load_machine("base"), replace_field(odd, "name", "odd")])
    assert found["what"].tolist() == ["program", "machine", "machine"]
    machines = found[found["what"] == "machine"]
    assert machines["distance"].iloc[0] == 0
    assert machines["outside"].tolist() == [False, True]


def test_the_users_program_is_told_from_one_of_its_name_in_the_library():
    library = [with_vector("x", [1, 0, 0]), with_vector("y", [0, 1, 0]), with_vector("xy", [1, 1, 0])]
    answer = compare.ask([replace(with_vector("x", [0, 0, 1]), trace_digest="mine")], library)
    library_marks, mine = answer.sections()[1].figure.panels[0].marks
    assert mine.text == ["x"] and library_marks.text == ["x (library)", "y", "xy"]
    assert answer.json["programs"] == ["x", "x (library)", "y", "xy"]


def test_the_nearest_of_a_library(tmp_path):
    library = [with_vector("x", [1, 0, 0]), with_vector("y", [0, 1, 0]), with_vector("xy", [1, 1, 0])]
    target = with_vector("t", [2, 1, 0])
    found = compare.nearest([target, replace(library[0])], library, 2)
    assert found["nearest"].tolist() == ["xy", "x", "xy", "y"]  # its own trace is passed over
    assert found["distance"][0] == pytest.approx(1 - 3 / np.sqrt(10))
    model = replace(shipped())
    program("kept").save(tmp_path / "kept.vector.npz")
    assert [one.program for one in compare.load_library(tmp_path, model)] == ["kept"]
    with pytest.raises(InputError, match="made by the model"):
        compare.load_library(tmp_path, replace(model, digest="other"))
    with pytest.raises(InputError, match=r"no \*\.vector\.npz"):
        compare.load_library(tmp_path / "none", model)


def test_a_map_of_two_components_keeps_distances():
    angles = np.array([0.1, 0.5, 2.0, 3.0])
    programs = [with_vector(str(a), [np.cos(a), np.sin(a), 0]) for a in angles]
    place = compare.plane(programs)
    assert place.attrs["explained"] == pytest.approx([*place.attrs["explained"][:1], 1 - place.attrs["explained"][0]])
    points = place.to_numpy()
    for one, other in combinations(range(4), 2):
        expected = 2 * np.sin(abs(angles[one] - angles[other]) / 2)
        assert np.linalg.norm(points[one] - points[other]) == pytest.approx(expected)


@pytest.mark.slow
def test_a_map_by_neighbours_keeps_groups_together():
    pytest.importorskip("sklearn", reason="t-SNE needs scikit-learn (extra `experiment`)")
    generator = np.random.default_rng(1)
    centres = np.linalg.qr(generator.normal(size=(8, 3)))[0].T
    groups = np.repeat(np.arange(3), 5)
    programs = [with_vector(str(n), centres[g] + 0.05 * generator.normal(size=8)) for n, g in enumerate(groups)]
    place = compare.plane(programs, "tsne")
    points = place.to_numpy()
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    assert (groups[distance.argmin(axis=1)] == groups).all()
    assert np.array_equal(compare.plane(programs, "tsne"), place)
    document = compare.to_json(compare.compare(programs), place)
    assert document["map_method"] == "tsne"
    assert "explained" not in document
    assert len(compare.plot_plane(place).panels[0].marks[0].x) == 15


def test_a_map_that_there_is_not():
    three = [with_vector(str(n), np.eye(3)[n]) for n in range(3)]
    with pytest.raises(InputError, match="expected pca or tsne"):
        compare.plane(three, "umap")
    with pytest.raises(InputError, match="too few for t-SNE"):
        compare.plane(three, "tsne")


def test_a_vector_without_direction_is_told():
    with pytest.raises(InputError, match="all zeros"):
        compare.compare([with_vector("a", [0, 0]), with_vector("b", [0, 1])])


def test_medoids_against_brute_force():
    generator = np.random.default_rng(0)
    for _ in range(20):
        points = generator.normal(size=(9, 2)) + 10 * generator.integers(0, 3, size=(9, 1))
        distance = np.linalg.norm(points[:, None] - points[None], axis=2)
        chosen, cluster = subset.medoids(distance, 3)
        found = distance[chosen[cluster], np.arange(9)].sum()
        least = min(distance[list(some)].min(axis=0).sum() for some in combinations(range(9), 3))
        assert found <= least * 1.1  # a local optimum of swaps
        assert found == pytest.approx(distance[chosen].min(axis=0).sum())


def test_equal_programs_are_one_cluster():
    distance = np.zeros((4, 4))
    chosen, cluster = subset.medoids(distance, 2)
    assert len(set(chosen)) == 2
    assert set(cluster) == {0, 1}


def test_the_error_of_a_subset_by_hand():
    profiles = np.log(np.array([[1.0, 4.0], [2.0, 2.0]]))
    mean, worst = subset.error(profiles, np.array([0]), np.array([1.0]))
    assert (mean, worst) == pytest.approx((0.25, 0.5))  # 1 for a geometric mean of 2; 2 for one of 2


@pytest.mark.parametrize("on", subset.ON)
def test_twins_stand_for_each_other(on):
    programs = [program(f"{name}{number}", seed) for seed, name in ((0, "a"), (5, "b")) for number in (1, 2, 3)]
    found = subset.subset(shipped(), programs, 2, on=on, machines=50)
    assert sorted(found.members["program"].str[0]) == ["a", "b"]
    assert found.members["weight"].tolist() == [0.5, 0.5]
    assert found.errors["worst"][0] < 1e-6  # cycles of many machines are in single precision
    assert max(map(len, subset.subset_text(found).splitlines())) <= 80


@pytest.mark.parametrize(("k", "on", "match"), [(3, "machines", "-k 3"), (0, "machines", "-k 0"), (1, "x", "--on x")])
def test_a_wrong_subset_is_one_line(k, on, match):
    with pytest.raises(InputError, match=match):
        subset.subset(shipped(), [program("a"), program("b", 1), program("c", 2)], k, on=on)


def test_one_program_s_answer_is_its_nearest():
    library = [program(name, seed) for seed, name in enumerate("abcd", start=1)]
    found = compare.ask([program("p")], library)
    told = found.headline()
    assert (
        told.number == f"{found.table['distance'].iloc[0]:.3g}" and str(found.table["nearest"].iloc[0]) in told.sentence
    )
    assert "most alike" not in told.sentence
    alone = program("p")
    with pytest.raises(InputError, match="no program but p"):
        compare.ask([alone], [alone, alone])


def test_a_distance_without_bound_is_null_in_json():
    """No distance is usual where there is one machine alone."""
    model = replace(shipped(), machines=shipped().machines[:1], fitted_machines=(), fitted_vectors=None)
    (row,) = novelty.to_json(novelty.novelty(model, [], [replace_field(load_machine("zen4"), "frequency_ghz", 9.0)]))
    assert row["usual"] is None and "frequency_ghz" in row["beyond"]
    assert json.loads(json.dumps(row, allow_nan=False)) == row
