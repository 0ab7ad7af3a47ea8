// The contract of a core with a simulation: chunks in, retire cycles out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../instruction.hpp"
#include "../stack.hpp"

namespace perfvec {

struct PassedBranches {
    std::size_t count;
    const std::uint32_t *branch, *following;
    const std::uint8_t* outcome;
};

// Sums over instructions, for averages per cycle: entries held times the cycles that they were held.
struct Occupancy {
    std::int64_t reorder_buffer = 0, issue_queue = 0, load_queue = 0, store_queue = 0;
};

// What loads have read from stores shortly before them, by numbers of instructions, those of a load together.
struct NearReads {
    std::size_t count;
    const std::uint32_t *load, *store, *times;
};

using Latency = std::uint32_t;
constexpr Cycle LONGEST = 0xFFFFFFFF;  // latency: a string of as many bytes takes more

class Core {
  public:
    virtual ~Core() = default;

    // Fills `latency` [chunk.size] with the cycles from each retirement to the next, at most LONGEST.
    virtual void run(const Chunk& chunk, Latency* latency) = 0;

    // The same, and adds every cycle to the row of its cause's column in each of `tables`.
    virtual void run(const Chunk& chunk, Latency* latency, const std::vector<StackTable>& tables) = 0;

    // The program has more static instructions from now on, of which the ones so far are the first, unchanged.
    virtual void grow(const Program& program) = 0;

    // Branches executed one after another, with what they were redirected (`BranchUnit::follow`), pass in no time: a core
    // whose fetch depends on them brings in the lines of code between them, and those of wrong paths.
    virtual void pass(const PassedBranches&) {}

    // A sampled unit begins, whose loads have read from near stores.
    virtual void begin_unit(const NearReads&) {}

    Cycle retired = 0;     // the cycle of the last retirement
    Occupancy occupancy;   // counted with stacks only
};

}  // namespace perfvec
