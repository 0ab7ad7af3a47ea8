// Tournament (Kessler, "The Alpha 21264 Microprocessor", IEEE Micro 1999), as gem5 sizes it: local histories and local
// counters of `entries` each, global and choice counters of twice that; all counters of 2 bits.
//
// As in gem5 both histories move at prediction; unconditional branches enter the global one and train its counters.
#pragma once

#include <array>
#include <vector>

#include "direction_predictor.hpp"
#include "saturating_counter.hpp"

namespace perfvec {

class Tournament final : public DirectionPredictor {
  public:
    explicit Tournament(int entries)
        : mask_(entries - 1),
          local_history_(entries, 0),
          local_(entries, 0),
          global_(2 * static_cast<std::size_t>(entries), 0),
          choice_(2 * static_cast<std::size_t>(entries), 0) {}

    bool predict(int slot, Address pc) override {
        Record& record = records_[slot];
        record.local = local_history_[(pc >> 2) & mask_];
        record.by_local = local_[record.local] >= 2;
        record.by_global = global_[history_] >= 2;
        return choice_[history_] >= 2 ? record.by_global : record.by_local;
    }

    void speculate(int slot, Address pc, bool taken, bool conditional) override {
        Record& record = records_[slot];
        record.global = history_;
        history_ = ((history_ << 1) | taken) & (2 * mask_ + 1);
        if (conditional) {
            std::int64_t& local = local_history_[(pc >> 2) & mask_];
            local = ((local << 1) | taken) & mask_;
        } else {
            record.local = UNCONDITIONAL;
        }
    }

    void update(int slot, const BranchOutcome& branch) override {
        const Record& record = records_[slot];
        if (record.local != UNCONDITIONAL) {
            if (record.by_local != record.by_global) count(choice_[record.global], record.by_global == branch.taken, 0, 3);
            count(local_[record.local], branch.taken, 0, 3);
        }
        count(global_[record.global], branch.taken, 0, 3);
    }

  private:
    static constexpr std::int64_t UNCONDITIONAL = -1;
    struct Record {
        std::int64_t global = 0, local = 0;
        bool by_local = false, by_global = false;
    };

    std::int64_t mask_, history_ = 0;
    std::vector<std::int64_t> local_history_;
    std::vector<std::int8_t> local_, global_, choice_;
    std::array<Record, IN_FLIGHT> records_;
};

}  // namespace perfvec
