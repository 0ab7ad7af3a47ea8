// The cache hierarchy: set-associative, write-back, write-allocate, mostly inclusive; 64-byte lines.
//
// A miss installs its line at once with the future cycle of its data: a later access to the same line before that is what
// a merged MSHR target would be (Kroft, ISCA 1981). A miss that finds all MSHRs of a level occupied at its time waits for
// the first that is free.
//
// Accesses come in program order, not in the order of time: a store that evicts a line when it has retired is seen before
// younger loads that ran ahead of it. So an L1 remembers from when on the lines it has lost lately are gone.
//
// Latencies follow gem5's classic caches: tag and data together `latency`, response half of it (at least 1), a crossbar of
// one cycle and two cycles of payload between levels, its system crossbar before memory.
#pragma once

#include <array>
#include <memory>

#include "../instruction.hpp"
#include "../machine.hpp"
#include "../random.hpp"
#include "../tlb.hpp"
#include "cache.hpp"

namespace perfvec {

class Hierarchy {
  public:
    explicit Hierarchy(const Machine& machine);

    // The data cache's access to `size` bytes, which may lie on two lines; returns when the data are there. Without `timed`
    // only contents and counts change (fast-forward).
    Cycle access_data(Address address, std::int64_t size, Cycle cycle, bool write, Address pc, bool timed = true) {
        if (ideal_.data) {
            answered_ = L1D;
            translated_ = 0;
            return cycle + levels[L1D].latency;
        }
        const Cycle begin = translate(L1D, address, cycle, write, timed);
        Cycle data = access(L1D, data_frames_.physical(address), begin, write, pc, timed);
        const Address second = ((address + size - 1) >> LINE_BITS) << LINE_BITS;
        if (second > address) data = std::max(data, access_second(second, begin, write, pc, timed));
        return data;
    }

    // The instruction cache's access to a line.
    Cycle access_code(Line line, Cycle cycle, Address pc, bool timed = true) {
        if (ideal_.instructions) {
            answered_ = L1I;
            translated_ = 0;
            return cycle + levels[L1I].latency;
        }
        const Address address = line << LINE_BITS;
        cycle = translate(L1I, address, cycle, false, timed);
        return access(L1I, code_frames_.physical(address), cycle, false, pc, timed);
    }

    // An access of an L1 to a line that takes no time, with what prefetchers make of it.
    void touch(int level, Line line, bool write, Seen by);

    // A line of code that was fetched beyond the one in use: the levels below the first one have it, unless that does.
    void touch_below(Line line);

    // Data that the instruction at `pc` found neither in L1D nor, where they are `far`, in L2: prefetchers by instruction
    // learn from it, in no time.
    void learn_miss(Address address, Address pc, bool far);
    bool learns_misses() const;  // whether there is such a prefetcher

    // A line that will be touched soon: asks the host for its sets in the levels that do not stay in its first caches, and
    // for those that a prefetcher there will want next.
    void prepare(int level, Line line) {
        line = line_of(frames(level).physical(line << LINE_BITS));
        const Line last = line + (levels[L2].prefetcher ? 2 : 0);
        for (; line <= last; ++line)
            for (int where = L2; where >= 0; where = levels[where].next) levels[where].prefetch(line);
    }

    // The level that an access to a line of code would find it in.
    int holder_of_code(Line line) {
        line = line_of(code_frames_.physical(line << LINE_BITS));
        int level = L1I;
        while (level >= 0 && !levels[level].search(line)) level = levels[level].next;
        return level < 0 ? MEMORY : level;
    }

    // Cycles of an access of `level` that `source` answers, where nothing else is under way; not of main memory.
    Cycle unhindered(int level, int source) const {
        Cycle cycles = levels[source].latency;
        for (; level != source; level = levels[level].next)
            cycles += levels[level].request + levels[level].transfer + levels[level].response;
        return cycles;
    }

    // Where the data of the last access came from.
    int answered() const { return answered_; }

    // Cycles that the last access waited for its address to be translated.
    Cycle translated() const { return translated_; }

    std::array<Cache, LEVELS> levels;
    Tlb instruction_tlb, data_tlb;
    std::unique_ptr<MainMemory> memory;

  private:
    static constexpr int TARGETS = 16;   // accesses that one MSHR serves (tgts_per_mshr of gem5's configurations)
    static constexpr int MERGING = 64;   // lines whose waiting accesses are counted
    static constexpr int EVICTED = 256;  // lines remembered of each L1
    static constexpr Cycle LOAD_RETRY = 3;  // a load that a blocked cache refuses goes back to the issue queue (gem5's O3)

