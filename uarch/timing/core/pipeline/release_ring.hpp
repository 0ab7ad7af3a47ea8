// The cycles from which entries that are handed out in order are free again: reorder buffer, queues, registers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "../types.hpp"

namespace perfvec {

// Holds the release cycle of the latest entries handed out, in one run of memory that slides: when its end is reached, what
// is still asked for moves to the front. So entries lie side by side, and the usual few are booked without a loop or a
// condition: what is written beyond `count` is written again before it is read.
class ReleaseRing {
  public:
    static constexpr int USUAL = 4;  // entries booked at a time, at most
    static constexpr int ROOM = 32;  // usual bookings between two calls of `make_room`

    ReleaseRing(std::int64_t entries, Cycle free_at)
        : entries_(entries),
          release_(static_cast<std::size_t>(entries + 2 * KEPT_FREE), free_at),
          next_(release_.data() + entries) {}
    ReleaseRing(const ReleaseRing&) = delete;
    ReleaseRing& operator=(const ReleaseRing&) = delete;

    std::int64_t entries() const { return entries_; }
    std::int64_t handed_out() const { return before_ + (next_ - release_.data()) - entries_; }

    // Cycle of the release after which `wanted` more entries are there, of all entries at most.
    Cycle released(std::int64_t wanted) const { return next_[std::max<std::int64_t>(wanted, 1) - 1 - entries_]; }

    // Entries that are free at `cycle`.
    std::int64_t free_at(Cycle cycle) const {
        return std::upper_bound(next_ - entries_, next_, cycle) - (next_ - entries_);
    }

    // Slides if need be, so that ROOM bookings of USUAL entries need not look.
    void make_room() {
        if (next_ + KEPT_FREE > release_.data() + release_.size()) slide();
    }

    // `count` more entries, released at `cycle`.
    void book(std::int64_t count, Cycle cycle) {
        for (int entry = 0; entry < USUAL; ++entry) next_[entry] = cycle;
        if (__builtin_expect(count > USUAL, 0)) return book_many(count, cycle);
        next_ += count;
    }

    // One more entry, whose release is not known yet.
    void hand_out() {
        make_room();
        ++next_;
    }

    // By the entry's running number.
    Cycle& release(std::int64_t entry) { return next_[entry - handed_out()]; }
    Cycle release(std::int64_t entry) const { return next_[entry - handed_out()]; }

  private:
    static constexpr std::int64_t KEPT_FREE = ROOM * USUAL + USUAL;

    __attribute__((noinline)) void book_many(std::int64_t count, Cycle cycle) {
        for (; count > 0; --count) {
            *next_++ = cycle;
            make_room();
        }
    }

    void slide() {
        std::copy(next_ - entries_, next_, release_.data());
        before_ += next_ - release_.data() - entries_;
        next_ = release_.data() + entries_;
    }

    std::int64_t entries_;
    std::int64_t before_ = 0;  // handed out before the run of memory begins
    std::vector<Cycle> release_;
    Cycle* next_;  // the entry handed out next
};

}  // namespace perfvec
