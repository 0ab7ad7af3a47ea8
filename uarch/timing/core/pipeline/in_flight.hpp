// An executed instruction on its way through the stages of the out-of-order core.
//
// PLAIN: it is a plain one (decoded_instruction.hpp) with at most one access, as nineteen in twenty are. What the others need
// is then known not to be needed.
#pragma once

#include "decoded_instruction.hpp"
#include "front_end.hpp"

namespace perfvec {

template <bool PLAIN>
struct InFlight {
    InFlight(const Chunk& executed, std::size_t k, const DecodedInstruction& instruction)
        : InFlight(executed, k, instruction, executed.access_offset[k], executed.access_offset[k + 1]) {}

    // With some of its accesses: rounds of a string.
    InFlight(const Chunk& executed, std::size_t k, const DecodedInstruction& instruction, std::int64_t begin, std::int64_t end)
        : chunk(executed),
          row(instruction),
          number(k),
          here(executed.static_id[k]),
          following(executed.following[k]),
          first(begin),
          last(end),
          operations(instruction.micro_operations),
          own(instruction.computes) {
        for (std::int64_t which = first; which < last; ++which) {
            stores += chunk.is_store[which];
            if constexpr (PLAIN) break;
        }
        loads = accesses() - stores;
    }

    const Chunk& chunk;
    const DecodedInstruction& row;
    std::size_t number;  // in the chunk
    std::uint32_t here, following;
    std::int64_t first, last;  // of its accesses, in the chunk
    std::int64_t loads = 0, stores = 0;
    std::int64_t rounds_before = 0;  // of a string, that have passed already; whether others follow
    bool goes_on = false;
    std::int64_t operations, own, others = 0;  // micro-operations: all, those that compute, those that do neither
    Span fetched{}, decoded{};
    bool again_within = false;  // the last branch within the instruction is mispredicted
    Cycle renamed = 0, dispatched = 0;
    Cycle of_others = 0;  // when the sources that form no address are there
    int address_register = REGISTERS, others_register = REGISTERS;  // the last to be there
    Cycle addressed = 0;    // when its accesses may go
    bool followed = false;  // its loads may have gone ahead on a path that was squashed,
    Cycle ahead = NEVER;    // and when it had its operands there
    Cycle loaded = 0;       // when the last of its loads is answered
    Cycle data = 0, result = 0, complete = 0;
    std::int64_t wrong = 0;  // micro-operations behind it that are squashed

    std::int64_t accesses() const { return last - first; }
    std::int64_t accesses_of_round() const { return row.address_count > 1 ? 2 : 1; }  // of a string
    Cycle begin() const { return dispatched + row.cycles_before; }
    bool string() const { return !PLAIN && row.is(STRING); }
    bool prefetching() const { return !PLAIN && row.may_prefetch && loads > 0 && stores == 0; }
    bool ordering() const { return !PLAIN && row.is(ATOMIC | BARRIER); }
    bool serializing() const { return !PLAIN && row.is(SERIALIZING); }

    // Calls `act` for each of its loads, or of its stores; a plain instruction has only one access.
    template <typename Act>
    __attribute__((always_inline)) void each(bool store, const Act& act) const {
        for (std::int64_t which = first; which < last; ++which) {
            if (PLAIN || chunk.is_store[which] == store) act(which);
            if constexpr (PLAIN) break;
        }
    }
};

}  // namespace perfvec
