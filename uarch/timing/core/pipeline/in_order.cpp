#include "in_order.hpp"

#include <algorithm>

namespace perfvec {

InOrderCore::InOrderCore(const Machine& machine, const Program& program, Hierarchy& caches, BranchUnit& branches)
    : program_(program),
      caches_(caches),
      branches_(branches),
      ideal_branches_(machine.ideal.branches),
      width_(machine.in_order->width),
      frontend_delay_(machine.in_order->frontend_delay),
      memory_width_(machine.in_order->memory_width),
      store_buffer_(machine.in_order->store_buffer),
      memory_in_flight_(machine.in_order->memory_in_flight),
      front_entries_(INPUT_BUFFER + width_ * (frontend_delay_ + 2)),
      integer_width_(std::min<std::int64_t>(width_, machine.units.int_alu)),
      stage_entries_(machine.units.int_alu * ALU_STAGES),
      units_(machine.in_order->width, machine.units),
      front_(front_entries_, -RELEASE),
      stages_(stage_entries_, -RELEASE),
      in_flight_(TRANSFERS, -RELEASE),
      in_memory_(memory_in_flight_, -RELEASE),
      buffer_(store_buffer_, -RELEASE),
      stack_(width_) {
    double length = 0, operations = 0;
    for (std::size_t k = 0; k < program_.size; ++k) {
        length += program_.rows[k].length;
        operations += program_.rows[k].micro_operations;
    }
    bytes_ = operations > 0 ? length / operations : 0;
}

void InOrderCore::run(const Chunk& chunk, std::uint16_t* latency) { loop<false>(chunk, latency); }

void InOrderCore::run(const Chunk& chunk, std::uint16_t* latency, const std::vector<StackTable>& tables) {
    stack_.accumulate_into(tables);
    loop<true>(chunk, latency);
}

template <bool STACK>
void InOrderCore::loop(const Chunk& chunk, std::uint16_t* latency) {
    for (std::size_t k = 0; k < chunk.size; ++k) {
        chunk.prefetch(program_, k);
        const Cycle cycle = step<STACK>(chunk, k);
        latency[k] = static_cast<std::uint16_t>(std::min<Cycle>(cycle - retired, SATURATED));
        retired = cycle;
    }
}

// Cycle in which the instruction reaches issue at the earliest.
//
// Lines are asked for one at a time and one ahead: the next when the one before has come and is being used.
template <bool STACK>
Cycle InOrderCore::fetch(Address pc, std::int64_t length, std::int64_t operations) {
    const bool redirected = redirected_ > 0;
    if constexpr (STACK) waits_.add(redirect_cause_, redirected_);
    redirected_ = 0;
    const Line last = line_of(pc + length - 1);
    for (Line line = line_of(pc); line <= last; ++line) {
        if (line == line_) continue;
        const Cycle data = caches_.access_code(line, std::max(line_free_, line_begin_), pc);
        if constexpr (STACK) {  // a hit would not be waited for if fetch had not been redirected
            const int level = caches_.answered();
            waits_.add(redirected && level == L1I ? redirect_cause_ : fetch_from(level), data - fetch_.cycle);
        }
        fetch_.reach(data);
        line_ = line;
        line_begin_ = fetch_.cycle;
        line_free_ = data + 1;
    }
    const Cycle room = front_[operations_ + std::min(operations, front_entries_) - 1 - front_entries_] + RELEASE;
    fetch_.reach(room);
    const Cycle before = fetch_.cycle;
    fetch_.take(operations, width_);
    if constexpr (STACK) waits_.add(FetchBandwidth, fetch_.cycle - before);
    return fetch_.cycle + FETCH_TO_DECODE + frontend_delay_ + DECODE_TO_ISSUE;
}

// Cycle in which the last of the micro-operations issues, not before `cycle`; `integers` of them go to the integer units.
inline Cycle InOrderCore::issue(Cycle cycle, std::int64_t operations, std::int64_t accesses, std::int64_t integers) {
    std::int64_t used = operations, memory_used = accesses, integer_used = integers;
    if (cycle <= issue_cycle_) {
        cycle = issue_cycle_;
        used += issue_used_;
        memory_used += issue_memory_;
        integer_used += issue_integer_;
    }
    while (used > width_ || memory_used > memory_width_ || integer_used > integer_width_) {
        used = std::max<std::int64_t>(used - width_, 0);
        memory_used = std::max<std::int64_t>(memory_used - memory_width_, 0);
        integer_used = std::max<std::int64_t>(integer_used - integer_width_, 0);
        ++cycle;
    }
    issue_cycle_ = cycle;
    issue_used_ = used;
    issue_memory_ = memory_used;
    issue_integer_ = integer_used;
    return cycle;
}

// Cycle in which the memory unit hands an access on: it is one stage long, so the next one waits behind it, and an address
// must have been committed (`known`). Of loads only so many are between there and their commitment.
inline Cycle InOrderCore::send(Cycle issued, Cycle known) {
    sent_ = std::max({issued + 1, known, sent_ + 1, in_flight_[accesses_ - TRANSFERS]});
    return sent_;
}

// Cycle at which an access that could begin at `start` is done: so many are under way at most.
Cycle InOrderCore::access(Address pc, Address address, std::int64_t size, Cycle start, bool write) {
    start = std::max(start, in_memory_[sent_to_memory_ - memory_in_flight_]);
    const Cycle done = caches_.access_data(address, size, start, write, pc);
    in_memory_[sent_to_memory_++] = done;
    return done;
}

// Cycle in which the load sent at `start` can be committed.
template <bool STACK>
Cycle InOrderCore::load(Address pc, Address address, std::int64_t size, Cycle start) {
    const StoreForwarding::Answer store = forwarding_.find(address, size, start);
    if (store.source == StoreForwarding::Source::Forwarded) {
        const Cycle ready = std::max(start, store.cycle) + 2;
        if constexpr (STACK) waits_.add(LoadForward, ready - start);
        return ready;
    }
    if constexpr (STACK) waits_.add(LoadForward, store.cycle - start);
    const Cycle begin = std::max(start, store.cycle);
    const Cycle room = std::max(begin, in_memory_[sent_to_memory_ - memory_in_flight_]);
    const Cycle ready = access(pc, address, size, begin, false) + 1;
    if constexpr (STACK) {
        waits_.add(FullLoadQueue, room - begin);
        waits_.add(load_from(caches_.answered()), ready - room);
    }
    return ready;
}

// A store leaves the store buffer one cycle after the store before it; it keeps its entry until it is written.
void InOrderCore::store(Address pc, Address address, std::int64_t size, Cycle committed) {
    left_buffer_ = std::max(committed + 1, left_buffer_ + 1);
    const Cycle done = access(pc, address, size, left_buffer_, true);
    store_cause_ = store_to(caches_.answered());
    written_ = std::max(written_, done);
    buffer_[stores_++] = done;
    forwarding_.note_store(address, size, committed, done);
}

// The instruction's first micro-operation traps when it is committed, or its third one, which waits for the two before,
// branches within the microcode; fetch goes on from there (Execute::commitInst). Returns how many of its micro-operations
// that was.
template <bool STACK>
std::int64_t InOrderCore::interrupt(const StaticInstruction& row, Address pc) {
    const bool branch = row.interruption == Interruption::Branch;
    const std::int64_t count = branch ? 3 : 1;
    const Cycle arrived = fetch<STACK>(pc, row.length, count);
    const Cycle issued = issue(std::max(arrived - (count - 1) / width_, serial_), count, 0, count);
    const Cycle done = branch ? std::max(issued + 2 + ALU_STAGES, arrived + ALU_STAGES) : issued + 1;
    for (std::int64_t each = 0; each < count; ++each) front_[operations_++] = issued;
    commit_.take(count, width_);
    commit_.reach(done, 1);
    restart(fetch_beyond(pc, commit_.cycle + TO_REFETCH), Serialize);
    return branch ? count : 0;
}

// Instruction `k` of the chunk; returns its retire cycle.
template <bool STACK>
inline Cycle InOrderCore::step(const Chunk& chunk, std::size_t k) {
    const std::uint32_t here = chunk.static_id[k];
    const StaticInstruction& row = program_.rows[here];
    const Address pc = program_.pc[here];
    const std::int64_t first = chunk.access_offset[k], last = chunk.access_offset[k + 1], accesses = last - first;
    if constexpr (STACK) waits_.clear();

    const bool string = row.is(STRING);
    std::int64_t operations = row.micro_operations;
    if (string) operations += (1 + row.computes) * accesses;  // those of each access
    if (__builtin_expect(row.interruption != Interruption::None, 0))
        operations = std::max<std::int64_t>(operations - interrupt<STACK>(row, pc), 1);
    const Cycle arrived = fetch<STACK>(pc, row.length, operations);
    const bool computes = row.computes > 0 && !string;
    const bool simple = !computes || row.unit == INT_ALU;
    const auto execution = static_cast<Cause>(row.execution);
    const Cycle fetched_first = arrived - (operations - 1) / width_;  // its first micro-operation
    Cycle begin = std::max(fetched_first, serial_);
    if constexpr (STACK) waits_.add(Serialize, begin - fetched_first);
    if (row.is(SERIALIZING | ATOMIC | BARRIER)) {
        const Cycle ordered = std::max({begin, commit_.cycle, written_});
        if constexpr (STACK) waits_.add(row.is(SERIALIZING) ? Serialize : Stores, ordered - begin);
        begin = ordered;
    }
    // What is not memory waits in its unit for its turn to commit: as many as the stages of the integer units.
    const std::int64_t others =
        std::clamp<std::int64_t>(operations - accesses - (simple ? 0 : row.computes), 0, stage_entries_);
    const Cycle room = stages_[computed_ + others - 1 - stage_entries_];
    begin = std::max(begin, room - floor_divided(others - 1, integer_width_));

    Cycle addressed = 0, of_others = 0, known = 0;
    Cause operands_cause = ExecuteIntAlu;  // what brings the last of the operands
    for (int source = 0; source < MAX_SOURCES; ++source) {
        const Cycle cycle = ready_[row.sources[source]];
        if constexpr (STACK)
            if (cycle > std::max(addressed, of_others)) operands_cause = ready_cause_[row.sources[source]];
        if (source < row.address_count) {
            addressed = std::max(addressed, cycle);
            known = std::max(known, committed_[row.sources[source]]);
        } else {
            of_others = std::max(of_others, cycle);
        }
    }
    if (accesses > 0) begin = std::max({begin, addressed - MEMORY_LATE, sent_});
    std::int64_t loads = accesses;
    for (std::int64_t which = first; which < last; ++which) loads -= chunk.is_store[which];
    const std::int64_t stores = accesses - loads;
    Cycle issued = begin;
    std::int64_t operations_left = operations;
    if (loads > 0) {
        const std::int64_t before = std::min<std::int64_t>(loads, 64);
        issued = issue(begin, before, before, 0);
        operations_left = std::max<std::int64_t>(operations - before, 0);
    }
    Cycle complete = issued + 1;
    for (std::int64_t which = first; which < last; ++which) {
        if (chunk.is_store[which]) continue;
        const Cycle sent = send(issued, known);
        if constexpr (STACK) waits_.add(Ports, sent - issued - 1);
        const Cycle loaded = load<STACK>(pc, chunk.address[which], chunk.bytes(which), sent);
        complete = std::max(complete, loaded);
        in_flight_[accesses_++] = loaded;
    }
    Cycle result = issued + LOAD_ASSUMED;  // as the issue stage assumes; a later load holds up commitment
    if (operations_left > 0) {
        const Cycle late = simple ? ALU_LATE : 0;
        Cycle start = std::max(issued, of_others - late);
        start = loads > 0 ? std::max(start, result - late) : std::max({start, begin, addressed - late});
        const Cycle operands = start;
        if constexpr (STACK) waits_.add(operands_cause, operands - std::max(issued, begin));
        start = issue(start, 1, 0, std::min<std::int64_t>(others, 1));
        const Cycle finish =
            std::max(issue(start, operations_left - 1, std::min<std::int64_t>(stores, 64),
                           std::max<std::int64_t>(others - 1, 0)),
                     arrived);
        if constexpr (STACK) waits_.add(DecodeBandwidth, finish - operands);  // issue width
        if (computes) {
            if (row.cycles_before > 0) start += simple ? row.cycles_before : row.cycles_before - 1 + ALU_STAGES;
            if (row.chained) start = std::max(start, chain_);
            if (row.divider != Divider::None) {
                Dividers& divider = row.divider == Divider::Integer ? int_divider_ : fp_divider_;
                const Cycle at = divider.reserve(start, row.latency);
                if constexpr (STACK) waits_.add(Ports, at - start);
                start = at;
                result = start + row.latency;
            } else {
                const Cycle from = start;
                for (int each = 0; each < row.computes; ++each) start = units_.reserve(row.unit, from);
                if constexpr (STACK) waits_.add(Ports, start - from);
                result = start + (simple ? ALU_STAGES : row.latency);
            }
            if (row.chained) chain_ = result;
        } else if (loads == 0) {
            result = start + ALU_STAGES;
        }
        if (row.cycles_after > 0) {  // in the integer units, one after another
            result = std::max(result + row.cycles_after, finish + ALU_STAGES);
            start = result - ALU_STAGES;
        }
        if (start > issue_cycle_) {  // what comes after issues later still
            issue_cycle_ = start;
            issue_used_ = 1;
            issue_memory_ = issue_integer_ = 0;
        }
        if (computes || row.cycles_after > 0 || accesses == 0) {
            if constexpr (STACK)  // every instruction passes the integer units' stages
                waits_.add(execution, result - std::max(complete, operands) - ALU_STAGES);
            complete = std::max(complete, result);
        }
    }
    for (std::int64_t which = first; which < last; ++which) {
        if (!chunk.is_store[which]) continue;
        const Cycle sent = send(std::max(issued, stores == accesses ? issue_cycle_ : result - 1), known);
        const Cycle stored = std::max(sent + 1, buffer_[stores_ - store_buffer_]);
        if constexpr (STACK) {
            waits_.add(Ports, std::min(sent + 1, stored) - complete);
            waits_.add(store_cause_, stored - std::max(complete, sent + 1));
        }
        complete = std::max(complete, stored);
    }

    commit_.take(operations, width_);
    commit_.reach(complete, 1);  // those before the last micro-operation have been committed by then
    const Cycle cycle = commit_.cycle;
    for (int destination = 0; destination < row.destination_count; ++destination) {
        const bool moved = (row.base_updates >> destination) & 1;
        ready_[row.destinations[destination]] = moved ? issued + ALU_STAGES : result;
        if constexpr (STACK) ready_cause_[row.destinations[destination]] = execution;
        committed_[row.destinations[destination]] = cycle;
    }
    if (row.divider == Divider::Integer) ready_[MICROCODE_FLAGS] = result - row.cycles_after;
    const std::int64_t entered = std::min(operations, front_entries_);
    for (std::int64_t entry = operations_; entry < operations_ + entered; ++entry) front_[entry] = issue_cycle_;
    operations_ += entered;
    for (std::int64_t entry = computed_; entry < computed_ + others; ++entry)
        stages_[entry] = cycle - (computed_ + others - 1 - entry) / integer_width_;
    computed_ += others;
    // gem5 checks the address of some such stores first, without an access (`cda`, LSQ::pushRequest: NO_ACCESS).
    const bool checks = row.interruption == Interruption::Trap;
    for (std::int64_t which = first; which < last; ++which) {
        if (!chunk.is_store[which]) continue;
        if (checks && which + 1 < last && chunk.address[which] == chunk.address[which + 1]) continue;
        store(pc, chunk.address[which], chunk.bytes(which), cycle);
    }
    if (row.is(SERIALIZING)) serial_ = cycle + 1;
    if constexpr (STACK) stack_.retire(k, operations, cycle - retired, waits_, FetchBandwidth);
    redirect(row, pc, chunk.target(program_, k), cycle);
    return cycle;
}

// Until a misprediction is known the lines beyond the branch are fetched, as many as fetch2 has room for behind those that
// have gone on as micro-operations to where execution waits. The one under way must come first.
Cycle InOrderCore::fetch_beyond(Address pc, Cycle again) {
    const std::int64_t behind = std::min(front_entries_, std::max<std::int64_t>(again - fetch_.cycle, 0) * width_);
    const auto used = static_cast<std::int64_t>((pc & 63) + bytes_ * behind) >> LINE_BITS;
    for (int ahead = 1; ahead <= AHEAD + used; ++ahead) {
        const Cycle start = std::max(line_free_, line_begin_);
        if (start >= again) break;
        line_free_ = caches_.access_code(line_ + ahead, start, pc) + 1;
    }
    return std::max(again, line_free_);
}

// Cycle in which the line is asked for to which a branch goes as predicted.
//
// The first fetch stage knows it a cycle later. A line under way must come first (Fetch1::numInFlightFetches): the next
// one, or, where that has come, the one behind it, for which the second stage has just made room by throwing all away.
Cycle InOrderCore::follow(Address pc) {
    const Cycle told = fetch_.cycle + FETCH_TO_DECODE;
    const Cycle start = std::max(line_free_, line_begin_ + 1);
    Cycle free = caches_.access_code(line_ + 1, start, pc) + 1;
    if (free <= told) free = caches_.access_code(line_ + 2, told, pc) + 1;
    return std::max(told + 1, free);
}

// Fetch begins anew.
void InOrderCore::restart(Cycle again, Cause cause) {
    redirect_cause_ = cause;
    redirected_ = std::max<Cycle>(again - fetch_.cycle, 0);
    fetch_ = {again, 0};
    line_ = -1;
    line_begin_ = again;
}

inline void InOrderCore::redirect(const StaticInstruction& row, Address pc, Address target, Cycle committed) {
    Cycle again = 0;
    if (row.is(BRANCH)) {
        const Address fall_through = pc + row.length;
        const Redirect outcome = ideal_branches_ ? Redirect::None : branches_.fetch(pc, fall_through, target, row.flags);
        if (outcome != Redirect::None) {
            branches_.mispredictions += outcome == Redirect::Decode;
            again = fetch_beyond(pc, committed + TO_REFETCH);
            redirect_cause_ = MispredictExecute;
        } else if (target != fall_through) {
            again = follow(pc);
            redirect_cause_ = FetchBandwidth;
        }
    } else if (row.is(SYSCALL)) {
        again = committed + TRAP;
        redirect_cause_ = Serialize;
    }
    if (again > 0) restart(again, redirect_cause_);
}

}  // namespace perfvec
