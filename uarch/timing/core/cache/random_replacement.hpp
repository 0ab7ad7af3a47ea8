// Any way of a full set, each as likely as another.
#pragma once

#include "../random.hpp"
#include "replacement_policy.hpp"

namespace perfvec {

class RandomReplacement final : public ReplacementPolicy {
  public:
    explicit RandomReplacement(int ways) : ways_(ways) {}

    int bytes() const override { return 1; }  // the ways that hold a line

    void on_use(std::uint8_t* /*set*/, int /*way*/) override {}

    int victim(std::uint8_t* filled) override {
        return *filled < ways_ ? (*filled)++ : static_cast<int>(random_.next() % ways_);
    }

  private:
    int ways_;
    Random random_{0x2545F491};
};

}  // namespace perfvec
