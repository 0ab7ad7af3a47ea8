"""A kernel's parameter: what is run, and which value is best on each machine."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.questions import tiling
from analysis.questions.tiling import Experiment
from support.errors import InputError
from tracegen.formats.trace import Trace
from tracegen.qemu import Execution, trace
from tracegen.suite.host_time import HostTime
from uarch.machine_files import load_machine


def frame():
    return pd.DataFrame(
        {
            "value": ["4", "8", "16"] * 2,
            "uarch": ["a"] * 3 + ["b"] * 3,
            "instructions": 10,
            "cycles": [3.0, 1.0, 2.0, 5.0, 6.0, 7.0],
            "simulated": [4.0, 2.0, 1.0, np.nan, np.nan, np.nan],
            "fitted": [4.0, 3.0, 1.0, np.nan, np.nan, np.nan],
            "host": [0.3, 0.1, 0.2] * 2,
        }
    )


def test_the_best_values_by_hand():
    found = tiling.best(frame()).set_index(["uarch", "by"])
    assert found.index.tolist() == [("a", "predicted"), ("a", "fitted"), ("b", "predicted")]
    first = found.loc[("a", "predicted")]
    assert first[["best", "simulated", "host"]].tolist() == ["8", "16", "8"]
    assert first["lost_simulated"] == 1.0
    assert first["tau_simulated"] == pytest.approx(1 / 3)
    assert first["tau_host"] == 1.0
    assert found.loc[("a", "fitted"), ["best", "lost_simulated", "tau_simulated"]].tolist() == ["16", 0.0, 1.0]
    assert pd.isna(found.loc[("b", "predicted"), "simulated"])
    document = tiling.to_json(frame())
    assert json.dumps(document, allow_nan=False)
    sources = {"predicted_cycles", "fitted_cycles", "simulated_cycles", "host_seconds"}
    assert sources <= set(document["points"][0]) and "cycles" not in document["points"][0]
    assert len(tiling.plot(frame()).panels) == 2
    head = tiling.headline(frame())
    assert (head.number, head.source) == ("16", "simulated")  # not what this computer says


def test_the_terminals_tables_are_narrow():
    wide = pd.concat([frame().head(3).assign(uarch=name) for name in ("neoverse-n1", "apple-firestorm")])
    text = tiling.shown(wide)
    assert max(map(len, text.splitlines())) <= 80
    rows = [line.split() for line in text.splitlines()]
    assert ["predicted", "3.00", "1.00", "2.00"] in [row[-4:] for row in rows]
    assert ["this", "computer", "3.00", "1.00", "2.00"] in rows


def test_what_is_known_of_some_values_has_no_fastest():
    some = frame().head(3).assign(simulated=[3.0, np.nan, np.nan])
    assert "predicted" in tiling.shown(some) and "simulated" not in tiling.shown(some).split("\n\n")[0]


def test_every_value_is_traced_and_timed(small_model):
    """The smaller of two tiles of a product executes more instructions, and both machines know it."""
    experiment = Experiment(values=("2", "16"), command=("{program}", "{value}", "2", "16", "{rounds}"))
    machines = [load_machine("base"), load_machine("cortex-a53")]
    found = tiling.tiling(small_model, experiment, machines, repeats=1, rounds=2, progress=False)
    assert found["value"].tolist() == ["2", "2", "16", "16"]
    counts = found.groupby("value")["instructions"].first()
    assert counts["2"] > 1.5 * counts["16"]
    simulated = found.set_index(["value", "uarch"])["simulated"]
    assert (simulated["2"] > simulated["16"]).all()
    assert found["host"].notna().all()


def test_a_round_takes_what_the_others_add(small_model, monkeypatch):
    """Ten rounds take 10 s and one takes 1 s, start-up and all."""
    monkeypatch.setattr(tiling, "host_time", lambda command, repeats: HostTime((float(command[-1]),), (0.0,)))
    experiment = Experiment(("1", "2"), ("/bin/echo", "{value}", "{rounds}"), source=None, region=None)
    found = tiling.tiling(
        small_model,
        experiment,
        [load_machine("base")],
        seconds=0,
        repeats=1,
        rounds=10,
        max_instructions=2000,
        progress=False,
    )
    assert found["host"].tolist() == [1.0, 1.0]


def test_a_budget_that_allows_no_value_says_so(small_model, capsys):
    experiment = Experiment(("1", "2"), ("/bin/echo", "{value}"), source=None, region=None)
    options = {"max_instructions": 2000, "progress": False}
    found = tiling.tiling(small_model, experiment, [load_machine("base")], seconds=1e-9, **options)
    assert found["simulated"].isna().all() and "simulated" not in set(found["source"])
    assert "not one of 2 values could be simulated in 1e-09 s" in capsys.readouterr().err
    assert tiling.tiling(small_model, experiment, [load_machine("base")], **options)["simulated"].notna().all()
    assert not capsys.readouterr().err


@pytest.mark.slow
def test_simulated_values_teach_the_others(small_model):
    """Fitted to two values, a machine's times of these are nearer the simulated ones; no other value is simulated."""
    experiment = Experiment(values=("2", "4", "16"), command=("{program}", "{value}", "2", "16", "{rounds}"))
    machines = [load_machine("base"), load_machine("cortex-a53")]
    found = tiling.tiling(small_model, experiment, machines, seconds=0, learn=("2", "16"), progress=False)
    taught = found[found["value"] != "4"]
    assert found.loc[found["value"] == "4", "simulated"].isna().all()
    assert found["fitted"].notna().all()
    off = [np.abs(np.log(taught[how].abs() / taught["simulated"])).mean() for how in ("cycles", "fitted")]
    assert off[1] < off[0]
    with pytest.raises(InputError, match="--learn 8: is none of the values"):
        tiling.tiling(small_model, experiment, machines, learn=("8",), progress=False)


@pytest.mark.slow
def test_a_value_may_be_compiled_in(tmp_path):
    experiment = Experiment(values=("2", "16"), command=("{program}", "0", "2", "16"), define="TILE")
    counts = []
    for value in experiment.values:
        command = experiment.prepare(value, tmp_path, 1)
        assert command[0] == str(tmp_path / f"program-{value}")
        trace(Execution([command[0], "1", "2", "16"], stdout=2), tmp_path / f"{value}.trace.h5", progress=False)
        with Trace(tmp_path / f"{value}.trace.h5") as made:
            counts.append(len(made))
    assert counts[0] > counts[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"values": ("4",)}, "at least two"),
        ({"command": ("a", "b")}, "no {value}"),
        ({"command": (), "source": None}, "no command"),
        ({"command": ("{program}", "{value}"), "source": None}, "there is none"),
    ],
)
def test_what_is_no_experiment(options, message):
    with pytest.raises(InputError, match=message):
        Experiment(**options)


def test_a_program_that_fails_is_told(small_model):
    experiment = Experiment(values=("0", "1"), region=None)  # a tile of 0 is refused by the kernel
    with pytest.raises(InputError, match="ended with status 2"):
        tiling.tiling(small_model, experiment, [load_machine("base")], seconds=0, progress=False)
    assert Path(tiling.KERNEL).exists()
