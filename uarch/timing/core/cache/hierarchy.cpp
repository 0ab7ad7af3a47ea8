#include "hierarchy.hpp"

#include <algorithm>
#include <cmath>

#include "../memory/simple_memory.hpp"

namespace perfvec {

namespace {

constexpr int CROSSBAR = 1;  // cycles to pass the crossbar between levels, each way
constexpr int PAYLOAD = 2;   // further cycles until all of a line has passed it, 32 bytes wide
// gem5's SystemXBar: frontend 3 + forward 4 and its snoop filter 1, response 2.
constexpr int SYSTEM_REQUEST = 8, SYSTEM_RESPONSE = 2;
constexpr int SMALL_PAGE = 4;  // KiB
constexpr Address LARGE_PAGES = Address{1} << 49;  // where their frames are, apart from those of small ones
constexpr double PICOSECONDS = 1000;  // of a nanosecond; gem5's clock periods are whole ones, halves up

std::unique_ptr<MainMemory> make_memory(const Machine& machine) {
    const MemoryConfiguration& memory = machine.memory;
    const double frequency = PICOSECONDS / std::floor(PICOSECONDS / machine.frequency_ghz + 0.5);
    if (memory.dram) return std::make_unique<Dram>(*memory.dram, frequency);
    return std::make_unique<SimpleMemory>(memory.latency_ns, memory.bandwidth_gbs, frequency);
}

int page_bits(int kib) { return 10 + __builtin_ctz(static_cast<unsigned>(kib)); }

Cache make_cache(const CacheConfiguration& configuration, int next, Random& random) {
    const std::int64_t sets = std::int64_t{configuration.size_kib} * 16 / configuration.associativity;
    Cache cache(sets, configuration.associativity, configuration.mshrs,
                make_replacement_policy(configuration.replacement, configuration.associativity));
    const bool last = next < 0;
    cache.latency = configuration.latency;
    cache.request = configuration.latency + (last ? SYSTEM_REQUEST : CROSSBAR);
    cache.transfer = last ? SYSTEM_RESPONSE : CROSSBAR;
    cache.response = std::max(1, configuration.latency / 2);
    cache.next = next;
    cache.fill_every(configuration.fill_cycles, configuration.set_fill_cycles);
    if (configuration.mshrs > Prefetcher::MSHRS_LEFT)  // else it could never send anything
        cache.prefetcher = make_prefetcher(configuration.prefetcher, random);
    return cache;
}

}  // namespace

Hierarchy::Hierarchy(const Machine& machine)
    : instruction_tlb(machine.tlb),
      data_tlb(machine.tlb, page_bits(machine.tlb.page_kib), machine.zeroed_pages),
      memory(make_memory(machine)),
      ideal_(machine.ideal),
      zeroed_pages_(machine.zeroed_pages),
      walks_caches_(machine.tlb.walks_caches),
      page_lines_(machine.tlb.page_kib * 16),
      small_frames_(machine.frames, page_bits(SMALL_PAGE)),
      large_frames_(machine.frames, page_bits(machine.tlb.page_kib), LARGE_PAGES),
      data_frames_(machine.tlb.page_kib == SMALL_PAGE ? small_frames_ : large_frames_) {
    levels[L1I] = make_cache(machine.l1i, L2, random_);
    levels[L1D] = make_cache(machine.l1d, L2, random_);
    levels[L2] = make_cache(machine.l2, machine.l3 ? L3 : -1, random_);
    if (machine.l3) levels[L3] = make_cache(*machine.l3, -1, random_);
    for (int level = L1I; level < LEVELS; ++level)
        if (levels[level].prefetcher) lowest_prefetcher_ = level;
}

Cycle Hierarchy::access_second(Address address, Cycle cycle, bool write, Address pc, bool timed) {
    const int first = answered_;
    const Cycle before = translated_;
    cycle = translate(L1D, address, cycle, write, timed);
    const Cycle data = access(L1D, data_frames_.physical(address), cycle, write, pc, timed);
    answered_ = std::max(first, answered_);
    translated_ += before;
    return data;
}

// The page table's entries are read as data of their own; returns the cycle in which the last one is there.
Cycle Hierarchy::walk(Tlb& tlb, Address address, Cycle cycle, bool timed) {
    constexpr Address WALKER = 0;  // in place of a program counter
    if (ideal_.data) return cycle + (tlb.knows_table(address) ? 1 : 2) * levels[L1D].latency;
    if (!tlb.knows_table(address)) cycle = access(L1D, tlb.table(address), cycle, false, WALKER, timed);
    return access(L1D, tlb.entry(address), cycle, false, WALKER, timed);
}

// The kernel has written all of the page, in no time of the program's.
void Hierarchy::zero_page(Address address) {
    const Address page = address & ~((Address{page_lines_} << LINE_BITS) - 1);
    const Line first = line_of(data_frames_.physical(page));
    for (Line line = first; line < first + page_lines_; ++line)
        if (!levels[L1D].search(line)) install(L1D, line, Cache::DIRTY, 0, false);
}

// A hit on a line that was prefetched, or whose data may still be on its way. What the miss itself asked for comes first
// (gem5's BaseCache::serviceMSHRTargets); the rest of the line, `PAYLOAD` cycles later.
Cycle Hierarchy::touched(int level, Cache::Place place, Address address, Cycle cycle, std::uint8_t flags, Address pc) {
    Cache& cache = levels[level];
    const bool waits = cache.under_way(place, cycle);
    const Cycle ready = cache.ready(place);
    const Cycle data = std::max(cycle + cache.latency, ready + (waits && !comes_first(level, address) ? PAYLOAD : 0));
    if (ready > cycle + cache.latency) answered_ = cache.source(place);
    if (flags & Cache::PREFETCHED) {
        ++cache.counters.useful;
        ++cache.counters.covered;
        cache.counters.late += waits;
    }
    if (waits) {
        ++cache.counters.merged;
        merge(level, line_of(address), cycle, ready - cache.response);
    }
    if (cache.prefetcher) {
        const int answered = answered_;
        train(cache, {address, pc, level == L1I ? CODE_REQUEST : DATA_REQUEST, cycle, waits});
        send_prefetches();
        answered_ = answered;
    }
    return data;
}

// Puts `line` in the place of another one; a dirty victim moves down, level by level, and a clean one from the instruction
// cache to the level below (gem5's `writeback_clean`, set for it alone): code that the one has lost is recent in the other.
void Hierarchy::install(int level, Line line, std::uint8_t flags, Cycle ready, bool timed) {
    for (;;) {
        Cache& cache = levels[level];
        const Cache::Victim victim = cache.fill(line, flags, ready);
        if (timed && victim.line >= 0 && level <= L1D)
            lost_[level][victim.line & (EVICTED - 1)] = {victim.line, ready, victim.dirty};
        if (victim.line < 0 || !(victim.dirty || level == L1I)) return;
        const std::uint8_t dirty = victim.dirty ? Cache::DIRTY : 0;
        if (timed && level <= L1D) {
            const Cycle sent = ready - cache.response + cache.latency;
            writing_back_ = {sent, sent + CROSSBAR + PAYLOAD};
        }
        if (written_back(level, victim.line, dirty, ready, timed)) return;
        level = cache.next;
        line = victim.line;
        flags = static_cast<std::uint8_t>(dirty | level << Cache::SOURCE_SHIFT);
    }
}

// Gives a line that `level` has lost to what is below; tells whether that has it now, else the next level is to make room.
bool Hierarchy::written_back(int level, Line line, std::uint8_t dirty, Cycle ready, bool timed) {
    ++levels[level].counters.write_backs;
    level = levels[level].next;
    if (level < 0) {
        if (timed) memory->write(line, ready);
        return true;
    }
    Cache& below = levels[level];
    const Cache::Place place = below.search(line);
    if (!place) return false;
    const int kept = below.flags(place) & (Cache::PREFETCHED | Cache::DIRTY);
    below.use(line, place, static_cast<std::uint8_t>(kept | dirty));
    return true;
}

Cycle Hierarchy::unblocked_from(const Cache& cache, Cycle cycle) const {
    for (;;) {
        cycle = cache.mshrs.free_from(cycle);
        if (!cache.crowded.contains(cycle)) return cycle;
        cycle = cache.crowded.end;
    }
}

// Tells whether the miss that the access waits with asked for the same place of the line.
bool Hierarchy::comes_first(int level, Address address) const {
    const Waiting& waiting = waiting_[level][line_of(address) & (MERGING - 1)];
    return waiting.line == line_of(address) && waiting.offset == offset_of(address);
}

// One more access waits for a line that comes at `end`; the last one for which there is room blocks the level.
void Hierarchy::merge(int level, Line line, Cycle cycle, Cycle end) {
    Waiting& waiting = waiting_[level][line & (MERGING - 1)];
    if (waiting.line != line) waiting = {line, 1, 0};
    if (++waiting.count == TARGETS) {
        levels[level].crowded = {cycle, end};
        levels[level].blocked.extend(cycle, end);
    }
}

// Brings a line that `level` misses into it; returns the cycle of its data. Counts in the levels below.
//
// Who has a dirty line passes it on as such to the level that asked for it, and has it clean from then on (gem5's
// Cache::satisfyRequest), except to the instruction cache. That level answers the one above with a clean one, as it has
// waited for the line itself, but to a write or where no time passes.
Cycle Hierarchy::fetch(int level, Line line, Cycle cycle, Cycle held, bool write, bool demand, bool timed) {
    // Down to the level that has it; the cycle from which each level's MSHR is taken is noted on the way.
    int path[LEVELS], depth = 0, source = MEMORY, owner = -1;
    Cycle begins[LEVELS], data = 0;
    for (int where = level;;) {
        Cache& cache = levels[where];
        path[depth] = where;
        if (timed) {
            const Cycle begin = cache.mshrs.free_from(cycle);
            begins[depth] = begin - held;
            held = 0;
            cycle = begin + (where == level && !demand ? 0 : cache.latency);  // what is prefetched is not looked up there
            if (where <= L1D && writing_back_.contains(cycle)) cycle = writing_back_.end;
            cycle += cache.request - cache.latency;
        }
        ++depth;
        where = cache.next;
        if (where < 0) {
            data = timed ? memory->read(line, cycle, demand) : 0;
            break;
        }
        // From here on it is a read like any other, also of what a level above prefetches.
        Cache& below = levels[where];
        ++below.counters.accesses;
        below.counters.from_prefetchers += !demand;
        cycle = accepted_from(below, cycle);
        const Cache::Place place = below.search(line);
        if (place) {
            const bool waits = below.under_way(place, cycle);
            if (below.flags(place) & Cache::PREFETCHED) {
                ++below.counters.useful;
                below.counters.covered += demand;
                below.counters.late += waits;
            }
            const bool passed_on = (below.flags(place) & Cache::DIRTY) && path[depth - 1] != L1I;
            if (passed_on) owner = timed && !write ? path[depth - 1] : level;
            below.use(line, place, passed_on ? 0 : below.flags(place) & Cache::DIRTY);
            data = std::max(cycle + below.latency, below.ready(place));
            source = below.ready(place) > cycle + below.latency ? below.source(place) : where;
            below.counters.merged += waits;
            break;
        }
        ++below.counters.misses;
        below.counters.from_prefetchers_missed += !demand;
    }
    // And back up.
    while (depth-- > 0) {
        const int where = path[depth];
        Cache& cache = levels[where];
        data += cache.transfer;
        if (timed) data = cache.filled(line, data);
        if (timed) {
            const Cycle free = cache.mshrs.book(begins[depth], data);
            if (free > 0) cache.blocked.extend(begins[depth], free);
        }
        data += cache.response;
        int flags = source << Cache::SOURCE_SHIFT;
        if (where == level) flags |= demand ? write : Cache::PREFETCHED;
        if (where == owner) flags |= Cache::DIRTY;
        install(where, line, static_cast<std::uint8_t>(flags), data, timed);
    }
    if (timed && level <= L1D) waiting_[level][line & (MERGING - 1)] = {line, 1, 0};
    answered_ = source;
    return data;
}

void Hierarchy::train(Cache& cache, const PrefetchTrigger& trigger) { cache.prefetcher->train(trigger, cache.queue); }

// Lets the prefetchers below `level` see a request that it sends at `cycle`.
void Hierarchy::look_down(int level, Address address, Cycle cycle, Address pc, int requester, bool demand) {
    for (int where = levels[level].next; where >= 0 && where <= lowest_prefetcher_;) {
        Cache& cache = levels[where];
        const Cache::Place place = cache.search(line_of(address));
        if (cache.prefetcher) {
            const bool missed = !place || cache.under_way(place, cycle);
            cache.queue.now = cycle;
            if (!place && demand) cache.queue.unbooked = true;
            if (missed || (cache.flags(place) & Cache::PREFETCHED)) train(cache, {address, pc, requester, cycle, missed});
        }
        if (place) return;
        cycle += cache.request;
        where = cache.next;
    }
}

// Does what can go of what the prefetchers have queued; below, that is a request like any other.
void Hierarchy::send_prefetches() {
    for (bool again = true; again;) {
        again = false;
        for (int level = L1I; level < LEVELS; ++level) {
            Cache& cache = levels[level];
            const int most = cache.mshrs.size() - Prefetcher::MSHRS_LEFT - cache.queue.unbooked;
            while (!cache.queue.empty() && most > 0) {
                const PrefetchQueue::Entry entry = cache.queue.first();
                if (entry.line < 0 || cache.search(entry.line)) {
                    cache.queue.drop_first();
                    continue;
                }
                const Cycle cycle = cache.mshrs.free_from(most, entry.ready);
                if (cycle > cache.queue.now) break;
                cache.queue.drop_first();
                again = true;
                ++cache.counters.prefetches;
                look_down(level, entry.line << LINE_BITS, cycle + cache.request - cache.latency, entry.pc,
                          PREFETCH_OF_LEVEL + level, false);
                fetch(level, entry.line, cycle, 0, false, false, true);
            }
        }
    }
}

void Hierarchy::touch(int level, Line line, bool write, Seen by) {
    const Address address = line << LINE_BITS;
    Tlb& tlb = level == L1I ? instruction_tlb : data_tlb;
    if (by != Seen::Below) {
        tlb.translate(address);
        tlb.fresh();
        if (walks_caches_ && tlb.walked()) {
            if (!tlb.knows_table(address)) touch_physical(L1D, line_of(tlb.table(address)), false, Seen::ByAll);
            touch_physical(L1D, line_of(tlb.entry(address)), false, Seen::ByAll);
        }
    }
    touch_physical(level, line_of(frames(level).physical(address)), write, by);
}

void Hierarchy::touch_below(Line line) {
    line = line_of(code_frames_.physical(line << LINE_BITS));
    if (!levels[L1I].search(line)) touch_physical(L1I, line, false, Seen::Below);
}

void Hierarchy::touch_physical(int level, Line line, bool write, Seen by) {
    touch_levels(level, by == Seen::Below ? levels[level].next : level, line, write, by == Seen::ByFirst);
    if (by == Seen::ByFirst) return;
    bool wanted = false;
    for (const Cache& cache : levels) wanted |= !cache.queue.empty();
    if (wanted) send_prefetches_at_once();
}

// Levels from `from` on, or that one `alone`, see a touch by the first level `level`. Prefetchers that go by instruction
// cannot learn of it.
void Hierarchy::touch_levels(int level, int from, Line line, bool write, bool alone) {
    const Address address = line << LINE_BITS;
    const int requester = level == L1I ? CODE_REQUEST : DATA_REQUEST;
    bool demand = !alone;
    int asking = -1;  // the level above, which has missed the line
    for (int where = from; where >= 0; where = alone ? -1 : levels[where].next) {
        Cache& cache = levels[where];
        const Cache::Place place = cache.search(line);
        const std::uint8_t flags = !place ? 0 : cache.flags(place);
        if (cache.prefetcher && demand && !cache.prefetcher->by_instruction() && (!place || flags & Cache::PREFETCHED))
            train(cache, {address, address, requester, 0, !place});
        if (place) {
            const bool passed_on = (flags & Cache::DIRTY) && asking > L1I;  // as in `fetch`
            if (passed_on) levels[asking].set_flags(levels[asking].search(line), Cache::DIRTY);
            cache.use(line, place, static_cast<std::uint8_t>((passed_on ? 0 : flags & Cache::DIRTY) | write));
            demand = false;  // the level above asks no further: this one's order changes, its prefetcher sees nothing
        } else {
            const bool taken = alone && level == L1D && take_dirty(cache.next, line);
            const bool dirty = write || taken;
            install(where, line, static_cast<std::uint8_t>(dirty | where << Cache::SOURCE_SHIFT), 0, false);
        }
        asking = place ? -1 : where;
        write = false;
    }
}

// Has `level` a dirty line, it is clean from now on: it has passed it on to the one above, whose miss it saw before.
bool Hierarchy::take_dirty(int level, Line line) {
    if (level < 0) return false;
    const Cache::Place place = levels[level].search(line);
    if (!place || !(levels[level].flags(place) & Cache::DIRTY)) return false;
    levels[level].set_flags(place, static_cast<std::uint8_t>(levels[level].flags(place) & ~Cache::DIRTY));
    return true;
}

bool Hierarchy::learns_misses() const {
    const auto learns = [](const Cache& cache) { return cache.prefetcher && cache.prefetcher->by_instruction(); };
    return !ideal_.data && (learns(levels[L1D]) || learns(levels[L2]));
}

void Hierarchy::learn_miss(Address address, Address pc, bool far) {
    address = data_frames_.physical(address);
    for (const int level : {L1D, L2}) {
        Cache& cache = levels[level];
        if (cache.prefetcher && cache.prefetcher->by_instruction() && (level == L1D || far))
            train(cache, {address, pc, DATA_REQUEST, 0, true});
    }
    send_prefetches_at_once();
}

// Does what the prefetchers have queued, in no time.
void Hierarchy::send_prefetches_at_once() {
    for (bool again = true; again;) {
        again = false;
        for (int level = L1I; level < LEVELS; ++level) {
            Cache& cache = levels[level];
            cache.queue.unbooked = false;
            while (!cache.queue.empty()) {
                const PrefetchQueue::Entry entry = cache.queue.first();
                cache.queue.drop_first();
                if (entry.line < 0 || cache.search(entry.line)) continue;
                again = true;
                look_down(level, entry.line << LINE_BITS, 0, entry.pc, PREFETCH_OF_LEVEL + level, false);
                fetch(level, entry.line, 0, 0, false, false, false);
            }
        }
    }
}

// Finds where the line is, if it is there, after what has waited at a level until `cycle`.
Cache::Place Hierarchy::find_after_prefetches(Cache& cache, Line line, Cycle cycle) {
    cache.queue.now = cycle;
    send_prefetches();
    return cache.search(line);
}

Cycle Hierarchy::missed(int level, Address address, Cycle cycle, Cycle held, bool write, Address pc, bool timed) {
    Cache& cache = levels[level];
    const Line line = line_of(address);
    for (int below = cache.next; below >= 0; below = levels[below].next) levels[below].prefetch(line);
    if (timed) {
        Lost& lost = lost_[level][line & (EVICTED - 1)];
        if (lost.line == line && cycle < lost.from) {  // evicted by what comes later in time
            if (write && !lost.dirty) {  // so it was written back then
                lost.dirty = true;
                const int next = cache.next;
                if (!written_back(level, line, Cache::DIRTY, lost.from, true))
                    install(next, line, static_cast<std::uint8_t>(Cache::DIRTY | next << Cache::SOURCE_SHIFT), lost.from, true);
            }
            answered_ = level;
            return cycle + cache.latency;
        }
    }
    ++cache.counters.misses;
    if (timed) {
        // Prefetches are requested at once, before the miss itself, which has to be looked up first.
        const int requester = level == L1I ? CODE_REQUEST : DATA_REQUEST;
        if (cache.prefetcher) {
            cache.queue.unbooked = true;
            train(cache, {address, pc, requester, cycle, true});
        }
        look_down(level, address, cycle + cache.request, pc, requester, true);
        send_prefetches();
        cache.queue.unbooked = levels[L2].queue.unbooked = levels[L3].queue.unbooked = false;
    }
    const Cycle data = fetch(level, line, cycle, held, write, true, timed);
    if (timed) waiting_[level][line & (MERGING - 1)].offset = offset_of(address);
    return data;
}

}  // namespace perfvec
