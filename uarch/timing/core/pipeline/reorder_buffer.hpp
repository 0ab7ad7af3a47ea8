// The reorder buffer: micro-operations take their entries in order, when they are renamed, and retire in order, so many a
// cycle, at least TO_RETIRE cycles after they are complete.
#pragma once

#include "release_ring.hpp"
#include "slots.hpp"

namespace perfvec {

class ReorderBuffer : public ReleaseRing {
  public:
    static constexpr Cycle TO_RETIRE = 2;

    ReorderBuffer(std::int64_t entries, std::int64_t commit_width, Cycle free_at)
        : ReleaseRing(entries, free_at), width_(commit_width) {}

    // The cycle in which the last of an instruction's micro-operations retires, which is complete at `complete`; those
    // before it have retired by then.
    Cycle retire(Cycle complete, std::int64_t operations) {
        commit_.take(operations, width_);
        commit_.reach(complete + TO_RETIRE, 1);
        return commit_.cycle;
    }

    Cycle retired() const { return commit_.cycle; }  // when the last one did

    // An instruction that traps is the last to retire in `cycle`.
    void trap(Cycle cycle) { commit_ = {cycle, width_}; }

  private:
    std::int64_t width_;
    Slots commit_;
};

}  // namespace perfvec
