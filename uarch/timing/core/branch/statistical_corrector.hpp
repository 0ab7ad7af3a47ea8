// The statistical corrector of TAGE-SC-L (Seznec, CBP-5, 2016): an adder that overrules TAGE where its sum is large.
//
// It adds counters of tables indexed by address and one history each: global, of backward branches, of the path, local, of
// loop iterations (IMLI; Seznec, San Miguel & Albericio, MICRO 2015). As in gem5 all histories move at retirement, and a
// branch counts as backward by the address that it went to, so that the iteration counter never returns to zero.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "../types.hpp"
#include "saturating_counter.hpp"

namespace perfvec {

enum class CorrectorHistory { Global, Backward, Path, Local, SecondLocal, ThirdLocal, ByIteration, Iteration };

// Tables of one history: lengths, log2 of a table's size, the first value of the group's weights.
struct CorrectorGroup {
    CorrectorHistory history;
    int count;
    std::array<int, 3> lengths;
    int log_size;
    int weight = 7;
};

struct CorrectorSizes {
    bool large;
    int log_bias, locals, group_count;
    std::array<CorrectorGroup, 7> groups;
};

// A length of 40 acts as 8 in gem5, which shifts a 32-bit one by it.
inline constexpr CorrectorSizes SMALL_CORRECTOR{false,
                                                7,
                                                64,
                                                4,
                                                {{{CorrectorHistory::Global, 2, {6, 3}, 7},
                                                  {CorrectorHistory::Backward, 2, {16, 8}, 7},
                                                  {CorrectorHistory::Local, 2, {6, 3}, 7},
                                                  {CorrectorHistory::Iteration, 1, {8}, 7}}}};
inline constexpr CorrectorSizes LARGE_CORRECTOR{true,
                                                8,
                                                256,
                                                7,
                                                {{{CorrectorHistory::Backward, 3, {8, 24, 10}, 10},
                                                  {CorrectorHistory::Path, 3, {25, 16, 9}, 9},
                                                  {CorrectorHistory::Local, 3, {11, 6, 3}, 10},
                                                  {CorrectorHistory::SecondLocal, 3, {16, 11, 6}, 9},
                                                  {CorrectorHistory::ThirdLocal, 2, {9, 4}, 10},
                                                  {CorrectorHistory::ByIteration, 2, {10, 4}, 9, 0},
                                                  {CorrectorHistory::Iteration, 1, {8}, 8}}}};

// TAGE's word on a branch.
struct TageOpinion {
    int provider = 0, alternative = 0;
    bool provided = false, alternate = false;
    bool low = false, medium = false, high = false;  // how sure the provider is
};

template <const CorrectorSizes& SIZES>
class StatisticalCorrector {
  public:
    struct Record {
        std::int32_t sum = 0, threshold = 0;
        bool before = false;  // what was predicted before
    };

    StatisticalCorrector() {
        const int size = 1 << SIZES.log_bias;
        constexpr std::int8_t starts[3][4] = {{-32, 31, -1, 0}, {-8, 7, -32, 31}, {-32, 31, -1, 0}};
        for (int which = 0; which < 3; ++which) {
            bias_[which].resize(size);
            for (int k = 0; k < size; ++k) bias_[which][k] = starts[which][k & 3];
        }
        weights_[0].fill(4);
        for (int group = 0; group < SIZES.group_count; ++group) {
            const CorrectorGroup& sizes = SIZES.groups[group];
            weights_[1 + group].fill(static_cast<std::int8_t>(sizes.weight));
            for (int table = 0; table < sizes.count; ++table) {
                std::vector<std::int8_t>& counters = tables_[group][table];
                counters.resize(std::size_t{1} << sizes.log_size);
                for (std::size_t k = 0; k < counters.size(); k += 2) counters[k] = -1;
            }
        }
    }