    // One access to the line of `address` by an L1 cache at `cycle`; returns when its data is there.
    Cycle access(int level, Address address, Cycle cycle, bool write, Address pc, bool timed) {
        Cache& cache = levels[level];
        ++cache.counters.accesses;
        const Cycle accepted = accepted_from(cache, cycle);
        Cycle held = 0;  // so long before its miss begins its MSHR is its own
        if (accepted > cycle && level == L1D && !write) held = LOAD_RETRY;
        cycle = accepted + held;
        const Line line = line_of(address);
        Cache::Place place = cache.find(line);
        if (!place && timed && !cache.queue.empty()) place = find_after_prefetches(cache, line, cycle);
        if (!place) return missed(level, address, cycle, held, write, pc, timed);
        const std::uint8_t flags = cache.flags(place);
        cache.use(line, place, static_cast<std::uint8_t>((flags & Cache::DIRTY) | write));
        answered_ = level;
        const bool waits = cache.under_way(place, cycle);
        if (timed && (waits || (flags & Cache::PREFETCHED)))
            return touched(level, place, address, cycle, flags, pc);
        cache.counters.merged += waits;
        return std::max(cycle + cache.latency, cache.ready(place));
    }

    // The cycle in which an access of an L1 at `cycle` knows its physical address.
    Cycle translate(int level, Address address, Cycle cycle, bool write, bool timed) {
        Tlb& tlb = level == L1I ? instruction_tlb : data_tlb;
        const Cycle began = cycle, looked_up = tlb.translate(address);
        if (timed) cycle += looked_up;
        if (walks_caches_ && tlb.walked()) cycle = walk(tlb, address, cycle, timed);
        translated_ = cycle - began;
        if (zeroed_pages_ && level == L1D && data_tlb.fresh() && write) zero_page(address);
        return cycle;
    }
    Frames& frames(int level) { return level == L1I ? code_frames_ : data_frames_; }

    Cycle walk(Tlb& tlb, Address address, Cycle cycle, bool timed);
    Cycle access_second(Address address, Cycle cycle, bool write, Address pc, bool timed);
    Cycle touched(int level, Cache::Place place, Address address, Cycle cycle, std::uint8_t flags, Address pc);
    Cycle missed(int level, Address address, Cycle cycle, Cycle held, bool write, Address pc, bool timed);
    void touch_physical(int level, Line line, bool write, Seen by);
    void touch_levels(int level, int from, Line line, bool write, bool alone);
    bool take_dirty(int level, Line line);
    Cycle fetch(int level, Line line, Cycle cycle, Cycle held, bool write, bool demand, bool timed);
    void zero_page(Address address);
    void install(int level, Line line, std::uint8_t flags, Cycle ready, bool timed);
    bool written_back(int level, Line line, std::uint8_t dirty, Cycle ready, bool timed);
    void look_down(int level, Address address, Cycle cycle, Address pc, int requester, bool demand);
    void train(Cache& cache, const PrefetchTrigger& trigger);
    void send_prefetches_at_once();
    void send_prefetches();
    Cache::Place find_after_prefetches(Cache& cache, Line line, Cycle cycle);
    bool comes_first(int level, Address address) const;
    void merge(int level, Line line, Cycle cycle, Cycle end);

    // First cycle from `cycle` on at which the level takes a request.
    Cycle accepted_from(const Cache& cache, Cycle cycle) const {
        return cache.blocked.contains(cycle) ? unblocked_from(cache, cycle) : cycle;
    }
    Cycle unblocked_from(const Cache& cache, Cycle cycle) const;

    struct Waiting {  // accesses that wait for a line which comes to an L1
        Line line = -1;
        std::int64_t count = -1;
        Address offset = 0;  // of what the miss asked for
    };
    struct Lost {  // a line that an L1 has lost, the cycle from which on, and whether it was written back
        Line line = -1;
        Cycle from = -1;
        bool dirty = false;
    };
    Ideal ideal_;
    bool zeroed_pages_, walks_caches_;
    int page_lines_;  // of a data page
    // One for both where pages are of one size: constants are read from pages of code.
    Frames small_frames_, large_frames_;
    Frames &code_frames_ = small_frames_, &data_frames_;
    int lowest_prefetcher_ = -1;  // the level of the last one, -1 where there is none
    int answered_ = L1D;
    Cycle translated_ = 0;
    std::array<std::array<Waiting, MERGING>, 2> waiting_;
    std::array<std::array<Lost, EVICTED>, 2> lost_;
    TimeSpan writing_back_;  // in which the last line that left an L1 passes the crossbar
    Random random_{0x2545F491};  // one for the stride prefetchers of all levels
};

}  // namespace perfvec
