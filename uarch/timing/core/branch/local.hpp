// 2-bit counters indexed by the branch's address (Smith, ISCA 1981); gem5 calls it LocalBP. Not taken at first.
//
// As in gem5 the size counts bits, so that there are `entries` / 2 counters, and unconditional branches train theirs too.
#pragma once

#include <vector>

#include "direction_predictor.hpp"
#include "saturating_counter.hpp"

namespace perfvec {

class Local final : public DirectionPredictor {
  public:
    explicit Local(int entries) : counters_(entries / 2, 0) {}

    bool predict(int, Address pc) override { return counter(pc) >= 2; }
    void update(int, const BranchOutcome& branch) override { count(counter(branch.pc), branch.taken, 0, 3); }

  private:
    std::int8_t& counter(Address pc) { return counters_[(pc >> 2) & (counters_.size() - 1)]; }

    std::vector<std::int8_t> counters_;
};

}  // namespace perfvec
