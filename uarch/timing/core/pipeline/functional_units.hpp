// Contention for functional units, ports and issue slots.
//
// Instruction-driven timing (Sanchez & Kozyrakis, "ZSim", ISCA 2013, section 3.1) visits instructions in program order but
// books units at the cycles in which they issue, which are not in order. So each cycle of a moving window has its own
// counts. A row of the window stands for one cycle; a row that stands for an earlier cycle is free to reuse.
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
        : capacity_{issue_width,  counts.int_alu, counts.int_mul,    counts.fp_add,
                    counts.fp_mul, counts.simd,    counts.load_ports, counts.store_ports} {}

    std::int64_t units(int resource) const { return capacity_[resource]; }

    // First cycle from `cycle` on with a free unit of `resource` and a free issue slot; books both.
    Cycle reserve(int resource, Cycle cycle) {
        const int shift = 8 * resource;
        const std::int64_t one = 1 + (std::int64_t{1} << shift);
        for (;; ++cycle) {
            Row& row = window_[cycle & (WINDOW - 1)];
            if (row.cycle < cycle) {
                row = {cycle, one};
                return cycle;
            }
            if (row.cycle > cycle) return cycle;  // the row stands for a later cycle already: too far back to know
            if ((row.counts & 255) < capacity_[ISSUE] && ((row.counts >> shift) & 255) < capacity_[resource]) {
                row.counts += one;
                return cycle;
            }
        }
    }

    // `count` units and issue slots, each the first free one from `cycle` on; returns the cycle of the last.
    Cycle reserve_each(int resource, Cycle cycle, std::int64_t count) {
        const int shift = 8 * resource;
        for (;; ++cycle) {
            Row& row = window_[cycle & (WINDOW - 1)];
            if (row.cycle > cycle) return cycle;
            const std::int64_t counts = row.cycle == cycle ? row.counts : 0;
            const std::int64_t room =
                std::min(capacity_[ISSUE] - (counts & 255), capacity_[resource] - ((counts >> shift) & 255));
            if (room > 0) {
                const std::int64_t taken = std::min(room, count);
                row = {cycle, counts + taken * (1 + (std::int64_t{1} << shift))};
                count -= taken;
                if (count == 0) return cycle;
            }
        }
    }

  private:
    static constexpr int WINDOW = 4096;  // cycles; bookings further apart than this do not see one another
    struct Row {
        Cycle cycle = -1;
        std::int64_t counts = 0;  // 8 bits a resource
    };
    std::array<std::int64_t, RESOURCES> capacity_;
    std::array<Row, WINDOW> window_;
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

}  // namespace perfvec
