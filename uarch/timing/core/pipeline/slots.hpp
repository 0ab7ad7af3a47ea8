// The slots of an in-order stage: so many micro-operations a cycle.
#pragma once

#include "../types.hpp"

namespace perfvec {

struct Slots {
    Cycle cycle = 0;
    std::int64_t used = 0;

    // Not before `from`.
    void reach(Cycle from, std::int64_t used_then = 0) {
        used = from > cycle ? used_then : used;
        cycle = from > cycle ? from : cycle;
    }

    // The cycle of the first of the micro-operations that `take` would take.
    Cycle next(std::int64_t width) const { return used == width ? cycle + 1 : cycle; }

    void take(std::int64_t operations, std::int64_t width) {
        used += operations;
        const bool over = used > width;  // at most once, nearly always: nothing for the host to predict
        cycle += over;
        used -= over ? width : 0;
        if (__builtin_expect(used > width, 0)) {
            const std::int64_t cycles = (used - 1) / width;
            cycle += cycles;
            used -= cycles * width;
        }
    }
};

}  // namespace perfvec
