// The multi-perspective perceptron (Jiménez, CBP-5, 2016): a sum of weights that many features of the past select.
//
// The 8 KB variant (16 features) up to 1,024 `entries`, above it the 64 KB one (37 features and a filter for branches that
// always go the same way), with gem5's features, table sizes and hashes.
//
// As gem5 implements it nothing is speculative except that unconditional branches enter the histories at prediction: a
// branch is predicted with the histories of those retired, but trained with the entries that its histories select at
// retirement. Under many branches in flight it therefore predicts with other weights than it trained. The filter's entry
// depends on the last retired outcome too, and a branch whose entry was never used counts as not taken.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "../random.hpp"
#include "direction_predictor.hpp"

namespace perfvec {

// Section 3 of the paper; `a`, `b` and `shift` of a feature are their parameters.
enum class Perspective {
    Bias, Global, Acyclic, Modulo, Recency, RecencyPosition, Iterations, Path, Local, ModuloPath, GlobalPath, GlobalBits,
    GlobalModuloPath, Blurry
};

struct Feature {
    Perspective what;
    double coefficient;  // scales its weights
    int a = 0, b = 0, shift = 0;
    int size = 0;  // of its table, where it does not share what is left
    int bits = 6;
};

struct PerceptronSizes {
    bool large;
    int count;
    std::array<Feature, 37> features;  // their order matters: masks and the tables' first signs go by position
    int bits;                          // the whole budget
    int locals, filters;
    // Masks of features whose index also takes the first and fourth iteration counter.
    std::uint64_t first_iterations, fourth_iterations;
    int metadata;  // bits of histories and of misprediction counters, which the tables cannot have
};

inline constexpr PerceptronSizes SMALL_PERCEPTRON{
    false,
    16,
    {{{Perspective::Bias, 2.40625},
      {Perspective::Global, 1.4375, 0, 19},
      {Perspective::Global, 1.0, 0, 65},
      {Perspective::Global, 1.0, 21, 64},
      {Perspective::Global, 1.0625, 75, 150},
      {Perspective::GlobalModuloPath, 1.625, 0, 7, 3},
      {Perspective::GlobalPath, 1.25, 0, 11, 2},
      {Perspective::GlobalPath, 1.125, 0, 15, 4},
      {Perspective::GlobalPath, 1.40625, 0, 31, 1},
      {Perspective::GlobalPath, 1.5, 0, 7, 1, 600},
      {Perspective::Iterations, 1.28125, 4, 0, 0, 375},
      {Perspective::Local, 1.5625, 0, 0, 0, 512},
      {Perspective::Recency, 1.25, 0, 14, 4},
      {Perspective::RecencyPosition, 1.875},
      {Perspective::GlobalPath, 1.65625, 0, 4, 3},
      {Perspective::GlobalPath, 2.53125, 0, 2, 5, 0, 5}}},
    (8192 + 256) * 8,
    48,
    0,
    0x6,
    0x4400,
    32 + 151 + 32 * 16 + 24 * 16 + 8 + 8 * 16};

inline constexpr PerceptronSizes LARGE_PERCEPTRON{
    true,
    37,
    {{{Perspective::Acyclic, 1.0},
      {Perspective::Blurry, 1.0},
      {Perspective::Global, 1.3125, 0, 19},
      {Perspective::Global, 0.85, 0, 65},
      {Perspective::Global, 1.0, 111, 222},
      {Perspective::Global, 1.0, 115, 206},
      {Perspective::Global, 1.0, 190, 336},
      {Perspective::Global, 1.0, 21, 64},
      {Perspective::Global, 1.0, 48, 119},
      {Perspective::Global, 0.75, 67, 203},
      {Perspective::Global, 1.0, 75, 150},
      {Perspective::GlobalModuloPath, 1.45, 1, 5, 4, 1913},
      {Perspective::GlobalModuloPath, 1.0, 3, 13, 1},
      {Perspective::GlobalBits, 1.0, 0, 105, 4},
      {Perspective::GlobalPath, 1.25, 0, 11, 2},
      {Perspective::GlobalPath, 1.125, 0, 15, 4},
      {Perspective::GlobalPath, 1.0, 0, 23, 4},
      {Perspective::GlobalPath, 1.0, 0, 31, 1},
      {Perspective::GlobalPath, 1.0, 0, 32, 2},
      {Perspective::GlobalPath, 1.0, 0, 36, 4},
      {Perspective::GlobalBits, 1.0, 1, 51, 1},
      {Perspective::GlobalPath, 1.5, 0, 7, 1},
      {Perspective::GlobalPath, 1.0, 0, 72, 1},
      {Perspective::GlobalBits, 1.0, 0, 86, 4},
      {Perspective::Iterations, 1.8125, 1},
      {Perspective::Iterations, 1.78125, 4, 0, 0, 1536},
      {Perspective::Local, 1.0, 0, 0, 0, 1024},
      {Perspective::Local, 2.0, 0, 0, 0, 3467},
      {Perspective::Modulo, 0.9375, 1, 16},
      {Perspective::ModuloPath, 1.0, 3, 20, 1},
      {Perspective::Path, 1.4375, 0, 13, 2},
      {Perspective::Path, 1.0, 0, 27, 5},
      {Perspective::Recency, 0.55, 0, 10, 3, 1024},
      {Perspective::Recency, 1.3125, 0, 14, 4},
      {Perspective::RecencyPosition, 1.5},
      {Perspective::GlobalPath, 1.25, 0, 2, 5, 768},
      {Perspective::GlobalPath, 1.3125, 0, 5, 2, 972}}},
    (65536 + 256) * 8,
    510,
    18025,
    0xC1000,
    0x80008000,
    2 * 32 + 337 + 106 * 16 + 24 * 37 + (17 + 14) + 16 * (6 + 21) + 154 + 2 * 18025 + 12};

template <const PerceptronSizes& SIZES>
class MultiperspectivePerceptron final : public DirectionPredictor {
  public:
    MultiperspectivePerceptron() : filters_(SIZES.filters, 0), local_(SIZES.locals, 0) {
        // The rest of the budget is divided among the tables without a given size; an entry has two signs.
        int left = SIZES.bits - SIZES.metadata - SIZES.locals * LOCAL_BITS - STACK * 16, free = 0;
        for (int which = 0; which < SIZES.count; ++which) {
            left -= SIZES.features[which].size * (SIZES.features[which].bits + 1);
            free += SIZES.features[which].size == 0;
        }
        for (int which = 0; which < SIZES.count; ++which) {
            const Feature& feature = SIZES.features[which];
            Table& table = tables_[which];
            table.first = static_cast<int>(counters_.size());
            table.size = feature.size != 0 ? feature.size : left / free / (feature.bits + 1);
            table.highest = (1 << (feature.bits - 1)) - 1;
            for (int level = 0; level <= table.highest; ++level) {
                const int magnitude = feature.bits == 6 ? MAGNITUDES[level] : SHORT_MAGNITUDES[level];
                table.plain[level] = magnitude;
                table.scaled[level] = static_cast<int>(feature.coefficient * magnitude);
            }
            counters_.resize(counters_.size() + table.size, 0);
            // Signs of a table in an odd position, and the second sign everywhere, begin negative.
            for (int entry = 0; entry < table.size; ++entry) {
                signs_.push_back(which & 1);
                signs_.push_back(1);
            }
        }
    }

