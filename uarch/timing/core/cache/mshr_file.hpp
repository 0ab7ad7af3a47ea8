// The misses that a cache has under way (Kroft, ISCA 1981), and when there is room for one more.
//
// Accesses come in program order, not in the order of time: a miss may begin before others that are booked already. So
// the file keeps the intervals of EARLIER more misses than can be under way. What comes beyond these displaces the miss
// that is done first; nothing begins before a displaced one was done, so that none is forgotten while it matters.
//
// The misses are kept in the order of their ends, so that a search looks only at those that are not done: a few, mostly.
#pragma once

#include <algorithm>
#include <vector>

#include "../types.hpp"

namespace perfvec {

class MshrFile {
  public:
    static constexpr int EARLIER = 32;

    explicit MshrFile(int mshrs);
    MshrFile(MshrFile&&) = default;  // the run of memory stays where it is
    MshrFile& operator=(MshrFile&&) = default;

    int size() const { return mshrs_; }

    // Counts those that are taken in a cycle.
    int occupied(Cycle cycle) const;

    // First cycle from `cycle` on in which fewer than `most` (at least 1) are taken.
    Cycle free_from(int most, Cycle cycle) const {
        cycle = std::max(cycle, forgotten_);
        return cycle >= last_end() ? cycle : search_free(most, cycle);  // mostly none is taken
    }
    Cycle free_from(Cycle cycle) const { return free_from(mshrs_, cycle); }

    // A miss from `begin`, when an MSHR is free, to `end`. Returns until when all may be taken then, 0 where not all are.
    //
    // It goes before misses that begin later, booked already. They are known to be done as they are; but in the file the
    // first of them that it leaves without an MSHR begins when one is free, and so on, so that what comes next waits.
    Cycle book(Cycle begin, Cycle end);

  private:
    struct Miss {
        Cycle begin, end;
        int entry;  // of the file; of misses that begin or end at the same time the lowest goes first
        bool ends_before(const Miss& other) const { return end != other.end ? end < other.end : entry < other.entry; }
    };

    Cycle last_end() const { return latest_[-1].end; }

    // The first of the misses booked that would find no MSHR if one more had it from `begin` to `end`, or nullptr.
    Miss* crowded_out(Cycle begin, Cycle end);
    Cycle search_free(int most, Cycle cycle) const;
    void put_in_order(Miss* miss);

    int mshrs_, entries_;
    std::vector<Miss> misses_;  // by their ends, in a run of memory that slides
    Miss* latest_;              // behind the last one
    Cycle forgotten_ = 0;       // the end of what has been displaced
};

}  // namespace perfvec
