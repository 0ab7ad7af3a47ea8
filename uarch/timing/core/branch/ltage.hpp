// L-TAGE (Seznec, CBP-2, JILP 2007): TAGE and a predictor of loops with constant trip counts.
//
// Sizes are gem5's: 12 tagged tables, histories 4 to 640, 16,384 bimodal counters; 256 loop entries of 14-bit counts that
// predict after the same count 3 times.
#pragma once

#include <array>

#include "loop_predictor.hpp"
#include "tage.hpp"

namespace perfvec {

inline constexpr TageSizes<12> LTAGE_SIZES{
    14, 4, 640, 19, {10, 10, 11, 11, 11, 11, 10, 10, 10, 10, 9, 9}, {7, 7, 8, 8, 9, 10, 11, 12, 12, 13, 14, 15}};
inline constexpr LoopPredictorSizes LTAGE_LOOPS{6, 14, 14, 3, 255, 255, true};

class LTage final : public Tage<12, LTAGE_SIZES> {
  public:
    bool predict(int slot, Address pc) override {
        const bool by_tage = Tage::predict(slot, pc);
        return final_[slot] = loops_.predict(loop_records_[slot], pc, by_tage);
    }

    void update(int slot, const BranchOutcome& branch) override {
        if (!branch.conditional) return;
        const auto& record = records_[slot];
        loops_.update(loop_records_[slot], branch.pc, branch.taken, record.predicted, final_[slot], random_);
        learn(record, branch.pc, branch.taken);
    }

  private:
    using Loops = LoopPredictor<LTAGE_LOOPS>;
    Loops loops_;
    std::array<Loops::Record, IN_FLIGHT> loop_records_;
    std::array<bool, IN_FLIGHT> final_{};
};

}  // namespace perfvec
