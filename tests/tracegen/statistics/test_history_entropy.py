"""Branch entropies of streams whose entropy is known."""

import numpy as np
import pytest

from support.errors import InputError
from tracegen.statistics.history_entropy import LIMIT, HistoryEntropy


def entropy_of(p):
    return -p * np.log2(p) - (1 - p) * np.log2(1 - p)


def history_entropy(site, taken, kind, length, limit=LIMIT):
    site = np.ascontiguousarray(site, np.uint32)
    counts = HistoryEntropy(int(site.max(initial=0)) + 1, kind, length, limit=limit)
    counts.observe(site, np.ascontiguousarray(taken, np.uint8))
    return counts.result()


def one_branch(taken):
    return np.zeros(len(taken), np.uint32), np.array(taken, np.uint8)


def test_bias_alone():
    found = history_entropy(*one_branch([1, 0, 0, 0] * 500), "global", 0)
    assert found.shannon == pytest.approx(entropy_of(0.25))
    assert found.linear == pytest.approx(0.5)
    assert found.contexts == 1


@pytest.mark.parametrize("kind", ["global", "local"])
@pytest.mark.parametrize(("length", "certain"), [(1, False), (2, False), (3, True), (8, True), (31, True)])
def test_a_period_of_four_is_certain_from_three_outcomes(kind, length, certain):
    # 1 1 0 0 0: after "0 0" comes 0 or 1, after three outcomes there is no doubt.
    found = history_entropy(*one_branch([1, 1, 0, 0, 0] * 2000), kind, length)
    assert (found.shannon < 0.02) == certain
    assert (found.linear < 0.02) == certain


def test_two_outcomes_of_history_by_hand():
    # In 1 1 0 0 0 repeated: 11→0, 10→0, 01→1, and 00→0 or 1 equally often, two fifths of the time.
    found = history_entropy(*one_branch([1, 1, 0, 0, 0] * 20_000), "local", 2)
    assert found.shannon == pytest.approx(2 / 5, abs=1e-3)
    assert found.linear == pytest.approx(2 / 5, abs=1e-3)
    assert found.contexts == 4


@pytest.mark.parametrize("p", [0.5, 0.1, 0.02])
@pytest.mark.parametrize("length", [0, 4])
def test_random_outcomes_stay_uncertain(p, length):
    taken = np.random.default_rng(3).random(200_000) < p
    found = history_entropy(*one_branch(taken), "global", length)
    assert found.shannon == pytest.approx(entropy_of(p), rel=0.02)
    assert found.linear == pytest.approx(2 * p, rel=0.02)


def test_a_branch_that_copies_another_is_known_to_global_history_only():
    first = np.random.default_rng(4).integers(0, 2, 50_000)
    site = np.tile(np.array([3, 9], np.uint32), len(first))
    taken = np.repeat(first, 2).astype(np.uint8)
    assert history_entropy(site, taken, "global", 1).shannon == pytest.approx(0.5, abs=0.01)
    assert history_entropy(site, taken, "local", 8).shannon == pytest.approx(1.0, abs=0.02)


def test_equals_the_definition_on_any_stream():
    rng = np.random.default_rng(5)
    site = rng.integers(0, 5, 4000).astype(np.uint32)
    taken = (rng.random(4000) < 0.2 + 0.15 * site).astype(np.uint8)
    for kind in ("global", "local"):
        contexts = {}
        past = dict.fromkeys(range(5), ()) | {None: ()}
        for here, outcome in zip(site.tolist(), taken.tolist(), strict=True):
            whose = here if kind == "local" else None
            window = (0,) * max(6 - len(past[whose]), 0) + past[whose][-6:]
            contexts.setdefault((here, window), [0, 0])[outcome] += 1
            past[whose] = (*past[whose], outcome)[-6:]
        counts = np.array(list(contexts.values()), float)
        p = counts[:, 1] / counts.sum(axis=1)
        shannon = sum(n.sum() * (0 if q in (0, 1) else entropy_of(q)) for n, q in zip(counts, p, strict=True)) / 4000
        found = history_entropy(site, taken, kind, 6)
        assert found.contexts == len(contexts)
        assert found.shannon == pytest.approx(shannon)
        assert found.linear == pytest.approx((2 * np.minimum(p, 1 - p) * counts.sum(axis=1)).sum() / 4000)


def test_what_a_limit_leaves_out_is_said():
    taken = np.random.default_rng(6).integers(0, 2, 20_000)
    found = history_entropy(*one_branch(taken), "global", 16, limit=1024)
    assert found.contexts == 1024
    assert 0 < found.covered < 0.2


def test_wrong_histories_are_named():
    with pytest.raises(InputError, match="path"):
        history_entropy(*one_branch([1]), "path", 3)
    with pytest.raises(InputError, match="99"):
        history_entropy(*one_branch([1]), "local", 99)
