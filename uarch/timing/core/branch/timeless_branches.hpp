// Outcomes of branches in a front end where no core says when they are fetched and retire: time is counted in
// instructions, and a branch retires `window` of them after its fetch; after a misprediction fetch goes on when the branch
// has retired.
//
// So predictors learn as late as they do in a core with so many instructions in flight, without one, and machines with the
// same predictor share the outcomes (the idea of storing branches, not predictors: Barr et al., ISPASS 2006).
#pragma once

#include <cstdint>

#include "branch_unit.hpp"

namespace perfvec {

class TimelessBranches {
  public:
    TimelessBranches(const std::string& kind, int entries, int btb_entries, int ras_entries, const std::string& indirect,
                     int window)
        : unit_(kind, entries, btb_entries, ras_entries, indirect), window_(window) {
        unit_.tell_retargets(true);
    }

    // The outcome, as `BranchUnit::follow` takes it, of a branch that is the `step`th instruction after the last one: the
    // redirection, and what was mispredicted above it.
    std::uint8_t next(Address pc, Address fall_through, Address target, std::uint16_t flags, int step) {
        const Mispredictions before = unit_.by_kind;
        now_ += step;
        const Redirect redirect = unit_.fetch(pc, fall_through, target, flags, now_, now_ + window_);
        const Mispredictions& after = unit_.by_kind;
        if (redirect == Redirect::Execute) now_ += window_;
        const int kind = after.target > before.target       ? 1
                         : after.indirect > before.indirect ? 2
                         : after.returns > before.returns   ? 3
                                                            : 0;
        return static_cast<std::uint8_t>(static_cast<int>(redirect) | kind << 2);
    }

  private:
    BranchUnit unit_;
    Cycle now_ = 0;
    int window_;
};

}  // namespace perfvec