    // Returns the corrected prediction; `path` is TAGE's path history.
    bool predict(Record& record, const TageOpinion& tage, Address pc, std::int64_t path, bool predicted) {
        record.before = predicted;
        int total = 0;
        for (int which = 0; which < 3; ++which) total += 2 * bias_[which][bias_place(which, record, tage, pc)] + 1;
        bool weighty = weights_[0][weight_place(pc)] >= 0;
        total *= 1 + weighty;
        int heavy = weighty;
#pragma GCC unroll 8
        for (int group = 0; group < SIZES.group_count; ++group) {
            const CorrectorGroup& sizes = SIZES.groups[group];
            const std::int64_t recent = history(sizes.history, pc, path), key = key_of(sizes, pc, predicted);
            int part = 0;
            for (int table = 0; table < sizes.count; ++table)
                part += 2 * tables_[group][table][place(sizes, table, key, recent)] + 1;
            weighty = weights_[1 + group][weight_place(key)] >= 0;
            total += (1 + weighty) * part;
            if (sizes.history != CorrectorHistory::ByIteration) heavy += weights_[1 + group][weight_place(pc)] >= 0;
        }
        record.sum = total;
        record.threshold = (limit_ >> 3) + thresholds_[threshold_place(pc)] + (SIZES.large ? 12 * heavy : 0);
        const bool corrected = total >= 0;
        bool use = true;
        if (corrected != predicted) {
            const int size = std::abs(total);
            if (tage.high) {
                if (size < record.threshold >> 2)
                    use = false;
                else if (size < record.threshold >> 1)
                    use = second_choice_ < 0;
            }
            if (tage.medium && size < record.threshold >> 2) use = first_choice_ < 0;
        }
        return use ? corrected : predicted;
    }

    // Before the branch enters the histories.
    void update(const Record& record, const TageOpinion& tage, Address pc, std::int64_t path, bool taken) {
        const int total = record.sum, size = std::abs(total), threshold = record.threshold;
        const bool corrected = total >= 0;
        if (corrected != record.before) {
            if (tage.high && threshold >> 2 <= size && size < threshold >> 1) choose(second_choice_, record.before == taken);
            if (tage.medium && size < threshold >> 2) choose(first_choice_, record.before == taken);
        }
        if (corrected == taken && size >= threshold) return;
        const bool wrong = corrected != taken;
        limit_ = std::clamp(limit_ + (wrong ? 1 : -1), -2048, 2047);
        count(thresholds_[threshold_place(pc)], wrong, -128, 127);
        int part = 0;
        for (int which = 0; which < 3; ++which) {
            std::int8_t& counter = bias_[which][bias_place(which, record, tage, pc)];
            part += 2 * counter + 1;
            count(counter, taken, -32, 31);
        }
        weigh(weights_[0][weight_place(pc)], total, part, taken);
#pragma GCC unroll 8
        for (int group = 0; group < SIZES.group_count; ++group) {
            const CorrectorGroup& sizes = SIZES.groups[group];
            const std::int64_t recent = history(sizes.history, pc, path), key = key_of(sizes, pc, record.before);
            part = 0;
            for (int table = 0; table < sizes.count; ++table) {
                std::int8_t& counter = tables_[group][table][place(sizes, table, key, recent)];
                part += 2 * counter + 1;
                count(counter, taken, -32, 31);
            }
            weigh(weights_[1 + group][weight_place(key)], total, part, taken);
        }
    }

    // A conditional branch retires.
    void shift_in(Address pc, bool taken, Address target) {
        const bool backward = taken && target < pc;
        append(global_, taken);
        append(by_iteration_[iterations_], taken);
        std::int64_t& second = second_local_[(pc ^ (pc >> 5)) & 15];
        append(second, taken);
        second ^= pc & 15;
        append(third_local_[(pc ^ (pc >> 10)) & 15], taken);
        append(local_[(pc ^ (pc >> 2)) & (SIZES.locals - 1)], taken);
        append(backward_, backward);
        if (backward) iterations_ = std::min(iterations_ + 1, 255);
    }

