// A long global history and its folded registers, what every TAGE predictor is made of.
//
// A history of L outcomes is folded into w bits by a circular shift register into which the newest outcome enters and from
// which the one L back leaves (Michaud, "A PPM-like, tag-based branch predictor", JILP 2005, section 4.3). Each length has
// three registers: for the index and twice for the tag.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace perfvec {

// History lengths of a geometric series (Seznec, O-GEHL, ISCA 2005, equation 1).
std::vector<int> geometric(int shortest, int longest, int count);

enum FoldedRegister { INDEX, FIRST_TAG, SECOND_TAG, REGISTERS_OF_LENGTH };
using FoldedWidths = std::array<int, REGISTERS_OF_LENGTH>;

template <int LENGTHS>
class FoldedHistory {
  public:
    FoldedHistory(const std::vector<int>& lengths, const std::vector<FoldedWidths>& widths) : outcomes_(OUTCOMES, 0) {
        for (int k = 0; k < LENGTHS; ++k) {
            lengths_[k] = lengths[k];
            for (int which = 0; which < REGISTERS_OF_LENGTH; ++which) {
                const int width = widths[k][which];
                leaves_[which][k] = 1 << (lengths[k] % width);
                overflow_[which][k] = 1 << width;
                mask_[which][k] = (1 << width) - 1;
            }
        }
    }

    int operator()(FoldedRegister which, int length) const { return registers_[which][length]; }
    const std::int32_t* registers(FoldedRegister which) const { return registers_[which]; }

    void shift_in(bool outcome) {
        position_ = (position_ - 1) & (OUTCOMES - 1);
        outcomes_[position_] = outcome;
        for (int k = 0; k < LENGTHS; ++k)
            leaving_[k] = -static_cast<std::int32_t>(outcomes_[(position_ + lengths_[k]) & (OUTCOMES - 1)]);
        // All registers are computed, also those without a length, which stay 0.
        const std::int32_t enters = outcome;
        for (int which = 0; which < REGISTERS_OF_LENGTH; ++which) {
            for (int k = 0; k < LANES; ++k) {
                std::int32_t folded = (registers_[which][k] << 1) | enters;
                folded ^= leaving_[k] & leaves_[which][k];
                folded ^= (folded & overflow_[which][k]) != 0;
                registers_[which][k] = folded & mask_[which][k];
            }
        }
    }

  private:
    static constexpr int LANES = (LENGTHS + 3) / 4 * 4;  // the host computes four registers at a time
    static constexpr int OUTCOMES = 4096;                // longer than the longest history (3,000)
    using Lanes = std::int32_t[REGISTERS_OF_LENGTH][LANES];

    alignas(64) Lanes registers_ = {};
    alignas(64) Lanes leaves_ = {};    // the bit at which an outcome leaves
    alignas(64) Lanes overflow_ = {};  // the bit that is folded back to the first
    alignas(64) Lanes mask_ = {};
    alignas(64) std::int32_t leaving_[LANES] = {};
    std::array<int, LENGTHS> lengths_{};
    std::vector<std::uint8_t> outcomes_;  // circular
    int position_ = 0;
};

}  // namespace perfvec
