// ITTAGE (Seznec & Michaud, "A case for (partially) tagged geometric history length branch prediction", JILP 2006; Seznec,
// "A 64-Kbytes ITTAGE indirect branch predictor", JWAC-2 2011): the last target by address, and tagged tables of targets
// with ever longer histories, of which the longest that knows the jump is believed.
//
// On interpreters a Haswell mispredicts about as seldom as ITTAGE does (Rohou, Swamy & Seznec, "Branch prediction and the
// performance of interpreters: don't trust folklore", CGO 2015). The sizes are our own: 6 tables of 512 targets, histories
// of 8 to 512 bits. A conditional branch brings its direction into the history, an indirect one five bits of its target.
#pragma once

#include <array>
#include <vector>

#include "../random.hpp"
#include "folded_history.hpp"
#include "indirect_predictor.hpp"
#include "saturating_counter.hpp"

namespace perfvec {

class Ittage : public IndirectPredictor {
  public:
    Address predict(int slot, Address pc, Address otherwise) override {
        Record& record = records_[slot];
        record = {};
        record.last = static_cast<std::size_t>(mixed(pc)) & (LAST_TARGETS - 1);
        const Address last = last_[record.last].target;
        Address found[TABLES + 1] = {last == NOWHERE ? otherwise : last};
        for (int table = 1; table <= TABLES; ++table) {
            const int k = table - 1;
            const auto key = static_cast<std::uint32_t>(mixed(pc));
            record.entry[k] = static_cast<std::uint16_t>((key ^ (key >> (LOG_SIZE - k)) ^ history_(INDEX, k)) & (SIZE - 1));
            record.tag[k] = static_cast<std::uint16_t>((key ^ history_(FIRST_TAG, k) ^ (history_(SECOND_TAG, k) << 1)) & TAG_MASK);
            const Entry& entry = entry_of(record, table);
            if (entry.target == NOWHERE || entry.tag != record.tag[k]) continue;
            record.alternative = record.provider;
            record.provider = table;
            found[table] = entry.target;
        }
        record.provided = found[record.provider];
        record.alternate = found[record.alternative];
        record.unsure = record.provider > 0 && entry_of(record, record.provider).confidence == 0;
        record.predicted = record.unsure && use_alternative_ >= 0 ? record.alternate : record.provided;
        return record.predicted;
    }

    void speculate(int, const BranchOutcome& branch, bool) override {
        if (branch.conditional) {
            history_.shift_in(branch.taken);
        } else if (!branch.direct) {
            const Address target = mixed(branch.target);
            for (int bit = 0; bit < TARGET_BITS; ++bit) history_.shift_in((target >> bit) & 1);
        }
    }

    void update(int slot, const BranchOutcome& branch) override {
        const Record& record = records_[slot];
        const Address target = branch.target;
        if (record.provider == 0 || record.unsure) last_[record.last].update(target);
        if (record.provider > 0) {
            Entry& entry = entry_of(record, record.provider);
            if (record.provided != record.alternate) {
                if (record.unsure) count(use_alternative_, record.alternate == target, -8, 7);
                entry.useful = record.provided == target;
            }
            entry.update(target);
        }
        const bool known = record.unsure && record.provided == target;  // right, and only too new to be believed
        if (record.predicted != target && !known) allocate(record, target);
    }

  private:
    static constexpr int TABLES = 6, LOG_SIZE = 9, SIZE = 1 << LOG_SIZE, LAST_TARGETS = 4096;
    static constexpr int TAG_BITS = 11, TAG_MASK = (1 << TAG_BITS) - 1, TARGET_BITS = 5;
    static constexpr int SHORTEST = 8, LONGEST = 512;

    struct Entry {
        Address target = NOWHERE;
        std::uint16_t tag = 0;
        std::int8_t confidence = 0;  // 0 to 3
        bool useful = false;

        // Another target takes its place when confidence has gone.
        void update(Address went) {
            if (went == target || confidence > 0)
                count(confidence, went == target, 0, 3);
            else
                target = went;
        }
    };
    struct Record {
        std::array<std::uint16_t, TABLES> entry{}, tag{};
        std::size_t last = 0;
        std::int32_t provider = 0, alternative = 0;  // tables, counted from 1; 0: the last target
        Address provided = NOWHERE, alternate = NOWHERE, predicted = NOWHERE;
        bool unsure = false;  // the provider
    };

    // x86-64 jumps to any byte: no bit of the address is left out.
    static Address mixed(Address address) { return address ^ (address >> 5) ^ (address >> 11); }

    static std::vector<FoldedWidths> widths() { return {TABLES, {LOG_SIZE, TAG_BITS, TAG_BITS - 1}}; }

    Entry& entry_of(const Record& record, int table) { return entries_[(table - 1) * SIZE + record.entry[table - 1]]; }

    // An entry in a table of longer history that is not useful, now and then not in the next one; without one, all that
    // were asked lose their usefulness.
    void allocate(const Record& record, Address target) {
        const int first = record.provider + 1;
        int table = first + (first < TABLES && (random_.next() & 3) == 0);
        for (; table <= TABLES; ++table) {
            Entry& entry = entry_of(record, table);
            if (entry.useful) continue;
            entry = {target, record.tag[table - 1]};
            return;
        }
        for (table = first; table <= TABLES; ++table) entry_of(record, table).useful = false;
    }

    FoldedHistory<TABLES> history_{geometric(SHORTEST, LONGEST, TABLES), widths()};
    std::vector<Entry> entries_ = std::vector<Entry>(std::size_t{TABLES} * SIZE);
    std::vector<Entry> last_ = std::vector<Entry>(LAST_TARGETS);
    std::array<Record, IN_FLIGHT> records_;
    std::int8_t use_alternative_ = 0;
    Random random_{0x51ED270B};
};

}  // namespace perfvec
