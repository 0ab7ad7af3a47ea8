"""One channel of a DRAM behind gem5's memory controller: banks with open rows, one command after the other.

The controller decides on the next burst when the one before is about to move, and its commands never overtake one
another: a burst that waits for its bank holds up all that are decided on later. Rows stay open until another one of the
bank is wanted, or (`closed`) only if a request for the row was already waiting when the controller decided on the
last burst to it. Writes wait in a queue; when it is nearly full, or half full and nothing is to be read, they are
written MIN_WRITES or more at a time, those to open rows first, and the bus turns around twice.

Times are picoseconds, as in gem5; a line is known by its number. Requests come in program order, not in the order of
time: one that arrives before the latest so far finds a free slot of the data bus and changes no bank.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uarch.jit import compiled, out_of_line
from uarch.timing.reference import by_reference

Array = NDArray[np.int64]

SLOTS = 4096  # of the data bus, one line each, known by number; a power of two
MIN_WRITES = 16  # gem5's min_writes_per_switch
HIGH, LOW = 0.85, 0.5  # of the write queue: gem5's write_high_thresh_perc, write_low_thresh_perc
ACTIVATIONS = 4  # at most so many in t_xaw
NEVER = -(1 << 60)
# Places in `parameters`.
(CL, CWL, RCD, RP, RAS, RTP, WR, RTW, WTR, CCD_LONG, RRD, XAW, CS, REFI, RFC, BURST, BURSTS) = range(17)
BANKS, BANKS_OF_RANK, GROUPS, ROW_LINES, CLOSED, WRITES_HIGH, WRITES_LOW = range(17, 24)
# Columns of `banks`.
ROW, COLUMN, PRECHARGE, ACTIVATE, DECIDED, FORMER, CHANGED, LAST_ROW = range(8)
# Places in `state`.
NEXT_BURST, LATEST, COMMAND, WRITING, LAST_BANK, ACTIVATED, REFRESHED, WAITING, OLDEST = range(9)


@by_reference
class Dram(NamedTuple):
    parameters: Array
    banks: Array  # [banks, 8] open row (-1: none); from when on commands are allowed; when last decided on; the row
    # before and when another was decided on; the row last opened
    state: Array
    activations: Array  # [ACTIVATIONS] times of the latest ones, circular
    writes: Array  # [write queue] lines that wait
    bus: Array  # [SLOTS] number of the slot last taken in each place


def new_dram(model: dict[str, float]) -> Dram:
    def picoseconds(name: str) -> int:
        return round(1000 * model[name])

    values = np.zeros(24, np.int64)
    names = ("t_cl", "t_cwl", "t_rcd", "t_rp", "t_ras", "t_rtp", "t_wr", "t_rtw", "t_wtr", "t_ccd_long", "t_rrd")
    for place, name in enumerate((*names, "t_xaw", "t_cs", "t_refi", "t_rfc", "t_burst")):
        values[place] = picoseconds(name)
    values[BURSTS] = 64 // int(model["burst_bytes"])
    values[BANKS_OF_RANK] = model["banks"]
    values[BANKS] = model["banks"] * model["ranks"]
    values[GROUPS] = model["bank_groups"]
    values[ROW_LINES] = int(model["row_bytes"]) // 64
    values[CLOSED] = model["closed"]
    values[WRITES_HIGH], values[WRITES_LOW] = int(HIGH * model["write_queue"]), int(LOW * model["write_queue"])
    banks = np.zeros((values[BANKS], 8), np.int64)
    banks[:, [ROW, FORMER, LAST_ROW]] = -1
    banks[:, [DECIDED, CHANGED]] = NEVER
    state = np.zeros(9, np.int64)
    state[LATEST] = state[COMMAND] = state[ACTIVATED] = NEVER
    activations = np.full(ACTIVATIONS, NEVER, np.int64)
    return Dram(
        values, banks, state, activations, np.zeros(int(model["write_queue"]), np.int64), np.full(SLOTS, -1, np.int64)
    )


@compiled
def _bank(dram: Dram, line: int) -> tuple[int, int]:
    """Bank and row of a line: gem5's RoRaBaCoCh."""
    p = dram.parameters
    number = line // p[ROW_LINES]
    return number % p[BANKS], number // p[BANKS]


@out_of_line
def read(dram: Dram, line: int, arrival: int) -> int:
    """When the line's last data have left the DRAM."""
    p, state = dram.parameters, dram.state
    if arrival < state[LATEST]:
        return _read_late(dram, line, arrival)
    state[LATEST] = arrival
    _refresh(dram, arrival)
    if state[WAITING] > p[WRITES_LOW] and arrival > state[NEXT_BURST]:  # nothing was to be read meanwhile
        _write_some(dram, state[NEXT_BURST], p[WRITES_LOW] - MIN_WRITES, arrival)
    elif state[WAITING] > p[WRITES_HIGH]:
        _write_some(dram, arrival, p[WRITES_HIGH], arrival)
    ready = arrival
    for _ in range(p[BURSTS]):
        ready = _burst(dram, line, arrival, 0)
    slot = ready // (p[BURST] * p[BURSTS])
    dram.bus[slot & (SLOTS - 1)] = slot
    return ready


