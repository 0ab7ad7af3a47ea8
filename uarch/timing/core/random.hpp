// A sequence of 31-bit numbers (xorshift; Marsaglia, J. Statistical Software 8(14), 2003): the same in every run.
#pragma once

#include <cstdint>

namespace perfvec {

class Random {
  public:
    explicit Random(std::int64_t seed) : state_(seed) {}

    std::int64_t next() {
        state_ ^= (state_ << 13) & 0x7FFFFFFF;
        state_ ^= state_ >> 17;
        state_ ^= (state_ << 5) & 0x7FFFFFFF;
        return state_;
    }

  private:
    std::int64_t state_;
};

}  // namespace perfvec
