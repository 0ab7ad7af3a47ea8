// The in-order core, after gem5's Minor: two fetch stages, decode, issue in order, commit in order.
//
// Operands are needed at issue, except that a simple integer operation takes them two stages late, so that dependent ones
// follow each other every cycle although its unit has three stages. Readers of a load issue as if it took LOAD_ASSUMED
// cycles; where it takes longer, they wait at the end of their units. A unit in which one waits stands still as a whole and
// takes nothing more (`Pipe`).
//
// An access leaves its unit for the queue of requests when the writers of its registers have committed, and that for the
// queue of transfers, from which it commits. There a load goes to the cache, and not before all older stores have committed.
//
// A branch is predicted by the second fetch stage, which tells the first one where to go on; all that was fetched behind
// it is thrown away, so that even a loop within one line asks for that line again each time. What that stage cannot tell
// (of an unconditional branch without a BTB entry, too) is found at commitment, from where fetch is redirected.
//
// With a real family's micro-operations the front end and commitment stay Minor's. Units and accesses are the family's:
// readers of a load are issued when its data are there, accesses follow each other every cycle, what takes longer keeps
// its unit, and only results of integers come early enough for operands that may be late.
#pragma once

#include <algorithm>
#include <vector>

#include "../branch/branch_unit.hpp"
#include "../cache/hierarchy.hpp"
#include "core.hpp"
#include "functional_units.hpp"
#include "slots.hpp"
#include "store_forwarding.hpp"

namespace perfvec {

// The latest events of a kind, by running number: a power of two of cycles.
class CycleRing {
  public:
    CycleRing(std::int64_t entries, Cycle initially) {
        std::size_t size = 1;
        while (size < static_cast<std::size_t>(entries)) size *= 2;
        cycles_.assign(size, initially);
    }
    Cycle& operator[](std::int64_t number) { return cycles_[number & static_cast<std::int64_t>(cycles_.size() - 1)]; }

  private:
    std::vector<Cycle> cycles_;
};

// A unit of Minor (SelfStallingPipeline): while what has reached its end waits there, it neither moves nor takes anything.
class Pipe {
  public:
    // When what was put in last is at the end.
    Cycle last_end() const { return count_ > 0 ? entries_[(count_ - 1) & (ENTRIES - 1)].end : 0; }

    // First cycle from `cycle` on in which it takes an operation.
    Cycle free_from(Cycle cycle) const {
        cycle = std::max(cycle, pushed_ + 1);
        for (std::int64_t k = count_ - 1; k >= 0 && k >= count_ - ENTRIES; --k) {
            const Entry& entry = entries_[k & (ENTRIES - 1)];
            if (entry.left <= cycle) break;
            if (entry.end <= cycle) return entry.left;
        }
        return cycle;
    }

    // Puts an operation in at `cycle`, after which it takes nothing for `kept` cycles; returns when the operation is at
    // the end, `stages` cycles later if nothing before it waits.
    Cycle push(Cycle cycle, Cycle stages, Cycle kept = 1) {
        Cycle end = cycle + stages;
        for (std::int64_t k = count_ - 1; k >= 0 && k >= count_ - ENTRIES; --k) {
            const Entry& entry = entries_[k & (ENTRIES - 1)];
            if (entry.end <= cycle) break;
            end += entry.left - entry.end;
        }
        pushed_ = cycle + kept - 1;
        return end;
    }

    // The entry put in last reaches the end at `end` and leaves at `left`.
    void leave(Cycle end, Cycle left) { entries_[count_++ & (ENTRIES - 1)] = {end, left}; }

  private:
    static constexpr std::int64_t ENTRIES = 16;
    struct Entry {
        Cycle end, left;
    };
    Entry entries_[ENTRIES] = {};
    std::int64_t count_ = 0;
    Cycle pushed_ = -1;
};

// The cycle of a commit, and as which operation of that cycle.
struct Committed {
    Cycle cycle = -1;
    std::int64_t slot = 0;

