// TAGE-SC-L (Seznec, "TAGE-SC-L branch predictors again", CBP-5, 2016): TAGE, loop predictor, statistical corrector.
//
// The 8 KB variant up to 1,024 `entries`, above it the 64 KB one, with gem5's sizes. Two tables share a history length and a
// tag, so that a length has two ways; the tables' entries are interleaved in two memories, of short and of long tags.
//
// As gem5 implements it nothing is speculative: all histories move at retirement, so that a branch is predicted without
// those in flight. A branch brings two bits of its address and direction into the global history (an indirect jump three).
#pragma once

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "../random.hpp"
#include "direction_predictor.hpp"
#include "folded_history.hpp"
#include "loop_predictor.hpp"
#include "statistical_corrector.hpp"
#include "tage_tables.hpp"

namespace perfvec {

struct TageSclSizes {
    bool small;
    int lengths, shortest, longest;  // histories
    std::uint64_t used;              // a bit for each table that has entries
    int log_size, log_bimodal;
    int first_long;                  // the first table with long tags
    int short_banks, long_banks;

    constexpr int tables() const { return 2 * lengths; }
    constexpr bool has(int table) const { return (used >> table) & 1; }
};

// Bits first … last.
constexpr std::uint64_t bits(int first, int last) { return ((std::uint64_t{1} << (last + 1)) - 1) & ~((std::uint64_t{1} << first) - 1); }
constexpr std::uint64_t bit(int which) { return std::uint64_t{1} << which; }

inline constexpr TageSclSizes SMALL_TAGE_SC_L{
    true, 15, 4, 1000, bit(2) | bit(4) | bits(6, 20) | bit(22) | bit(24) | bit(26) | bit(28) | bit(30), 7, 12, 11, 9, 17};
inline constexpr TageSclSizes LARGE_TAGE_SC_L{
    false, 18, 6, 3000, bit(2) | bit(6) | bits(9, 22) | bit(24) | bit(26) | bit(28) | bit(32) | bit(36), 10, 13, 13, 10, 20};
inline constexpr LoopPredictorSizes SMALL_TAGE_SC_L_LOOPS{1, 10, 10, 15, 15, 7, false};
inline constexpr LoopPredictorSizes LARGE_TAGE_SC_L_LOOPS{3, 10, 10, 15, 15, 7, false};

template <const TageSclSizes& SIZES, const LoopPredictorSizes& LOOPS, const CorrectorSizes& CORRECTOR>
class TageScl final : public DirectionPredictor {
  public:
    TageScl() : TageScl(geometric(SIZES.shortest, SIZES.longest, SIZES.lengths)) {}

    bool predict(int slot, Address pc) override {
        Record& record = records_[slot];
        look_up(record, pc);
        TageOpinion& tage = record.tage;
        tage = {};
        for (int table = 1; table <= SIZES.tables(); ++table) {
            if (!SIZES.has(table) || entries_[record.entry[table]].tag != record.tag[table]) continue;
            tage.alternative = tage.provider;
            tage.provider = table;
        }
        const std::int64_t place = bimodal_.place(pc ^ (pc >> 2));
        const int value = bimodal_.value(place);
        tage.provided = tage.alternate = record.predicted = bimodal_.taken(place);
        tage.high = record.alternate_sure = value == 0 || value == 3;
        tage.low = !tage.high;
        record.unsure = false;
        if (tage.provider > 0) {
            if (tage.alternative > 0) {
                const TaggedEntry& alternative = entries_[record.entry[tage.alternative]];
                tage.alternate = alternative.taken();
                record.alternate_sure = alternative.sureness() > 1;
            }
            const TaggedEntry& provider = entries_[record.entry[tage.provider]];
            const int sureness = provider.sureness();
            tage.provided = provider.taken();
            record.unsure = tage.low = sureness == 1;
            tage.medium = sureness == 5;
            tage.high = sureness == 7;
            record.predicted = record.unsure && use_alternative(record) >= 0 ? tage.alternate : tage.provided;
        }
        const bool with_loops = loops_.predict(record.loop, pc, record.predicted);
        record.final = corrector_.predict(record.corrector, tage, pc, path_, with_loops);
        return record.final;
    }

    void update(int slot, const BranchOutcome& branch) override {
        const Address pc = branch.pc;
        if (branch.conditional) {
            const Record& record = records_[slot];
            corrector_.update(record.corrector, record.tage, pc, path_, branch.taken);
            loops_.update(record.loop, pc, branch.taken, record.predicted, record.final, random_);
            learn(record, pc, branch.taken);
            corrector_.shift_in(pc, branch.taken, branch.target);
        }
        const std::int64_t enters = pc ^ (pc >> 2) ^ branch.taken, steps = pc ^ (pc >> 2) ^ (pc >> 4);
        constexpr int width = SIZES.small ? 32 : PATH_BITS;
        for (int step = 0; step < (branch.conditional || branch.direct ? 2 : 3); ++step) {
            history_.shift_in((enters >> step) & 1);
            path_ = ((path_ << 1) ^ ((steps >> step) & 127)) & ((std::int64_t{1} << width) - 1);
        }
    }

