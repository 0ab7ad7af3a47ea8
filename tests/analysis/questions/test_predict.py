"""The first words of predictions: both machines' sources, and what is a mean says so."""

import pandas as pd

from analysis.questions.predict import headline
from analysis.results.runs import legible

NAN = float("nan")


def frame(*rows):
    """Predictions from (program, machine, seconds, source, low, high), the ends of the interval in seconds."""
    found = pd.DataFrame(rows, columns=["program", "uarch", "seconds", "source", "low", "high"])
    found["cycles"] = found["seconds"] * 1e9
    found[["low", "high"]] *= 1e9
    return found.assign(cpi=found["cycles"] / 1e6, level=0.9)


def test_sources_are_those_of_both_machines():
    fast, slow = ("p", "fast", 1e-3, "simulated", NAN, NAN), ("p", "slow", 2e-3, "zero-shot", 1.8e-3, 2.4e-3)
    middle = ("p", "middle", 1.5e-3, "fitted", NAN, NAN)
    found = headline(frame(slow, middle, fast))
    assert found.source == (
        "fast simulated, every instruction; slow zero-shot, 90 % interval −10.0 % to +20.0 %"  # middle is not compared
    )
    assert (found.number, found.unit) == ("1", "ms on fast")
    assert "on slow 2.00 times as long" in found.sentence
    assert headline(frame(fast)).source == "simulated, every instruction"


def test_one_source_of_both_is_told_once():
    rows = [("p", "fast", 1e-3, "simulated", NAN, NAN), ("p", "slow", 2e-3, "simulated", NAN, NAN)]
    assert headline(frame(*rows)).source == "simulated, every instruction"


def test_a_mean_of_programs_is_called_one():
    rows = [(name, "fast", seconds, "simulated", NAN, NAN) for name, seconds in (("p", 1e-3), ("q", 4e-3))]
    found = headline(frame(*rows))
    assert (found.number, found.unit) == ("2", "ms on fast, geometric mean of 2 programs")
    assert found.sentence == "p and q take 2 ms on fast (geometric mean of 2 programs)."
    slower = [(name, "slow", 3 * seconds, "simulated", NAN, NAN) for name, _, seconds, *_ in rows]
    assert "3.00 times as long (geometric mean of 2 programs)." in headline(frame(*rows, *slower)).sentence
    assert "mean" not in headline(frame(rows[0])).sentence


def test_counts_have_separators_and_times_a_unit():
    runs = {"instructions": [2_000_000, 101], "cycles": [2.432e6, 124.4], "seconds": [4.864e-4, 3.2], "cpi": [1.2, 1.2]}
    shown = legible(pd.DataFrame(runs)).to_string(index=False).splitlines()
    assert [line.split() for line in shown] == [
        ["instructions", "cycles", "time", "cpi"],
        ["2,000,000", "2,432,000", "486", "µs", "1.2"],
        ["101", "124", "3.2", "s", "1.2"],
    ]
