// TAGE (Seznec & Michaud, "A case for (partially) tagged geometric history length branch prediction", JILP 2006).
//
// The default sizes are gem5's: 7 tagged tables of 512, histories 5 to 130, a bimodal table of 8,192. As in gem5 histories
// move at prediction and tables learn at retirement, an entry is allocated at one of the next three tables (1/2, 1/4,
// 1/4), and an entry just allocated yields to the alternative while that does better.
#pragma once

#include <array>
#include <vector>

#include "../random.hpp"
#include "direction_predictor.hpp"
#include "folded_history.hpp"
#include "tage_tables.hpp"

namespace perfvec {

template <int TABLES>
struct TageSizes {
    int log_bimodal, shortest, longest;  // histories
    std::array<int, TABLES> log_size, tag_bits;
};

inline constexpr TageSizes<7> TAGE_SIZES{13, 5, 130, {9, 9, 9, 9, 9, 9, 9}, {9, 9, 10, 10, 11, 11, 12}};

template <int TABLES, const TageSizes<TABLES>& SIZES>
class Tage : public DirectionPredictor {
  public:
    Tage() : Tage(geometric(SIZES.shortest, SIZES.longest, TABLES)) {}

    bool predict(int slot, Address pc) override {
        Record& record = records_[slot];
        const std::int64_t key = pc >> 2;
        const std::int32_t *by_index = history_.registers(INDEX),
                           *first = history_.registers(FIRST_TAG),
                           *second = history_.registers(SECOND_TAG);
#pragma GCC unroll 16
        for (int table = 1; table <= TABLES; ++table) {
            const int log_size = SIZES.log_size[table - 1];
            const std::int64_t index = key ^ (key >> (std::abs(log_size - table) + 1)) ^ by_index[table - 1] ^
                                       mixed_path(path_ & path_mask_[table], log_size, table);
            const std::int64_t tag = key ^ first[table - 1] ^ (second[table - 1] << 1);
            record.entry[table] = static_cast<std::int32_t>(first_[table] + (index & ((1 << log_size) - 1)));
            record.tag[table] = static_cast<std::uint16_t>(tag & ((1 << SIZES.tag_bits[table - 1]) - 1));
        }
        int provider = 0, alternative = 0;
#pragma GCC unroll 16
        for (int table = 1; table <= TABLES; ++table) {
            const bool hit = entries_[record.entry[table]].tag == record.tag[table];
            alternative = hit ? provider : alternative;
            provider = hit ? table : provider;
        }
        const bool bimodal = bimodal_.taken(bimodal_.place(key));
        record.provider = provider;
        record.alternative = alternative;
        record.provided = record.alternate = record.predicted = bimodal;
        record.unsure = false;
        if (provider > 0) {
            if (alternative > 0) record.alternate = entries_[record.entry[alternative]].taken();
            const TaggedEntry& entry = entries_[record.entry[provider]];
            record.provided = entry.taken();
            record.unsure = entry.sureness() == 1;
            record.predicted = record.unsure && use_alternative_ >= 0 ? record.alternate : record.provided;
        }
        return record.predicted;
    }

    void speculate(int, Address pc, bool taken, bool) override {
        path_ = ((path_ << 1) | ((pc >> 2) & 1)) & ((1 << PATH_BITS) - 1);
        history_.shift_in(taken);
    }

    void update(int slot, const BranchOutcome& branch) override {
        if (branch.conditional) learn(records_[slot], branch.pc, branch.taken);
    }

  protected:
    struct Record {
        std::array<std::int32_t, TABLES + 1> entry{};
        std::array<std::uint16_t, TABLES + 1> tag{};
        std::int32_t provider = 0, alternative = 0;  // tables, counted from 1; 0: bimodal
        bool provided = false, alternate = false, predicted = false;
        bool unsure = false;  // the provider
    };