    // The bits of SIZES.bits that the tables and all else take.
    std::int64_t bits_used() const {
        std::int64_t bits = SIZES.metadata + SIZES.locals * LOCAL_BITS + STACK * 16;
        for (int which = 0; which < SIZES.count; ++which)
            bits += std::int64_t{tables_[which].size} * (SIZES.features[which].bits + 1);
        return bits;
    }

    bool predict(int slot, Address address) override {
        Record& record = records_[slot];
        const std::int64_t pc = address & 0xFFFFFFFF;
        record.filtered = false;
        record.sum = 0;
        record.hash = hash(pc);
        bool unknown = false;
        if (SIZES.filters > 0) {
            const std::uint8_t seen = filters_[filter_of(record.hash)];
            if (seen == TAKEN_ONCE || seen == NOT_TAKEN_ONCE) {
                record.filtered = true;
                return seen == TAKEN_ONCE;
            }
            unknown = seen == 0;
        }
        const std::int64_t local = local_[(pc >> 2) % SIZES.locals], ones = (1 << LOCAL_BITS) - 1;
        int total = local == 0 ? -5 : local == ones ? 5 : local == 1 << (LOCAL_BITS - 1) ? -1 : 0;
        total += local == ones >> 1;
        select(record, pc);
        for (int which = 0; which < SIZES.count; ++which) {
            record.value[which] = weight(which, record.value[which], record.hash & 1);
            total += record.value[which];
        }
        record.sum = static_cast<int>(total * FUDGE);
        if (unknown) return false;
        return (std::abs(record.sum) <= DOUBT ? sum_of_best(record) : record.sum) >= 1;
    }

