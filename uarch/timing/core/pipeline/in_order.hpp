// The in-order core, after gem5's Minor: two fetch stages, decode, issue in order, commit in order.
//
// Operands are needed at issue, except that a simple integer operation takes them two stages late, so that dependent ones
// follow each other every cycle although its unit has three stages. Readers of a load issue as if it took LOAD_ASSUMED
// cycles; where it takes longer, they wait in their units and everything behind waits for its turn to commit. An access
// leaves for memory one cycle after issue, when the writers of its address registers have committed.
//
// A branch is predicted by the second fetch stage, which tells the first one where to go on; all that was fetched behind
// it is thrown away, so that even a loop within one line asks for that line again each time. What that stage cannot tell
// (of an unconditional branch without a BTB entry, too) is found at commitment, from where fetch is redirected.
#pragma once

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

class InOrderCore final : public Core {
  public:
    InOrderCore(const Machine& machine, const Program& program, Hierarchy& caches, BranchUnit& branches);

    void run(const Chunk& chunk, std::uint16_t* latency) override;
    void run(const Chunk& chunk, std::uint16_t* latency, const std::vector<StackTable>& tables) override;

  private:
    // gem5's Minor: fetch1 → 1 → fetch2 → frontend_delay → decode → 1 → execute; the integer unit's three stages, of which
    // operands may be two late; the memory unit's one stage and its assumed latency.
    static constexpr Cycle FETCH_TO_DECODE = 1, DECODE_TO_ISSUE = 1, TO_REFETCH = 2, RELEASE = 1;
    static constexpr Cycle ALU_STAGES = 3, ALU_LATE = 2, MEMORY_LATE = 1, LOAD_ASSUMED = 3;
    static constexpr int TRANSFERS = 2;     // loads between memory and commitment (executeLSQTransfersQueueSize)
    static constexpr int AHEAD = 2;         // lines of code fetched beyond the one in use (fetch2InputBufferSize)
    static constexpr int INPUT_BUFFER = 7;  // instructions waiting for issue (executeInputBufferSize)
    static constexpr Cycle TRAP = 13;

    template <bool STACK>
    void loop(const Chunk& chunk, std::uint16_t* latency);
    template <bool STACK>
    Cycle step(const Chunk& chunk, std::size_t k);
    template <bool STACK>
    Cycle fetch(Address pc, std::int64_t length, std::int64_t operations);
    Cycle issue(Cycle cycle, std::int64_t operations, std::int64_t accesses, std::int64_t integers);
    Cycle send(Cycle issued, Cycle known);
    Cycle access(Address pc, Address address, std::int64_t size, Cycle start, bool write);
    template <bool STACK>
    Cycle load(Address pc, Address address, std::int64_t size, Cycle start);
    void store(Address pc, Address address, std::int64_t size, Cycle committed);
    void redirect(const StaticInstruction& row, Address pc, Address target, Cycle committed);
    Cycle fetch_beyond(Address pc, Cycle again);
    Cycle follow(Address pc);
    template <bool STACK>
    std::int64_t interrupt(const StaticInstruction& row, Address pc);
    void restart(Cycle again, Cause cause);

    Program program_;
    Hierarchy& caches_;
    BranchUnit& branches_;
    bool ideal_branches_;
    std::int64_t width_, frontend_delay_, memory_width_, store_buffer_, memory_in_flight_, front_entries_;
    std::int64_t integer_width_;  // micro-operations that go through the integer units in a cycle
    std::int64_t stage_entries_;

    FunctionalUnits units_;
    Dividers int_divider_{1}, fp_divider_{1};
    StoreForwarding forwarding_;
    Cause ready_cause_[REGISTERS + 1] = {};  // what brings the register's value
    Cycle ready_[REGISTERS + 1] = {};      // when the register's value exists, a load's as the issue stage assumes it
    Cycle committed_[REGISTERS + 1] = {};  // when its writer commits
    CycleRing front_;      // when each of the latest micro-operations left the front end
    CycleRing stages_;     // when each of the latest operations in the integer units was committed
    CycleRing in_flight_;  // when each of the latest loads could be committed
    CycleRing in_memory_;  // when each of the latest accesses was done
    CycleRing buffer_;     // when each of the latest stores was written

    Slots fetch_, commit_;
    double bytes_ = 0;  // of code for a micro-operation, on average over the program
    Line line_ = -1;
    Cycle line_begin_ = 0, line_free_ = 0;
    Cycle issue_cycle_ = 0;
    std::int64_t issue_used_ = 0, issue_memory_ = 0, issue_integer_ = 0;
    std::int64_t operations_ = 0, accesses_ = 0, stores_ = 0, computed_ = 0, sent_to_memory_ = 0;  // counts so far
    Cycle sent_ = 0;         // when the memory unit handed on the last access
    Cycle written_ = 0;      // when all stores so far are written
    Cycle left_buffer_ = 0;  // when the last store left the store buffer
    Cycle serial_ = 0;       // after a serializing instruction
    Cycle chain_ = 0;        // when the last chained instruction is done

    Cause store_cause_ = StoreL1d;  // of the last store
    Waits waits_;
    CycleStack stack_;
    Cause redirect_cause_ = MispredictExecute;
    Cycle redirected_ = 0;
};

}  // namespace perfvec
