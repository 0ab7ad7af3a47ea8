// Stride prefetching (Fu, Patel & Janssens, MICRO 1992) with gem5's defaults: 16 sets of 4 entries by program counter for
// each requester, degree 4, a 3-bit confidence that starts at 4 and must be at least half. It steps by the latest stride.
#pragma once

#include <algorithm>
#include <array>

#include "prefetcher.hpp"

namespace perfvec {

class StridePrefetcher final : public Prefetcher {
  public:
    explicit StridePrefetcher(Random& random) : random_(random) {}

    bool by_instruction() const override { return true; }

    bool sees(const PrefetchTrigger& trigger) const override {
        return !(trigger.requester == CODE_REQUEST && trigger.missed);  // it does not see instruction fetches
    }

    void observe(const PrefetchTrigger& trigger, PrefetchQueue& queue) override {
        Set& set = tables_[trigger.requester][((trigger.pc >> 1) ^ (trigger.pc >> 5)) & (SETS - 1)];
        Entry* entry = nullptr;
        Entry* empty = nullptr;
        for (Entry& candidate : set) {
            if (candidate.pc == trigger.pc)
                entry = &candidate;
            else if (candidate.pc == -1)
                empty = &candidate;
        }
        if (entry == nullptr) {
            entry = empty != nullptr ? empty : &set[random_.next() & (WAYS - 1)];
            *entry = {trigger.pc, trigger.address, 0, START};
            return;
        }
        Address step = trigger.address - entry->last;  // both are from 0 on
        entry->last = trigger.address;
        if (step == entry->step && step != 0) {
            entry->confidence = std::min(entry->confidence + 1, HIGHEST);
        } else {
            entry->confidence = std::max(entry->confidence - 1, 0);
            if (entry->confidence < NEEDED) entry->step = step;
        }
        if (entry->confidence < NEEDED) return;
        if (-64 < step && step < 64) step = step < 0 ? -64 : 64;
        for (int ahead = 1; ahead <= DEGREE; ++ahead)
            queue.want(trigger, line_of(ahead_of(trigger.address, step, ahead)), ahead);
    }

  private:
    // Far steps may go round the address space.
    static Address ahead_of(Address address, Address step, int times) {
        return static_cast<Address>(static_cast<std::uint64_t>(address) +
                                    static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(times));
    }

    static constexpr int DEGREE = 4, SETS = 16, WAYS = 4, START = 4, HIGHEST = 7, NEEDED = 4;
    struct Entry {
        Address pc = -1, last = -1, step = -1;
        int confidence = -1;
    };
    using Set = std::array<Entry, WAYS>;

    Random& random_;
    std::array<std::array<Set, SETS>, REQUESTERS> tables_;
};

}  // namespace perfvec
