// The out-of-order core: rename, issue, completion and retirement of each instruction, in program order.
//
// Instruction-driven timing (Sanchez & Kozyrakis, "ZSim", ISCA 2013, section 3.1): a stage's cycle follows from the stage
// before, from the widths, and from when the structures it needs release an entry: in order for the reorder buffer, the
// load and store queues and the registers (rings of release cycles), out of order for the issue queue (a calendar of
// releases). The stage delays are those of gem5's O3 as its pipeline view shows them: decode → 1 → rename →
// `dispatch_delay` → issue → 1 → complete → at least 2 → retire; what is before rename is front_end.hpp, what is behind the
// retirement of a store is store_queue.hpp.
//
// With the micro-operations of a real family the pipeline is silicon's where gem5's is known to differ: rename takes from a
// queue (front_end.hpp), squashed micro-operations go at once, the cache may answer several loads in a cycle, and loads know
// the addresses of stores before their data.
//
// A trap waits until all before it has retired and been written, and takes TRAP cycles; everything behind it is squashed and
// fetched again.
//
// After a misprediction fetch goes on 3 cycles after the branch completes. What was fetched meanwhile (wrong_path.hpp) is
// squashed SQUASH_WIDTH micro-operations a cycle, and holds its reorder buffer entries until the branch retires. A load
// that went ahead of an older store to its place is fetched again (store_sets.hpp).
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "../branch/branch_unit.hpp"
#include "../cache/hierarchy.hpp"
#include "bound_ports.hpp"
#include "core.hpp"
#include "decoded_instruction.hpp"
#include "front_end.hpp"
#include "functional_units.hpp"
#include "in_flight.hpp"
#include "issue_queue.hpp"
#include "known_dependences.hpp"
#include "memory_renaming.hpp"
#include "release_ring.hpp"
#include "reorder_buffer.hpp"
#include "response_port.hpp"
#include "store_queue.hpp"
#include "store_sets.hpp"
#include "wrong_path.hpp"

namespace perfvec {

class OutOfOrderCore final : public Core {
  public:
    OutOfOrderCore(const Machine& machine, const Program& program, Hierarchy& caches, BranchUnit& branches);

    void run(const Chunk& chunk, Latency* latency) override;
    void run(const Chunk& chunk, Latency* latency, const std::vector<StackTable>& tables) override;

    void grow(const Program& program) override;
    void pass(const PassedBranches& passed) override;
    void begin_unit(const NearReads& reads) override;

    static constexpr std::int64_t PORT = 64;  // a port of an access, in units in which parts of it are counted

  private:
    static constexpr Cycle TO_RENAME = 1, TO_RETIRE = ReorderBuffer::TO_RETIRE, TO_SQUASH = 2, TO_REFETCH = 2, TO_WRITE = 2;
    // Cycles until rename knows what retiring frees: registers and load queue entries one later.
    static constexpr Cycle RELEASE = 1, LATE_RELEASE = 2;
    static constexpr int SQUASH_WIDTH = 8;  // gem5's squashWidth
    static constexpr Cycle TRAP = 13;       // gem5's trapLatency
    static constexpr int BEFORE_BRANCH = 3;  // micro-operations of a shift of bytes up to its branch
    static constexpr int PAIR = 2;           // `chained`, in two halves
    static constexpr int TEMPORARY = REGISTERS + 1;  // a register of gem5's x86 microcode
    static constexpr std::int64_t TOGETHER = 16;  // accesses of a repeated string that pass each stage together
    static constexpr int PREDICTED = 64;     // branches of a repeated string that the predictor is told of

    static constexpr std::size_t BLOCK = ReleaseRing::ROOM / 2;  // instructions: a trap or a wrong path books once more
    static constexpr std::size_t AHEAD = 24;
    static constexpr Line MOST_LINES = 64;  // of code without a branch
    static constexpr std::size_t PASSED_AHEAD = 8;  // branches passed without a core that the host is asked for

    void make_room();
    template <bool STACK>
    void loop(const Chunk& chunk, Latency* latency);

