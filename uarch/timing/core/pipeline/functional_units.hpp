// Contention for functional units, ports and issue slots.
//
// Instruction-driven timing (Sanchez & Kozyrakis, "ZSim", ISCA 2013, section 3.1) visits instructions in program order but
// books units at the cycles in which they issue, which are not in order. So each of the latest cycles has its own counts.
// A row stands for one cycle; a row that stands for an earlier cycle is free to reuse.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "../machine.hpp"

namespace perfvec {

enum Resource { ISSUE, INT_ALU, INT_MUL, FP_ADD, FP_MUL, SIMD, LOAD_PORT, STORE_PORT, RESOURCES };

class FunctionalUnits {
  public:
    FunctionalUnits(int issue_width, const FunctionalUnitCounts& counts)
        : units_{issue_width,  counts.int_alu, counts.int_mul,    counts.fp_add,
                 counts.fp_mul, counts.simd,    counts.load_ports, counts.store_ports} {
        for (int resource = 0; resource < RESOURCES; ++resource)
            none_taken_ += std::uint64_t(FULL - units_[resource]) << (8 * resource);
    }

    static constexpr int MOST = 127;  // units of a kind

    std::int64_t units(int resource) const { return units_[resource]; }

    // First cycle from `cycle` on with a free unit of `resource` and a free issue slot; books both.
    Cycle reserve(int resource, Cycle cycle) {
        const std::uint64_t one = 1 + (std::uint64_t{1} << (8 * resource));
        for (;; ++cycle) {
            Row& row = rows_[cycle & (HORIZON - 1)];
            const std::uint64_t taken = chosen(row.cycle < cycle, none_taken_, row.taken) + one;
            if (__builtin_expect(row.cycle > cycle, 0)) return cycle;  // too far back to know
            if ((taken & BEYOND) == 0) {
                row = {cycle, taken};
                return cycle;
            }
        }
    }

    // `count` units and issue slots, each the first free one from `cycle` on; returns the cycle of the last.
    Cycle reserve_each(int resource, Cycle cycle, std::int64_t count) {
        const int shift = 8 * resource;
        for (;; ++cycle) {
            Row& row = rows_[cycle & (HORIZON - 1)];
            if (row.cycle > cycle) return cycle;
            const std::uint64_t taken = chosen(row.cycle == cycle, row.taken, none_taken_);
            const std::int64_t room = FULL - static_cast<std::int64_t>(std::max(taken & 255, (taken >> shift) & 255));
            if (room > 0) {
                const std::int64_t more = std::min(room, count);
                row = {cycle, taken + static_cast<std::uint64_t>(more) * (1 + (std::uint64_t{1} << shift))};
                count -= more;
                if (count == 0) return cycle;
            }
        }
    }

  private:
    static constexpr int HORIZON = 4096;  // cycles; bookings further apart than this do not see one another
    // A byte for each resource: FULL where all its units are taken, so that one more sets the highest bit.
    static constexpr int FULL = MOST;
    static constexpr std::uint64_t BEYOND = 0x8080808080808080;
    struct Row {
        Cycle cycle = -1;
        std::uint64_t taken = 0;
    };
    std::array<std::int64_t, RESOURCES> units_;
    std::uint64_t none_taken_ = 0;
    std::array<Row, HORIZON> rows_;
};

// Units that take one operation at a time.
class Dividers {
  public:
    explicit Dividers(std::int64_t units) : free_at_(std::max<std::int64_t>(units, 1), 0) {}

    // First cycle from `cycle` on at which a divider is idle; keeps it busy for `duration` cycles.
    Cycle reserve(Cycle cycle, Cycle duration) {
        auto unit = std::min_element(free_at_.begin(), free_at_.end());
        const Cycle start = std::max(cycle, *unit);
        *unit = start + duration;
        return start;
    }

  private:
    std::vector<Cycle> free_at_;
};

// A unit that is kept for a while by each operation, and by younger ones before older ones that wait for their operands.
class OutOfOrderDivider {
  public:
    // First idle cycle from `cycle` on; keeps the unit busy for `duration` idle cycles from there. They may lie on both
    // sides of an older operation's, which was booked before and would have waited: the unit is never idle for want of room.
    Cycle reserve(Cycle cycle, Cycle duration) {
        while (is_busy(cycle)) ++cycle;
        const Cycle start = cycle;
        for (; duration > 0; ++cycle) {
            if (is_busy(cycle)) continue;
            take(cycle);
            --duration;
        }
        return start;
    }

  private:
    static constexpr Cycle HORIZON = 4096;  // cycles; bookings further apart than this do not see one another
    struct Word {
        Cycle number = -1;  // of these 64 cycles
        std::uint64_t busy = 0;
    };

    Word& word(Cycle cycle) { return words_[(cycle / 64) & (HORIZON / 64 - 1)]; }

    bool is_busy(Cycle cycle) {
        const Word& there = word(cycle);
        return there.number == cycle / 64 && (there.busy >> (cycle & 63) & 1);
    }

    void take(Cycle cycle) {
        Word& there = word(cycle);
        if (there.number > cycle / 64) return;  // too far back to know
        if (there.number < cycle / 64) there = {cycle / 64, 0};
        there.busy |= std::uint64_t{1} << (cycle & 63);
    }

    std::array<Word, HORIZON / 64> words_;
};

}  // namespace perfvec
