// A program as the timing model takes it: static instructions as rows, and a chunk of the executed ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "types.hpp"

namespace perfvec {

// As in uarch/instructions.py (Flag).
enum Flag : std::uint16_t {
    BRANCH = 1 << 0,
    CONDITIONAL = 1 << 1,
    INDIRECT = 1 << 2,
    CALL = 1 << 3,
    RETURN = 1 << 4,
    LOAD = 1 << 5,
    STORE = 1 << 6,
    ATOMIC = 1 << 7,
    BARRIER = 1 << 9,
    SERIALIZING = 1 << 10,
    SYSCALL = 1 << 11,
    STRING = 1 << 12,
};

constexpr int VECTOR_REGISTERS = 32;  // the first of as many
constexpr int REGISTERS = 78;  // architectural ones; one more takes what has no register
constexpr int MICROCODE_FLAGS = 76;  // one of them: what gem5's microcode of a divide tests (uarch/timing/static.py)
constexpr int STACK_POINTER = 4;  // x86-64's
constexpr int STACK_MOVED = 1, STACK_READ = 2;  // by the stack engine; by others (tracegen/decode/native/x86_64.py)
constexpr int FORWARDS = 4;         // the result is there a cycle earlier for the next one that does
constexpr int RENAMES_OPERAND = 8;  // takes what it computes with from a store's register, as moves do
constexpr int MAX_SOURCES = 8, MAX_DESTINATIONS = 6;
constexpr std::uint32_t LAST = 0xFFFFFFFF;  // follows the last instruction of a trace

// Breaks in the stream of an instruction's own micro-operations: the first one traps, and the rest is fetched again; or
// the third one is a branch within the microcode that is always taken; or it is a divide, of one round or (Divide + 1 and
// more) of several, which end with a branch each that is taken but for the last one.
enum class Interruption : std::int8_t { None, Trap, Branch, Divide };

// Use of the temporary register of gem5's x86 microcode; as in uarch/instructions.py (Temporary), whose CONDITIONS
// uarch/timing/static.py turns into a destination.
enum Temporary : std::uint8_t {
    AT_ONCE = 1 << 0,
    LOADED = 1 << 1,
    COMPUTED = 1 << 2,
    MERGED = 1 << 3,
    MERGES_LOADED = 1 << 4,
};

enum class Divider : std::int16_t { None, Integer, Float };

// One static instruction with the units and latencies of one machine filled in (uarch/timing/static.py). One cache line.
struct StaticInstruction {
    std::int16_t unit;  // Resource of its computing part
    std::int16_t latency;
    Divider divider;  // an unpipelined unit
    std::int16_t micro_operations;
    std::int16_t source_count;
    std::int16_t address_count;  // so many of its sources form the address
    std::int16_t destination_count;
    std::int16_t computes;  // micro-operations on `unit`
    std::uint16_t flags;
    std::int16_t length;
    std::int16_t int_destinations;  // physical registers that renaming takes of each file
    std::int16_t fp_destinations;
    std::int16_t sources[MAX_SOURCES];  // REGISTERS where there is none
    std::int16_t destinations[MAX_DESTINATIONS];
    std::int16_t base_updates;  // a bit for each destination that is the address register moved on
    std::int16_t cycles_before;  // of micro-operations before it can access memory or compute; of real families how long
                                 // a division, and in order anything, keeps its unit, and how many units can do anything
                                 // else (0: all)
    std::int16_t cycles_after;   // until its registers have the results; of real families what it loads alone
    std::int16_t chained;        // 1: computes only after the last such one; 2: also, and its second half after the first;
                                 // of real families traits: STACK_MOVED to RENAMES_OPERAND
    std::int16_t execution;      // its column of the CPI stack (`Cause`)
    Interruption interruption;
    std::uint8_t temporary;      // `Temporary`

