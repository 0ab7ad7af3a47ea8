// Bi-mode (Lee, Chen & Mudge, MICRO 1997): two tables of counters indexed by address xor global history, one for branches
// mostly taken and one for the others; a choice table indexed by address picks. All of `entries` counters.
//
// As in gem5 unconditional branches enter the history and train the taken side and the choice.
#pragma once

#include <array>
#include <vector>

#include "direction_predictor.hpp"
#include "saturating_counter.hpp"

namespace perfvec {

class BiMode final : public DirectionPredictor {
  public:
    explicit BiMode(int entries)
        : mask_(entries - 1), choice_(entries, 0), sides_{std::vector<std::int8_t>(entries, 0), std::vector<std::int8_t>(entries, 0)} {}

    bool predict(int slot, Address pc) override {
        Record& record = records_[slot];
        record.side = choice_[(pc >> 2) & mask_] >= 2;
        record.predicted = sides_[record.side][((pc >> 2) ^ history_) & mask_] >= 2;
        return record.predicted;
    }

    void speculate(int slot, Address, bool taken, bool conditional) override {
        Record& record = records_[slot];
        record.history = history_;
        if (!conditional) record.side = record.predicted = true;
        history_ = ((history_ << 1) | taken) & mask_;
    }

    void update(int slot, const BranchOutcome& branch) override {
        const Record& record = records_[slot];
        count(sides_[record.side][((branch.pc >> 2) ^ record.history) & mask_], branch.taken, 0, 3);
        // The choice stays where the chosen table was right although the choice went the other way.
        if (record.side == branch.taken || record.predicted != branch.taken)
            count(choice_[(branch.pc >> 2) & mask_], branch.taken, 0, 3);
    }

  private:
    struct Record {
        std::int64_t history = 0;
        bool side = false, predicted = false;
    };

    std::int64_t mask_, history_ = 0;
    std::vector<std::int8_t> choice_;
    std::array<std::vector<std::int8_t>, 2> sides_;
    std::array<Record, IN_FLIGHT> records_;
};

}  // namespace perfvec