@out_of_line
def write(dram: Dram, line: int, arrival: int) -> None:
    """Nobody waits for a write; it joins the queue."""
    state = dram.state
    for place in range(state[WAITING]):
        if dram.writes[place] == line:
            return
    if state[WAITING] == len(dram.writes):
        _write_some(dram, arrival, dram.parameters[WRITES_HIGH], arrival)
    dram.writes[state[WAITING]] = line
    state[WAITING] += 1


@out_of_line
def _write_some(dram: Dram, begin: int, until: int, arrival: int) -> None:
    """Writes from `begin` on until no more than `until` wait; after MIN_WRITES a read that is here goes first."""
    state, done = dram.state, 0
    while state[WAITING] > max(until, 0) or done < MIN_WRITES:
        if state[WAITING] == 0 or (done >= MIN_WRITES and state[NEXT_BURST] > arrival):
            break
        chosen = 0
        for place in range(state[WAITING]):
            bank, row = _bank(dram, dram.writes[place])
            if dram.banks[bank, ROW] == row:
                chosen = place
                break
        line = dram.writes[chosen]
        for _ in range(dram.parameters[BURSTS]):
            _burst(dram, line, begin, 1)
        for place in range(chosen, state[WAITING] - 1):
            dram.writes[place] = dram.writes[place + 1]
        state[WAITING] -= 1
        done += 1


@out_of_line
def _refresh(dram: Dram, now: int) -> None:
    """At every multiple of REFI all rows are closed and nothing is activated for RFC."""
    p, state = dram.parameters, dram.state
    due = now // p[REFI]
    if due <= state[REFRESHED]:
        return
    state[REFRESHED] = due
    for bank in range(p[BANKS]):
        dram.banks[bank, ROW] = -1
        dram.banks[bank, ACTIVATE] = max(dram.banks[bank, ACTIVATE], due * p[REFI] + p[RFC])


@out_of_line
def _burst(dram: Dram, line: int, arrival: int, writing: int) -> int:
    """One burst, decided on as soon as the bus is about to be free; returns when it is over."""
    p, state = dram.parameters, dram.state
    which, row = _bank(dram, line)
    bank = dram.banks[which]
    now = max(arrival, state[NEXT_BURST] - p[RP] - p[RCD])
    if bank[ROW] != row and bank[FORMER] == row and arrival <= bank[CHANGED]:
        # It was waiting when the row was still open, so it went before what closed the row: row hits come first.
        state[NEXT_BURST] += p[BURST]
        return bank[CHANGED] + p[CL] + p[BURST]
    if p[CLOSED] == 1 and bank[ROW] >= 0 and (arrival > bank[DECIDED] or bank[ROW] != row):
        # Closed at once after the last burst.
        bank[ACTIVATE] = max(bank[ACTIVATE], bank[PRECHARGE] + p[RP])
        bank[ROW] = -1
    if bank[ROW] != row:
        bank[FORMER], bank[CHANGED] = bank[LAST_ROW], now if writing == 0 else NEVER
        if bank[ROW] >= 0:
            bank[ACTIVATE] = max(bank[ACTIVATE], max(bank[PRECHARGE], now) + p[RP])
        activated = max(bank[ACTIVATE], now, state[ACTIVATED] + p[RRD])
        oldest = state[OLDEST]
        activated = max(activated, dram.activations[oldest] + p[XAW])
        dram.activations[oldest] = activated
        state[OLDEST] = (oldest + 1) & (ACTIVATIONS - 1)
        state[ACTIVATED] = activated
        bank[LAST_ROW] = row
        bank[ROW], bank[COLUMN], bank[PRECHARGE] = row, activated + p[RCD], activated + p[RAS]
    command = max(bank[COLUMN], state[NEXT_BURST], now)
    command = max(command, state[COMMAND] + _gap(dram, which, writing))
    over = command + (p[CWL] if writing else p[CL]) + p[BURST]
    bank[PRECHARGE] = max(bank[PRECHARGE], over + p[WR] if writing else command + p[RTP])
    bank[DECIDED] = now
    state[COMMAND], state[WRITING], state[LAST_BANK] = command, writing, which
    state[NEXT_BURST] = command + p[BURST]
    return over


@compiled
def _gap(dram: Dram, bank: int, writing: int) -> int:
    """Least time from the last column command to one for `bank`."""
    p, last = dram.parameters, dram.state[LAST_BANK]
    if dram.state[WRITING] != writing:
        return p[BURST] + p[RTW] if writing else p[BURST] + p[WTR] + p[CWL]
    if last // p[BANKS_OF_RANK] != bank // p[BANKS_OF_RANK]:
        return p[BURST] + p[CS]
    if p[GROUPS] > 0 and last % p[GROUPS] == bank % p[GROUPS]:
        return p[CCD_LONG]
    return p[BURST]


@compiled
def _read_late(dram: Dram, line: int, arrival: int) -> int:
    """A read that should have come before others that are done."""
    p = dram.parameters
    bank, row = _bank(dram, line)
    wait = 0
    if dram.banks[bank, ROW] != row:
        wait = p[RCD] if p[CLOSED] == 1 or dram.banks[bank, ROW] < 0 else p[RP] + p[RCD]
    length = p[BURST] * p[BURSTS]
    over = arrival + wait + p[CL] + length
    slot = over // length
    while dram.bus[slot & (SLOTS - 1)] == slot:
        slot += 1
    dram.bus[slot & (SLOTS - 1)] = slot
    return max(over, slot * length)
