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

// `Lane` must have a bit more than the widest register.
template <int LENGTHS, typename Lane = std::uint32_t>
class FoldedHistory {
  public:
    static constexpr int ALIGNED = 16 / sizeof(Lane);
    static constexpr int LANES = (LENGTHS + ALIGNED - 1) / ALIGNED * ALIGNED;  // the host computes several at a time
    using Lanes = Lane[LANES];

    FoldedHistory(const std::vector<int>& lengths, const std::vector<FoldedWidths>& widths) : outcomes_(2 * OUTCOMES, 0) {
        for (int k = 0; k < LENGTHS; ++k) {
            lengths_[k] = lengths[k];
            for (int which = 0; which < REGISTERS_OF_LENGTH; ++which) {
                const int width = widths[k][which];
                leaves_[which][k] = static_cast<Lane>(1 << (lengths[k] % width));
                overflow_[which][k] = static_cast<Lane>(1 << width);
                mask_[which][k] = static_cast<Lane>((1 << width) - 1);
            }
        }
    }

    int operator()(FoldedRegister which, int length) const { return static_cast<int>(registers_[which][length]); }
    const Lanes& registers(FoldedRegister which) const { return registers_[which]; }

    void shift_in(bool outcome) {
        // All registers are computed, also those without a length, which stay 0.
        const Lane enters = outcome;
        for (int which = 0; which < REGISTERS_OF_LENGTH; ++which) {
            for (int k = 0; k < LANES; ++k) {
                auto folded = static_cast<Lane>((registers_[which][k] << 1) | enters);
                folded = static_cast<Lane>(folded ^ (leaving_[k] & leaves_[which][k]));
                folded = static_cast<Lane>(folded ^ ((folded & overflow_[which][k]) != 0));
                registers_[which][k] = folded & mask_[which][k];
            }
        }
        position_ = (position_ - 1) & (OUTCOMES - 1);
        outcomes_[position_] = outcomes_[position_ + OUTCOMES] = static_cast<std::int8_t>(-outcome);
        // The outcomes that leave next time: stored one by one now, they can be read several at a time then.
        const std::int8_t* latest = &outcomes_[position_];
        for (int k = 0; k < LENGTHS; ++k) leaving_[k] = static_cast<Lane>(latest[lengths_[k] - 1]);
    }

  private:
    static constexpr int OUTCOMES = 4096;  // longer than the longest history (3,000)

    alignas(64) Lanes registers_[REGISTERS_OF_LENGTH] = {};
    alignas(64) Lanes leaves_[REGISTERS_OF_LENGTH] = {};    // the bit at which an outcome leaves
    alignas(64) Lanes overflow_[REGISTERS_OF_LENGTH] = {};  // the bit that is folded back to the first
    alignas(64) Lanes mask_[REGISTERS_OF_LENGTH] = {};
    alignas(64) Lanes leaving_ = {};                        // the outcome that leaves next: all ones for taken
    std::array<int, LENGTHS> lengths_{};
    std::vector<std::int8_t> outcomes_;  // circular, -1 for taken; kept twice, one after the other, to read on at its end
    int position_ = 0;
};

}  // namespace perfvec
