// The issue queue: entries leave it out of order, so releases are counted in a calendar by cycle.
#pragma once

#include <algorithm>
#include <array>

#include "../stack.hpp"
#include "release_ring.hpp"

namespace perfvec {

class IssueQueue {
  public:
    IssueQueue(std::int64_t entries, std::int64_t dispatch_delay) : entries_(entries), dispatch_delay_(dispatch_delay) {}

    std::int64_t entries() const { return entries_; }

    // First cycle from `cycle` on with room for `operations`, and in the reorder buffer as rename counts it; sets `full` to
    // the structure that was waited for.
    //
    // A micro-operation takes its entry of the issue queue when it is renamed. In the reorder buffer gem5's rename counts it
    // twice from its second cycle there until it is dispatched.
    template <bool COUNT>
    Cycle room(const ReleaseRing& reorder_buffer, Cycle cycle, std::int64_t operations, Cause& full) {
        const std::int64_t most = entries_ - std::min(operations, entries_);
        for (;; ++cycle) {
            go_to<COUNT>(cycle);
            const auto twice = static_cast<std::int32_t>(renamed_before(cycle - 1) - renamed_before(cycle - dispatch_delay_));
            const bool fits = reorder_buffer.released(std::min(operations + twice, reorder_buffer.entries())) + RELEASE <= cycle;
            if (__builtin_expect((queued_ <= most) & fits, 1)) return cycle;
            full = queued_ <= most ? FullReorderBuffer : FullIssueQueue;
        }
    }

    // Sum of the entries that are taken, over the cycles that renaming has come to and that were to COUNT.
    std::int64_t occupied() const { return occupied_; }

    void renamed(std::int64_t operations) { renamed_ += static_cast<std::uint32_t>(operations); }
    void enter(std::int64_t operations) { queued_ += operations; }

    // `operations` leave at `cycle`.
    void leave(Cycle cycle, std::int64_t operations = 1) {
        released_[std::min(cycle + RELEASE, at_ + CALENDAR - 1) & (CALENDAR - 1)] += static_cast<std::int32_t>(operations);
    }

  private:
    static constexpr Cycle RELEASE = 1;    // until rename knows what issuing or retiring frees
    static constexpr int CALENDAR = 4096;  // cycles over which entries are released; later ones then
    static constexpr int RECENT = 128;     // cycles that are looked back on: more than the longest dispatch delay

    // Renaming has come to `cycle`.
    template <bool COUNT>
    void go_to(Cycle cycle) {
        Cycle at = at_;
        std::int64_t queued = queued_;
        while (at < cycle) {
            ++at;
            std::int32_t& released = released_[at & (CALENDAR - 1)];
            if constexpr (COUNT) occupied_ += std::min(queued, entries_);
            queued -= released;
            released = 0;
            renamed_before_[at & (RECENT - 1)] = renamed_;
        }
        at_ = at;
        queued_ = queued;
    }

    std::uint32_t renamed_before(Cycle cycle) const { return renamed_before_[cycle & (RECENT - 1)]; }

    std::int64_t entries_, dispatch_delay_;
    std::int64_t queued_ = 0, occupied_ = 0;
    Cycle at_ = 0;              // the cycle that queued_ is of
    std::uint32_t renamed_ = 0;  // so far; only differences count, so that it may go round
    std::array<std::uint32_t, RECENT> renamed_before_{};  // micro-operations renamed before a cycle
    std::array<std::int32_t, CALENDAR> released_{};      // entries released in it
};

}  // namespace perfvec
