// The slots of an in-order stage: so many micro-operations a cycle.
#pragma once

#include <algorithm>

#include "../types.hpp"

namespace perfvec {

struct Slots {
    Cycle cycle = 0;
    std::int64_t used = 0;

    // Not before `from`.
    __attribute__((always_inline)) void reach(Cycle from, std::int64_t used_then = 0) {
        used = chosen(from > cycle, used_then, used);
        cycle = std::max(cycle, from);
    }

    // The cycle of the first of the micro-operations that `take` would take.
    Cycle next(std::int64_t width) const { return cycle + (used == width); }

    __attribute__((always_inline)) void take(std::int64_t operations, std::int64_t width) {
        used += operations;
        const std::int64_t over = used - width;
        used = chosen(over > 0, over, used);
        cycle += over > 0;
        if (__builtin_expect(used > width, 0)) {
            const std::int64_t cycles = (used - 1) / width;
            cycle += cycles;
            used -= cycles * width;
        }
    }
};

}  // namespace perfvec
