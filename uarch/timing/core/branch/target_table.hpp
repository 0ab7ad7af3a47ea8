// gem5's SimpleIndirectPredictor: a table of 256 sets of 2 targets, indexed by address, the last 13 directions and the last
// 3 indirect targets, which learns the targets of mispredicted jumps.
#pragma once

#include <array>

#include "../random.hpp"
#include "indirect_predictor.hpp"

namespace perfvec {

class TargetTable : public IndirectPredictor {
  public:
    Address predict(int, Address pc, Address otherwise) override {
        std::int64_t set = (pc >> 2) ^ recent_;
        for (int back = 0; back < TARGETS; ++back) set ^= ((path_ >> (20 * back)) & 0xFFFFF) >> (2 + 2 * back);
        ways_ = &sets_[set & (SETS - 1)];
        hit_ = nullptr;
        expected_ = otherwise;
        for (Entry& way : *ways_) {
            if (way.tag != tag(pc)) continue;
            hit_ = &way;
            expected_ = way.target;
            break;
        }
        return expected_;
    }

    // It learns here: gem5 tells it when the misprediction is found, long before the jump retires.
    void speculate(int, const BranchOutcome& branch, bool asked) override {
        if (asked) {
            if (expected_ != branch.target)
                *(hit_ ? hit_ : &(*ways_)[random_.next() & (WAYS - 1)]) = {tag(branch.pc), branch.target};
            path_ = ((path_ << 20) | (branch.target & 0xFFFFF)) & 0xFFFFFFFFFFFFFFF;
        }
        recent_ = ((recent_ << 1) | branch.taken) & ((1 << DIRECTIONS) - 1);
    }

  private:
    static constexpr int SETS = 256, WAYS = 2, DIRECTIONS = 13, TARGETS = 3, TAG_BITS = 16;

    struct Entry {
        Address tag = NOWHERE, target = NOWHERE;
    };

    static Address tag(Address pc) { return (pc >> 2) & ((1 << TAG_BITS) - 1); }

    std::array<std::array<Entry, WAYS>, SETS> sets_;
    std::array<Entry, WAYS>* ways_ = nullptr;  // of the jump asked for last
    Entry* hit_ = nullptr;
    Address expected_ = NOWHERE;
    std::uint64_t path_ = 0;   // 20 bits of each of the last three indirect targets, the latest lowest
    std::int64_t recent_ = 0;  // the last directions
    Random random_{0x1234567};
};

}  // namespace perfvec
