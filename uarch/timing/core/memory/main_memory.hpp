// The contract of the main memory behind the last cache.
//
// To add a kind: one header beside this one that implements the class (simple_memory.hpp is the smallest), and a line in
// make_memory (hierarchy.cpp).
#pragma once

#include <cstdint>

#include "../types.hpp"

namespace perfvec {

struct MemoryCounters {
    std::int64_t reads = 0, writes = 0;         // lines
    std::int64_t row_hits = 0, row_misses = 0;  // lines whose first burst found their row open, or not
};

class MainMemory {
  public:
    virtual ~MainMemory() = default;

    // Cycle at which a line asked for at `cycle` has left the memory. Requests come in program order, not in the order of
    // time. `awaited`: the program asks for it, not a prefetcher.
    virtual Cycle read(Line line, Cycle cycle, bool awaited) = 0;

    // Nobody waits for a write.
    virtual void write(Line line, Cycle cycle) = 0;

    // At `cycle`, so much of a refresh interval, of [0, 1), has passed since the last one began.
    virtual void set_refresh(Cycle, double) {}

    // Cycles that awaited reads waited for refreshes so far, of each refresh the first one, less their expectation over
    // the times at which refreshes might have begun.
    virtual double refresh_surplus() const { return 0; }

    MemoryCounters counters;
};

}  // namespace perfvec
