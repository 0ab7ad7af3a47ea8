// A machine as the timing model takes it; the fields are those of uarch/configuration.py, and mean what they set in gem5.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "frames.hpp"
#include "memory/dram.hpp"

namespace perfvec {

struct OutOfOrderPipeline {
    int fetch_width, decode_width, rename_width, issue_width, commit_width;
    int frontend_delay, dispatch_delay;
    int rob_entries, issue_queue_entries, load_queue_entries, store_queue_entries;
    int int_registers, fp_registers;  // for renaming, beyond those that the instruction set takes
};

struct InOrderPipeline {
    int width, frontend_delay, memory_width, store_buffer, memory_in_flight;
};

struct FunctionalUnitCounts {
    int int_alu, int_mul, fp_add, fp_mul, simd, load_ports, store_ports;
};

struct BranchPredictorConfiguration {
    std::string kind;
    int entries, btb_entries, ras_entries;
    std::string indirect;
};

struct CacheConfiguration {
    int size_kib, associativity, latency, mshrs;
    std::string prefetcher, replacement;
    int fill_cycles = 1;      // from one line to the next
    int set_fill_cycles = 1;  // in one set
};

struct MemoryConfiguration {
    std::optional<DramModel> dram;  // else fixed latency and bandwidth
    double latency_ns = 0, bandwidth_gbs = 0;
};

// Entries are powers of two from 8 on; without a second level misses cost nothing.
struct TlbConfiguration {
    int entries = 64, l2_entries = 0, l2_latency = 0, walk_latency = 0;
    int page_kib = 4;            // of data; code has pages of 4 KiB
    bool walks_caches = false;  // a walk reads the page table through the caches, besides its latency
};

// Cycles in the kernel of each system call by its number; the last ones are those of all others.
struct SystemCalls {
    std::vector<std::int32_t> cycles{0};

    Cycle of(std::uint16_t number) const { return cycles[std::min<std::size_t>(number, cycles.size() - 1)]; }
};

// The parts to make ideal, to see what they cost (docs/explanation/cpi-stacks.md).
struct Ideal {
    bool branches = false;      // every branch goes as expected
    bool instructions = false;  // every line of code is in L1I
    bool data = false;          // every line of data is in L1D
};

struct Machine {
    std::optional<OutOfOrderPipeline> out_of_order;
    std::optional<InOrderPipeline> in_order;  // one of the two
    FunctionalUnitCounts units;
    BranchPredictorConfiguration branch_predictor;
    CacheConfiguration l1i, l1d, l2;
    std::optional<CacheConfiguration> l3;
    MemoryConfiguration memory;
    TlbConfiguration tlb;
    FrameOrder frames = FrameOrder::Virtual;
    double frequency_ghz;
    bool total_store_order;  // x86-64's
    bool native = false;     // micro-operations of a real family: nothing beyond those that compute and access
    bool zeroed_pages = false;  // a page's lines are in L1D when it is stored to first
    int indirect_delay = 0;   // cycles of fetch until a return's target is known, or an indirect jump's other one
    SystemCalls system_calls;
    int call_delay = -1;      // cycles by which a call and a return put fetch off; -1: a return as an indirect jump
    int taken_branches = 1;   // that fetch follows in a cycle
    int store_lines = 1;      // of a real family: that stores go to in a cycle
    int store_refetch = 0;    // cycles of a store whose line has left L1D before it was written
    int forward_latency = 2;  // from a store's data to those of a load that waits for them
    int memory_renaming = 0;  // of so many stores the last ones' registers are known to loads
    double vector_load = 0, vector_store = 0;  // cycles of one of many; 0: as others
    Ideal ideal;
    bool taken_path_only = false;  // nothing is fetched from a path that is not taken
    bool division_at_most = false;  // a division takes no more steps than are assumed
    int division_step = 0;  // cycles of a step of those divisions whose steps are known; 0: all take what is assumed
};

}  // namespace perfvec
