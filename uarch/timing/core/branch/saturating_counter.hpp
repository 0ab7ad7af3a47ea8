// Saturating counters.
#pragma once

#include <algorithm>
#include <cstdint>

namespace perfvec {

// Moves a counter one step up or down within [low, high].
inline void count(std::int8_t& counter, bool up, int low, int high) {
    counter = static_cast<std::int8_t>(up ? std::min(counter + 1, high) : std::max(counter - 1, low));
}

}  // namespace perfvec