    template <bool STACK, bool PLAIN>
    Cycle step(const Chunk& chunk, std::size_t k);
    template <bool STACK>
    Cycle repeat(const Chunk& chunk, std::size_t k, const DecodedInstruction& row);
    template <bool STACK, bool PLAIN>
    Cycle pass_stages(InFlight<PLAIN>& at);
    template <bool PLAIN>
    void count_operations(InFlight<PLAIN>& at);
    template <bool STACK, bool PLAIN>
    void fetch(InFlight<PLAIN>& at);
    template <bool STACK, bool PLAIN>
    void dispatch(InFlight<PLAIN>& at);
    template <bool STACK, bool PLAIN>
    void await_operands(InFlight<PLAIN>& at);
    template <bool STACK, bool PLAIN>
    void execute_loads(InFlight<PLAIN>& at);
    template <bool STACK, bool PLAIN>
    void compute(InFlight<PLAIN>& at);
    template <bool STACK, bool PLAIN>
    void execute_others(InFlight<PLAIN>& at);
    template <bool STACK, bool PLAIN>
    void execute_stores(InFlight<PLAIN>& at);
    template <bool STACK, bool PLAIN>
    void write_registers(const InFlight<PLAIN>& at);
    template <bool STACK, bool PLAIN>
    Cycle retire_branch(InFlight<PLAIN>& at);
    template <bool STACK, bool PLAIN>
    Cycle retire(InFlight<PLAIN>& at);
    template <bool PLAIN>
    void release(const InFlight<PLAIN>& at, Cycle retired_at);
    template <bool PLAIN>
    void occupy(const InFlight<PLAIN>& at, Cycle retired_at);
    void fetch_again(Address pc, std::int64_t operations);

    template <bool STACK, bool PLAIN>
    Cycle rename(const DecodedInstruction& row, Span decoded, std::int64_t operations, std::int64_t loads,
                 std::int64_t stores);
    template <bool STACK>
    Cycle load(Address pc, Address address, std::int64_t size, Cycle cycle, bool prefetch);
    const DecodedInstruction* in_steps(const DecodedInstruction& row, std::uint32_t here, int steps);
    Cycle divide(const DecodedInstruction& row, Cycle cycle);
    void take_more_ports(Resource port, Address address, std::int64_t size, Cycle cycle);
    template <bool STACK>
    void trap(std::uint32_t here, const DecodedInstruction& row);
    struct Inside {
        Span fetched, decoded;
        bool mispredicted;  // the last branch
    };
    template <bool STACK>
    Inside fetch_inside(const InFlight<false>& at);
    struct Squash {
        WrongPath::Place place;  // where the squashed path goes on
        Address target;          // and where the one taken does
        Cycle renamed, fetched;  // of the last micro-operation before
        Cycle resolved;
        bool trap;  // gem5's own runs show no stall of the front end while the reorder buffer is squashed then
    };
    std::int64_t squash(const Squash& what);
    void fetched_beyond(std::uint32_t here, Cycle fetched, Cycle decoded);
    WrongPath::Place expected(std::uint32_t here, Address target) const;
    Cycle load_ahead(Address pc, Address address, std::int64_t size, Cycle cycle);

    const Program* program_;
    DecodedProgram instructions_;
    std::optional<DecodedInstruction> divided_;  // the division at hand, in as many steps as it takes
    Hierarchy& caches_;
    BranchUnit& branches_;
    bool native_;  // of a real family's micro-operations none but those that compute and access take a unit
    bool ideal_branches_, taken_path_only_;
    Cycle forward_latency_, indirect_delay_, call_delay_;
    SystemCalls system_calls_;
    int division_step_;  // cycles; 0: no division's steps are looked at
    bool division_at_most_;
    std::int64_t rename_width_, frontend_delay_, dispatch_delay_;

    FrontEnd front_;
    WrongPath wrong_path_;
    CodeMap code_;  // drawn when branches pass
    SquashedLoads squashed_;
    FunctionalUnits units_;
    std::vector<BoundPorts> bound_ports_;  // of a real family, for each kind of units
    bool stack_moved_ = false;             // by the stack engine, since the stack pointer was read otherwise
    Dividers int_dividers_, fp_dividers_;
    OutOfOrderDivider native_int_divider_, native_fp_divider_;  // of a real family
    std::int64_t vector_load_, vector_store_;  // ports of a vector's access, in 1/PORT,
    std::int64_t owed_[2] = {};                // and what loads and stores have not taken yet
    MemoryRenaming renaming_;
    StoreSets store_sets_;
    KnownDependences known_;
    IssueQueue issue_queue_;
    ReorderBuffer reorder_buffer_;
    ReleaseRing load_queue_, int_registers_, fp_registers_;
    ResponsePort responses_;
    StoreQueue store_queue_;
    Cycle ready_[REGISTERS + 2] = {};    // from which a reader of the register can issue
    std::uint8_t forwarded_[REGISTERS + 1] = {};  // cycles earlier, for the next one that forwards
    std::array<History, REGISTERS + 2> history_{};  // of what is ready
    History result_history_;                        // of the instruction at hand

    Slots rename_;
    Cycle memory_order_ = 0;    // after the last atomic or fence
    Cycle memory_last_ = 0;     // when the last memory operation so far is complete
    Cycle serial_ = 0;          // not renamed before: after a serializing instruction
    Cycle again_ = 0;           // when a load that went ahead too far is fetched again
    Cycle chain_[2] = {};       // when the last chained instruction of either kind is done

    Waits waits_;
    CycleStack stack_;
};

}  // namespace perfvec
