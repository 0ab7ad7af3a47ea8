// TAGE (Seznec & Michaud, "A case for (partially) tagged geometric history length branch prediction", JILP 2006).
//
// The default sizes are gem5's: 7 tagged tables of 512, histories 5 to 130, a bimodal table of 8,192. As in gem5 histories
// move at prediction and tables learn at retirement, an entry is allocated at one of the next three tables (1/2, 1/4,
// 1/4), and an entry just allocated yields to the alternative while that does better.
#pragma once

#include <array>
#include <stdexcept>
#include <vector>

#include "../random.hpp"
#include "direction_predictor.hpp"
#include "folded_history.hpp"
#include "tage_tables.hpp"

namespace perfvec {

template <int TABLES>
struct TageSizes {
    int log_bimodal, shortest, longest;  // histories
    int log_period;  // of branches, after which every usefulness is halved
    std::array<int, TABLES> log_size, tag_bits;
};

inline constexpr TageSizes<7> TAGE_SIZES{13, 5, 130, 18, {9, 9, 9, 9, 9, 9, 9}, {9, 9, 10, 10, 11, 11, 12}};

template <int TABLES, const TageSizes<TABLES>& SIZES>
class Tage : public DirectionPredictor {
  public:
    Tage() : Tage(geometric(SIZES.shortest, SIZES.longest, TABLES)) {}

