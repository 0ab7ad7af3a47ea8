"""Branch prediction: known answers by hand, and what each predictor must and cannot learn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import pytest

from uarch.instructions import Flag
from uarch.timing._core import parts

INDIRECT = ("target-table", "ittage")
KINDS = ("local", "bimode", "tournament", "tage", "ltage", "tage-sc-l", "perceptron")
CONDITIONAL = int(Flag.BRANCH | Flag.CONDITIONAL)
JUMP = int(Flag.BRANCH)
INDIRECT_JUMP = int(Flag.BRANCH | Flag.INDIRECT)
CALL = int(Flag.BRANCH | Flag.CALL)
RETURN = int(Flag.BRANCH | Flag.RETURN | Flag.INDIRECT)
LENGTH, AWAY = 4, 0x100
RIGHT, DECODE_REDIRECT, EXECUTE_REDIRECT = parts.Redirect.NONE, parts.Redirect.DECODE, parts.Redirect.EXECUTE


def front_end(
    kind: str, entries: int = 1024, btb: int = 1024, ras: int = 16, indirect: str = "target-table"
) -> parts.BranchUnit:
    return parts.BranchUnit(kind, entries, btb, ras, indirect)


def go(
    unit: parts.BranchUnit, pc: int, taken: int, flags: int = CONDITIONAL, target: int | None = None
) -> parts.Redirect:
    """One branch, learnt when the next one comes."""
    to = (pc + AWAY if target is None else target) if taken else pc + LENGTH
    return unit.fetch(pc, pc + LENGTH, to, flags)


def wrong(
    unit: parts.BranchUnit, outcomes: Iterable[int], pc: int | Sequence[int] = 0x4000, delay: int = 0
) -> list[int]:
    """Return which outcomes of one branch (or of one each) were mispredicted, the last `delay` in flight."""
    taken = list(outcomes)
    addresses = [pc] * len(taken) if isinstance(pc, int) else pc
    result = []
    for k, (here, way) in enumerate(zip(addresses, taken, strict=True)):
        to = here + (AWAY if way else LENGTH)
        result.append(unit.fetch(here, here + LENGTH, to, CONDITIONAL, fetched=k, retired=k + delay - 1))
    return [int(one == EXECUTE_REDIRECT) for one in result]


# One counter, by hand.


def test_a_two_bit_counter_begins_at_not_taken_and_changes_its_mind_after_two():
    state = front_end("local")
    #       counter before:  0  1  2  3  3  2  1  0
    assert wrong(state, [1, 1, 1, 1, 0, 0, 0, 0]) == [1, 1, 0, 0, 1, 1, 0, 0]


@pytest.mark.parametrize("pc, outcome", [(0x4020, EXECUTE_REDIRECT), (0x4004, RIGHT)])
def test_local_has_half_as_many_counters_as_bits(pc, outcome):
    state = front_end("local", entries=16)  # 8 counters, so that addresses 32 bytes apart share one
    wrong(state, [1, 1, 1], pc=0x4000)
    go(state, pc, 1, JUMP)  # for the target buffer
    assert go(state, pc, 0) == outcome


def test_an_unconditional_branch_trains_a_local_counter():
    state = front_end("local")
    for _ in range(3):
        go(state, 0x4000, 1, JUMP)
    assert go(state, 0x4000, 1) == RIGHT  # a conditional branch at the same place


def test_bimode_keeps_its_choice_where_the_chosen_side_is_right():
    # Four outcomes of history. In the second round the choice goes to the side for branches taken. That side is right
    # about those not taken, so the choice stays, and it learns about those taken by itself in the rounds to come: if
    # the choice went back then, or if both sides learnt, round 4 would have no misprediction any more.
    rounds = [[1, 0, 0, 1], [1, 0, 0, 1], [1, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert wrong(front_end("bimode", entries=16), [1, 0, 0, 1] * 5) == list(chain(*rounds))


def test_a_tournament_believes_the_side_that_was_right():
    # Two branches, always taken, the second after three of the first. The second one's local history passes counters
    # that know nothing yet, while the global history's counter is sure by the second round. There and in the third
    # round it alone is right about the second branch, so that the fourth believes it.
    pc = [0x4000, 0x4000, 0x4000, 0x4004] * 5
    rounds = [[1, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert wrong(front_end("tournament", entries=16), [1] * 20, pc) == list(chain(*rounds))


@pytest.mark.parametrize("kind", KINDS)
def test_a_branch_that_always_goes_one_way_is_learnt(kind):
    state = front_end(kind)
    assert sum(wrong(state, [1] * 300)[100:]) == 0
    assert sum(wrong(state, [0] * 300, pc=0x7004)[100:]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_predictor_beats_chance_on_a_biased_branch(kind):
    state = front_end(kind)
    outcomes = (np.random.default_rng(7).random(4000) < 0.85).astype(int).tolist()
    assert 0.12 < sum(wrong(state, outcomes)) / 4000 < 0.35


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "local"])
def test_an_alternating_branch_is_learnt_by_every_history(kind):
    state = front_end(kind)
    assert sum(wrong(state, [k & 1 for k in range(2000)])[1000:]) <= 5


def test_an_alternating_branch_is_too_much_for_a_counter():
    assert sum(wrong(front_end("local"), [k & 1 for k in range(2000)])) >= 990


def loop_trips(trips: int, times: int) -> list[int]:
    return ([1] * (trips - 1) + [0]) * times


def test_the_loop_predictor_learns_a_trip_count_longer_than_any_history():
    # 1,500 iterations: more than the 640 outcomes that L-TAGE's tables see.
    trips = 1500
    with_loops = wrong(front_end("ltage"), loop_trips(trips, 12))
    without = wrong(front_end("tage"), loop_trips(trips, 12))
    assert sum(with_loops[8 * trips :]) == 0
    assert sum(without[8 * trips :]) >= 4


def correlated(between: int, count: int) -> tuple[list[int], list[int]]:
    """Addresses and outcomes of a random branch, `between` constant ones, and one that repeats the first, in turn."""
    taken = []
    for outcome in np.random.default_rng(3).integers(0, 2, count).tolist():
        taken += [outcome, *[1] * between, outcome]
    return [0x4000 + 8 * k for k in range(between + 2)] * count, taken


def last_of_correlated(kind: str, between: int) -> float:
    """The rate at which the repeating branch is mispredicted in the end."""
    pc, taken = correlated(between, 3000)
    missed = wrong(front_end(kind, entries=4096), taken, pc)
    return float(np.mean(missed[between + 1 :: between + 2][-1000:]))


@pytest.mark.parametrize("kind", ["tage", "ltage", "tage-sc-l", "perceptron"])
def test_a_correlation_over_a_long_history_is_learnt(kind):
    assert last_of_correlated(kind, 20) < 0.05


def test_counters_cannot_learn_a_correlation():
    assert last_of_correlated("local", 20) > 0.4


# Learning at retirement.


def test_what_retires_later_is_not_known_yet():
    state = front_end("local")
    outcomes = [state.fetch(0x4000, 0x4004, 0x4100, CONDITIONAL, 10 + k, 100) for k in range(5)]
    assert outcomes == [EXECUTE_REDIRECT] * 5  # all five fetched before the first retires
    assert state.in_flight == 5
    assert state.fetch(0x4000, 0x4004, 0x4100, CONDITIONAL, 100, 101) == EXECUTE_REDIRECT  # in the same cycle
    assert state.fetch(0x4000, 0x4004, 0x4100, CONDITIONAL, 101, 102) == RIGHT


def test_only_histories_kept_speculatively_are_complete_with_branches_in_flight():
    # The random branch is two branches back and still in flight when its repetition is predicted.
    pc, taken = correlated(1, 3000)
    missed = {kind: np.mean(wrong(front_end(kind), taken, pc, 8)[2::3][-1000:]) for kind in ("tage", "tage-sc-l")}
    assert missed["tage"] < 0.05
    assert missed["tage-sc-l"] > 0.4


def test_more_branches_in_flight_than_there_is_room_for_are_learnt_early():
    state = front_end("tage")
    for _ in range(1000):
        state.fetch(0x4000, 0x4004, 0x4100, CONDITIONAL, 0, 1 << 40)
    assert state.in_flight <= parts.IN_FLIGHT == 256
    assert state.mispredictions < 300


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_branches_give_the_same_outcomes(kind):
    pc, taken = correlated(5, 200)
    assert wrong(front_end(kind), taken, pc, 7) == wrong(front_end(kind), taken, pc, 7)


# Targets.


def test_a_jump_is_redirected_by_decode_once():
    state = front_end("local")
    assert [go(state, 0x4000, 1, JUMP) for _ in range(3)] == [DECODE_REDIRECT, RIGHT, RIGHT]


def test_two_branches_share_a_target_buffer_entry_a_size_apart():
    state = front_end("local", btb=16)  # 16 entries of 4 bytes
    for _ in range(2):
        assert go(state, 0x4000, 1, JUMP) == DECODE_REDIRECT
        assert go(state, 0x4040, 1, JUMP) == DECODE_REDIRECT
    assert go(state, 0x4040, 1, JUMP) == RIGHT


def test_a_taken_branch_without_a_target_is_not_fetched():
    state = front_end("local", btb=16)
    wrong(state, [1] * 4)
    assert go(state, 0x4000, 1) == RIGHT
    go(state, 0x4040, 1, JUMP)  # takes its entry
    assert go(state, 0x4000, 1) == EXECUTE_REDIRECT


def test_a_branch_in_the_same_four_bytes_has_the_others_target():
    state = front_end("local")
    go(state, 0x4000, 1, JUMP, target=0x9000)
    assert go(state, 0x4002, 1, JUMP, target=0xA000) == DECODE_REDIRECT
    assert go(state, 0x4000, 1, JUMP, target=0x9000) == DECODE_REDIRECT  # which it took away


def test_returns_go_back_as_deep_as_the_stack():
    entries, depth = 8, 11
    state = front_end("local", ras=entries)
    calls = [0x10000 + 0x100 * k for k in range(depth)]
    for pc in calls:
        go(state, pc, 1, CALL)
    outcomes = [go(state, 0x90000 + 4 * k, 1, RETURN, target=pc + LENGTH) for k, pc in enumerate(reversed(calls))]
    assert outcomes == [RIGHT] * entries + [EXECUTE_REDIRECT] * (depth - entries)


def test_a_return_without_a_call_is_a_surprise():
    assert go(front_end("local"), 0x4000, 1, RETURN) == EXECUTE_REDIRECT


@pytest.mark.parametrize("indirect", INDIRECT)
def test_an_indirect_jump_to_one_target_is_learnt(indirect):
    state = front_end("local", indirect=indirect)
    outcomes = [go(state, 0x4000, 1, INDIRECT_JUMP) for _ in range(40)]
    assert outcomes[0] == EXECUTE_REDIRECT
    assert outcomes[20:] == [RIGHT] * 20


@pytest.mark.parametrize("indirect", INDIRECT)
def test_an_indirect_jump_that_follows_a_pattern_is_learnt_by_its_path(indirect):
    state = front_end("local", indirect=indirect)
    targets = [0x8000, 0x9010, 0xA020, 0x9010]
    outcomes = [go(state, 0x4000, 1, INDIRECT_JUMP, targets[k % 4]) for k in range(400)]
    assert outcomes[200:] == [RIGHT] * 200


@pytest.mark.parametrize("indirect", INDIRECT)
def test_random_indirect_targets_are_not_learnt(indirect):
    state = front_end("local", indirect=indirect)
    targets = 0x8000 + 0x40 * np.random.default_rng(5).integers(0, 16, 2000)
    outcomes = [go(state, 0x4000, 1, INDIRECT_JUMP, int(target)) for target in targets]
    assert np.mean(np.array(outcomes[1000:]) == EXECUTE_REDIRECT) > 0.8


@pytest.mark.parametrize("indirect, least, most", [("target-table", 0.6, 1), ("ittage", 0, 0.05)])
def test_ittage_alone_tells_targets_that_need_a_long_history(indirect, least, most):
    # Four targets in an order of 64, in which the last three do not tell the next; targets differ in low bits alone.
    state = front_end("local", indirect=indirect)
    order = (0x8000 + 9 * np.random.default_rng(1).integers(0, 4, 64)).tolist()
    outcomes = [go(state, 0x4000, 1, INDIRECT_JUMP, order[k % 64]) for k in range(6400)]
    assert least <= np.mean(np.array(outcomes[3200:]) == EXECUTE_REDIRECT) <= most


def test_ittage_tells_targets_by_the_directions_of_branches_before():
    state = front_end("local", indirect="ittage")
    wrong_ones = []
    for bits in np.random.default_rng(2).integers(0, 2, (3000, 2)).tolist():
        for k, bit in enumerate(bits):
            go(state, 0x4000 + 16 * k, bit)
        wrong_ones.append(go(state, 0x4100, 1, INDIRECT_JUMP, 0x8000 + 0x40 * (bits[0] + 2 * bits[1])) != RIGHT)
    assert np.mean(wrong_ones[1500:]) < 0.05


def test_a_return_leaves_the_indirect_predictor_alone():
    state = front_end("local", indirect="ittage")
    for _ in range(3):
        assert go(state, 0x4000, 1, CALL, 0x9000) in (RIGHT, DECODE_REDIRECT)
        assert go(state, 0x9000, 1, RETURN, 0x4004) == RIGHT
    assert go(state, 0x9000, 1, INDIRECT_JUMP, 0x4004) == EXECUTE_REDIRECT  # nothing was learnt of this address


# Parts.


def test_a_folded_history_is_the_fold_of_the_outcomes():
    lengths = parts.geometric(5, 130, 7)
    widths = [(9, tag, tag - 1) for tag in (9, 9, 10, 10, 11, 11, 12)]
    history = parts.FoldedHistory(lengths, widths)
    outcomes = np.random.default_rng(11).integers(0, 2, 300).tolist()
    for outcome in outcomes:
        history.shift_in(bool(outcome))
    for length, three, *registers in zip(lengths, widths, *history.registers(), strict=True):
        for width, register in zip(three, registers, strict=True):
            expected = 0
            for back in range(length):  # the outcome `back` ago has moved round by as many bits
                expected ^= outcomes[-1 - back] << (back % width)
            assert register == expected


def test_history_lengths_are_a_geometric_series():
    assert parts.geometric(5, 130, 7) == [5, 9, 15, 25, 44, 76, 130]


@pytest.mark.parametrize("large", [False, True])
def test_the_perceptrons_tables_fill_the_budget(large):
    used, budget = parts.perceptron_bits(large)
    assert 0.99 * budget < used <= budget
    assert budget == ((65536 if large else 8192) + 256) * 8


def test_mispredictions_are_counted_by_what_was_wrong():
    state = front_end("local")
    go(state, 0x4000, 1)  # not taken, it thought
    go(state, 0x5000, 1, INDIRECT_JUMP)
    go(state, 0x6000, 1, RETURN)
    go(state, 0x7000, 1, JUMP)  # decode finds it
    assert state.by_kind == {"direction": 1, "target": 0, "indirect": 1, "returns": 1}
    assert (state.branches, state.mispredictions, state.redirected_at_decode) == (4, 3, 1)
