#include "in_order.hpp"

#include <algorithm>

namespace perfvec {

// Micro-operations that decode makes of an instruction that it meets on a path not taken: all of its microcode, one after
// another, as it knows nothing of the branches in there (MinorCPU's Decode::evaluate). A system call is one of them in
// gem5's syscall emulation.
static std::int64_t in_line(const StaticInstruction& row) {
    constexpr std::int64_t BYTE_SHIFT = 17, REPEATED = 6;  // PSRLDQ_XMM_I; a round and the end of a repeated string
    if (row.interruption == Interruption::Branch) return BYTE_SHIFT;
    if (row.is(SYSCALL)) return 1;
    return row.micro_operations + (row.is(STRING) ? REPEATED : 0);
}

constexpr Cycle AWAKE = 65535;  // a native core ticks on: longer than anything lasts

InOrderCore::InOrderCore(const Machine& machine, const Program& program, Hierarchy& caches, BranchUnit& branches)
    : program_(program),
      caches_(caches),
      branches_(branches),
      ideal_branches_(machine.ideal.branches),
      taken_path_only_(machine.taken_path_only),
      native_(machine.native),
      memory_late_(machine.native ? 0 : MEMORY_LATE),
      awake_(machine.native ? AWAKE : std::max(1, machine.in_order->frontend_delay)),
      halves_(machine.total_store_order),
      width_(machine.in_order->width),
      frontend_delay_(machine.in_order->frontend_delay),
      memory_width_(machine.in_order->memory_width),
      store_buffer_(machine.in_order->store_buffer),
      memory_in_flight_(machine.in_order->memory_in_flight),
      system_calls_(machine.system_calls),
      division_step_(machine.division_step),
      division_at_most_(machine.division_at_most),
      in_memory_(memory_in_flight_, -1),
      buffer_(store_buffer_, -1),
      stack_(width_) {
    const FunctionalUnits units(machine.in_order->width, machine.units);
    std::int64_t operations = 0, length = 0;
    for (std::size_t which = 0; which < program.size; ++which) {
        operations += in_line(program.rows[which]);
        length += program.rows[which].length;
    }
    if (program.size > 0) {
        const auto size = static_cast<std::int64_t>(program.size);
        usual_operations_ = operations * UNIT / size;
        usual_length_ = static_cast<Address>((length + size / 2) / size);
    }
    for (const int unit : {INT_ALU, INT_MUL, FP_ADD, FP_MUL, SIMD})
        pipes_[unit].resize(std::max<std::int64_t>(units.units(unit), 1));
}

void InOrderCore::run(const Chunk& chunk, Latency* latency) { loop<false>(chunk, latency); }

void InOrderCore::run(const Chunk& chunk, Latency* latency, const std::vector<StackTable>& tables) {
    stack_.accumulate_into(tables);
    loop<true>(chunk, latency);
}

template <bool STACK>
void InOrderCore::loop(const Chunk& chunk, Latency* latency) {
    for (std::size_t k = 0; k < chunk.size; ++k) {
        chunk.prefetch(program_, k);
        const Cycle cycle = step<STACK>(chunk, k);
        latency[k] = static_cast<Latency>(std::min(cycle - retired, LONGEST));
        retired = cycle;
    }
}

// The cycle in which the second fetch stage passes the instruction on, which needs its lines for that.
//
// Two lines are held or under way, one of them under way: the next is asked for when one has been used up, and the cycle
// after the one before it has come at the earliest (Fetch1::evaluate looks at what is in flight before it takes an
// answer). The buffer before decode holds what was passed on in three cycles.
template <bool STACK>
void InOrderCore::fetch(Address pc, std::int64_t length) {
    const bool redirected = redirected_ > 0;
    if constexpr (STACK) waits_.add(redirect_cause_, redirected_);
    redirected_ = 0;
    const Line last = line_of(pc + length - 1);
    for (Line line = line_of(pc); line <= last; ++line) {
        if (line == line_) continue;
        const Cycle start = line_ < 0 ? used_up_ : std::max(line_came_ + BETWEEN_LINES, used_up_);
        Cycle data = caches_.access_code(line, start, pc);
        data += asleep(data, std::max(start, commit_cycle_ + (line_ < 0 ? ALU_STAGES : 0)));
        if constexpr (STACK) {  // a hit would not be waited for if fetch had not been redirected
            const int level = caches_.answered();
            waits_.add_access(FetchTranslation, caches_.translated(),
                              redirected && level == L1I ? redirect_cause_ : fetch_from(level),
                              data + TO_FETCH2 - fetch_.cycle);
        }
        used_up_ = line_ < 0 ? data : fetch_.cycle;
        fetch_.reach(data + TO_FETCH2);
        line_ = line;
        line_came_ = data;
    }
    if (fetch_.next(width_) != passed_on_) {
        fetch_.reach(std::max(fetch_.next(width_), decoded_[(bundles_ + 1 - DECODE_BUFFER) & (RECENT - 1)]));
        passed_on_ = fetch_.cycle;
        ++bundles_;
    }
    fetch_.take(1, width_);
}

// Cycle in which the next micro-operation can be issued at the earliest: decode sends one on when there is room.
template <bool STACK>
inline Cycle InOrderCore::arrive() {
    decode_.reach(fetch_.cycle + frontend_delay_);
    if (decode_.next(width_) != sent_on_) {
        const Cycle next = decode_.next(width_), room = issued_[(parcels_ + 1 - INPUT_BUFFER) & (RECENT - 1)];
        if constexpr (STACK) waits_.add(FetchBandwidth, next - decode_.cycle);
        decode_.reach(std::max(next, room));
        sent_on_ = decode_.cycle;
        ++parcels_;
    }
    decode_.take(1, width_);
    decoded_[bundles_ & (RECENT - 1)] = decode_.cycle;
    return decode_.cycle + DECODE_TO_ISSUE;
}

// Cycle in which a micro-operation is issued to the first of its units that takes it (Execute::issue). `pipes` is moved
// there. The last access that a cycle takes ends it.
template <bool STACK>
inline Cycle InOrderCore::issue(Cycle arrived, Cycle operands, Cause cause, Pipe*& pipes, std::int64_t count, bool memory) {
    Cycle cycle = issue_cycle_ + (issue_used_ == width_ || issue_memory_ == memory_width_);
    cycle = std::max(cycle, arrived);
    if constexpr (STACK) {
        waits_.add(DecodeBandwidth, cycle - std::max(arrived, issue_cycle_));
        waits_.add(cause, operands - cycle);
    }
    cycle = std::max(cycle, operands);
    Pipe* chosen = pipes;
    Cycle first = pipes->free_from(cycle);
    for (std::int64_t k = 1; k < count && first > cycle; ++k) {
        const Cycle free = pipes[k].free_from(cycle);
        if (free < first) {
            first = free;
            chosen = pipes + k;
        }
    }
    pipes = chosen;
    if constexpr (STACK) waits_.add(Ports, first - cycle);
    if (first > issue_cycle_) {
        issue_cycle_ = first;
        issue_used_ = issue_memory_ = 0;
    }
    ++issue_used_;
    issue_memory_ += memory;
    issued_[parcels_ & (RECENT - 1)] = first;
    ++operations_;
    return first;
}

// Commits the next micro-operation in program order, not before `ready`.
inline Committed InOrderCore::commit(Cycle ready, bool memory) {
    if (ready <= commit_cycle_ && (commit_used_ == width_ || (memory && commit_memory_ == memory_width_)))
        ready = commit_cycle_ + 1;
    if (ready > commit_cycle_) {
        commit_cycle_ = ready;
        commit_used_ = commit_memory_ = 0;
    }
    ++commit_used_;
    commit_memory_ += memory;
    Commits& commits = commits_[commit_cycle_ & (CYCLES - 1)];
    if (commits.cycle != commit_cycle_) commits = {commit_cycle_, 0, 0, 0};
    if (memory && commits.leading == commits.count) ++commits.leading;
    ++commits.count;
    if (!memory) commits.last_other = commits.count;
    return {commit_cycle_, commits.count};
}

// A micro-operation that is no access; its register is there `stages` cycles after issue, its place in the unit is free
// when it is committed.
template <bool STACK>
InOrderCore::Result InOrderCore::operate(Cycle operands, Cause cause, int unit, Divider divider, Cycle stages, Cycle kept) {
    Pipe* pipe = divider == Divider::Integer ? &int_divider_ : divider == Divider::Float ? &fp_divider_ : pipes_[unit].data();
    const auto count = divider == Divider::None ? static_cast<std::int64_t>(pipes_[unit].size()) : 1;
    const Cycle issued = issue<STACK>(arrive<STACK>(), operands, cause, pipe, count, false);
    Cycle end = pipe->push(issued, stages, kept);
    if (native_) end = std::max(end, pipe->last_end());  // of the unit's longer ones
    const Committed committed = commit(end, false);
    if (divider == Divider::None)
        pipe->leave(end, committed.cycle);
    else
        pipe->leave(issued, committed.cycle);  // it takes one operation at a time
    return {issued + stages, committed, !native_ || unit <= INT_MUL};
}

// Tells whether the core has stopped ticking before `cycle`, the last activity having been at `active`
// (Pipeline::evaluate): then it sees an answer of memory a cycle late (Ticked::start), unless another one has woken it just before.
bool InOrderCore::asleep(Cycle cycle, Cycle active) const {
    return cycle > active + awake_ && answers_[(cycle - 1) & (CYCLES - 1)] != cycle - 1;
}

// Cycle in which an access at the end of its unit goes to the queue of requests: its registers' writers have committed, the
// oldest operation of all is no access that waits for its answer (Execute::getCommittingThread looks for nothing else
// then), and not all that its cycle commits are answers of memory, which go first (Execute::commit).
Cycle InOrderCore::leave_unit(Cycle end, const Committed& known) const {
    Cycle cycle = std::max({end, known.cycle, requested_});
    for (;; ++cycle) {
        for (std::int64_t k = accesses_; k < accesses_ + ACCESSES; ++k) {  // from the oldest
            const Access& access = latest_[k % ACCESSES];
            if (access.alone_from < cycle && cycle < access.committed.cycle) cycle = access.committed.cycle;
        }
        const Commits& commits = commits_[cycle & (CYCLES - 1)];
        const std::int64_t slot = cycle == known.cycle ? known.slot : 0;
        if (commits.cycle != cycle || commits.count < width_ || commits.last_other > slot) return cycle;
    }
}

// Cycle in which what leaves its unit at `cycle` finds `earlier` committed: at once, if that came before it in that cycle,
// else when the queue is looked at again, at the begin of the next one (LSQ::step).
Cycle InOrderCore::after(const Committed& earlier, Cycle cycle, const Committed& known) const {
    if (earlier.cycle < cycle) return cycle;
    if (earlier.cycle == cycle) {
        const Commits& commits = commits_[cycle & (CYCLES - 1)];
        const std::int64_t slot = cycle == known.cycle ? known.slot : 0;
        if (earlier.slot <= std::max(slot, commits.leading) || commits.last_other <= slot) return cycle;
    }
    return earlier.cycle + 1;
}

// Cycle at which an access of one line that could begin at `start` is done: so many are under way at most, and of two
// answers in one cycle the second is too late for it.
Cycle InOrderCore::to_cache(Address pc, Address address, std::int64_t size, Cycle start, bool write) {
    start = std::max(start, in_memory_[sent_to_memory_ - memory_in_flight_]);
    Cycle done = caches_.access_data(address, size, start, write, pc);
    if (prefetching_) done = std::min(done, start + caches_.levels[L1D].latency);
    Cycle& answer = answers_[done & (CYCLES - 1)];
    if (answer == done)
        ++done;
    else
        answer = done;
    under_way_[sent_to_memory_ & (MOST_UNDER_WAY - 1)] = write ? store_to(caches_.answered()) : FullLoadQueue;
    in_memory_[sent_to_memory_++] = done;
    return done;
}

// The second of two lines is asked for a cycle later (LSQ::SplitDataRequest).
Cycle InOrderCore::to_memory(Address pc, Address address, std::int64_t size, Cycle start, bool write) {
    const Address second = line_of(address + size - 1) << LINE_BITS;
    if (second <= address) return to_cache(pc, address, size, start, write);
    const Cycle done = to_cache(pc, address, second - address, start, write);
    return std::max(done, to_cache(pc, second, address + size - second, start + 1, write));
}

// A load or a store, from issue to commitment.
template <bool STACK>
InOrderCore::Result InOrderCore::access(const StaticInstruction& row, Address pc, Address address, std::int64_t size,
                                        bool write, Cycle operands, Committed known, Cause cause) {
    Pipe* unit = &memory_unit_;
    const Cycle issued = issue<STACK>(arrive<STACK>(), operands, cause, unit, 1, true);
    const Cycle end = unit->push(issued, MEMORY_STAGES, native_ ? row.micro_operations : 1);
    const Cycle left = native_ ? end : leave_unit(end, known);
    unit->leave(end, left);
    Cycle begin = left;
    if (!native_) {
        begin = after(latest_[(accesses_ + ACCESSES - TRANSFERS) % ACCESSES].committed, left, known);
        if (!write) begin = std::max(begin, after(last_store_, left, known));
    }
    Cycle ready = begin;
    requested_ = begin;
    if constexpr (STACK) {
        waits_.add(cause, left - end);
        waits_.add(Ports, begin - left);
    }
    if (write) {
        ready = std::max(begin, buffer_[stores_ - store_buffer_]);
        if constexpr (STACK) waits_.add(store_cause_, ready - begin);
    } else {
        const StoreForwarding::Answer store = forwarding_.find(address, size, begin);
        if constexpr (STACK) waits_.add(LoadForward, store.cycle - begin);
        begin = std::max(begin, store.cycle);
        if (store.source == StoreForwarding::Source::Forwarded) {
            ready = begin;
        } else {
            const Cycle room = std::max(begin, in_memory_[sent_to_memory_ - memory_in_flight_]);
            const Cause awaited = under_way_[(sent_to_memory_ - memory_in_flight_) & (MOST_UNDER_WAY - 1)];
            ready = to_memory(pc, address, size, begin, false);
            // Those behind go on for as long as their units have room, and decode until the buffer before issue is full.
            // An access behind has that of memory alone, which stands still when the next one is in it.
            const Cycle full = decode_.cycle + INPUT_BUFFER + (accesses_follow_ ? 0 : ALU_STAGES);
            const Cycle behind = accesses_follow_ ? left : issued + ALU_STAGES;
            ready += asleep(ready, std::max({room, commit_cycle_, behind, full}));
            if constexpr (STACK) {
                waits_.add(awaited, room - begin);
                waits_.add_access(LoadTranslation, caches_.translated(), load_from(caches_.answered()), ready - room);
            }
            begin = room;
        }
        requested_ = begin;
    }
    const Cycle alone_from = std::max(left, commit_cycle_);
    const Committed committed = commit(ready, true);
    latest_[accesses_++ % ACCESSES] = {alone_from, committed};
    if (write) {
        last_store_ = committed;
        store(pc, address, size, committed.cycle);
    }
    if (native_) return {write ? issued : ready + row.cycles_after, committed, false};
    return {issued + LOAD_ASSUMED, committed};
}

// A store leaves the store buffer from the cycle after its commitment on, two in a cycle at most and in order; it keeps its
// entry until it is written.
void InOrderCore::store(Address pc, Address address, std::int64_t size, Cycle committed) {
    const Cycle next = left_buffer_ + (left_together_ == STORES_A_CYCLE);
    const Cycle leaves = std::max({committed + 1, next, in_memory_[sent_to_memory_ - memory_in_flight_]});
    left_together_ = leaves == left_buffer_ ? left_together_ + 1 : 1;
    left_buffer_ = leaves;
    const Cycle done = to_memory(pc, address, size, leaves, true);
    store_cause_ = store_to(caches_.answered());
    written_ = std::max(written_, done);
    buffer_[stores_++] = done;
    forwarding_.note_store(address, size, committed, done);
}

// The instruction's first micro-operation traps when it is committed, or its third one branches within the microcode; fetch
// goes on from there (Execute::commitInst). Returns how many of its micro-operations are done by then.
template <bool STACK>
std::int64_t InOrderCore::interrupt(std::uint32_t here, const StaticInstruction& row, Address pc) {
    const bool branch = row.interruption == Interruption::Branch;
    Cycle operands = serial_;
    for (int each = 0; each < (branch ? BEFORE_BRANCH : 1); ++each)
        operands = operate<STACK>(operands, Serialize, INT_ALU, Divider::None, ALU_STAGES).ready - ALU_LATE;
    go_on_from(here, branch ? in_line(row) - BEFORE_BRANCH : row.micro_operations, pc, commit_cycle_, Serialize);
    fetch<STACK>(pc, row.length);
    return branch ? BEFORE_BRANCH : 0;
}

// A divide of several rounds: each but the last one ends with a branch back, which is not foreseen.
template <bool STACK>
InOrderCore::Result InOrderCore::divide(std::uint32_t here, const StaticInstruction& row, Address pc, Cycle operands,
                                        Cause cause) {
    constexpr int FIRST = StaticInstruction::DIVIDE_FIRST, ROUND = StaticInstruction::DIVIDE_ROUND;
    constexpr int END = 2;  // micro-operations behind the rounds
    const Cycle step = row.latency / (FIRST + ROUND * row.rounds());
    Result result = operate<STACK>(operands, cause, row.unit, row.divider, step * (FIRST + ROUND));
    for (int round = 1; round < row.rounds(); ++round) {
        operate<STACK>(result.ready - ALU_LATE, cause, INT_ALU, Divider::None, ALU_STAGES);
        go_on_from(here, END, pc, commit_cycle_, MispredictExecute);
        fetch<STACK>(pc, row.length);
        result = operate<STACK>(result.ready, cause, row.unit, row.divider, step * ROUND);
    }
    return result;
}

// Instruction `k` of the chunk; returns its retire cycle. Its micro-operations go one after another: what comes before all
// else (immediates, the program counter), loads, what moves the stack pointer, what computes, and stores; but where nothing
// is computed for them, stores come first.
template <bool STACK>
inline Cycle InOrderCore::step(const Chunk& chunk, std::size_t k) {
    const std::uint32_t here = chunk.static_id[k];
    const StaticInstruction* assumed = &program_.rows[here];
    if (division_step_ > 0 && assumed->divider == Divider::Integer && assumed->rounds() > 0) {
        if (const int steps = chunk.steps(k)) {
            divided_ = assumed->in_steps(steps, division_step_, division_at_most_);
            assumed = &divided_;
        }
    }
    const StaticInstruction& row = *assumed;
    const Address pc = program_.pc[here];
    const std::int64_t first = chunk.access_offset[k], last = chunk.access_offset[k + 1];
    if constexpr (STACK) waits_.clear();

    fetch<STACK>(pc, row.length);
    const std::uint32_t next = chunk.following[k];
    accesses_follow_ = !taken_path_only_ && next != LAST && next + std::size_t{1} < program_.size && program_.rows[next].only_accesses() &&
                       program_.rows[next + 1].only_accesses();
    // An access that loads no register is a prefetch, which the cache answers at once (Cache::handleTimingReqMiss).
    prefetching_ = row.destination_count == 0 && !row.is(BRANCH | STRING);
    for (std::int64_t which = first; which < last; ++which) prefetching_ = prefetching_ && !chunk.is_store[which];
    const bool plain_prefetch = prefetching_ && last > first && !row.is(LOAD);
    const std::int64_t address_count = plain_prefetch ? MAX_SOURCES : row.address_count;  // all that it reads
    const bool string = row.is(STRING);
    const bool computes = row.computes > 0 && !string && !plain_prefetch;
    const bool simple = !computes || row.unit == INT_ALU;
    const auto execution = static_cast<Cause>(row.execution);

    Cycle begin = serial_;
    if (row.is(SERIALIZING | ATOMIC | BARRIER)) begin = std::max({begin, commit_cycle_, written_});
    const Cause begin_cause = row.is(ATOMIC | BARRIER) ? Stores : Serialize;

    const std::int64_t before_operations = operations_;
    std::int64_t interrupted = 0;
    if (__builtin_expect(row.interruption != Interruption::None && row.rounds() == 0, 0))
        interrupted = interrupt<STACK>(here, row, pc);
    std::int64_t lanes = 0, loads = 0, stores = 0;
    for (std::int64_t which = first; which < last; ++which) {
        const std::int64_t pieces = halves_ && !string ? (chunk.bytes(which) + LANE - 1) / LANE : 1;
        lanes += pieces;
        (chunk.is_store[which] ? stores : loads) += 1;
    }
    // The cycles in which its sources are ready: for the units of integers, for that of memory, for others.
    const auto needed = [&](const Result& result, Cycle late) {
        return std::min(result.ready - (result.forwards ? late : 0), result.committed.cycle);
    };
    Cause addressed_cause = begin_cause, others_cause = begin_cause;
    Cycle addressed = begin, address_for_alu = begin, others = begin, others_for_memory = begin;
    Committed address_known, others_known;
    const Cycle late = simple ? ALU_LATE : native_ && row.unit == INT_MUL ? MULTIPLY_LATE : 0;
    for (int source = 0; source < MAX_SOURCES; ++source) {
        const Result& result = result_[row.sources[source]];
        const Cause cause = ready_cause_[row.sources[source]];
        if (source < address_count) {
            const Cycle cycle = needed(result, memory_late_);
            if (cycle > addressed) addressed_cause = cause;
            addressed = std::max(addressed, cycle);
            address_for_alu = std::max(address_for_alu, needed(result, ALU_LATE));
            if (address_known < result.committed) address_known = result.committed;
            if (last > first) continue;
        }
        const Cycle cycle = needed(result, late);
        if (cycle > others) others_cause = cause;
        others = std::max(others, cycle);
        others_for_memory = std::max(others_for_memory, needed(result, memory_late_));
        if (others_known < result.committed) others_known = result.committed;
    }

    const auto wait_for_part = [&](bool load, const Result& result, Cause cause) {
        const Cycle memory = needed(result, memory_late_);
        if (load) {
            if (memory > addressed) addressed_cause = cause;
            addressed = std::max(addressed, memory);
            if (address_known < result.committed) address_known = result.committed;
        } else {
            const Cycle cycle = needed(result, late);
            if (cycle > others) others_cause = cause;
            others = std::max(others, cycle);
            others_for_memory = std::max(others_for_memory, memory);
            if (others_known < result.committed) others_known = result.committed;
        }
    };
    const int temporary = native_ ? 0 : row.temporary;
    const bool brings_part = (temporary & MERGED) && (temporary & AT_ONCE);
    const Cycle brings = brings_part ? std::max(begin, needed(temporary_, ALU_LATE)) : begin;
    if ((temporary & MERGED) && !brings_part) wait_for_part(row.is(LOAD), temporary_, temporary_cause_);
    if (temporary & MERGES_LOADED) {
        addressed = std::max(addressed, others_for_memory);
        if (address_known < others_known) address_known = others_known;
    }

    Result brought, loaded, moved, computed;  // by what comes before all else, by loads, of a stack pointer, by the rest
    std::int64_t left = std::max<std::int64_t>(row.micro_operations - interrupted, 1) - lanes;
    const auto count = [&](std::int64_t wanted) {
        const std::int64_t number = std::clamp<std::int64_t>(wanted, 0, std::max<std::int64_t>(left, 0));
        left -= number;
        return number;
    };
    const std::int64_t computing = computes ? count(row.computes) : 0;
    const bool pair = row.chained == PAIR;
    const std::int64_t after = pair || native_ ? 0 : count(row.cycles_after);
    const std::int64_t moves = row.base_updates && !string && !native_ ? count(1) : 0;
    const std::int64_t before = native_ ? 0 : string || row.is(BRANCH) ? count(left) : count(row.cycles_before);
    if (native_ && lanes > 0) left = 0;
    const bool relative = lanes > 0 && address_count == 0;
    const bool converts = before > 0 && !simple && loads == 0;  // brings a register over to the unit
    for (std::int64_t each = 0; each < before; ++each) {
        const Cycle operands = converts && each == 0 ? others : each > 0 && converts ? brought.ready - ALU_LATE : brings;
        const Cause cause = converts ? others_cause : brings_part ? temporary_cause_ : begin_cause;
        brought = operate<STACK>(operands, cause, INT_ALU, Divider::None, ALU_STAGES);
    }
    const auto accesses = [&](bool write, Cycle operands, const Committed& known, Cause cause) {
        for (std::int64_t which = first; which < last; ++which) {
            if (static_cast<bool>(chunk.is_store[which]) != write) continue;
            const Address address = chunk.address[which];
            // gem5 checks the address of some stores that trap first, without an access (`cda`, LSQ::pushRequest: NO_ACCESS).
            if (row.interruption == Interruption::Trap && which + 1 < last && address == chunk.address[which + 1]) continue;
            const std::int64_t size = chunk.bytes(which), piece = halves_ ? LANE : size;
            for (std::int64_t at = 0; at < size; at += piece)
                loaded = access<STACK>(row, pc, address + at, std::min(piece, size - at), write, operands, known, cause);
        }
    };
    if (string) {
        for (std::int64_t which = first; which < last; ++which) {
            const bool write = chunk.is_store[which];
            loaded = access<STACK>(row, pc, chunk.address[which], chunk.bytes(which), write, addressed, address_known,
                                   addressed_cause);
            for (int each = 0; each < row.computes; ++each)
                computed = operate<STACK>(each > 0 ? computed.ready - ALU_LATE : begin, execution, INT_ALU, Divider::None,
                                          ALU_STAGES);
            // The last of them branches back, which is not foreseen (`br label("topOfLoop")`).
            const std::int64_t round = row.address_count > 1 ? 2 : 1;
            if (which + 1 < last && (which + 1 - first) % round == 0) {
                go_on_from(here, 1, pc, commit_cycle_, MispredictExecute);
                fetch<STACK>(pc, row.length);
            }
        }
    } else if (loads > 0) {
        const bool waits = relative && before > 0;
        accesses(false, std::max(addressed, waits ? needed(brought, memory_late_) : 0),
                 waits ? brought.committed : address_known, addressed_cause);
    }
    const auto store_all = [&](const Result* data) {
        Committed known = std::max(address_known, data ? data->committed : others_known);
        if (before > 0 && !data) known = std::max(known, brought.committed);
        Cycle operands = std::max(addressed, data ? needed(*data, memory_late_) : others_for_memory);
        if (before > 0 && !data) operands = std::max(operands, needed(brought, memory_late_));
        const Result kept = loaded;
        accesses(true, operands, known, data ? execution : addressed_cause);
        if (loads > 0) loaded = kept;
    };
    const bool stores_last = computes && !row.is(CALL);
    if (stores > 0 && !string && !stores_last) store_all(loads > 0 ? &loaded : nullptr);
    if (moves > 0)
        moved = operate<STACK>(address_for_alu, addressed_cause, INT_ALU, Divider::None, ALU_STAGES);
    Cycle operands = std::max(others, before > 0 ? needed(brought, late) : 0);
    if (loads > 0 && !string) operands = std::max(operands, needed(loaded, late));
    bool done = computing > 0;
    if (done) {
        if (row.chained == 1) operands = std::max(operands, chain_);
        const Cycle stages = simple ? std::max<Cycle>(ALU_STAGES, row.latency) : Cycle{row.latency};
        const Cycle kept = native_ ? Cycle{row.cycles_before} : Cycle{1};
        if (row.rounds() > 1) {
            computed = divide<STACK>(here, row, pc, operands, loads > 0 ? LoadL1d : others_cause);
        } else {
            const Cause cause = loads > 0 ? LoadL1d : others_cause;
            for (std::int64_t each = 1; each <= computing; ++each) {
                computed = operate<STACK>(operands, cause, row.unit, row.divider, stages, kept);
                if (pair && 2 * each % computing == 0 && count(1) > 0)  // a half's sum, in the same unit
                    computed = operate<STACK>(computed.ready, execution, row.unit, row.divider, stages);
            }
        }
        if (row.chained == 1) chain_ = computed.ready;
        if (native_ && loads == 0) computed.ready += row.cycles_after;
    }
    const Result first_computed = computed;
    for (std::int64_t each = 0; each < after; ++each) {
        const Cycle from = done ? needed(computed, ALU_LATE) : loads > 0 ? needed(loaded, ALU_LATE) : operands;
        computed = operate<STACK>(from, execution, INT_ALU, Divider::None, ALU_STAGES);
        done = true;
    }
    while (count(1) > 0) {
        const Result other = operate<STACK>(begin, begin_cause, INT_ALU, Divider::None, ALU_STAGES);
        if (!done && loads == 0) computed = other;
    }
    if (!done && loads > 0) computed = loaded;
    if (stores > 0 && !string && stores_last) store_all(&computed);
    if (native_ && row.base_updates && last > first) moved = {issue_cycle_ + BASE_STAGES, loaded.committed, false};

    const Cycle cycle = commit_cycle_;
    for (int destination = 0; destination < row.destination_count; ++destination) {
        const bool base = ((row.base_updates >> destination) & 1) && moved.ready > 0;
        result_[row.destinations[destination]] = base ? moved : computed;
        if constexpr (STACK) ready_cause_[row.destinations[destination]] = native_ && loads > 0 ? LoadL1d : execution;
    }
    if (row.divider == Divider::Integer) result_[MICROCODE_FLAGS] = first_computed;
    if (temporary & (AT_ONCE | LOADED | COMPUTED)) {
        temporary_ = temporary & AT_ONCE ? brought : temporary & LOADED ? loaded : first_computed;
        temporary_cause_ = temporary & LOADED ? LoadL1d : execution;
    }
    if (row.is(SERIALIZING)) serial_ = cycle + 1;
    if constexpr (STACK) stack_.retire(k, operations_ - before_operations, cycle - retired, waits_, FetchBandwidth);
    redirect(chunk, k, cycle);
    return cycle;
}

// Until a misprediction is known, at `committed`, what lies beyond the branch is fetched and decoded, cycle by cycle here
// (Execute, Decode, Fetch2 and Fetch1::evaluate, in that order). Issue throws it away at once, but decode knows nothing of
// branches: it goes on with what the buffer before it has got, before what comes next. That begins with `left`
// micro-operations of the instruction itself. Two lines are held or under way, so a line is asked for when one is used up,
// and the one under way must come before the next. Code that was never executed is not known; it is taken to be like the
// rest of the program's, on average.
//
// Returns when the line of what comes next can be asked for.
Cycle InOrderCore::beyond(std::uint32_t here, std::int64_t left, Address pc, Cycle committed) {
    if (taken_path_only_) {
        for (Cycle& each : issued_) each = std::min(each, committed);
        return committed + TO_REFETCH;
    }
    const Cycle begin = fetch_.cycle, decoding = decode_.cycle, issued = issued_[parcels_ & (RECENT - 1)];
    struct Bundle {  // that the second stage has passed on in one cycle
        Cycle arrives;
        std::int64_t operations;  // in UNITs
    } bundles[DECODE_BUFFER];
    bundles[0] = {begin, left * UNIT};
    int count = 1;
    std::int64_t waiting = 0;  // parcels of what lies beyond, before issue
    std::size_t which = here + std::size_t{1};
    Address address = program_.fall_through(here);
    Address offset = address - (static_cast<Address>(line_) << LINE_BITS);  // from the line at hand on
    Line there = line_;  // the last one that has come
    Cycle coming = NEVER, ask = std::max(line_came_ + BETWEEN_LINES, used_up_);

    Slots decode = decode_;
    std::int64_t part = 0;  // of a micro-operation, in UNITs
    const auto work_off = [&](Cycle cycle) {
        decode.reach(cycle);
        const std::int64_t before = decode.used;
        while (count > 0 && bundles[0].arrives <= cycle) {
            const std::int64_t taken = std::min((width_ - decode.used) * UNIT - part, bundles[0].operations);
            bundles[0].operations -= taken;
            decode.used += (part + taken) / UNIT;
            part = (part + taken) % UNIT;
            if (bundles[0].operations > 0) break;
            decoded_[(bundles_ - count + 1) & (RECENT - 1)] = cycle;
            for (int k = 1; k < count; ++k) bundles[k - 1] = bundles[k];
            --count;
        }
        return decode.used > before;
    };
    for (Cycle cycle = begin; cycle <= committed; ++cycle) {
        bool moves = false;
        waiting -= cycle > issued && waiting > 0;
        if (cycle >= decoding) {
            std::int64_t full = waiting;
            if (cycle < issued + 1)
                for (const Cycle each : issued_) full += each > cycle;
            if (cycle == decoding || cycle == committed || full < INPUT_BUFFER) {
                moves = work_off(cycle);
                waiting += moves && cycle > decoding;
            }
        }
        if (coming < cycle) {
            ++there;
            ask = coming + BETWEEN_LINES;
            coming = NEVER;
        }
        const bool first = cycle == begin;
        int taken = count;  // places before decode
        for (int k = count; k < DECODE_BUFFER && count > 0; ++k)
            taken += decoded_[(bundles_ - k) & (RECENT - 1)] > cycle;
        if (first || taken < DECODE_BUFFER) {
            std::int64_t operations = 0;
            for (std::int64_t k = first ? fetch_.used : 0; k < width_; ++k) {
                const bool known = which < program_.size && program_.pc[which] <= address;
                const Address length = known ? static_cast<Address>(program_.rows[which].length) : usual_length_;
                if (line_ + static_cast<Line>((offset + length - 1) >> LINE_BITS) > there) break;
                operations += known ? in_line(program_.rows[which]) * UNIT : usual_operations_;
                which += known;
                address += length;
                offset += length;
            }
            if (first) {
                bundles[0].operations += operations;
            } else if (operations > 0) {
                bundles[count++] = {cycle + frontend_delay_, operations};
                ++bundles_;
            }
            moves |= operations > 0;
        }
        const Line held = there - line_ - static_cast<Line>(offset >> LINE_BITS) + 1;
        if (coming == NEVER && held < LINES && ask <= cycle) {
            coming = caches_.access_code(there + 1, first ? ask : cycle, pc);
            moves = true;
        }
        const bool on_its_way = count > 0 && bundles[count - 1].arrives > cycle;
        if (!moves && coming == NEVER && !on_its_way && cycle > decoding + DECODE_BUFFER && cycle < issued)
            cycle = issued - 1;
    }
    for (Cycle cycle = committed + 1; count > 0; ++cycle) work_off(cycle);
    decode_ = decode;
    sent_on_ = decode_.used < width_ ? decode_.cycle : sent_on_;
    parcels_ += decode_.used < width_;
    for (Cycle& each : issued_) each = std::min(each, committed);
    const Cycle again = committed + TO_REFETCH;
    return coming == NEVER ? again : std::max(again, coming + BETWEEN_LINES);
}

// Cycle in which the line is asked for to which a branch goes as predicted.
//
// The first fetch stage knows it a cycle later. A line under way must come first (Fetch1::numInFlightFetches): the next
// one, or, where that has come, the one behind it, for which the second stage has just made room by throwing all away.
Cycle InOrderCore::follow(Address pc) {
    const Cycle told = fetch_.cycle;
    const Cycle start = std::max(line_came_ + BETWEEN_LINES, used_up_);
    Cycle free = caches_.access_code(line_ + 1, start, pc) + BETWEEN_LINES;
    if (free <= told) free = caches_.access_code(line_ + 2, told, pc) + BETWEEN_LINES;
    return std::max(told + 1, free);
}

// The line of what comes next is asked for at `again`.
void InOrderCore::refetch(Cycle again, Cause cause) {
    redirect_cause_ = cause;
    redirected_ = std::max<Cycle>(again - fetch_.cycle, 0);
    fetch_ = {again, 0};
    passed_on_ = -1;
    line_ = -1;
    used_up_ = again;
}

// The code that follows the instruction `here`, committed at `committed`, is fetched anew.
void InOrderCore::go_on_from(std::uint32_t here, std::int64_t left, Address pc, Cycle committed, Cause cause) {
    refetch(beyond(here, left, pc, committed), cause);
}

inline void InOrderCore::redirect(const Chunk& chunk, std::size_t k, Cycle committed) {
    const std::uint32_t here = chunk.static_id[k];
    const StaticInstruction& row = program_.rows[here];
    if (row.is(BRANCH)) {
        const Address pc = program_.pc[here], fall_through = pc + row.length, target = chunk.target(program_, k);
        const Redirect outcome = ideal_branches_ ? Redirect::None : branches_.fetch(pc, fall_through, target, row.flags);
        if (outcome != Redirect::None) {
            if (outcome == Redirect::Decode) branches_.found_at_commitment();
            go_on_from(here, 0, pc, committed, MispredictExecute);
        } else if (target != fall_through) {
            refetch(follow(pc), FetchBandwidth);
        }
    } else if (row.is(SYSCALL)) {
        refetch(committed + TRAP + system_calls_.of(chunk.call(k)), Serialize);
    }
}

}  // namespace perfvec
