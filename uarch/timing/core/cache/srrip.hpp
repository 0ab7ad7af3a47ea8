// Static re-reference interval prediction with priority for hits (Jaleel et al., ISCA 2010, section 4.1), of two bits.
#pragma once

#include <algorithm>

#include "replacement_policy.hpp"

namespace perfvec {

// A new line is expected later than one that was hit, so that a scan pushes out little else. A byte a way: the interval
// until the line is expected to be used again.
class Srrip final : public ReplacementPolicy {
  public:
    explicit Srrip(int ways) : ways_(ways) {}

    int bytes() const override { return ways_; }
    void clear(std::uint8_t* interval) const override { std::fill_n(interval, ways_, DISTANT); }

    void on_use(std::uint8_t* interval, int way) override { interval[way] = NEAR; }
    void on_fill(std::uint8_t* interval, int way) override { interval[way] = DISTANT - 1; }

    int victim(std::uint8_t* interval) override {
        std::uint8_t *const end = interval + ways_, *const found = std::max_element(interval, end);
        if (const int older = DISTANT - *found; older > 0)
            std::for_each(interval, end, [=](std::uint8_t& each) { each = static_cast<std::uint8_t>(each + older); });
        return static_cast<int>(found - interval);
    }

  private:
    static constexpr std::uint8_t NEAR = 0, DISTANT = 3;
    int ways_;
};

}  // namespace perfvec
