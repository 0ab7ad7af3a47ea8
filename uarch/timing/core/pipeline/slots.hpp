// The slots of an in-order stage: so many micro-operations a cycle.
#pragma once

#include "../types.hpp"

namespace perfvec {

struct Slots {
    Cycle cycle = 0;
    std::int64_t used = 0;

    // Not before `from`.
    void reach(Cycle from, std::int64_t used_then = 0) {
        if (from > cycle) {
            cycle = from;
            used = used_then;
        }
    }

    // The cycle of the first of the micro-operations that `take` would take.
    Cycle next(std::int64_t width) const { return used == width ? cycle + 1 : cycle; }

    void take(std::int64_t operations, std::int64_t width) {
        used += operations;
        if (used <= 2 * width) {  // nearly always: no loop whose end the host would have to predict
            const bool over = used > width;
            used -= over ? width : 0;
            cycle += over;
            return;
        }
        const std::int64_t cycles = (used - 1) / width;
        used -= cycles * width;
        cycle += cycles;
    }
};

}  // namespace perfvec
