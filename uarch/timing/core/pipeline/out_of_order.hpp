// The out-of-order core: rename, issue, completion and retirement of each instruction, in program order.
//
// Instruction-driven timing (Sanchez & Kozyrakis, "ZSim", ISCA 2013, section 3.1): a stage's cycle follows from the stage
// before, from the widths, and from when the structures it needs release an entry: in order for the reorder buffer, the
// load and store queues and the registers (rings of release cycles), out of order for the issue queue (a calendar of
// releases). The stage delays are those of gem5's O3 as its pipeline view shows them: decode → 1 → rename →
// `dispatch_delay` → issue → 1 → complete → at least 2 → retire; what is before rename is front_end.hpp. A store is
// written from 2 cycles after it retires on, and reaches the cache when no load that comes later in the program can be
// there before it: under total store order (x86-64) when the store before it is written, else in order too, but as many a
// cycle as there are store ports, and loads then find its line on the way (gem5's LSQUnit::writebackStores).
//
// With the micro-operations of a real family the pipeline is silicon's where gem5's is known to differ: rename takes from a
// queue (front_end.hpp), squashed micro-operations go at once, stores pass through the cache one behind another (their
// lines asked for early, their places in the queue free in order), the cache may answer several loads in a cycle, and loads
// know the addresses of stores before their data.
//
// A trap waits until all before it has retired and been written, and takes TRAP cycles; everything behind it is squashed and
// fetched again.
//
// After a misprediction fetch goes on 3 cycles after the branch completes. What was fetched meanwhile (wrong_path.hpp) is
// squashed SQUASH_WIDTH micro-operations a cycle, and holds its reorder buffer entries until the branch retires. A load
// that went ahead of an older store to its place is fetched again (store_sets.hpp).
#pragma once

#include <array>
#include <vector>

#include "../branch/branch_unit.hpp"
#include "../cache/hierarchy.hpp"
#include "core.hpp"
#include "decoded_instruction.hpp"
#include "front_end.hpp"
#include "functional_units.hpp"
#include "issue_queue.hpp"
#include "release_ring.hpp"
#include "bound_ports.hpp"
#include "memory_renaming.hpp"
#include "store_forwarding.hpp"
#include "store_sets.hpp"
#include "wrong_path.hpp"

namespace perfvec {

class OutOfOrderCore final : public Core {
  public:
    OutOfOrderCore(const Machine& machine, const Program& program, Hierarchy& caches, BranchUnit& branches);

    void run(const Chunk& chunk, std::uint16_t* latency) override;
    void run(const Chunk& chunk, std::uint16_t* latency, const std::vector<StackTable>& tables) override;

    void grow(const Program& program) override;

    static constexpr std::int64_t PORT = 64;  // a port of an access, in units in which parts of it are counted

  private:
    static constexpr Cycle TO_RENAME = 1, TO_RETIRE = 2, TO_SQUASH = 2, TO_REFETCH = 2, TO_WRITE = 2;
    // Cycles until rename knows what retiring frees: registers and load queue entries one later.
    static constexpr Cycle RELEASE = 1, LATE_RELEASE = 2;
    static constexpr int RESPONSES = 4096;
    static constexpr Cycle HISTORY = 4096;  // cycles that a history of stores looks back over a gap
    static constexpr int SQUASH_WIDTH = 8;  // gem5's squashWidth
    static constexpr Cycle TRAP = 13;       // gem5's trapLatency
    static constexpr int BEFORE_BRANCH = 3;  // micro-operations of a shift of bytes up to its branch
    static constexpr int PAIR = 2;           // `chained`, in two halves
    static constexpr int PREDICTED = 64;     // branches of a repeated string that the predictor is told of

    struct RetiredStore {  // waits to be written
        Cycle earliest;
        Address address;
        std::int64_t size;
        Address pc;
        Cycle data;
    };

    static constexpr std::size_t BLOCK = ReleaseRing::ROOM / 2;  // instructions: a trap or a wrong path books once more
    static constexpr std::size_t AHEAD = 24;