    void speculate(int, Address pc, bool, bool conditional) override {
        if (!conditional) push(pc, 1 - ((pc >> 2) & 1));
    }

    void on_wrong_path(Address pc) override { push(pc, 1 - ((pc >> 2) & 1)); }

    void update(int slot, const BranchOutcome& branch) override {
        if (!branch.conditional) return;
        Record& record = records_[slot];
        const std::int64_t pc = branch.pc & 0xFFFFFFFF;
        std::uint8_t seen = TAKEN_ONCE | NOT_TAKEN_ONCE;
        if (SIZES.filters > 0) {
            std::uint8_t& filter = filters_[filter_of(record.hash)];
            seen = filter;
            filter |= branch.taken ? TAKEN_ONCE : NOT_TAKEN_ONCE;
        }
        if (seen == 0 || seen == (TAKEN_ONCE | NOT_TAKEN_ONCE)) train(record, pc, branch.taken);
        remember(record, pc, branch.taken, branch.target);
    }

  private:
    static constexpr int LOCAL_BITS = 11, STACK = 31, BLOCK = 21, WORDS = 17, RING = 128, MODULOS = 21, BLURRED = 7;
    static constexpr int SPEED = 9, FIRST_LIMIT = 10, DOUBT = 1, BEST = 20;
    static constexpr double FUDGE = 0.245;
    static constexpr std::uint64_t IN_RECENCY = 0x100000090;  // features whose index takes the place in the stack
    static constexpr std::uint8_t TAKEN_ONCE = 1, NOT_TAKEN_ONCE = 2;
    // Magnitude of a weight by its counter (the paper's section 4.2), for counters of 5 and of 4 bits beside the sign.
    static constexpr int MAGNITUDES[32] = {1,  3,  4,  5,  7,  8,  9,  11, 12, 14, 15, 17, 19, 21, 23, 25,
                                           27, 29, 32, 34, 37, 41, 45, 49, 53, 58, 63, 69, 76, 85, 94, 106};
    static constexpr int SHORT_MAGNITUDES[16] = {0, 4, 5, 7, 9, 11, 12, 14, 16, 17, 19, 22, 28, 33, 39, 45};

    struct Table {
        int first, size, highest;
        std::array<int, 32> plain{}, scaled{};
    };
    struct Record {
        bool filtered = false;
        std::int32_t sum = 0, hash = 0;
        std::array<std::int32_t, 37> value{};  // places of the features' weights, then the weights
    };

    // 16 bits of two integer hashes of the 32-bit address `pc`, weighted as the predictor weights them.
    static std::int32_t hash(std::int64_t address) {
        const auto pc = static_cast<std::uint32_t>(address);
        std::uint32_t first = (pc ^ 0xDEADBEEF) + (pc << 4);
        first ^= first >> 10;
        first += first << 7;
        first ^= first >> 13;
        std::uint32_t second = (pc ^ 61) ^ (pc >> 16);
        second += second << 3;
        second ^= second >> 4;
        second *= 0x27D4EB2D;
        second ^= second >> 15;
        return (10 * second + first) & 0xFFFF;
    }

    std::size_t filter_of(std::int32_t code) const { return (code ^ last_) % std::max(SIZES.filters, 1); }

    // Outcomes `first` to `last` (0 the newest) folded to words of 21 by addition; the first is shifted as gem5 does, by a
    // negative count, of which the processor takes 5 bits.
    std::int64_t block(int first, int last) const {
        const int start = first / BLOCK + 1, stop = last / BLOCK, rest = last - stop * BLOCK;
        const auto& words = words_[0];
        std::int64_t folded = words[start - 1] >> ((first - start * BLOCK) & 31);
        for (int word = start; word < stop; ++word) folded += words[word];
        return folded + ((words[stop] & ((1 << rest) - 1)) << (BLOCK - rest));
    }

    // The newest `depth` bits folded to words of 21 by xor.
    std::int64_t folded_bits(int group, int depth) const {
        const int whole = depth / BLOCK;
        std::int64_t folded = 0;
        for (int word = 0; word < whole; ++word) folded ^= words_[group][word];
        return folded ^ (words_[group][whole] & ((1 << (depth - whole * BLOCK)) - 1));
    }

