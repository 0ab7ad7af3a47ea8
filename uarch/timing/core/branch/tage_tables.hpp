// Tables that TAGE and TAGE-SC-L share: a bimodal table and entries of tagged tables.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "../types.hpp"
#include "saturating_counter.hpp"

namespace perfvec {

// Counters of two bits, the lower of which is shared by four neighbours. Not taken at first, all but sure of the opposite.
class Bimodal {
  public:
    explicit Bimodal(int log_size) : mask_((1 << log_size) - 1), taken_(1 << log_size, 0), shared_(1 << (log_size - 2), 1) {}

    std::int64_t place(std::int64_t key) const { return key & mask_; }
    bool taken(std::int64_t place) const { return taken_[place]; }
    int value(std::int64_t place) const { return 2 * taken_[place] + shared_[place >> 2]; }

    void update(std::int64_t place, bool taken) {
        int counter = value(place);
        counter = taken ? (counter < 3 ? counter + 1 : 3) : (counter > 0 ? counter - 1 : 0);
        taken_[place] = static_cast<std::int8_t>(counter >> 1);
        shared_[place >> 2] = static_cast<std::int8_t>(counter & 1);
    }

  private:
    std::int64_t mask_;
    std::vector<std::int8_t> taken_, shared_;
};

struct TaggedEntry {
    std::uint16_t tag = 0;
    std::int8_t counter = 0;  // 3 bits, taken from 0 on
    std::int8_t useful = 0;

    bool taken() const { return counter >= 0; }
    // 1, 3, 5 or 7: how far the counter is from changing its mind.
    int sureness() const { return std::abs(2 * counter + 1); }
    void update(bool outcome) { count(counter, outcome, -4, 3); }
    void allocate(std::uint16_t new_tag, bool outcome) {
        tag = new_tag;
        counter = outcome ? 0 : -1;
    }
};

}  // namespace perfvec
