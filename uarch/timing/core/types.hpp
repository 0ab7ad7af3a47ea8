// Words that every part of the timing model uses.
#pragma once

#include <cstdint>

namespace perfvec {

using Cycle = std::int64_t;
using Address = std::int64_t;  // of bytes; virtual, as traces have them
using Line = std::int64_t;     // an address without its lowest six bits

constexpr int LINE_BITS = 6;
constexpr Cycle NEVER = Cycle{1} << 60;

// `b` is positive.
constexpr std::int64_t floor_divided(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0); }

constexpr Line line_of(Address address) { return address >> LINE_BITS; }

}  // namespace perfvec