    // The value of a feature: 32 bits. `place` is the branch's in the stack, in its table's units.
    std::int64_t value(const Feature& feature, std::int64_t pc, std::int64_t place) const {
        const int depth = feature.b, shift = feature.shift;
        std::int64_t value = 0;
        switch (feature.what) {
            case Perspective::Bias: break;
            case Perspective::Global: value = block(feature.a, depth); break;
            case Perspective::GlobalPath:
            case Perspective::Path:
                // Bits shifted by 32 or more are gone, so that of long paths the oldest part remains.
                for (int back = std::max(0, depth - (31 + shift) / shift); back < depth; ++back) {
                    const std::int64_t element = ring_[(newest_ + back) & (RING - 1)];
                    value = (value << shift) + (feature.what == Perspective::GlobalPath ? element : element >> 1);
                }
                break;
            case Perspective::GlobalBits: value = folded_bits(1 + feature.a, depth); break;
            case Perspective::Recency:
                for (int back = std::max(0, depth - (31 + shift) / shift); back < depth; ++back)
                    value = (value << shift) + stack_[back];
                break;
            case Perspective::RecencyPosition: value = place; break;
            case Perspective::Local: value = local_[(pc >> 2) % SIZES.locals]; break;
            case Perspective::Iterations: value = feature.a == 1 ? first_counter_ : fourth_counter_; break;
            case Perspective::Acyclic: value = alternating_; break;
            case Perspective::Blurry:
                for (const std::int64_t page : blurry_) value += page;
                break;
            default: {  // those of branches whose hash is a multiple of a small number
                const auto& ring = modulo_[feature.a == 3 ? 2 : feature.a];
                for (int back = 0; back < depth; ++back) {
                    if (feature.what == Perspective::Modulo)
                        value ^= (ring[back] & 1) << back;
                    else
                        value = ((value << shift) +
                                 (feature.what == Perspective::GlobalModuloPath ? ring[back] : ring[back] >> 1)) &
                                0xFFFFFFFF;
                }
            }
        }
        return value & 0xFFFFFFFF;
    }

    // The branch's place in the stack of recent branches, or its length.
    int place_in_stack(std::int64_t branch) const {
        return static_cast<int>(std::find(stack_.begin(), stack_.end(), branch) - stack_.begin());
    }

    // Notes the place of every feature's weight, by the histories of now.
    void select(Record& record, std::int64_t pc) const {
        const std::int64_t branch = (pc >> 2) & 0xFFFF;
        const int place = place_in_stack(branch);
#pragma GCC unroll 40
        for (int which = 0; which < SIZES.count; ++which) {
            const Table& table = tables_[which];
            const std::int64_t scaled = place == STACK ? table.size - 1 : std::int64_t{place} * table.size / STACK;
            std::int64_t key = (value(SIZES.features[which], pc, scaled) << 6) ^ branch;
            if ((SIZES.first_iterations >> which) & 1) key ^= first_counter_;
            if ((SIZES.fourth_iterations >> which) & 1) key ^= fourth_counter_;
            if ((IN_RECENCY >> which) & 1) key ^= scaled;
            record.value[which] = static_cast<std::int32_t>(table.first + key % table.size);
        }
    }

    // The weight at a place, scaled by the feature's coefficient.
    int weight(int which, int place, int side) const {
        const int size = tables_[which].scaled[counters_[place]];
        return signs_[2 * place + side] ? -size : size;
    }

    int plain_weight(int which, int place, int side) const {
        const int size = tables_[which].plain[counters_[place]];
        return signs_[2 * place + side] ? -size : size;
    }

    // The sum of the features that have been wrong least often.
    int sum_of_best(const Record& record) const {
        int total = 0;
        for (int which = 0; which < SIZES.count; ++which) {
            int better = 0;
            for (int other = 0; other < SIZES.count; ++other)
                better += wrong_[other] < wrong_[which] || (wrong_[other] == wrong_[which] && other < which);
            if (better < BEST) total += record.value[which];
        }
        return total;
    }