    bool predict(int slot, Address pc) override {
        Record& record = records_[slot];
        const std::int64_t key = pc >> 2;
        look_up(record, static_cast<std::uint32_t>(key));
        std::uint32_t hits = 0;  // a bit for each table
#pragma GCC unroll 16
        for (int table = 1; table <= TABLES; ++table)
            hits |= std::uint32_t{entries_[record.entry[table - 1]].tag == record.tag[table - 1]} << table;
        const int provider = highest(hits);
        const int alternative = highest(hits & ~(1u << provider));
        const bool bimodal = bimodal_.taken(bimodal_.place(key));
        record.provider = provider;
        record.alternative = alternative;
        record.provided = record.alternate = record.predicted = bimodal;
        record.unsure = false;
        if (provider > 0) {
            if (alternative > 0) record.alternate = entry_of(record, alternative).taken();
            const TaggedEntry& entry = entry_of(record, provider);
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
    // Everything about tables is computed for all of them at once, in 16 bits each.
    using History = FoldedHistory<TABLES, std::uint16_t>;
    using Lanes = typename History::Lanes;

    struct Record {
        Lanes entry{}, tag{};  // of each table
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
        if ((++age_ & ((std::int64_t{1} << SIZES.log_period) - 1)) == 0)  // let old entries go
            for (TaggedEntry& entry : entries_) entry.useful = static_cast<std::int8_t>(entry.useful >> 1);
        const std::int64_t bimodal = bimodal_.place(pc >> 2);
        if (provider == 0) {
            bimodal_.update(bimodal, taken);
            return;
        }
        TaggedEntry& entry = entry_of(record, provider);
        entry.update(taken);
        if (entry.useful == 0) {  // not known to be useful: what it would fall back to goes on learning
            if (record.alternative > 0)
                entry_of(record, record.alternative).update(taken);
            else
                bimodal_.update(bimodal, taken);
        }
        if (record.predicted != record.alternate) count(entry.useful, record.predicted == taken, 0, 3);
    }

    Random random_{0x2545F491};
    std::array<Record, IN_FLIGHT> records_;

  private:
    static constexpr int PATH_BITS = 16;
    static constexpr std::int64_t FIRST_AGE = 1 << 17;

    explicit Tage(const std::vector<int>& lengths) : history_(lengths, widths()), bimodal_(SIZES.log_bimodal) {
        std::size_t size = 0;
        for (int k = 0; k < TABLES; ++k) {
            const int log_size = SIZES.log_size[k], table = k + 1;
            first_[k] = static_cast<std::uint16_t>(size);
            size += std::size_t{1} << log_size;
            index_mask_[k] = static_cast<std::uint16_t>((1 << log_size) - 1);
            tag_mask_[k] = static_cast<std::uint16_t>((1 << SIZES.tag_bits[k]) - 1);
            key_shift_[k] = static_cast<std::uint16_t>(1 << (16 - (std::abs(log_size - table) + 1)));
            const int path_bits = std::min(PATH_BITS, lengths[k]);
            for (int part = 0; part < PATH_PARTS; ++part)
                for (int value = 0; value < 1 << PART_BITS; ++value) {
                    const std::int64_t path = (value << (part * PART_BITS)) & ((1 << path_bits) - 1);
                    mixed_path_[part][value][k] = static_cast<std::uint16_t>(mixed_path(path, log_size, table));
                }
        }
        if (size > 1 << 16) throw std::invalid_argument("the tagged tables have more than 65,536 entries");
        entries_.resize(size);
    }

    static int highest(std::uint32_t bits) { return bits == 0 ? 0 : 31 - __builtin_clz(bits); }

    TaggedEntry& entry_of(const Record& record, int table) { return entries_[record.entry[table - 1]]; }

    // Where the branch's entries are in all tables, and their tags.
    void look_up(Record& record, std::uint32_t key) const {
        const auto low = static_cast<std::uint16_t>(key), high = static_cast<std::uint16_t>(key >> 16);
        const Lanes &by_index = history_.registers(INDEX), &first = history_.registers(FIRST_TAG),
                    &second = history_.registers(SECOND_TAG);
        const auto path = [&](int part) -> const Lanes& {
            return mixed_path_[part][(path_ >> (part * PART_BITS)) & ((1 << PART_BITS) - 1)];
        };
        const Lanes &path0 = path(0), &path1 = path(1), &path2 = path(2), &path3 = path(3);
        Lanes entry, tag;  // apart from what is read, so that the compiler may take several at a time
        for (int k = 0; k < History::LANES; ++k) {
            // The key shifted right: what stays of its low half, and what comes from the high one.
            const std::uint32_t shift = key_shift_[k];
            const auto shifted = static_cast<std::uint16_t>((low * shift >> 16) | (high * shift));
            const auto index = static_cast<std::uint16_t>(low ^ shifted ^ by_index[k] ^ path0[k] ^ path1[k] ^ path2[k] ^ path3[k]);
            entry[k] = static_cast<std::uint16_t>(first_[k] + (index & index_mask_[k]));
            tag[k] = static_cast<std::uint16_t>((low ^ first[k] ^ (second[k] << 1)) & tag_mask_[k]);
        }
        std::copy_n(entry, History::LANES, record.entry);
        std::copy_n(tag, History::LANES, record.tag);
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
        for (int table = provider + 1; table <= TABLES; ++table) free |= entry_of(record, table).useful == 0;
        if (!free) entry_of(record, start).useful = 0;
        for (int table = start; table <= TABLES; ++table) {
            TaggedEntry& entry = entry_of(record, table);
            if (entry.useful == 0) {
                entry.allocate(record.tag[table - 1], taken);
                return;
            }
        }
    }

    static constexpr int PART_BITS = 4, PATH_PARTS = PATH_BITS / PART_BITS;

    History history_;
    Bimodal bimodal_;
    std::vector<TaggedEntry> entries_;  // of all tables, one after another
    alignas(16) Lanes first_{}, index_mask_{}, tag_mask_{};  // in `entries_`
    alignas(16) Lanes key_shift_{};                         // a power of two that shifts the key right, out of 16 bits
    // `mixed_path` of the path history's parts, which are combined by exclusive or.
    alignas(16) Lanes mixed_path_[PATH_PARTS][1 << PART_BITS]{};
    std::int64_t path_ = 0, age_ = FIRST_AGE;
    std::int8_t use_alternative_ = 0;
};

}  // namespace perfvec