    bool operator<(const Committed& other) const {
        return cycle < other.cycle || (cycle == other.cycle && slot < other.slot);
    }
};

class InOrderCore final : public Core {
  public:
    InOrderCore(const Machine& machine, const Program& program, Hierarchy& caches, BranchUnit& branches);

    void grow(const Program& program) override { program_ = program; }
    void run(const Chunk& chunk, Latency* latency) override;
    void run(const Chunk& chunk, Latency* latency, const std::vector<StackTable>& tables) override;

  private:
    static constexpr int BEFORE_BRANCH = 3;  // micro-operations of an instruction up to a branch in its microcode
    // gem5's Minor: fetch1 → 1 → fetch2 → frontend_delay → decode → 1 → execute; the integer unit's three stages, of which
    // operands may be two late; the memory unit's one stage and its assumed latency.
    static constexpr Cycle TO_FETCH2 = 1, DECODE_TO_ISSUE = 1, TO_REFETCH = 1, BETWEEN_LINES = 1;
    static constexpr Cycle ALU_STAGES = 3, ALU_LATE = 2, MEMORY_STAGES = 1, MEMORY_LATE = 1, LOAD_ASSUMED = 3;
    static constexpr Cycle MULTIPLY_LATE = 1, BASE_STAGES = 1;  // of real families
    static constexpr int TRANSFERS = 2;       // accesses between requests and commitment (executeLSQTransfersQueueSize)
    static constexpr int STORES_A_CYCLE = 2;  // to memory (executeLSQMaxStoreBufferStoresPerCycle)
    static constexpr int ACCESSES = 4;        // that may be in the queues, and more
    static constexpr int LINES = 2;           // of code, held or under way (fetch2InputBufferSize)
    static constexpr int DECODE_BUFFER = 3;   // cycles' worth of instructions fetched for decode (decodeInputBufferSize)
    static constexpr int INPUT_BUFFER = 7;    // cycles' worth of instructions waiting for issue (executeInputBufferSize)
    static constexpr int RECENT = 8;          // bundles and parcels that are remembered
    static constexpr std::int64_t LANE = 8;   // bytes of one access of x86-64's vector registers
    static constexpr int MOST_UNDER_WAY = 256;
    static constexpr int CYCLES = 64;         // of which it is known what was committed, and what memory answered
    static constexpr Cycle TRAP = 13;
    static constexpr int PAIR = 2;             // `chained`: in two halves, each with a sum of its own
    static constexpr std::int64_t UNIT = 256;  // of a count of micro-operations that is no whole number

    struct Result {
        Cycle ready = 0;  // as the issue stage assumes
        Committed committed;
        bool forwards = true;  // to operands that may be late
    };
    struct Commits {  // of one cycle
        Cycle cycle = -1;
        std::int64_t count = 0, leading = 0, last_other = 0;  // accesses before all else; the last that is no access
    };

    struct Access {  // in the queues
        Cycle alone_from = -1;  // from when on it was the oldest of all, and there
        Committed committed;
    };

    template <bool STACK>
    void loop(const Chunk& chunk, Latency* latency);
    template <bool STACK>
    Cycle step(const Chunk& chunk, std::size_t k);
    template <bool STACK>
    void fetch(Address pc, std::int64_t length);
    template <bool STACK>
    Cycle arrive();
    template <bool STACK>
    Cycle issue(Cycle arrived, Cycle operands, Cause cause, Pipe*& pipes, std::int64_t count, bool memory);
    Committed commit(Cycle ready, bool memory);
    template <bool STACK>
    Result operate(Cycle operands, Cause cause, int unit, Divider divider, Cycle stages, Cycle kept = 1);
    template <bool STACK>
    Result divide(std::uint32_t here, const StaticInstruction& row, Address pc, Cycle operands, Cause cause);
    template <bool STACK>
    Result access(const StaticInstruction& row, Address pc, Address address, std::int64_t size, bool write, Cycle operands,
                  Committed known, Cause cause);
    bool asleep(Cycle cycle, Cycle active) const;
    Cycle leave_unit(Cycle end, const Committed& known) const;
    Cycle after(const Committed& earlier, Cycle cycle, const Committed& known) const;
    Cycle to_memory(Address pc, Address address, std::int64_t size, Cycle start, bool write);
    Cycle to_cache(Address pc, Address address, std::int64_t size, Cycle start, bool write);
    void store(Address pc, Address address, std::int64_t size, Cycle committed);
    void redirect(const Chunk& chunk, std::size_t k, Cycle committed);
    void go_on_from(std::uint32_t here, std::int64_t left, Address pc, Cycle committed, Cause cause);
    template <bool STACK>
    std::int64_t interrupt(std::uint32_t here, const StaticInstruction& row, Address pc);
    void refetch(Cycle again, Cause cause);
    Cycle beyond(std::uint32_t here, std::int64_t left, Address pc, Cycle committed);
    Cycle follow(Address pc);

