// A translation lookaside buffer of 4 KiB pages: by default 64 entries, 8-way with LRU, whose misses cost nothing.
//
// gem5's are fully associative; eight ways come close and are quicker to search. A miss is counted but costs nothing: in
// gem5's system-call emulation the x86 TLB is refilled from the page table without a walk. A machine may say what silicon
// has: a second level, what a hit in it costs, and what a walk costs where it misses too. Caches and memory see virtual
// addresses, as in cachegrind: where a system puts its pages is not known from a trace.
//
// It may also remember all pages: what is stored to a page that was never touched finds it in the cache, as the kernel has
// just zeroed or copied it (Machine::zeroed_pages).
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

#include "machine.hpp"
#include "types.hpp"

namespace perfvec {

class Tlb {
  public:
    // With `remembers` it knows every page that it has translated (`fresh`).
    explicit Tlb(const TlbConfiguration& configuration = {}, bool remembers = false)
        : remembers_(remembers),
          first_(configuration.entries),
          second_(configuration.l2_entries),
          second_latency_(configuration.l2_latency),
          walk_latency_(configuration.walk_latency) {}

    // Cycles until the address is translated, beyond those of a hit.
    Cycle translate(Address address) {
        const std::int64_t page = address >> 12;
        return first_.recent(page) ? 0 : look_up(page);
    }

    // Whether it must see all that is touched, not only the latest.
    bool lasts() const { return remembers_ || !second_.empty(); }

    // Whether the page translated last was never translated before; once.
    bool fresh() { return std::exchange(fresh_, false); }

    std::int64_t misses = 0;

  private:
    class Pages {
      public:
        explicit Pages(int entries) : mask_(std::max(entries / WAYS, 1) - 1), pages_(entries > 0 ? (mask_ + 1) * WAYS : 0, -1) {}

        bool empty() const { return pages_.empty(); }
        bool recent(std::int64_t page) const { return pages_[(page & mask_) * WAYS] == page; }

        // Makes the page the most recent one of its set; returns whether it was there.
        bool use(std::int64_t page) {
            std::int64_t* set = &pages_[(page & mask_) * WAYS];
            int way = 0;
            while (way < WAYS - 1 && set[way] != page) ++way;
            const bool found = set[way] == page;
            std::copy_backward(set, set + way, set + way + 1);
            set[0] = page;
            return found;
        }

      private:
        static constexpr int WAYS = 8;
        std::int64_t mask_;
        std::vector<std::int64_t> pages_;  // the most recent of each set first
    };

    __attribute__((noinline)) Cycle look_up(std::int64_t page) {
        if (first_.use(page)) return 0;
        ++misses;
        if (remembers_) fresh_ = known_.insert(page).second;
        if (second_.empty()) return 0;
        return second_.use(page) ? second_latency_ : second_latency_ + walk_latency_;
    }

    bool remembers_, fresh_ = false;
    std::unordered_set<std::int64_t> known_;
    Pages first_, second_;
    Cycle second_latency_, walk_latency_;
};

}  // namespace perfvec
