// When the entries of a structure that are handed out in order are free again: reorder buffer, queues, registers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "../types.hpp"

namespace perfvec {

// Holds the release cycle of the latest entries handed out, in one run of memory that slides: when its end is reached, what
// is still asked for moves to the front. So entries lie side by side, and the usual few are booked without a loop: what is
// written beyond `count` is written again before it is read.
class ReleaseRing {
  public:
    ReleaseRing(std::int64_t entries, Cycle free_at)
        : entries_(entries),
          room_(std::max<std::int64_t>(4 * entries, 512)),
          release_(static_cast<std::size_t>(entries + room_ + SPARE), free_at),
          next_(release_.data() + entries) {}
    ReleaseRing(const ReleaseRing&) = delete;
    ReleaseRing& operator=(const ReleaseRing&) = delete;

    std::int64_t entries() const { return entries_; }
    std::int64_t handed_out() const { return before_ + (next_ - release_.data()) - entries_; }

    // Cycle of the release after which `wanted` more entries are there.
    Cycle released(std::int64_t wanted) const { return next_[std::min(wanted, entries_) - 1 - entries_]; }

    // `count` more entries, released at `cycle`.
    void book(std::int64_t count, Cycle cycle) {
        for (int entry = 0; entry < SPARE; ++entry) next_[entry] = cycle;
        if (__builtin_expect(count > SPARE, 0)) {
            while (count > SPARE) {
                *next_ = cycle;
                hand_out();
                --count;
            }
            for (int entry = 0; entry < SPARE; ++entry) next_[entry] = cycle;
        }
        next_ += count;
        if (__builtin_expect(next_ >= release_.data() + entries_ + room_, 0)) slide();
    }

    // One more entry, whose release is not known yet.
    void hand_out() {
        ++next_;
        if (next_ >= release_.data() + entries_ + room_) slide();
    }

    // By the entry's running number.
    Cycle& release(std::int64_t entry) { return next_[entry - handed_out()]; }
    Cycle release(std::int64_t entry) const { return next_[entry - handed_out()]; }

  private:
    static constexpr int SPARE = 4;

    void slide() {
        std::copy(next_ - entries_, next_, release_.data());
        before_ += next_ - release_.data() - entries_;
        next_ = release_.data() + entries_;
    }

    std::int64_t entries_, room_;
    std::int64_t before_ = 0;  // handed out before the run of memory begins
    std::vector<Cycle> release_;
    Cycle* next_;  // the entry handed out next
};

}  // namespace perfvec