    Program program_;
    Hierarchy& caches_;
    BranchUnit& branches_;
    bool ideal_branches_, taken_path_only_;
    bool native_;         // a real family's micro-operations
    Cycle memory_late_;
    Cycle awake_;  // cycles that the core ticks on after the last activity
    bool halves_;  // vector registers are two halves (x86-64's)
    std::int64_t usual_operations_ = UNIT;  // of the program's instructions, on average
    Address usual_length_ = 4;
    std::int64_t width_, frontend_delay_, memory_width_, store_buffer_, memory_in_flight_;
    SystemCalls system_calls_;
    int division_step_;  // cycles; 0: no division's steps are looked at
    bool division_at_most_;
    StaticInstruction divided_;  // the division at hand, in as many steps as it takes

    std::vector<Pipe> pipes_[RESOURCES];
    Pipe memory_unit_, int_divider_, fp_divider_;
    StoreForwarding forwarding_;
    Cause ready_cause_[REGISTERS + 1] = {};  // what brings the register's value
    Result result_[REGISTERS + 1] = {};      // of the latest writer
    Result temporary_;                       // of gem5's temporary register, of x86 microcode,
    Cause temporary_cause_ = LoadL1d;        // and what brings it
    CycleRing in_memory_;  // when each of the latest accesses was done
    Cause under_way_[MOST_UNDER_WAY] = {};  // what waiting for each of them is charged to
    CycleRing buffer_;     // when each of the latest stores was written
    Access latest_[ACCESSES];  // accesses
    Commits commits_[CYCLES];
    Cycle answers_[CYCLES] = {};

    Slots fetch_, decode_;  // the second fetch stage, by instructions; decode, by micro-operations
    Line line_ = -1;        // the last one
    Cycle line_came_ = 0, used_up_ = 0;     // when it came, and when the one before it was used up
    Cycle passed_on_ = -1, sent_on_ = -1;   // the cycles of the last bundle and of the last parcel
    std::int64_t bundles_ = 0, parcels_ = 0;  // of the second fetch stage and of decode, each of one cycle
    Cycle decoded_[RECENT] = {};     // when decode was through with each of the last bundles
    Cycle issued_[RECENT] = {};       // when all of each of the last parcels was issued
    Cycle issue_cycle_ = 0;
    std::int64_t issue_used_ = 0, issue_memory_ = 0;
    Cycle commit_cycle_ = 0;
    std::int64_t commit_used_ = 0, commit_memory_ = 0;
    std::int64_t operations_ = 0, accesses_ = 0, stores_ = 0, sent_to_memory_ = 0;  // counts so far
    Cycle requested_ = 0;    // when the last access went from the queue of requests to that of transfers
    Committed last_store_;
    Cycle written_ = 0;      // when all stores so far are written
    Cycle left_buffer_ = 0;  // when the last store left the store buffer
    int left_together_ = 0;  // stores that left it in that cycle
    bool accesses_follow_ = false;  // the next two instructions do nothing else
    bool prefetching_ = false;  // the instruction at hand is a prefetch
    Cycle serial_ = 0;       // after a serializing instruction
    Cycle chain_ = 0;        // when the last chained instruction is done

    Cause store_cause_ = StoreL1d;  // of the last store
    Waits waits_;
    CycleStack stack_;
    Cause redirect_cause_ = MispredictExecute;
    Cycle redirected_ = 0;
};

}  // namespace perfvec