    bool is(std::uint16_t mask) const { return (flags & mask) != 0; }
    bool only_accesses() const { return is(LOAD | STORE) && computes == 0 && cycles_before == 0 && !is(BRANCH | STRING); }
    int rounds() const {  // of a divide
        const int beyond = static_cast<int>(interruption) - static_cast<int>(Interruption::Divide);
        return beyond < 0 ? 0 : beyond + 1;
    }
    // The same division in so many `steps`, of `step` cycles each, instead of those that are assumed; where these are the
    // most, in no more.
    StaticInstruction in_steps(int steps, int step, bool at_most) const {
        StaticInstruction other = *this;
        steps = std::min(steps, DIVIDE_FIRST + (at_most ? rounds() : MOST_ROUNDS) * DIVIDE_ROUND);
        const int round_count = std::max((steps - DIVIDE_FIRST) / DIVIDE_ROUND, 1);
        const int more = steps - (DIVIDE_FIRST + DIVIDE_ROUND * rounds());
        other.interruption = static_cast<Interruption>(static_cast<int>(Interruption::Divide) + round_count - 1);
        other.latency = static_cast<std::int16_t>(std::min(steps * step, 0x7FFF));
        // A round ends with a branch. As in uarch/timing/static.py, each has a result, and 32 are counted at most.
        other.micro_operations = static_cast<std::int16_t>(std::max(micro_operations + more * (DIVIDE_ROUND + 1) / DIVIDE_ROUND, 1));
        other.int_destinations = std::min<std::int16_t>(other.micro_operations, MOST_RESULTS);
        return other;
    }
    static constexpr int DIVIDE_FIRST = 3, DIVIDE_ROUND = 4;  // steps before the rounds, and in each
    static constexpr int MOST_ROUNDS = 16;                    // of a quotient of 64 set bits
    static constexpr std::int16_t MOST_RESULTS = 32;
};
static_assert(sizeof(StaticInstruction) == 64 && offsetof(StaticInstruction, sources) == 24);

// The static instructions of a program, sorted by address.
struct Program {
    const StaticInstruction* rows;
    const Address* pc;
    std::size_t size;

    Address fall_through(std::size_t which) const { return pc[which] + rows[which].length; }
};

constexpr std::uint16_t UNKNOWN_CALL = 0xFFFF;

// n executed instructions and their memory accesses: access_offset[k] … access_offset[k+1] are those of instruction k.
// `calls` system calls are known by their numbers, and `divisions` divisions by their steps; call_instruction and
// division_instruction count from the trace's start, the chunk from `start`.
struct Chunk {
    std::size_t size;
    const std::uint32_t* static_id;
    const std::uint32_t* following;
    const std::int64_t* access_offset;
    const Address* address;
    const std::uint8_t* access_size;
    const std::uint8_t* is_store;
    std::uint64_t start;
    std::size_t calls;
    const std::uint64_t* call_instruction;
    const std::uint16_t* call_number;
    std::size_t divisions;
    const std::uint64_t* division_instruction;
    const std::uint8_t* division_steps;

    // The number of the system call that instruction k makes.
    std::uint16_t call(std::size_t k) const { return event(k, calls, call_instruction, call_number, UNKNOWN_CALL); }
    // The steps of the division that instruction k makes; 0: unknown.
    std::uint8_t steps(std::size_t k) const {
        return event(k, divisions, division_instruction, division_steps, std::uint8_t{0});
    }

    std::int64_t bytes(std::int64_t access) const { return std::max<std::int64_t>(access_size[access], 1); }

    // Asks the host for the rows of instructions to come: a large program's do not stay in its first cache.
    void prefetch(const Program& program, std::size_t k) const {
        if (k + AHEAD >= size) return;
        const std::uint32_t which = static_id[k + AHEAD];
        __builtin_prefetch(&program.rows[which]);
        __builtin_prefetch(&program.pc[which]);
    }
    static constexpr std::size_t AHEAD = 8;

    // The known value of instruction k, one of `count` events in ascending order; `unknown` where it is none of them.
    template <typename T>
    T event(std::size_t k, std::size_t count, const std::uint64_t* instruction, const T* known, T unknown) const {
        const std::uint64_t *end = instruction + count, *found = std::lower_bound(instruction, end, start + k);
        return found != end && *found == start + k ? known[found - instruction] : unknown;
    }

    // The address executed after instruction k; the fall-through after a trace's last one.
    Address target(const Program& program, std::size_t k) const {
        return following[k] == LAST ? program.fall_through(static_id[k]) : program.pc[following[k]];
    }
};

}  // namespace perfvec
