// A translation lookaside buffer: 64 entries, 8-way with LRU, 4 KiB pages.
//
// gem5's are fully associative; eight ways come close and are quicker to search. A miss is counted but costs nothing: in
// gem5's system-call emulation the x86 TLB is refilled from the page table without a walk. Caches and memory see virtual
// addresses, as in cachegrind: where a system puts its pages is not known from a trace.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "types.hpp"

namespace perfvec {

class Tlb {
  public:
    Tlb() { pages_.fill(-1); }

    void translate(Address address) {
        const std::int64_t page = address >> 12;
        std::int64_t* set = &pages_[(page & (SETS - 1)) * WAYS];
        if (set[0] != page) look_up(set, page);
    }

    std::int64_t misses = 0;

  private:
    static constexpr int WAYS = 8, SETS = 8;

    void look_up(std::int64_t* set, std::int64_t page) {
        int way = 1;  // it is not the most recent one
        while (way < WAYS - 1 && set[way] != page) ++way;
        misses += set[way] != page;
        std::copy_backward(set, set + way, set + way + 1);
        set[0] = page;
    }

    std::array<std::int64_t, WAYS * SETS> pages_;  // the most recent of each set first
};

}  // namespace perfvec