    void make_room();
    template <bool STACK>
    void loop(const Chunk& chunk, std::uint16_t* latency);
    template <bool STACK, bool PLAIN>
    Cycle step(const Chunk& chunk, std::size_t k);
    template <bool STACK, bool PLAIN>
    Cycle rename(const DecodedInstruction& row, Span decoded, std::int64_t operations, std::int64_t loads,
                 std::int64_t stores);
    template <bool STACK>
    Cycle load(Address pc, Address address, std::int64_t size, Cycle cycle);
    Cycle divide(const DecodedInstruction& row, Cycle cycle);
    void take_more_ports(Resource port, Address address, std::int64_t size, Cycle cycle);
    Cycle answered(Cycle cycle);
    RetiredStore& waiting(std::int64_t number) { return waiting_[number & static_cast<std::int64_t>(waiting_.size() - 1)]; }
    Cycle retire(Cycle complete, std::int64_t operations);
    template <bool STACK>
    void trap(std::uint32_t here, const DecodedInstruction& row);
    struct Inside {
        Span fetched, decoded;
        bool mispredicted;  // the last branch
    };
    template <bool STACK>
    Inside fetch_inside(const DecodedInstruction& row, std::int64_t operations, std::int64_t accesses);
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
    Cycle writes_at(const RetiredStore& store) const;
    void write_next();
    void write_before(Cycle cycle);
    void write_until(std::int64_t number);
    StoreForwarding::Answer find_again(Address address, std::int64_t size, Cycle cycle);

    DecodedProgram instructions_;
    Hierarchy& caches_;
    BranchUnit& branches_;
    bool native_;  // of a real family's micro-operations none but those that compute and access take a unit
    bool ideal_branches_, taken_path_only_;
    Cycle forward_latency_, indirect_delay_;
    SystemCalls system_calls_;
    std::int64_t rename_width_, commit_width_, frontend_delay_, dispatch_delay_;
    bool total_store_order_;

    FrontEnd front_;
    WrongPath wrong_path_;
    SquashedLoads squashed_;
    FunctionalUnits units_;
    std::vector<FunctionalUnits> some_units_;  // of a real family: one of each kind, two, …, for what the others cannot do
    BoundPorts int_ports_;                     // of a real family
    bool stack_moved_ = false;                 // by the stack engine, since the stack pointer was read otherwise
    Dividers int_dividers_, fp_dividers_;
    OutOfOrderDivider native_int_divider_, native_fp_divider_;  // of a real family
    std::int64_t vector_load_, vector_store_;  // ports of a vector's access, in 1/PORT,
    std::int64_t owed_[2] = {};                // and what loads and stores have not taken yet
    StoreForwarding forwarding_;
    MemoryRenaming renaming_;
    StoreSets store_sets_;
    IssueQueue issue_queue_;
    ReleaseRing reorder_buffer_, load_queue_, store_queue_, int_registers_, fp_registers_;
    std::vector<RetiredStore> waiting_;            // by entry of the store queue, modulo a power of two
    std::array<Cycle, RESPONSES> responses_;       // cycle in which the data cache last answered, by cycle
    Cycle ready_[REGISTERS + 1] = {};    // from which a reader of the register can issue
    std::array<History, REGISTERS + 1> history_{};  // of what is ready
    History result_history_, written_history_;      // of the instruction at hand, of stores
    bool stacked_ = false;                          // histories are kept

    Slots rename_, commit_;
    std::int64_t writes_ = 0;   // stores sent to the cache so far
    std::int64_t sent_ = 0;     // of them in the cycle written_
    Cycle written_ = 0;         // when the next store can be sent
    Line written_line_ = 0;     // of the last one
    Cycle drained_ = 0;         // when all sent so far are there
    Cycle memory_order_ = 0;    // after the last atomic or fence
    Cycle memory_last_ = 0;     // when the last memory operation so far is complete
    Cycle serial_ = 0;          // not renamed before: after a serializing instruction
    Cycle again_ = 0;           // when a load that went ahead too far is fetched again
    Cycle chain_[2] = {};       // when the last chained instruction of either kind is done

    Waits waits_;
    CycleStack stack_;
};

}  // namespace perfvec
