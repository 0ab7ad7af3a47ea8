// CPI stacks: every cycle between two retirements belongs to one cause.
//
// The cycles from one retirement to the next belong to the instruction that retires next, which is the oldest one in the
// machine all that time. Of them,
//
// - the share that the machine would need if nothing ever stalled, micro-operations divided by the narrowest width, is
//   `Retiring` (the base of Eyerman et al., "A performance counter architecture for computing accurate CPI components",
//   ASPLOS 2006, section 2);
// - the others are given, from the last one back, to what the instruction waited for last, then to what it waited for
//   before that, and so on through execution, operands, renaming, decode and fetch. A stage's fixed delay belongs to
//   nobody: the instruction before passed it too. So a wait counts only for the cycles in which nothing older could
//   retire, as with the stalls at the head of the reorder buffer that Yasin's top-down method (ISPASS 2014) counts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "types.hpp"

namespace perfvec {

// Columns of a stack. Their names and groups are in uarch/timing/stack.py.
enum Cause : std::uint8_t {
    Retiring,
    FetchL1i,  // waiting for code: the level that answered
    FetchL2,
    FetchL3,
    FetchMemory,
    FetchTranslation,  // for its address: the second TLB, or a walk
    FetchBandwidth,
    DecodeBandwidth,
    MispredictExecute,  // found when the branch executes
    MispredictDecode,   // found at decode: the target buffer did not know it
    ExecuteIntAlu,
    ExecuteIntMul,
    ExecuteIntDiv,
    ExecuteFpAdd,
    ExecuteFpMul,
    ExecuteFpDiv,
    ExecuteSimd,
    LoadL1d,  // waiting for data: the level that answered
    LoadL2,
    LoadL3,
    LoadMemory,
    LoadTranslation,
    LoadForward,  // from a store in flight
    LoadOrder,    // waited for an older store, or was done again after one
    Ports,
    FullReorderBuffer,
    FullIssueQueue,
    FullLoadQueue,
    FullStoreQueue,
    FullIntRegisters,
    FullFpRegisters,
    StoreL1d,  // the store queue is full of stores that are written: the level that they are written to
    StoreL2,
    StoreL3,
    StoreMemory,
    Stores,     // atomics and fences wait for stores
    Serialize,  // system calls and serializing instructions
    CAUSES,
};

constexpr Cause fetch_from(int level) {
    constexpr Cause causes[] = {FetchL1i, FetchL1i, FetchL2, FetchL3, FetchMemory};
    return causes[level];
}

constexpr Cause load_from(int level) {
    constexpr Cause causes[] = {LoadL1d, LoadL1d, LoadL2, LoadL3, LoadMemory};
    return causes[level];
}

constexpr Cause store_to(int level) {
    constexpr Cause causes[] = {StoreL1d, StoreL1d, StoreL2, StoreL3, StoreMemory};
    return causes[level];
}

// Causes of the cycles before something happened, the latest last: before a register's value was there, before a store was
// written. Of those before the latest only the sums by cause are known.
class History {
  public:
    void clear() { size_ = sums_ = 0; }

    void add(Cause cause, Cycle cycles) {
        if (cycles <= 0) return;
        if (size_ > 0 && latest_[size_ - 1].cause == cause) {
            latest_[size_ - 1].cycles += cycles;
            return;
        }
        if (size_ == LATEST) {
            sum_up(latest_[0]);
            for (int k = 1; k < LATEST; ++k) latest_[k - 1] = latest_[k];
            --size_;
        }
        latest_[size_++] = {cause, cycles};
    }

    // Nothing happened.
    void add_gap(Cycle cycles) { add(CAUSES, cycles); }

    Cause last(Cause otherwise) const {
        return size_ > 0 && latest_[size_ - 1].cause != CAUSES ? latest_[size_ - 1].cause : otherwise;
    }

    // Calls `give(cause, cycles)` for the last `cycles`, the first ones first: what the sums are of in proportion to them.
    template <typename Give>
    void last_cycles(Cycle cycles, const Give& give) const {
        int first = size_;
        Cycle covered = 0;
        while (first > 0 && covered < cycles) covered += latest_[--first].cycles;
        Cycle before = std::max<Cycle>(cycles - covered, 0), skipped = std::max<Cycle>(covered - cycles, 0);
        if (before > 0 && sums_ > 0) {
            Cycle left = 0;
            for (int k = 0; k < sums_; ++k) left += sum_[k].cycles;
            for (int k = 0; k < sums_; ++k) {
                const Cycle share = (before * sum_[k].cycles + left / 2) / left;  // to the nearest: else one cause gains at each
                give(sum_[k].cause, share);
                before -= share;
                left -= sum_[k].cycles;
            }
        }
        for (int k = first; k < size_; ++k) {
            give(latest_[k].cause, latest_[k].cycles - skipped + before);  // all that nothing else explains
            skipped = before = 0;
        }
    }

    bool empty() const { return size_ == 0; }

  private:
    static constexpr int LATEST = 8, SUMS = 4;
    struct Segment {
        Cause cause;
        Cycle cycles;
    };

    // Where there are more causes, the last one's sum takes them in.
    void sum_up(Segment segment) {
        int k = 0;
        while (k < sums_ && sum_[k].cause != segment.cause) ++k;
        if (k < sums_ || k == SUMS)
            sum_[std::min(k, SUMS - 1)].cycles += segment.cycles;
        else
            sum_[sums_++] = segment;
    }

