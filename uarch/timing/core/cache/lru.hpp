// True least recently used.
#pragma once

#include <vector>

#include "replacement_policy.hpp"

namespace perfvec {

class Lru final : public ReplacementPolicy {
  public:
    Lru(std::int64_t sets, int ways) : ways_(ways), last_use_(sets * ways, 0) {}

    void on_use(std::int64_t set, int way) override { last_use_[set * ways_ + way] = ++clock_; }

    int victim(std::int64_t set) override {
        const std::int64_t* uses = &last_use_[set * ways_];
        int oldest = 0;
        for (int way = 1; way < ways_; ++way) oldest = uses[way] < uses[oldest] ? way : oldest;
        return oldest;
    }

  private:
    int ways_;
    std::int64_t clock_ = 0;
    std::vector<std::int64_t> last_use_;  // [sets * ways]
};

}  // namespace perfvec
