// The data cache's one answer a cycle: of several, only the first reaches the core in time.
//
// gem5 sends the others one tick (of 1 ps) later each, which is after the core's own turn in that cycle. The caches of a
// real family answer as many as the core has ports.
#pragma once

#include <array>

#include "../types.hpp"

namespace perfvec {

class ResponsePort {
  public:
    explicit ResponsePort(bool several) : several_(several) { last_.fill(-1); }

    // The cycle in which the core has what the cache answers at `cycle`.
    Cycle answered(Cycle cycle) {
        if (several_) return cycle;
        Cycle& last = last_[cycle & (CYCLES - 1)];
        if (last == cycle) return cycle + 1;
        last = cycle;
        return cycle;
    }

    // Another answer comes in that cycle.
    bool taken(Cycle cycle) const { return !several_ && last_[cycle & (CYCLES - 1)] == cycle; }

  private:
    static constexpr int CYCLES = 4096;

    bool several_;
    std::array<Cycle, CYCLES> last_;
};

}  // namespace perfvec