    void learn(const Record& record, Address pc, bool taken) {
        const int provider = record.provider;
        bool allocate_one = record.predicted != taken && provider < TABLES;
        if (provider > 0 && record.unsure) {
            if (record.provided == taken) allocate_one = false;  // it was right and only too new to be believed
            if (record.provided != record.alternate) count(use_alternative_, record.alternate == taken, -8, 7);
        }
        if (allocate_one) allocate(record, taken);
        if ((++age_ & (RESET_PERIOD - 1)) == 0)  // let old entries go: halve every usefulness
            for (TaggedEntry& entry : entries_) entry.useful = static_cast<std::int8_t>(entry.useful >> 1);
        const std::int64_t bimodal = bimodal_.place(pc >> 2);
        if (provider == 0) {
            bimodal_.update(bimodal, taken);
            return;
        }
        TaggedEntry& entry = entries_[record.entry[provider]];
        entry.update(taken);
        if (entry.useful == 0) {  // not known to be useful: what it would fall back to goes on learning
            if (record.alternative > 0)
                entries_[record.entry[record.alternative]].update(taken);
            else
                bimodal_.update(bimodal, taken);
        }
        if (record.predicted != record.alternate) count(entry.useful, record.predicted == taken, 0, 3);
    }

    Random random_{0x2545F491};
    std::array<Record, IN_FLIGHT> records_;

  private:
    static constexpr int PATH_BITS = 16;
    static constexpr std::int64_t RESET_PERIOD = 1 << 18, FIRST_AGE = 1 << 17;

    explicit Tage(const std::vector<int>& lengths) : history_(lengths, widths()), bimodal_(SIZES.log_bimodal) {
        std::int64_t size = 0;
        for (int table = 1; table <= TABLES; ++table) {
            first_[table] = size;
            path_mask_[table] = (1 << std::min(PATH_BITS, lengths[table - 1])) - 1;
            size += std::int64_t{1} << SIZES.log_size[table - 1];
        }
        entries_.resize(size);
    }

    static std::vector<FoldedWidths> widths() {
        std::vector<FoldedWidths> widths;
        for (int k = 0; k < TABLES; ++k) widths.push_back({SIZES.log_size[k], SIZES.tag_bits[k], SIZES.tag_bits[k] - 1});
        return widths;
    }

    // The path history folded once and rotated by the table's number; nothing is left of it where the number is above
    // log2 of the table's size (gem5 shifts by a negative count there).
    static std::int64_t mixed_path(std::int64_t path, int log_size, int table) {
        const std::int64_t mask = (1 << log_size) - 1;
        const int back = (log_size - table) & 31;
        const std::int64_t high = path >> log_size;
        const std::int64_t mixed = (path & mask) ^ (((high << table) & mask) + (high >> back));
        return ((mixed << table) & mask) + (mixed >> back);
    }

    // One entry that is not useful in a table of longer history; where there is none, the first one asked gives way.
    void allocate(const Record& record, bool taken) {
        const int provider = record.provider;
        const std::int64_t random = random_.next() & ((std::int64_t{1} << (TABLES - provider - 1)) - 1);
        int start = provider + 1;
        if (random & 1) start += random & 2 ? 2 : 1;
        bool free = false;
        for (int table = provider + 1; table <= TABLES; ++table) free |= entries_[record.entry[table]].useful == 0;
        if (!free) entries_[record.entry[start]].useful = 0;
        for (int table = start; table <= TABLES; ++table) {
            TaggedEntry& entry = entries_[record.entry[table]];
            if (entry.useful == 0) {
                entry.allocate(record.tag[table], taken);
                return;
            }
        }
    }

    FoldedHistory<TABLES> history_;
    Bimodal bimodal_;
    std::vector<TaggedEntry> entries_;  // of all tables, one after another
    std::array<std::int64_t, TABLES + 1> first_{}, path_mask_{};
    std::int64_t path_ = 0, age_ = FIRST_AGE;
    std::int8_t use_alternative_ = 0;
};

}  // namespace perfvec
