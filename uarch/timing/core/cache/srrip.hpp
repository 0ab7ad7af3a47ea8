// Static re-reference interval prediction with priority for hits (Jaleel et al., ISCA 2010, section 4.1), of two bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "replacement_policy.hpp"

namespace perfvec {

// A new line is expected later than one that was hit, so that a scan pushes out little else.
class Srrip final : public ReplacementPolicy {
  public:
    Srrip(std::int64_t sets, int ways) : ways_(ways), interval_(sets * ways, DISTANT) {}

    void on_use(std::int64_t set, int way) override { interval_[set * ways_ + way] = NEAR; }
    void on_fill(std::int64_t set, int way) override { interval_[set * ways_ + way] = DISTANT - 1; }

    int victim(std::int64_t set) override {
        const auto begin = interval_.begin() + set * ways_, end = begin + ways_;
        const auto found = std::max_element(begin, end);
        if (const int older = DISTANT - *found; older > 0)
            std::for_each(begin, end, [=](std::uint8_t& each) { each = static_cast<std::uint8_t>(each + older); });
        return static_cast<int>(found - begin);
    }

    void prefetch(std::int64_t set) const override { __builtin_prefetch(&interval_[set * ways_]); }

  private:
    static constexpr std::uint8_t NEAR = 0, DISTANT = 3;
    int ways_;
    std::vector<std::uint8_t> interval_;  // [sets * ways] until the line is expected to be used again
};

}  // namespace perfvec
