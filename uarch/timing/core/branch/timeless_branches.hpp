// Outcomes of branches in a front end where no core says when they are fetched and retire: time is counted in
// instructions, and a branch retires about `window` of them after its fetch; after a misprediction fetch goes on when the
// branch is resolved, while older instructions wait for memory.
//
// So predictors learn as late as they do in a core with so many instructions in flight, without one, and machines with the
// same predictor share the outcomes (the idea of storing branches, not predictors: Barr et al., ISPASS 2006).
//
// A core is never twice as late by exactly as much. Histories that move at retirement (TAGE-SC-L's) lack as many branches
// as are in flight: were these always the same ones behind a path, the predictor would learn them, and mispredict 10 to
// 40 % too little.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../random.hpp"
#include "branch_unit.hpp"

namespace perfvec {

class TimelessBranches {
  public:
    TimelessBranches(const std::string& kind, int entries, int btb_entries, int ras_entries, const std::string& indirect,
                     int window)
        : unit_(kind, entries, btb_entries, ras_entries, indirect), window_(window * INSTRUCTION), spread_(window_ * JITTER / 100) {
        unit_.tell_retargets(true);
    }

    // A direct branch that was taken, of which there is no more than this (`BranchUnit::take`).
    void take(Address pc, Address target) { unit_.take(pc, target); }

    // The outcome, as `BranchUnit::follow` takes it, of a branch that is the `step`th instruction after the last one: the
    // redirection, and what was mispredicted above it.
    std::uint8_t next(Address pc, Address fall_through, Address target, std::uint16_t flags, int step) {
        const Mispredictions before = unit_.by_kind;
        now_ += step * INSTRUCTION;
        retired_ = std::max(retired_, now_ + window_ - spread_ + random_.next() % (2 * spread_ + 1));
        const Redirect redirect = unit_.fetch(pc, fall_through, target, flags, now_, retired_);
        const Mispredictions& after = unit_.by_kind;
        if (redirect == Redirect::Execute) now_ += (retired_ - now_) * RESOLVED / 100;
        const int kind = after.target > before.target       ? 1
                         : after.indirect > before.indirect ? 2
                         : after.returns > before.returns   ? 3
                                                            : 0;
        return static_cast<std::uint8_t>(static_cast<int>(redirect) | kind << 2);
    }

    // Sum over branches: how many before it had not retired when it was fetched.
    std::int64_t in_flight_before() const { return unit_.in_flight_before; }

  private:
    static constexpr Cycle INSTRUCTION = 64;  // units of time
    static constexpr Cycle JITTER = 10;       // % of the window that a branch retires sooner or later
    static constexpr Cycle RESOLVED = 80;     // % of the way to its retirement

    BranchUnit unit_;
    Random random_{0x2545F491};
    Cycle now_ = 0, retired_ = 0, window_, spread_;
};

}  // namespace perfvec
