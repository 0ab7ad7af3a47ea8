// Words that every part of the timing model uses.
#pragma once

#include <cstdint>

namespace perfvec {

using Cycle = std::int64_t;
using Address = std::int64_t;  // of bytes, from 0 on; traces have virtual ones
using Line = std::int64_t;     // an address without its lowest six bits

constexpr int LINE_BITS = 6;
constexpr Cycle NEVER = Cycle{1} << 60;

// `b` is positive.
constexpr std::int64_t floor_divided(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0); }

// `condition ? a : b` where the host cannot foresee which: what depends on simulated cycles should not become a branch.
template <typename T>
constexpr T chosen(bool condition, T a, T b) {
#if defined(__GNUC__) && !defined(__clang__)
    return __builtin_expect_with_probability(condition, 1, 0.5) ? a : b;
#else
    return condition ? a : b;
#endif
}

// A trace's address without its highest bit, so that none is below 0: the halves of an address space, which differ in more
// bits than that, stay apart.
constexpr Address within_half(std::uint64_t address) { return static_cast<Address>(address & ~std::uint64_t{0} >> 1); }

constexpr Line line_of(Address address) { return address >> LINE_BITS; }
constexpr Address offset_of(Address address) { return address & ((1 << LINE_BITS) - 1); }

}  // namespace perfvec