    void train(Record& record, std::int64_t pc, bool taken) {
        const bool right = (record.sum >= 1) == taken;
        const int size = std::abs(record.sum), side = record.hash & 1;
        if (right && size > limit_) return;
        select(record, pc);
        if (size <= DOUBT)
            for (int which = 0; which < SIZES.count; ++which)
                wrong_[which] += (weight(which, record.value[which], side) >= 1) != taken;
        // Threshold adaptation (Seznec, O-GEHL, ISCA 2005).
        if (!right) {
            if (++adjust_ >= SPEED) {
                ++limit_;
                adjust_ = 0;
            }
        } else if (size < limit_) {
            if (--adjust_ <= -SPEED) {
                --limit_;
                adjust_ = 0;
            }
        }
        int total = 0;
        for (int which = 0; which < SIZES.count; ++which) {
            const int place = record.value[which];
            std::uint8_t& sign = signs_[2 * place + side];
            std::int8_t& counter = counters_[place];
            if (sign == taken) {  // towards zero; there the sign changes
                if (counter == 0)
                    sign = !taken;
                else
                    --counter;
            } else if (counter < tables_[which].highest) {
                ++counter;
            }
            total += plain_weight(which, place, side);
        }
        if ((total >= 1) == taken) return;
        // Still wrong: a weight without which it would be right loses a step.
        const std::int64_t first = random_.next();
        for (int turn = 0; turn < SIZES.count; ++turn) {
            const int which = static_cast<int>((first + turn) % SIZES.count), place = record.value[which];
            if ((total - plain_weight(which, place, side) >= 1) != taken) continue;
            if (counters_[place] > 1) --counters_[place];
            return;
        }
    }

    // A branch enters the global history and the path.
    void push(std::int64_t pc, std::int64_t outcome) {
        const std::int64_t branch = (pc >> 2) & 0xFFFF;
        newest_ = (newest_ - 1) & (RING - 1);
        ring_[newest_] = 2 * branch + outcome;
        for (int group = 0; group < (SIZES.large ? 3 : 1); ++group) {
            std::int64_t enters = outcome;
            if (group > 0) enters ^= (branch >> (group == 1 ? 4 : 1)) & 1;
            for (std::int64_t& word : words_[group]) {
                const std::int64_t full = (word << 1) | enters;
                word = full & ((1 << BLOCK) - 1);
                enters = full >> BLOCK;
            }
        }
    }

    void remember(const Record& record, std::int64_t pc, bool taken, Address target) {
        const std::int64_t branch = (pc >> 2) & 0xFFFF;
        if (target < pc)  // that is, taken: `target` is where it went
            first_counter_ = taken ? (first_counter_ + 1) & 0xFFFFFFFF : 0;
        else
            fourth_counter_ = taken ? 0 : (fourth_counter_ + 1) & 0xFFFFFFFF;
        push(pc, taken);
        const int place = record.hash % 12;
        alternating_ = (alternating_ & ~(std::int64_t{1} << place)) | (std::int64_t{taken} << place);
        for (int which = SIZES.large ? 1 : 0; which < (SIZES.large ? 3 : 1); ++which)
            if (record.hash % (which == 2 ? 5 : which + 2) == 0) insert(modulo_[which], MODULOS - 1, 2 * branch + taken);
        if (blurry_[0] != pc >> 10) insert(blurry_, BLURRED - 1, pc >> 10);
        insert(stack_, std::min(place_in_stack(branch), STACK - 1), branch);
        if (!record.filtered) {
            std::int64_t& local = local_[(pc >> 2) % SIZES.locals];
            local = ((local << 1) | taken) & ((1 << LOCAL_BITS) - 1);
        }
        last_ = taken;
    }

    // Puts a value in front; what is at `last` is gone.
    template <std::size_t SIZE>
    static void insert(std::array<std::int64_t, SIZE>& values, int last, std::int64_t value) {
        std::copy_backward(values.begin(), values.begin() + last, values.begin() + last + 1);
        values[0] = value;
    }

    std::array<Table, 37> tables_{};
    std::vector<std::int8_t> counters_;  // magnitudes of all tables' weights
    std::vector<std::uint8_t> signs_;    // two each; 1: negative
    std::vector<std::uint8_t> filters_;
    std::vector<std::int64_t> local_;
    // Words of 21 outcomes, alone and xored with two bits of the path.
    std::array<std::array<std::int64_t, WORDS>, 3> words_{};
    std::array<std::int64_t, RING> ring_{};  // addresses of branches with their outcomes
    std::array<std::int64_t, STACK> stack_{};
    std::array<std::int64_t, BLURRED> blurry_{};
    std::array<std::array<std::int64_t, MODULOS>, 3> modulo_{};  // of branches whose hash is a multiple of 2, 3 and 5
    std::array<std::int64_t, 37> wrong_{};                       // the features' errors
    std::int64_t newest_ = 0, first_counter_ = 0, fourth_counter_ = 0, alternating_ = 0;
    int limit_ = FIRST_LIMIT, adjust_ = 0, last_ = 0;
    Random random_{0x2545F491};
    std::array<Record, IN_FLIGHT> records_;
};

}  // namespace perfvec