  private:
    static constexpr int PATH_BITS = 27, SHORT_BITS = 8, LONG_BITS = 12;
    static constexpr int RESET_AT = 1024, FIRST_AGE = 512;
    using Loops = LoopPredictor<LOOPS>;
    using Corrector = StatisticalCorrector<CORRECTOR>;

    struct Record {
        std::array<std::int32_t, SIZES.tables() + 1> entry{};
        std::array<std::uint16_t, SIZES.tables() + 1> tag{};
        TageOpinion tage;
        typename Loops::Record loop;
        typename Corrector::Record corrector;
        bool predicted = false;  // by TAGE
        bool final = false;
        bool unsure = false, alternate_sure = false;
    };

    explicit TageScl(const std::vector<int>& lengths)
        : history_(lengths, widths()),
          bimodal_(SIZES.log_bimodal),
          entries_(static_cast<std::size_t>(SIZES.short_banks + SIZES.long_banks) << SIZES.log_size) {
        // gem5 shifts a 32-bit one by the history length, of which the processor takes 5 bits.
        long_path_mask_ = (std::int64_t{1} << (lengths[SIZES.first_long / 2] & 31)) - 1;
        for (int table = 1; table <= SIZES.tables(); ++table)
            path_mask_[table] = (std::int64_t{1} << std::min(PATH_BITS, lengths[(table - 1) / 2])) - 1;
    }

    static std::vector<FoldedWidths> widths() {
        std::vector<FoldedWidths> widths;
        for (int k = 0; k < SIZES.lengths; ++k) {
            const int tag_bits = 2 * k + 1 < SIZES.first_long ? SHORT_BITS : LONG_BITS;
            if (SIZES.small)
                widths.push_back({17 + 2 * k % 4, 13, 11});
            else
                widths.push_back({SIZES.log_size, tag_bits, tag_bits - 1});
        }
        return widths;
    }

    // TAGE's, but folded only where the table's number is below log2 of its size.
    static std::int64_t mixed_path(std::int64_t path, int table) {
        constexpr int log_size = SIZES.log_size;
        constexpr std::int64_t mask = (1 << log_size) - 1;
        const std::int64_t high = path >> log_size;
        if (table >= log_size) return (path & mask) ^ high;
        const std::int64_t mixed = (path & mask) ^ (((high << table) & mask) + (high >> (log_size - table)));
        return ((mixed << table) & mask) + (mixed >> (log_size - table));
    }

    static std::int64_t modulo(std::int64_t a, std::int64_t b) { return a - floor_divided(a, b) * b; }

    // Entries and tags of all tables.
    void look_up(Record& record, Address pc) const {
        constexpr std::int64_t mask = (1 << SIZES.log_size) - 1;
        const std::int64_t low = pc & 0xFFFFFFFF;
        std::int64_t before = 0;
        std::int64_t short_bank = modulo(pc ^ (path_ & path_mask_[1]), SIZES.short_banks);
        std::int64_t long_bank = modulo(pc ^ (path_ & long_path_mask_), SIZES.long_banks);
#pragma GCC unroll 20
        for (int pair = 0; pair < SIZES.lengths; ++pair) {
            const int table = 2 * pair + 1;
            const int tag_bits = table < SIZES.first_long ? SHORT_BITS : LONG_BITS;
            const std::int64_t mixed = mixed_path(path_ & path_mask_[table], table);
            const std::int64_t by_index = history_(INDEX, pair);
            const std::int64_t by_tag =
                history_(FIRST_TAG, pair) ^ (history_(SECOND_TAG, pair) << 1);
            std::int64_t key = low ^ (low >> (std::abs(SIZES.log_size - table) + 1)) ^ by_index ^ mixed;
            std::int64_t tag;
            if (SIZES.small) {
                key ^= (key >> SIZES.log_size) ^ (key >> (2 * SIZES.log_size));
                tag = (before << 2) ^ low ^ (low >> 2) ^ by_index;
                tag = (tag >> 1) ^ ((tag & 1) << 10) ^ mixed ^ by_tag;
                tag ^= tag >> tag_bits;
            } else {
                tag = low ^ by_tag;
            }
            tag &= (1 << tag_bits) - 1;
            before = by_index;
            for (int way = 0; way < 2; ++way) {
                if (!SIZES.has(table + way)) continue;
                std::int64_t bank;
                if (table < SIZES.first_long) {
                    bank = short_bank;
                    short_bank = short_bank + 1 == SIZES.short_banks ? 0 : short_bank + 1;
                } else {
                    bank = SIZES.short_banks + long_bank;
                    long_bank = long_bank + 1 == SIZES.long_banks ? 0 : long_bank + 1;
                }
                const std::int64_t place = way == 0 ? key : key ^ tag;
                record.entry[table + way] = static_cast<std::int32_t>((bank << SIZES.log_size) + (place & mask));
                record.tag[table + way] = static_cast<std::uint16_t>(tag);
            }
        }
    }

