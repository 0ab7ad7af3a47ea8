// Any way of a full set, each as likely as another.
#pragma once

#include <cstdint>
#include <vector>

#include "../random.hpp"
#include "replacement_policy.hpp"

namespace perfvec {

class RandomReplacement final : public ReplacementPolicy {
  public:
    RandomReplacement(std::int64_t sets, int ways) : ways_(ways), filled_(sets, 0) {}

    void on_use(std::int64_t /*set*/, int /*way*/) override {}

    int victim(std::int64_t set) override {
        return filled_[set] < ways_ ? filled_[set]++ : static_cast<int>(random_.next() % ways_);
    }

    void prefetch(std::int64_t set) const override { __builtin_prefetch(&filled_[set]); }

  private:
    int ways_;
    std::vector<std::uint8_t> filled_;  // [sets] ways that hold a line
    Random random_{0x2545F491};
};

}  // namespace perfvec