    std::array<Segment, LATEST> latest_;
    std::array<Segment, SUMS> sum_;
    int size_ = 0, sums_ = 0;
};

// The waits of one instruction, in the order in which it did.
class Waits {
  public:
    void clear() {
        size_ = 0;
        execution_ = MOST;
    }

    void add(Cause cause, Cycle cycles) {
        if (cycles <= 0) return;
        if (size_ < MOST)
            waits_[size_++] = {cause, cycles};
        else
            add_to_another(cause, cycles);
    }

    // Waited `cycles` for an access, the first ones of them for its address to be translated.
    void add_access(Cause translation, Cycle translated, Cause cause, Cycle cycles) {
        translated = std::min(translated, std::max<Cycle>(cycles, 0));
        add(translation, translated);
        add(cause, cycles - translated);
    }

    // Waited `cycles` for what `history` tells of; `otherwise` where it tells nothing, or of a gap.
    void add(const History& history, Cycle cycles, Cause otherwise) {
        if (cycles <= 0) return;
        if (history.empty()) return add(otherwise, cycles);
        history.last_cycles(cycles, [&](Cause cause, Cycle share) { add(cause == CAUSES ? otherwise : cause, share); });
    }

    int size() const { return size_; }

    // The waits from number `first` on.
    void tell(History& history, int first) const {
        history.clear();
        for (int k = first; k < size_; ++k) history.add(waits_[k].cause, waits_[k].cycles);
    }

    // The waits of execution were for what a mispredicted branch depends on: nothing else could go on meanwhile.
    void misprediction() {
        for (int k = execution_; k < size_; ++k) waits_[k].cause = MispredictExecute;
    }

    // Takes `cycles` of the last wait back.
    void shorten(Cycle cycles) {
        if (size_ > 0) waits_[size_ - 1].cycles = std::max<Cycle>(waits_[size_ - 1].cycles - cycles, 0);
    }

    // From here on the waits are those of execution.
    void execution_begins() { execution_ = size_; }

    // Calls `give(cause, cycles)` until `cycles` are given: to the waits of execution, in proportion where they are more, then
    // to the others from the last one back, the rest to `otherwise`.
    template <typename Give>
    void charge(Cycle cycles, Cause otherwise, std::array<double, CAUSES>& credit, const Give& give) const {
        Cycle executing = 0;
        for (int k = execution_; k < size_; ++k) executing += waits_[k].cycles;
        if (executing > cycles) {
            Cycle left = cycles;
            for (int k = execution_; k < size_; ++k) {
                const Cycle whole = cycles * waits_[k].cycles / executing;
                credit[waits_[k].cause] +=
                    static_cast<double>(cycles * waits_[k].cycles % executing) / static_cast<double>(executing);
                if (whole > 0) give(waits_[k].cause, whole);
                left -= whole;
            }
            for (; left > 0; --left) {
                int most = execution_;
                for (int k = execution_ + 1; k < size_; ++k)
                    if (credit[waits_[k].cause] > credit[waits_[most].cause]) most = k;
                credit[waits_[most].cause] -= 1;
                give(waits_[most].cause, 1);
            }
            return;
        }
        for (int k = size_ - 1; k >= 0 && cycles > 0; --k) {
            const Cycle share = std::min(waits_[k].cycles, cycles);
            if (share > 0) give(waits_[k].cause, share);
            cycles -= share;
        }
        if (cycles > 0) give(otherwise, cycles);
    }

  private:
    struct Wait {
        Cause cause;
        Cycle cycles;
    };
    static constexpr int MOST = 48;

    // Where there are more waits, as a repeated string has, the latest one of the same cause takes them in.
    void add_to_another(Cause cause, Cycle cycles) {
        const int first = execution_ < MOST ? execution_ : 0;
        for (int k = MOST - 1; k >= first; --k) {
            if (waits_[k].cause == cause) {
                waits_[k].cycles += cycles;
                return;
            }
        }
    }

    std::array<Wait, MOST> waits_;
    int size_ = 0;
    int execution_ = MOST;  // the first of execution
};

// A table of CAUSES counts a row, to which a chunk's cycles are added: instruction k's in row `group[k]`.
struct StackTable {
    std::int64_t* cycles;        // [groups, CAUSES]
    const std::uint32_t* group;  // [n]
};

// Gives every cycle to a cause, in each of several tables.
class CycleStack {
  public:
    explicit CycleStack(std::int64_t narrowest_width) : width_(narrowest_width) {}

    void accumulate_into(const std::vector<StackTable>& tables) { tables_ = tables; }

    // Instruction `k` of the chunk at hand retires `cycles` after the one before.
    void retire(std::size_t k, std::int64_t operations, Cycle cycles, const Waits& waits, Cause otherwise) {
        due_ += operations;
        if (cycles == 0) return;
        const Cycle retiring = std::min(cycles, due_ / width_);
        due_ -= retiring * width_;
        for (const StackTable& table : tables_) {
            std::int64_t* row = table.cycles + std::int64_t{table.group[k]} * CAUSES;
            row[Retiring] += retiring;
        }
        if (cycles > retiring)
            waits.charge(cycles - retiring, otherwise, credit_, [&](Cause cause, Cycle share) {
                for (const StackTable& table : tables_)
                    table.cycles[std::int64_t{table.group[k]} * CAUSES + cause] += share;
            });
    }

  private:
    std::int64_t width_;
    std::int64_t due_ = 0;  // micro-operations whose share of Retiring is still to be given
    std::array<double, CAUSES> credit_{};  // parts of cycles that causes have yet to get
    std::vector<StackTable> tables_;
};

}  // namespace perfvec
