// A data bus as a window of equal slots of one line each, for requests that do not come in the order of time.
#pragma once

#include <vector>

#include "../types.hpp"

namespace perfvec {

class Bus {
  public:
    Bus() : taken_(SLOTS, -1) {}

    // The first free slot from `slot` on; takes it.
    std::int64_t take(std::int64_t slot) {
        while (taken_[slot & (SLOTS - 1)] == slot) ++slot;
        taken_[slot & (SLOTS - 1)] = slot;
        return slot;
    }

    void mark(std::int64_t slot) { taken_[slot & (SLOTS - 1)] = slot; }

  private:
    static constexpr int SLOTS = 4096;
    std::vector<std::int64_t> taken_;  // number of the slot last taken in each place
};

}  // namespace perfvec