  private:
    static constexpr int WEIGHTS = 8, THRESHOLDS = 64;  // by address

    static std::size_t weight_place(std::int64_t key) { return (key ^ (key >> 2)) & (WEIGHTS - 1); }
    static std::size_t threshold_place(Address pc) { return (pc ^ (pc >> 2)) & (THRESHOLDS - 1); }

    static std::int64_t key_of(const CorrectorGroup& group, Address pc, bool predicted) {
        return SIZES.large && group.history == CorrectorHistory::Backward ? 2 * pc + predicted : pc;
    }

    std::size_t bias_place(int which, const Record& record, const TageOpinion& tage, Address pc) const {
        std::int64_t key;
        if (which == 0) {
            const bool doubtful = tage.low && tage.provided != tage.alternate;
            key = ((((pc ^ (pc >> 2)) << 1) ^ doubtful) << 1) + record.before;
        } else if (which == 1) {
            key = ((((pc ^ (pc >> (SIZES.log_bias - 2))) << 1) ^ tage.high) << 1) + record.before;
        } else {
            key = record.before + (((tage.provider + 1) / 4) << 4) + (tage.high << 1) + (tage.low << 2);
            key += tage.alternative != 0 ? 8 : 0;
            key += SIZES.large ? (pc ^ (pc >> 2)) << 7 : 0;
        }
        return key & ((1 << SIZES.log_bias) - 1);
    }

    static std::size_t place(const CorrectorGroup& group, int table, std::int64_t key, std::int64_t history) {
        const std::int64_t recent = history & ((std::int64_t{1} << group.lengths[table]) - 1);
        const std::int64_t index =
            key ^ recent ^ (recent >> (8 - table)) ^ (recent >> (16 - 2 * table)) ^ (recent >> (24 - 3 * table));
        // The large variant uses half of a group's last two tables.
        const int used = group.log_size - (SIZES.large && table >= group.count - 2);
        return index & ((std::int64_t{1} << used) - 1);
    }

    std::int64_t history(CorrectorHistory which, Address pc, std::int64_t path) const {
        switch (which) {
            case CorrectorHistory::Global: return global_;
            case CorrectorHistory::Backward: return backward_;
            case CorrectorHistory::Path: return path;
            case CorrectorHistory::Local: return local_[(pc ^ (pc >> 2)) & (SIZES.locals - 1)];
            case CorrectorHistory::SecondLocal: return second_local_[(pc ^ (pc >> 5)) & 15];
            case CorrectorHistory::ThirdLocal: return third_local_[(pc ^ (pc >> 10)) & 15];
            case CorrectorHistory::ByIteration: return by_iteration_[iterations_];
            default: return iterations_;
        }
    }

    // `better`: what was predicted before the corrector was right.
    static void choose(int& choice, bool better) { choice = std::clamp(choice + (better ? 1 : -1), -64, 63); }

    static void weigh(std::int8_t& weight, int total, int part, bool taken) {
        const int without = total - (weight >= 0 ? part : 0);
        if ((without + part >= 0) != (without >= 0)) count(weight, (part >= 0) == taken, -32, 31);  // this part decided
    }

    static void append(std::int64_t& history, bool outcome) { history = ((history << 1) | outcome) & 0xFFFFFFFF; }

    std::array<std::vector<std::int8_t>, 3> bias_;
    std::array<std::int8_t, THRESHOLDS> thresholds_{};
    std::array<std::array<std::int8_t, WEIGHTS>, 8> weights_{};  // [0]: of the bias
    std::array<std::array<std::vector<std::int8_t>, 3>, 7> tables_;
    int limit_ = 35 << 3, first_choice_ = 0, second_choice_ = 0, iterations_ = 0;
    std::int64_t global_ = 0, backward_ = 0;
    std::array<std::int64_t, 256> local_{}, by_iteration_{};
    std::array<std::int64_t, 16> second_local_{}, third_local_{};
};

}  // namespace perfvec
