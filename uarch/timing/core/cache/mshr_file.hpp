// The misses that a cache has under way (Kroft, ISCA 1981), and when there is room for one more.
//
// Accesses come in program order, not in the order of time: a miss may begin before others that are booked already. So
// the file keeps the intervals of EARLIER more misses than can be under way. What comes beyond these displaces the miss
// that is done first; nothing begins before a displaced one was done, so that none is forgotten while it matters.
#pragma once

#include <algorithm>
#include <vector>

#include "../types.hpp"

namespace perfvec {

class MshrFile {
  public:
    static constexpr int EARLIER = 32;

    explicit MshrFile(int mshrs) : mshrs_(mshrs), entries_(mshrs + EARLIER), begin_(entries_, 0), end_(entries_, 0) {}

    int size() const { return mshrs_; }

    // How many are taken in a cycle.
    int occupied(Cycle cycle) const;

    // First cycle from `cycle` on in which fewer than `most` (at least 1) are taken.
    Cycle free_from(int most, Cycle cycle) const {
        cycle = std::max(cycle, forgotten_);
        return cycle >= last_end_ ? cycle : search_free(most, cycle);  // mostly none is taken
    }
    Cycle free_from(Cycle cycle) const { return free_from(mshrs_, cycle); }

    // A miss from `begin`, when an MSHR is free, to `end`. Returns until when all may be taken then, 0 where not all are.
    //
    // It goes before misses that begin later, booked already. They are known to be done as they are; but in the file the
    // first of them that it leaves without an MSHR begins when one is free, and so on, so that what comes next waits.
    Cycle book(Cycle begin, Cycle end);

  private:
    // The first of the misses booked that would find no MSHR if one more had it from `begin` to `end`, or -1.
    int crowded_out(Cycle begin, Cycle end) const;
    Cycle search_free(int most, Cycle cycle) const;

    int mshrs_, entries_;
    std::vector<Cycle> begin_, end_;
    Cycle forgotten_ = 0;  // the end of what has been displaced
    Cycle last_end_ = 0;   // the latest end so far
};

}  // namespace perfvec