    std::int8_t& use_alternative(const Record& record) {
        return use_alternative_[((record.tage.provider - 1) / 8) * 2 + record.alternate_sure];
    }

    void learn(const Record& record, Address pc, bool taken) {
        const TageOpinion& tage = record.tage;
        bool allocate_some = record.predicted != taken && tage.provider < SIZES.tables();
        if (tage.provider > 0 && record.unsure) {
            if (tage.provided == taken) allocate_some = false;
            if (tage.provided != tage.alternate) count(use_alternative(record), tage.alternate == taken, -16, 15);
        }
        if (record.final == taken && (random_.next() & 31) != 0) allocate_some = false;  // the others made up for it
        if (allocate_some) allocate(record, taken);
        const std::int64_t bimodal = bimodal_.place(pc ^ (pc >> 2));
        if (tage.provider == 0) {
            bimodal_.update(bimodal, taken);
            return;
        }
        TaggedEntry& first = entries_[record.entry[tage.provider]];
        TaggedEntry& second = entries_[record.entry[tage.alternative]];  // where there is an alternative
        if (first.sureness() == 1 && tage.provided != taken) {
            if (tage.alternative > 0) {
                if (SIZES.small && second.sureness() == 1) second.useful = 0;
                second.update(taken);
                if (SIZES.small && second.sureness() == 1) second.useful = 0;
            } else {
                bimodal_.update(bimodal, taken);
            }
        }
        if (SIZES.small && first.sureness() == 1) first.useful = 0;
        first.update(taken);
        if (first.sureness() == 1) first.useful = 0;  // it has changed its mind: no use so far
        if (tage.alternate == taken && tage.provided == taken && tage.alternative > 0 && second.sureness() == 7 &&
            first.useful == 1)
            first.useful = 0;
        if (tage.provided != tage.alternate && tage.provided == taken) count(first.useful, true, 0, SIZES.small ? 3 : 1);
    }

    // Up to two entries in tables of longer history, where one table of a pair is as good as the other.
    void allocate(const Record& record, bool taken) {
        constexpr bool small = SIZES.small;
        const int further = (random_.next() & 127) < 32 ? 2 : 1;
        int at = ((record.tage.provider - 1 + 2 * further) & 0xFFE) ^ static_cast<int>(random_.next() & 1);
        int allocated = 0, age = 0;
        while (at < SIZES.tables() && allocated < 2) {
            for (int way = 0; way < 2; ++way) {
                const int table = (at ^ way) + 1;
                if (table > SIZES.tables()) break;
                if (!SIZES.has(table)) {
                    if (small) break;
                    continue;
                }
                TaggedEntry& entry = entries_[record.entry[table]];
                if (entry.useful > 0) {
                    ++age;
                    if (small) {
                        if (entry.useful == 1 && entry.sureness() == 1) {
                            if ((random_.next() & 7) == 0) entry.useful = 0;
                        } else {
                            ++age;
                        }
                    }
                    continue;
                }
                if (!small && entry.sureness() > 3) {  // sure of itself: first it becomes less so
                    entry.counter = static_cast<std::int8_t>(entry.counter + (entry.counter > 0 ? -1 : 1));
                    continue;
                }
                if (small && (random_.next() & 31) == 0) entry.useful = 1;
                entry.allocate(record.tag[table], taken);
                ++allocated;
                age -= small ? 5 : 2;
                if (allocated == 2) break;
                at += 2;
                if (!small) break;
            }
            at += 2;
        }
        age_ = std::max(age_ + age, 0);
        if (age_ >= RESET_AT) {  // too little is free: everything becomes less useful
            age_ = 0;
            for (TaggedEntry& entry : entries_) entry.useful = static_cast<std::int8_t>(entry.useful - (entry.useful > 0));
        }
    }

    // The large variant's registers have 12 bits at most: twice as many in one of the host's.
    FoldedHistory<SIZES.lengths, std::conditional_t<SIZES.small, std::uint32_t, std::uint16_t>> history_;
    Bimodal bimodal_;
    std::vector<TaggedEntry> entries_;
    Loops loops_;
    Corrector corrector_;
    Random random_{0x2545F491};
    std::array<std::int64_t, SIZES.tables() + 1> path_mask_{};
    std::int64_t long_path_mask_ = 0, path_ = 0;
    std::array<std::int8_t, 16> use_alternative_{};
    int age_ = FIRST_AGE;
    std::array<Record, IN_FLIGHT> records_;
};

using SmallTageScl = TageScl<SMALL_TAGE_SC_L, SMALL_TAGE_SC_L_LOOPS, SMALL_CORRECTOR>;
using LargeTageScl = TageScl<LARGE_TAGE_SC_L, LARGE_TAGE_SC_L_LOOPS, LARGE_CORRECTOR>;

}  // namespace perfvec
