// When the entries of a structure that are handed out in order are free again: reorder buffer, queues, registers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "../types.hpp"

namespace perfvec {

// Holds the release cycle of the latest entries handed out. There is room for SPARE entries more than the structure has,
// so that the usual few are booked without a loop: what is written beyond them is written again before it is read.
class ReleaseRing {
  public:
    static constexpr int SPARE = 4;

    ReleaseRing(std::int64_t entries, Cycle free_at) : entries_(entries) {
        std::size_t size = 1;
        while (size < static_cast<std::size_t>(entries + SPARE)) size *= 2;
        release_.assign(size, free_at);
        mask_ = static_cast<std::int64_t>(size) - 1;
    }

    std::int64_t entries() const { return entries_; }
    std::int64_t handed_out() const { return handed_out_; }
    std::int64_t slots() const { return mask_ + 1; }

    // Cycle of the release after which `wanted` more entries are there.
    Cycle released(std::int64_t wanted) const {
        return release_[(handed_out_ + std::min(wanted, entries_) - 1 - entries_) & mask_];
    }

    // `count` more entries, released at `cycle`.
    void book(std::int64_t count, Cycle cycle) {
        for (int entry = 0; entry < SPARE; ++entry) release_[(handed_out_ + entry) & mask_] = cycle;
        for (std::int64_t entry = SPARE; entry < count; ++entry) release_[(handed_out_ + entry) & mask_] = cycle;
        handed_out_ += count;
    }

    // One more entry, whose release is not known yet.
    void hand_out() { ++handed_out_; }

    // By the entry's running number.
    Cycle& release(std::int64_t entry) { return release_[entry & mask_]; }
    Cycle release(std::int64_t entry) const { return release_[entry & mask_]; }

  private:
    std::int64_t entries_, mask_ = 0, handed_out_ = 0;
    std::vector<Cycle> release_;
};

}  // namespace perfvec
