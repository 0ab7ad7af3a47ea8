"""The demonstration: from three binaries to a page, on shorter runs than a user's."""

import pytest

from analysis import demo
from tests.analysis.vectors import shipped
from uarch.machine_files import preset_names


@pytest.mark.slow
def test_one_change_of_the_machine_has_its_source_and_the_models_word(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "INSTRUCTIONS", {"gzip": 200_000, "grep": 50_000, "sort": 50_000})
    monkeypatch.setattr(demo, "SECONDS", 1.0)
    report = demo.demo(tmp_path / "out", shipped())
    told = capsys.readouterr().out
    assert all(name in told for name in preset_names())
    begin = told.index("machine", told.index("CPI  "))
    changes = [line.split() for line in told[begin:].partition("\n\n")[0].splitlines()[1:]]
    named = {(field, value) for field, value, *_ in changes}
    assert len(named) == len(changes) == 12  # four other sizes of two caches, two other windows and predictors
    assert ("l2.size_kib", "1024") in named and ("branch_predictor.kind", "bimode") in named
    assert {source for _, _, source, *_ in changes} <= {"simulated", "corrected", "scaled"}
    assert all(change.endswith("%") and alone.endswith("%") for _, _, _, change, *_, alone in changes)
    page = report.read_text()
    assert "What one change of the machine does to gzip" in page and "the model alone" in page
