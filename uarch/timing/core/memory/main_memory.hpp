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
    // time.
    virtual Cycle read(Line line, Cycle cycle) = 0;

    // Nobody waits for a write.
    virtual void write(Line line, Cycle cycle) = 0;

    MemoryCounters counters;
};

}  // namespace perfvec
