// True least recently used.
#pragma once

#include <vector>

#include "replacement_policy.hpp"

namespace perfvec {

class Lru final : public ReplacementPolicy {
  public:
    Lru(std::int64_t sets, int ways) : ways_(ways), order_(sets * ways) {
        for (std::int64_t place = 0; place < sets * ways; ++place)  // the first way was used before all others
            order_[place] = static_cast<std::uint8_t>(ways - 1 - place % ways);
    }

    void on_use(std::int64_t set, int way) override {
        std::uint8_t* order = &order_[set * ways_];
        for (auto later = static_cast<std::uint8_t>(way);; ++order) {  // those used later move back by one
            const std::uint8_t here = *order;
            *order = later;
            if (here == way) return;
            later = here;
        }
    }

    int victim(std::int64_t set) override { return order_[set * ways_ + ways_ - 1]; }

    void prefetch(std::int64_t set) const override { __builtin_prefetch(&order_[set * ways_]); }

  private:
    int ways_;
    std::vector<std::uint8_t> order_;  // [sets * ways] the ways of each set, the one used last first
};

}  // namespace perfvec
