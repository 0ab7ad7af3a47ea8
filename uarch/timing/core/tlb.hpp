// A translation lookaside buffer: by default 64 entries of 4 KiB pages, 8-way with LRU, whose misses cost nothing.
//
// gem5's are fully associative; eight ways come close and are quicker to search. A miss is counted but costs nothing: in
// gem5's system-call emulation the x86 TLB is refilled from the page table without a walk. A machine may say what silicon
// has: a second level, what a hit in it costs, and what a walk costs where it misses too. A walk may read the page table
// through the caches (`walk`): the entry of the page, and before it the entry of its table, which the 32 tables used last
// do not need (paging-structure caches; Intel, Software Developer's Manual, volume 3).
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
    explicit Tlb(const TlbConfiguration& configuration = {}, int page_bits = 12, bool remembers = false)
        : remembers_(remembers),
          page_bits_(page_bits),
          first_(configuration.entries),
          second_(configuration.l2_entries),
          second_latency_(configuration.l2_latency),
          walk_latency_(configuration.walk_latency) {}

    // Cycles until the address is translated, beyond those of a hit.
    Cycle translate(Address address) {
        const std::int64_t page = address >> page_bits_;
        return first_.recent(page) ? 0 : look_up(page);
    }

    // Tells whether the page translated last was never translated before; once.
    bool fresh() { return std::exchange(fresh_, false); }

    // Tells whether the page translated last needed a walk; once.
    bool walked() { return std::exchange(walked_, false); }

    // Physical addresses of what a walk reads: the page's entry, and its table's; whether the latter is known.
    Address entry(Address address) const { return TABLES + (address >> page_bits_) * ENTRY; }
    Address table(Address address) const { return UPPER_TABLES + (address >> (page_bits_ + TABLE_BITS)) * ENTRY; }
    bool knows_table(Address address) { return tables_.use(address >> (page_bits_ + TABLE_BITS)); }

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
        if (second_.use(page)) return second_latency_;
        walked_ = true;
        return second_latency_ + walk_latency_;
    }

    static constexpr int ENTRY = 8, TABLE_BITS = 9;  // bytes of an entry, 2^9 in a table
    static constexpr Address TABLES = Address{1} << 50, UPPER_TABLES = Address{1} << 51;  // beyond what programs address

    bool remembers_, fresh_ = false, walked_ = false;
    int page_bits_;
    std::unordered_set<std::int64_t> known_;
    Pages first_, second_, tables_{32};
    Cycle second_latency_, walk_latency_;
};

}  // namespace perfvec
