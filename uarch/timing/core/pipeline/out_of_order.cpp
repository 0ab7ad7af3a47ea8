#include "out_of_order.hpp"

#include <algorithm>
#include <cmath>

namespace perfvec {

namespace {

constexpr int LEAST_RENAMED = 4;  // bytes

// Ports, in 1/PORT, of an access whose throughput is one in `cycles`.
std::int64_t ports_of(double cycles, int ports) {
    return std::max<std::int64_t>(OutOfOrderCore::PORT, std::llround(OutOfOrderCore::PORT * cycles * ports));
}

}  // namespace

OutOfOrderCore::OutOfOrderCore(const Machine& machine, const Program& program, Hierarchy& caches, BranchUnit& branches)
    : program_(&program),
      instructions_(decoded(program, machine.native)),
      caches_(caches),
      branches_(branches),
      native_(machine.native),
      ideal_branches_(machine.ideal.branches),
      taken_path_only_(machine.taken_path_only),
      forward_latency_(machine.forward_latency),
      indirect_delay_(machine.indirect_delay),
      call_delay_(machine.call_delay),
      system_calls_(machine.system_calls),
      division_step_(machine.division_step),
      division_at_most_(machine.division_at_most),
      rename_width_(std::min(machine.out_of_order->rename_width, machine.out_of_order->issue_width)),
      frontend_delay_(machine.out_of_order->frontend_delay),
      dispatch_delay_(machine.out_of_order->dispatch_delay),
      front_(machine.out_of_order->fetch_width, machine.out_of_order->decode_width, frontend_delay_, machine.taken_branches,
             machine.native),
      wrong_path_(instructions_),
      units_(machine.out_of_order->issue_width, machine.units),
      int_dividers_(machine.units.int_mul),
      fp_dividers_(machine.units.fp_mul),
      vector_load_(ports_of(machine.vector_load, machine.units.load_ports)),
      vector_store_(ports_of(machine.vector_store, machine.units.store_ports)),
      renaming_(machine.memory_renaming),
      store_sets_(machine.native),
      known_(program.size),
      issue_queue_(machine.out_of_order->issue_queue_entries, dispatch_delay_),
      reorder_buffer_(machine.out_of_order->rob_entries, machine.out_of_order->commit_width, -LATE_RELEASE),
      load_queue_(machine.out_of_order->load_queue_entries, -LATE_RELEASE),
      int_registers_(machine.out_of_order->int_registers, -LATE_RELEASE),
      fp_registers_(machine.out_of_order->fp_registers, -LATE_RELEASE),
      responses_(machine.native),
      store_queue_(machine, caches, responses_, -LATE_RELEASE),
      stack_(std::min<std::int64_t>({front_.fetch_width(), front_.decode_width(), rename_width_, machine.out_of_order->commit_width})) {
    if (native_)
        for (int unit = INT_ALU; unit <= SIMD; ++unit) bound_ports_.emplace_back(units_.units(unit));
    branches_.tell_retargets(indirect_delay_ > 0);
}

void OutOfOrderCore::grow(const Program& program) {
    program_ = &program;
    for (std::size_t which = instructions_.size(); which < program.size; ++which)
        instructions_.emplace_back(program.rows[which], program.pc[which], native_);
    known_.grow(program.size);
    wrong_path_.grow();
}

void OutOfOrderCore::run(const Chunk& chunk, Latency* latency) { loop<false>(chunk, latency); }

void OutOfOrderCore::run(const Chunk& chunk, Latency* latency, const std::vector<StackTable>& tables) {
    stack_.accumulate_into(tables);
    loop<true>(chunk, latency);
}

template <bool STACK>
void OutOfOrderCore::loop(const Chunk& chunk, Latency* latency) {
    store_queue_.keep_history(STACK);
    for (std::size_t begin = 0; begin < chunk.size; begin += BLOCK) {
        make_room();
        const std::size_t end = std::min(begin + BLOCK, chunk.size);
        for (std::size_t k = begin; k < end; ++k) {
            // A large program's instructions do not stay in the host's first cache.
            if (k + AHEAD < chunk.size) __builtin_prefetch(&instructions_[chunk.static_id[k + AHEAD]]);
            const std::int64_t accesses = chunk.access_offset[k + 1] - chunk.access_offset[k];
            const bool plain = accesses <= instructions_[chunk.static_id[k]].plain;
            const Cycle before = retired;
            retired = plain ? step<STACK, true>(chunk, k) : step<STACK, false>(chunk, k);
            latency[k] = static_cast<Latency>(std::min(retired - before, LONGEST));
        }
    }
}

// Makes room in all that is booked in each step.
void OutOfOrderCore::make_room() {
    front_.make_room();
    store_queue_.make_room();
    reorder_buffer_.make_room();
    for (ReleaseRing* ring : {&load_queue_, &int_registers_, &fp_registers_}) ring->make_room();
}

// Cycle in which the last micro-operation is renamed: every structure must have room then.
template <bool STACK, bool PLAIN>
__attribute__((always_inline)) inline Cycle OutOfOrderCore::rename(const DecodedInstruction& row, Span decoded,
                                                                   std::int64_t operations, std::int64_t loads,
                                                                   std::int64_t stores) {
    const Cycle first = decoded.first + TO_RENAME, last = decoded.last + TO_RENAME;
    rename_.reach(first);
    rename_.take(operations, rename_width_);
    rename_.reach(last, 1);
    const Cycle unhindered = rename_.cycle;
    Cycle cycle = unhindered;
    Cause full = FullReorderBuffer;
    const auto wait = [&cycle, &full](Cycle until, Cause cause) {
        if constexpr (STACK) full = until > cycle ? cause : full;
        cycle = std::max(cycle, until);
    };
    wait(serial_, Serialize);
    const auto entries = [](const auto& ring, std::int64_t wanted) {
        return PLAIN ? wanted : std::min(wanted, ring.entries());
    };
    wait(reorder_buffer_.released(entries(reorder_buffer_, operations)) + RELEASE, FullReorderBuffer);
    if (loads > 0) wait(load_queue_.released(entries(load_queue_, loads)) + LATE_RELEASE, FullLoadQueue);
    if (stores > 0) wait(store_queue_.released(entries(store_queue_, stores)) + RELEASE, FullStoreQueue);
    if (row.int_destinations > 0)
        wait(int_registers_.released(entries(int_registers_, row.int_destinations)) + LATE_RELEASE, FullIntRegisters);
    if (row.fp_destinations > 0)
        wait(fp_registers_.released(entries(fp_registers_, row.fp_destinations)) + LATE_RELEASE, FullFpRegisters);
    cycle = issue_queue_.room<STACK>(reorder_buffer_, cycle, operations, full);
    const bool stores_hold_up = STACK && full == FullStoreQueue && cycle > unhindered;
    if (stores_hold_up) full = store_queue_.history().last(FullStoreQueue);
    if (cycle > unhindered) {
        rename_.used = std::min(operations, rename_width_);
        front_.stall(last, full);
    } else if (unhindered > last && rename_width_ < front_.decode_width()) {
        front_.stall(last, DecodeBandwidth);
    }
    rename_.cycle = cycle;
    front_.renamed(operations, cycle);
    issue_queue_.renamed(operations);
    if constexpr (STACK) {
        waits_.add(DecodeBandwidth, unhindered - last);
        if (stores_hold_up)
            waits_.add(store_queue_.history(), cycle - unhindered, FullStoreQueue);
        else
            waits_.add(full, cycle - unhindered);
    }
    return cycle;
}

// A load that can issue at `cycle`; returns the cycle from which its readers can issue.
template <bool STACK>
inline Cycle OutOfOrderCore::load(Address pc, Address address, std::int64_t size, Cycle cycle, bool prefetch) {
    const Cycle allowed = std::max(cycle, store_sets_.waits_for(pc));
    Cycle issue = units_.reserve(LOAD_PORT, allowed);
    if constexpr (STACK) {
        waits_.add(LoadOrder, allowed - cycle);
        waits_.add(Ports, issue - allowed);
    }
    const Cycle found = store_sets_.violated(pc, address, size, issue);
    if (found > 0) {  // everything from here on is fetched again
        caches_.access_data(address, size, issue + 1, false, pc);
        again_ = found + TO_REFETCH;
        const Cycle first = issue;
        issue = again_ + frontend_delay_ + TO_RENAME + dispatch_delay_;
        if constexpr (STACK) waits_.add(LoadOrder, issue - first);
    }
    const StoreForwarding::Answer store = store_queue_.find(address, size, issue + 1);
    if (store.source == StoreForwarding::Source::Forwarded) {
        const Cycle ready = std::max(issue, store.cycle) + forward_latency_;
        if constexpr (STACK) waits_.add(LoadForward, ready - issue);
        return ready;
    }
    if (store.cycle > issue) {  // part of it is in a store that must reach the cache first
        if constexpr (STACK) waits_.add(store_queue_.history(), store.cycle - issue, LoadForward);
        issue = store.cycle;
    }
    Cycle ready = responses_.answered(caches_.access_data(address, size, issue + 1, false, pc));
    // A prefetch is answered at once (gem5's Cache::handleTimingReqMiss); silicon's retires without its line, too.
    if (prefetch) ready = std::min(ready, issue + 1 + caches_.levels[L1D].latency);
    if constexpr (STACK)
        waits_.add_access(LoadTranslation, caches_.translated(), load_from(caches_.answered()), ready - issue);
    return ready;
}

// The division `row` in so many steps; as it is where they are not known (0).
__attribute__((noinline)) const DecodedInstruction* OutOfOrderCore::in_steps(const DecodedInstruction& row,
                                                                             std::uint32_t here, int steps) {
    if (steps == 0 || row.rounds == 0) return &row;
    divided_.emplace(program_->rows[here].in_steps(steps, division_step_, division_at_most_), row.pc);
    return &*divided_;
}

// The cycle in which a division that could begin at `cycle` does.
Cycle OutOfOrderCore::divide(const DecodedInstruction& row, Cycle cycle) {
    const bool integer = row.divider == Divider::Integer;
    if (native_) return (integer ? native_int_divider_ : native_fp_divider_).reserve(cycle, row.divides_for);
    return (integer ? int_dividers_ : fp_dividers_).reserve(cycle, row.latency);
}

// Beyond its first port a vector's access takes as many as its throughput tells, and all again for a second line.
void OutOfOrderCore::take_more_ports(Resource port, Address address, std::int64_t size, Cycle cycle) {
    const bool store = port == STORE_PORT;
    const Line lines = line_of(address + size - 1) - line_of(address) + 1;
    std::int64_t& owed = owed_[store];
    owed += lines * (store ? vector_store_ : vector_load_) - PORT;
    for (; owed >= PORT; owed -= PORT) units_.reserve(port, cycle);
}

// The place to which the branch `here`, which goes to `target`, was expected to go.
WrongPath::Place OutOfOrderCore::expected(std::uint32_t here, Address target) const {
    const bool taken = target == instructions_[here].fall_through() || !instructions_[here].is(CONDITIONAL);
    return wrong_path_.expected(here, taken);
}

// The code behind a micro-operation is known at `resolved` to be the wrong path, or has to be fetched again.
//
// Returns how many micro-operations of it are in the reorder buffer. They are found there SQUASH_WIDTH a cycle, and nothing
// is dispatched or retired meanwhile; their entries are free only when what is before them has retired (gem5's O3).
std::int64_t OutOfOrderCore::squash(const Squash& what) {
    const Cycle resolved = what.resolved;
    const std::int64_t room = reorder_buffer_.free_at(resolved - RELEASE);
    WrongPath::Start start;
    start.place = taken_path_only_ ? WrongPath::Place{WrongPath::UNKNOWN, WrongPath::Place::NOWHERE} : what.place;
    start.line = front_.line();
    start.width = front_.fetch_width();
    start.from = what.fetched + 1;
    start.by = what.fetched + resolved - 1 - what.renamed;
    start.until = resolved + TO_SQUASH;
    start.most = room + front_.most_under_way();
    start.entries = room;
    start.loads = load_queue_.free_at(resolved - LATE_RELEASE);
    start.stores = store_queue_.entries() - store_queue_.waiting();
    start.int_registers = int_registers_.free_at(resolved - LATE_RELEASE);
    start.fp_registers = fp_registers_.free_at(resolved - LATE_RELEASE);
    squashed_.part(ready_, frontend_delay_ + TO_RENAME + dispatch_delay_, start.from, start.until);
    const WrongPath::Walked walked = wrong_path_.walk(start, branches_, caches_, squashed_);
    const std::int64_t slots = (resolved - 1 - what.renamed) * rename_width_ + rename_width_ - rename_.used;
    std::int64_t wrong = std::min({room, walked.count, std::max<std::int64_t>(slots, 0)});
    if (native_) wrong = 0;  // silicon drops them at once
    front_.squashed(resolved, what.trap ? 0 : (wrong + SQUASH_WIDTH - 1) / SQUASH_WIDTH);
    front_.go_on(resolved + TO_SQUASH + 1, walked.line == line_of(what.target) ? walked.line : FrontEnd::NO_LINE, 0,
                 MispredictExecute);
    return wrong;
}

// A wrong path is fetched for as long as one of the last ones was.
void OutOfOrderCore::pass(const PassedBranches& passed) {
    if (code_.size() != instructions_.size()) code_.draw(instructions_);
    Line line = FrontEnd::NO_LINE;
    for (std::size_t k = 0; k < passed.count; ++k) {
        if (k + PASSED_AHEAD < passed.count) code_.prefetch(passed.branch[k + PASSED_AHEAD]);
        const std::uint32_t here = passed.branch[k];
        const CodeMap::Instruction& row = code_[here];
        const Address target = passed.following[k] == LAST ? row.fall_through() : code_[passed.following[k]].pc;
        const Line last = line_of(row.fall_through() - 1);
        Line next = k == 0 || passed.following[k - 1] == LAST ? last : line_of(code_[passed.following[k - 1]].pc);
        if (next > last || next + MOST_LINES < last) next = last;  // other branches were between the two
        for (; next <= last; ++next) {
            if (next == line) continue;
            caches_.access_code(next, 0, row.pc, false);
            line = next;
        }
        const Redirect redirect = BranchUnit::redirect_of(passed.outcome[k]);
        if (redirect == Redirect::Execute && !taken_path_only_)
            wrong_path_.pass(expected(here, target), line, front_.fetch_width(), wrong_path_.usual_cycles(), caches_, code_);
        else if (redirect == Redirect::Decode && !taken_path_only_)
            wrong_path_.pass(wrong_path_.expected(here, false), line, front_.fetch_width(), frontend_delay_ + TO_REFETCH, caches_,
                             code_);
        wrong_path_.note_branch(here, passed.following[k], target != row.fall_through());
    }
}

void OutOfOrderCore::begin_unit(const NearReads& reads) { known_.begin(reads, *program_, store_sets_); }

// Decode finds at `decoded` that fetch went on behind the branch `here`, which is taken: the lines there were asked for.
void OutOfOrderCore::fetched_beyond(std::uint32_t here, Cycle fetched, Cycle decoded) {
    if (taken_path_only_) return;
    WrongPath::Start start;
    start.place = wrong_path_.expected(here, false);
    start.line = front_.line();
    start.width = front_.fetch_width();
    start.from = fetched + 1;
    start.until = decoded + TO_REFETCH;
    start.by = start.entries = -1;  // none of it gets beyond decode
    start.most = front_.most_under_way();
    squashed_.part(ready_, 0, start.from, start.from);
    wrong_path_.walk(start, branches_, caches_, squashed_);
}

// The instruction's first micro-operation traps: it waits until it is the oldest one and all stores are written
// (Commit::commitHead), and TRAP cycles later everything is squashed (Commit::squashFromTrap). What is behind it has run
// ahead meanwhile and is fetched again.
template <bool STACK>
__attribute__((noinline, cold)) void OutOfOrderCore::trap(std::uint32_t here, const DecodedInstruction& row) {
    const Span fetched = front_.fetch<STACK>(caches_, row.pc, row.length, 1, waits_);
    const Span decoded = front_.decode<STACK>(fetched, 1, rename_.cycle, waits_);
    const Cycle renamed = rename<STACK, true>(row, decoded, 1, 0, 0);
    const Cycle dispatched = renamed + dispatch_delay_;
    issue_queue_.enter(1);
    issue_queue_.leave(dispatched);
    store_queue_.write_down_to(0);
    const Cycle trapped = std::max({dispatched + 1 + TO_RETIRE, reorder_buffer_.retired() + 1, store_queue_.drained()});
    const Cycle resolved = trapped + TRAP - 1;  // as if a branch had told it

    const std::int64_t wrong = squash({{here, row.pc}, row.pc, renamed, fetched.last, resolved, true});
    const Cycle done = resolved + 1 + (wrong + SQUASH_WIDTH) / SQUASH_WIDTH;
    reorder_buffer_.trap(trapped);
    reorder_buffer_.book(1 + std::min(wrong, reorder_buffer_.entries() - 1), done);
    if constexpr (STACK) waits_.add(Serialize, done - dispatched);
}

// An instruction whose microcode branches: a repeated string, which goes back for each round but the last; a shift of
// bytes, whose third micro-operation is a branch that is always taken; a divide, which goes back for every four steps but
// the last four. They are predicted as all branches are, by the address that the whole instruction has (BPredUnit::predict,
// Fetch::lookupAndUpdateNextPC); where one is predicted taken, the end of the instruction ends its group of fetch.
template <bool STACK>
__attribute__((noinline, cold)) OutOfOrderCore::Inside OutOfOrderCore::fetch_inside(const InFlight<false>& at) {
    const DecodedInstruction& row = at.row;
    std::int64_t operations = at.operations;
    const Address pc = row.pc, behind = row.fall_through();
    const Cycle depth = TO_RENAME + dispatch_delay_ + 1;  // from decode until a branch is resolved, if nothing holds it up
    Cycle taken_in = NEVER;
    Inside inside{{NEVER, 0}, {NEVER, 0}, false};
    const auto part = [&](std::int64_t count) {
        const Address begin = inside.fetched.first == NEVER && at.rounds_before == 0 ? pc : behind - 1;  // its lines are at hand then
        front_.make_room();  // a string may have any number of rounds
        const Span fetched = front_.fetch<STACK>(caches_, begin, static_cast<std::int64_t>(behind - begin), count, waits_);
        const Span decoded = front_.decode<STACK>(fetched, count, rename_.cycle, waits_);
        inside.fetched = {std::min(inside.fetched.first, fetched.first), fetched.last};
        inside.decoded = {std::min(inside.decoded.first, decoded.first), decoded.last};
        operations -= count;
    };
    const auto branch = [&](bool taken, bool last) {
        if (ideal_branches_ || branches_.follows()) return;  // outcomes found beforehand are of the program's branches
        const Cycle resolved = inside.decoded.last + depth;
        const Redirect outcome = branches_.fetch(pc, behind, taken ? pc : behind, BRANCH | CONDITIONAL, inside.fetched.last,
                                                 resolved + TO_RETIRE);
        if (outcome == Redirect::Decode)
            front_.go_on(inside.decoded.last + TO_REFETCH, front_.line(), 0, MispredictDecode);
        else if (outcome == Redirect::Execute && last)
            inside.mispredicted = true;
        else if (outcome == Redirect::Execute)
            front_.go_on(resolved + TO_SQUASH + 1, front_.line(), 0, MispredictExecute);
        else if (taken)
            taken_in = inside.fetched.last;
    };
    if (row.is(STRING) && at.accesses() > 0) {
        const std::int64_t accesses = at.accesses_of_round(), rounds = std::max<std::int64_t>(at.accesses() / accesses, 1);
        if (at.rounds_before == 0) {
            part(row.micro_operations);
            branch(false, false);
        }
        for (std::int64_t round = 1; round < rounds + at.goes_on; ++round) {
            part(accesses * (1 + row.computes));
            if (at.rounds_before + round <= PREDICTED) branch(true, false);
        }
        if (!at.goes_on) {
            part(std::max<std::int64_t>(operations, 1));
            branch(false, true);
        }
    } else if (row.interruption == Interruption::Branch) {
        const std::int64_t before = std::min<std::int64_t>(BEFORE_BRANCH, operations);
        const Span first = front_.fetch<STACK>(caches_, pc, row.length, before, waits_);
        const Span rest = front_.fetch<STACK>(caches_, behind - 1, 1, std::max<std::int64_t>(operations - before, 1), waits_);
        inside.fetched = {first.first, rest.last};
        inside.decoded = front_.decode<STACK>(inside.fetched, operations, rename_.cycle, waits_);
        branch(true, false);
        if (taken_in == rest.last && first.last < rest.last) taken_in = NEVER;
    } else {
        part(operations);
        for (int round = 1; round < row.rounds; ++round) branch(true, false);
        if (row.rounds > 0) branch(false, true);
    }
    if (taken_in == inside.fetched.last) front_.end_group(pc, pc, false);
    return inside;
}

// A load that could issue at `cycle` on a path that was squashed; returns the cycle of its data.
__attribute__((noinline)) Cycle OutOfOrderCore::load_ahead(Address pc, Address address, std::int64_t size, Cycle cycle) {
    const Cycle issue = std::max(cycle, store_sets_.waits_for(pc));
    const StoreForwarding::Answer store = store_queue_.find_ahead(address, size, issue + 1);
    if (store.source != StoreForwarding::Source::Cache) return std::max(issue, store.cycle) + forward_latency_;
    return caches_.access_data(address, size, issue + 1, false, pc);
}

// Instruction `k` of the chunk; returns its retire cycle.
template <bool STACK, bool PLAIN>
__attribute__((always_inline)) inline Cycle OutOfOrderCore::step(const Chunk& chunk, std::size_t k) {
    const DecodedInstruction* row = &instructions_[chunk.static_id[k]];
    if (!PLAIN && row->divider == Divider::Integer && division_step_ > 0) row = in_steps(*row, chunk.static_id[k], chunk.steps(k));
    // The reference machines of feature schemas, which never change, pass a string at once.
    if (!PLAIN && row->is(STRING) && chunk.access_offset[k + 1] - chunk.access_offset[k] > TOGETHER && !taken_path_only_)
        return repeat<STACK>(chunk, k, *row);
    InFlight<PLAIN> at(chunk, k, *row);
    return pass_stages<STACK>(at);
}

// A string of many rounds, some of them at a time: younger ones are fetched while older ones execute and retire.
template <bool STACK>
__attribute__((noinline, cold)) Cycle OutOfOrderCore::repeat(const Chunk& chunk, std::size_t k, const DecodedInstruction& row) {
    const std::int64_t end = chunk.access_offset[k + 1];
    std::int64_t rounds = 0;
    for (std::int64_t begin = chunk.access_offset[k]; begin < end; begin += TOGETHER) {
        make_room();
        InFlight<false> at(chunk, k, row, begin, std::min(begin + TOGETHER, end));
        at.rounds_before = rounds;
        at.goes_on = at.last < end;
        retired = pass_stages<STACK>(at);
        rounds += at.accesses() / at.accesses_of_round();
    }
    return retired;
}

template <bool STACK, bool PLAIN>
__attribute__((always_inline)) inline Cycle OutOfOrderCore::pass_stages(InFlight<PLAIN>& at) {
    if constexpr (STACK) waits_.clear();
    count_operations(at);
    fetch<STACK>(at);
    dispatch<STACK>(at);
    const int renamed_waits = STACK ? waits_.size() : 0;
    await_operands<STACK>(at);
    execute_loads<STACK>(at);
    compute<STACK>(at);
    if constexpr (STACK) {
        waits_.tell(result_history_, renamed_waits);
        waits_.shorten(1);  // everything takes a cycle; what depends on it waits for all
    }
    execute_others<STACK>(at);
    execute_stores<STACK>(at);
    write_registers<STACK>(at);
    const Cycle retired_at = at.row.is(BRANCH) ? retire_branch<STACK>(at) : retire<STACK>(at);
    release(at, retired_at);
    if (at.serializing()) serial_ = retired_at + RELEASE;
    if constexpr (STACK) {
        stack_.retire(at.number, at.operations, retired_at - retired, waits_, FetchBandwidth);
        occupy(at, retired_at);
    }
    return retired_at;
}

// The micro-operations that it takes here.
template <bool PLAIN>
__attribute__((always_inline)) inline void OutOfOrderCore::count_operations(InFlight<PLAIN>& at) {
    if (at.row.stack_engine) {
        stack_moved_ = true;
    } else if (at.row.stack_read && stack_moved_) {  // a micro-operation adds what the stack engine has counted
        stack_moved_ = false;
        ++at.operations;
        ++ready_[STACK_POINTER];
    }
    if (at.prefetching()) at.own = 0;
    at.others = native_ ? 0 : std::max<std::int64_t>(at.operations - at.own - at.accesses(), 0);
    if (at.string()) {  // micro-operations of each access
        if (at.rounds_before > 0) at.operations = 0;
        at.operations += (1 + at.row.computes) * at.accesses();
        at.own = at.others = 0;
    }
}

template <bool STACK, bool PLAIN>
__attribute__((always_inline)) inline void OutOfOrderCore::fetch(InFlight<PLAIN>& at) {
    const DecodedInstruction& row = at.row;
    if constexpr (!PLAIN) {
        if (at.string() || row.interruption != Interruption::None) {
            if (row.interruption == Interruption::Trap) trap<STACK>(at.here, row);
            const Inside inside = fetch_inside<STACK>(at);
            at.fetched = inside.fetched;
            at.decoded = inside.decoded;
            at.again_within = inside.mispredicted;
            return;
        }
    }
    at.fetched = front_.fetch<STACK>(caches_, row.pc, row.length, at.operations, waits_);
    at.decoded = front_.decode<STACK>(at.fetched, at.operations, rename_.cycle, waits_);
}

template <bool STACK, bool PLAIN>
__attribute__((always_inline)) inline void OutOfOrderCore::dispatch(InFlight<PLAIN>& at) {
    if (at.serializing()) serial_ = std::max(serial_, reorder_buffer_.retired() + RELEASE);
    if (at.stores > 0) store_queue_.write_down_to(std::max<std::int64_t>(store_queue_.entries() - at.stores, 0));
    at.renamed = rename<STACK, PLAIN>(at.row, at.decoded, at.operations, at.loads, at.stores);
    issue_queue_.enter(at.own + at.others + at.accesses());
    at.dispatched = at.renamed + dispatch_delay_;
}

// When the sources are there, and accesses know their addresses and may go.
template <bool STACK, bool PLAIN>
__attribute__((always_inline)) inline void OutOfOrderCore::await_operands(InFlight<PLAIN>& at) {
    const DecodedInstruction& row = at.row;
    Cycle of_address = 0;
    if constexpr (STACK) waits_.execution_begins();
    const auto read = [&](DecodedInstruction::Register source, Cycle& ready, int& last) {
        const Cycle cycle = ready_[source];
        if constexpr (STACK) last = cycle > ready ? source : last;
        ready = std::max(ready, cycle);
    };
    if constexpr (PLAIN) {
        if (row.address_count > 0)
            for (const auto source : row.address) read(source, of_address, at.address_register);
        for (const auto source : row.others) read(source, at.of_others, at.others_register);
    } else {
        for (int source = 0; source < row.source_count; ++source)
            source < row.address_count ? read(row.sources[source], of_address, at.address_register)
                                       : read(row.sources[source], at.of_others, at.others_register);
    }
    if (row.forwards) {
        at.of_others = 0;
        for (int source = row.address_count; source < row.source_count; ++source)
            at.of_others = std::max(at.of_others, ready_[row.sources[source]] - forwarded_[row.sources[source]]);
    }
    if (row.temporary == AT_ONCE)  // a micro-operation writes it before all else
        ready_[TEMPORARY] = std::max(at.dispatched, row.computes_part ? ready_[TEMPORARY] : 0) + 1;
    if (row.loads_part) read(TEMPORARY, of_address, at.address_register);
    if (row.computes_part) read(TEMPORARY, at.of_others, at.others_register);
    if (row.merges_loaded && at.of_others > of_address) {
        of_address = at.of_others;
        at.address_register = at.others_register;
    }
    if (at.prefetching() && at.of_others > of_address) {  // all that it reads forms its address
        of_address = at.of_others;
        at.address_register = at.others_register;
    }
    const bool memory = at.accesses() > 0;
    const Cycle begin = at.begin(), unordered = std::max(begin, of_address);
    if (memory) store_queue_.write_before(at.dispatched + 1);
    if constexpr (STACK) {
        waits_.add(ExecuteIntAlu, row.cycles_before);
        if (memory) waits_.add(history_[at.address_register], unordered - begin, ExecuteIntAlu);
    }
    at.addressed = unordered;
    if (at.ordering()) {  // waits for all memory operations before it, and those after it wait
        store_queue_.write_down_to(0);
        at.addressed = std::max({at.addressed, memory_last_, store_queue_.drained(), reorder_buffer_.retired()});
    }
    at.addressed = std::max(at.addressed, memory_order_);
    if constexpr (STACK)
        if (memory || at.ordering()) waits_.add(Stores, at.addressed - unordered);
}

// Its loads, side by side, and then all its operands.
template <bool STACK, bool PLAIN>
__attribute__((always_inline)) inline void OutOfOrderCore::execute_loads(InFlight<PLAIN>& at) {
    const DecodedInstruction& row = at.row;
    const Chunk& chunk = at.chunk;
    at.followed = squashed_.active();
    at.ahead = at.followed ? squashed_.take(at.here, row) : NEVER;
    at.data = at.loads > 0 ? at.addressed : at.begin();
    if (at.loads > 0) {
        if (at.ahead < at.addressed && !at.string()) {
            const Cycle issued = at.ahead;
            at.each(false, [&](std::int64_t which) {
                at.ahead = std::max(at.ahead, load_ahead(row.pc, chunk.address[which], chunk.bytes(which), issued));
            });
        }
        Waits before, latest;  // of several loads side by side the one that ends last is what is waited for
        const bool several = STACK && !PLAIN && at.loads > 1;
        if (several) before = latest = waits_;
        at.each(false, [&](std::int64_t which) {
            const Address address = chunk.address[which];
            const std::int64_t size = chunk.bytes(which);
            if (several) waits_ = before;
            const Cycle from = row.loads_part ? std::max(at.addressed, at.loaded) : at.addressed;
            const Cycle behind = known_.has(at.here) ? known_.load(at.here, from, *program_, store_sets_) : from;
            if constexpr (STACK) waits_.add(LoadOrder, behind - from);
            Cycle loaded = load<STACK>(row.pc, address, size, behind, at.prefetching()) + row.load_after;
            if (row.renames && renaming_.active() && size >= LEAST_RENAMED)
                loaded = std::min(loaded, std::max(at.begin(), renaming_.find(address, size)));
            if constexpr (STACK) waits_.add(LoadL1d, row.load_after);
            if (row.vector) take_more_ports(LOAD_PORT, address, size, at.addressed);
            issue_queue_.leave(loaded);
            if (several && loaded > at.data) latest = waits_;
            at.data = std::max(at.data, loaded);
            at.loaded = std::max(at.loaded, loaded);
        });
        if (several) waits_ = latest;
    }
    if constexpr (STACK) waits_.add(history_[at.others_register], at.of_others - at.data, ExecuteIntAlu);
    at.data = std::max(at.data, at.of_others);
    at.complete = at.loads > 0 ? std::max(at.data, at.dispatched + 1) : at.dispatched + 1;
    at.result = at.data;
}

// The micro-operations that compute.
template <bool STACK, bool PLAIN>
__attribute__((always_inline)) inline void OutOfOrderCore::compute(InFlight<PLAIN>& at) {
    const DecodedInstruction& row = at.row;
    if (at.own > 0) {
        Cycle start = at.loads > 0 ? at.data : std::max(at.data, at.addressed);
        if constexpr (STACK)
            if (at.accesses() == 0) waits_.add(history_[at.address_register], start - at.data, ExecuteIntAlu);
        const Cycle operands = start;
        if (!PLAIN && row.chained) start = std::max(start, chain_[row.chained == PAIR]);
        for (std::int64_t operation = 0; operation < at.own; ++operation) {
            if (!PLAIN && row.chained == PAIR && 2 * operation == at.own) start = at.result;
            const bool divides = !PLAIN && row.divider != Divider::None;
            Cycle free = start;  // from which the port is that it is bound to
            if (native_ && !divides) free = bound_ports_[row.unit - INT_ALU].reserve(row.ports, at.dispatched, start);
            const Cycle issue = divides ? divide(row, free) : units_.reserve(row.unit, free);
            at.result = std::max(at.result, issue + row.latency);
            issue_queue_.leave(issue);
            if constexpr (PLAIN) break;
        }
        if (!PLAIN && row.chained) chain_[row.chained == PAIR] = at.result;
        if constexpr (STACK) {
            const auto execution = static_cast<Cause>(row.execution);
            waits_.add(execution, start - operands);
            waits_.add(Ports, at.result - start - row.latency);
            waits_.add(execution, row.latency);
        }
        at.complete = at.result;
    }
    if (row.cycles_after > 0) {
        at.result += row.cycles_after;
        at.complete = std::max(at.complete, at.result);
        if constexpr (STACK) waits_.add(ExecuteIntAlu, row.cycles_after);
    }
}

// The micro-operations that neither compute nor access; they wait for nothing.
template <bool STACK, bool PLAIN>
__attribute__((always_inline)) inline void OutOfOrderCore::execute_others(InFlight<PLAIN>& at) {
    if (at.others == 0) return;
    const Cycle other = units_.reserve_each(INT_ALU, at.dispatched, at.others);
    if constexpr (STACK) waits_.add(Ports, other + 1 - at.complete);
    at.complete = std::max(at.complete, other + 1);
    issue_queue_.leave(other, at.others);
}

// Its stores tell younger loads their addresses. Silicon does so as soon as they are known, before the data.
template <bool STACK, bool PLAIN>
__attribute__((always_inline)) inline void OutOfOrderCore::execute_stores(InFlight<PLAIN>& at) {
    if (at.stores == 0) return;
    const DecodedInstruction& row = at.row;
    const Chunk& chunk = at.chunk;
    const Cycle known = native_ ? at.addressed : std::max(at.addressed, at.result);
    const Cycle allowed = std::max(known, store_sets_.waits_for(row.pc));
    Cycle issue = allowed;
    at.each(true, [&](std::int64_t which) {
        issue = units_.reserve(STORE_PORT, issue);
        if (row.vector) take_more_ports(STORE_PORT, chunk.address[which], chunk.bytes(which), issue);
        issue_queue_.leave(std::max(issue, at.result) + 1);
    });
    known_.store(at.here, issue);
    at.each(true, [&](std::int64_t which) {
        store_sets_.note_issue(row.pc, chunk.address[which], chunk.bytes(which), issue);
    });
    if constexpr (STACK) {
        waits_.add(LoadOrder, std::max(allowed, at.result) - std::max(known, at.result));
        waits_.add(Ports, std::max(issue, at.result) - std::max(allowed, at.result));
    }
    at.complete = std::max(at.complete, std::max(issue, at.result) + 1);
}

template <bool STACK, bool PLAIN>
__attribute__((always_inline)) inline void OutOfOrderCore::write_registers(const InFlight<PLAIN>& at) {
    const DecodedInstruction& row = at.row;
    const auto write = [&](DecodedInstruction::Register destination, Cycle cycle) {
        ready_[destination] = cycle;
        if constexpr (STACK)
            if (destination != REGISTERS || row.few_destinations) history_[destination] = result_history_;
    };
    for (int place = 0; place < row.USUAL_DESTINATIONS; ++place) write(row.destinations[place], at.result);
    for (int place = 0; place < row.USUAL_BASES; ++place) write(row.bases[place], at.addressed + 1);
    if constexpr (!PLAIN) {
        for (int place = row.USUAL_DESTINATIONS; place < row.destination_count; ++place)
            write(row.destinations[place], at.result);
        for (int place = row.USUAL_BASES; place < row.base_count; ++place) write(row.bases[place], at.addressed + 1);
        if (row.divider == Divider::Integer) ready_[MICROCODE_FLAGS] = at.result - row.cycles_after;
    }
    if (row.fp_destinations > 0)
        for (const auto destination : row.destinations) forwarded_[destination] = row.forwards;
    if (at.followed) {
        const Cycle computing = at.own > 0 ? row.latency : 0;
        squashed_.write(row, std::min(at.ahead + row.cycles_before + computing + row.cycles_after, at.result));
    }
    ready_[REGISTERS] = forwarded_[REGISTERS] = 0;  // where those that it does not have went
    if (row.temporary > AT_ONCE) {
        ready_[TEMPORARY] = row.temporary == LOADED ? at.loaded : at.result - row.cycles_after;
        if constexpr (STACK) history_[TEMPORARY] = result_history_;
    }
    memory_last_ = std::max(memory_last_, at.complete);
    if (at.ordering()) memory_order_ = at.complete;
}

// Fetches everything from a load on again, which went ahead of a store to the same place.
inline void OutOfOrderCore::fetch_again(Address pc, std::int64_t operations) {
    if (again_ == 0) return;
    if (again_ > front_.fetch_cycle()) front_.go_on(again_, line_of(pc), operations, LoadOrder);
    again_ = 0;
}

// Retires a branch, and lets fetch go on where it leads; returns the cycle.
template <bool STACK, bool PLAIN>
__attribute__((always_inline)) inline Cycle OutOfOrderCore::retire_branch(InFlight<PLAIN>& at) {
    const DecodedInstruction& row = at.row;
    const Address fall_through = row.fall_through();
    const Address target = at.following == LAST ? fall_through : instructions_[at.following].pc;
    const bool taken = target != fall_through;
    Redirect outcome = Redirect::None;
    // Silicon's histories go along with fetch: a branch teaches at once.
    if (!ideal_branches_)
        outcome = branches_.fetch(row.pc, fall_through, target, row.flags, at.fetched.last, native_ ? -1 : NEVER);
    Cycle done = 0;
    if (outcome == Redirect::Execute) {
        at.wrong = squash({expected(at.here, target), target, at.renamed, at.fetched.last, at.complete, false});
        done = at.complete + 1 + (at.wrong + SQUASH_WIDTH - 1) / SQUASH_WIDTH;
        if constexpr (STACK) waits_.misprediction();
        if constexpr (STACK) waits_.add(MispredictExecute, done - TO_RETIRE - at.complete);
    }
    const Cycle retired_at = reorder_buffer_.retire(std::max(at.complete, done - TO_RETIRE), at.operations);
    fetch_again(row.pc, at.operations);
    if (!ideal_branches_ && !native_) branches_.retire(retired_at);
    wrong_path_.note_branch(at.here, at.following, taken);
    if (outcome == Redirect::Decode) {
        fetched_beyond(at.here, at.fetched.last, at.decoded.last);
        front_.go_on(at.decoded.last + TO_REFETCH, FrontEnd::NO_LINE, 0, MispredictDecode);
    } else if (outcome == Redirect::Retarget) {
        const Line line = line_of(target) == front_.line() ? front_.line() : FrontEnd::NO_LINE;
        Cycle delay = indirect_delay_;
        if (call_delay_ >= 0 && row.is(CALL | RETURN)) delay = row.is(RETURN) ? call_delay_ : std::max(delay, call_delay_);
        front_.go_on(at.fetched.last + delay, line, front_.fetch_width(), MispredictDecode);
    } else if (outcome == Redirect::None && taken) {
        front_.end_group(row.pc, target, !row.is(CALL | RETURN | INDIRECT));
        if (call_delay_ > 0 && row.is(CALL | RETURN))
            front_.go_on(at.fetched.last + call_delay_, front_.line(), front_.fetch_width(), FetchBandwidth);
    }
    return retired_at;
}

// Retires any other instruction; returns the cycle.
template <bool STACK, bool PLAIN>
__attribute__((always_inline)) inline Cycle OutOfOrderCore::retire(InFlight<PLAIN>& at) {
    const DecodedInstruction& row = at.row;
    if (!PLAIN && at.again_within) {
        make_room();
        const std::int64_t most = std::min(at.operations - 1, reorder_buffer_.entries() - 1);
        const Cycle resolved = std::max(at.dispatched + 1, at.complete - (at.stores > 0 ? at.stores - 1 : 0));
        reorder_buffer_.book(most, reorder_buffer_.retire(at.complete, at.operations - 1));
        at.operations = 1;
        squash({{WrongPath::UNKNOWN, WrongPath::Place::NOWHERE}, row.pc, at.renamed, at.fetched.last, resolved, true});
        at.complete =
            std::max(at.complete, resolved + TO_SQUASH + 1 + frontend_delay_ + TO_RENAME + dispatch_delay_ + 1);
        if constexpr (STACK) waits_.add(MispredictExecute, at.complete - resolved);
    }
    const Cycle retired_at = reorder_buffer_.retire(at.complete, at.operations);
    fetch_again(row.pc, at.operations);
    if (!PLAIN && row.is(SYSCALL))
        front_.go_on(retired_at + TRAP + system_calls_.of(at.chunk.call(at.number)), FrontEnd::NO_LINE, 0, Serialize);
    return retired_at;
}

// Books what it holds until it retires; its stores wait to be written from then on.
template <bool PLAIN>
__attribute__((always_inline)) inline void OutOfOrderCore::release(const InFlight<PLAIN>& at, Cycle retired_at) {
    const DecodedInstruction& row = at.row;
    const Chunk& chunk = at.chunk;
    reorder_buffer_.book(PLAIN ? at.operations : std::min(at.operations, reorder_buffer_.entries()), retired_at);
    if (at.wrong > 0) reorder_buffer_.book(at.wrong, retired_at);
    if (at.loads > 0) load_queue_.book(PLAIN ? 1 : std::min(at.loads, load_queue_.entries()), retired_at);
    int_registers_.book(row.int_destinations, retired_at);
    if (row.fp_destinations > 0) fp_registers_.book(row.fp_destinations, retired_at);
    std::int64_t behind = at.stores;  // of several the first retire as the port has let them go
    if (at.stores == 0) return;
    at.each(true, [&](std::int64_t which) {
        --behind;
        const Cycle cycle = PLAIN ? retired_at : std::max(retired, retired_at - behind / units_.units(STORE_PORT));
        const Address address = chunk.address[which];
        const std::int64_t size = chunk.bytes(which);
        store_queue_.retire({address, size, row.pc, at.complete}, cycle + TO_WRITE);
        if (renaming_.active()) renaming_.note_store(address, size, row.renames && size >= LEAST_RENAMED, at.result);
    });
}

// Counts the cycles for which it holds entries. What repeats a string has more than a queue holds: it fills the queue.
template <bool PLAIN>
inline void OutOfOrderCore::occupy(const InFlight<PLAIN>& at, Cycle retired_at) {
    const auto held = [](std::int64_t count, std::int64_t entries, Cycle cycles) { return std::min(count, entries) * cycles; };
    occupancy.reorder_buffer += held(at.operations, reorder_buffer_.entries(), retired_at - at.renamed);
    occupancy.issue_queue = issue_queue_.occupied();
    occupancy.load_queue += held(at.loads, load_queue_.entries(), retired_at - at.renamed);
    occupancy.store_queue += held(at.stores, store_queue_.entries(), retired_at + TO_WRITE - at.renamed);
}

}  // namespace perfvec
