// A static instruction as the out-of-order core's loop reads it: one line of the host's cache.
//
// Operands differ from one instruction to the next, which the host's branch predictor cannot foresee. So registers are
// sorted once, by what they are waited for, and the loop reads and writes the usual number of places whatever their
// number is: those that are not there are REGISTERS, which is always ready.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "../instruction.hpp"
#include "release_ring.hpp"

namespace perfvec {

struct alignas(64) DecodedInstruction {
    static constexpr int USUAL_ADDRESS = 2, USUAL_OTHERS = 3, USUAL_DESTINATIONS = 3, USUAL_BASES = 1;
    using Register = std::uint8_t;

    Address pc;
    std::uint16_t flags;
    std::int16_t micro_operations;
    std::int16_t latency;
    std::int16_t divides_for;  // cycles that a division keeps its unit, of native micro-operations
    Divider divider;
    Interruption interruption;
    std::uint8_t length;
    std::uint8_t computes;
    std::uint8_t unit, execution;
    std::uint8_t cycles_before, cycles_after;
    std::uint8_t load_after;  // cycles until what it loads is in its register, beyond those of the cache
    std::uint8_t int_destinations, fp_destinations;
    std::uint8_t chained;
    std::uint8_t ports;  // of native micro-operations: how many of its kind of units can do it; 0: all
    // Of native micro-operations: accesses memory from or to vector registers; takes a general register from memory as
    // it was stored, or stores one; moves the stack pointer by the stack engine; reads it otherwise; its result is there a cycle
    // earlier for the next one that forwards.
    bool vector : 1, renames : 1, stack_engine : 1, stack_read : 1, forwards : 1;
    bool may_prefetch : 1;  // what it accesses goes nowhere: it can only be a prefetch
    bool few_destinations : 1;  // its last result is what one that waits for a fence and no register waited for, in a CPI stack
    // Its load, or what it computes, waits for gem5's temporary register; its load waits for all its sources.
    bool loads_part : 1, computes_part : 1, merges_loaded : 1;
    std::uint8_t temporary : 2;  // by what it writes that register: 0 by nothing, AT_ONCE, LOADED, 3 by its result
    // Nothing unusual about it with at most so many accesses (-1: with any): its registers have places, and nothing else
    // depends on it or its order.
    std::int8_t plain;
    std::uint8_t rounds;  // of a divide
    std::uint8_t source_count, address_count, destination_count, base_count;
    Register sources[MAX_SOURCES];     // the first `address_count` form the address
    Register address[USUAL_ADDRESS];   // those again, where a plain instruction's are read,
    Register others[USUAL_OTHERS];     // and the others
    Register destinations[MAX_DESTINATIONS];
    Register bases[MAX_DESTINATIONS];  // of the destinations: the address register moved on

    // Of `native` micro-operations `cycles_after` is of what is loaded, if anything is.
    DecodedInstruction(const StaticInstruction& row, Address where, bool native = false)
        : pc(where),
          flags(row.flags),
          micro_operations(row.micro_operations),
          latency(row.latency),
          divides_for(native ? row.cycles_before : std::int16_t{0}),
          divider(row.divider),
          interruption(row.interruption),
          length(byte(row.length)),
          computes(byte(row.computes)),
          unit(byte(row.unit)),
          execution(byte(row.execution)),
          cycles_before(byte(native ? std::int16_t{0} : row.cycles_before)),
          cycles_after(byte(native && row.is(LOAD) ? std::int16_t{0} : row.cycles_after)),
          load_after(byte(native ? row.cycles_after : std::int16_t{0})),
          int_destinations(byte(row.int_destinations)),
          fp_destinations(byte(row.fp_destinations)),
          chained(byte(native ? std::int16_t{0} : row.chained)),
          ports(byte(native && row.divider == Divider::None ? row.cycles_before : std::int16_t{0})),
          vector(native && row.is(LOAD | STORE) && has_vectors(row)),
          renames(native && row.is(LOAD | STORE) && !vector && !row.is(ATOMIC) &&
                  (row.computes == 0 || (row.is(LOAD) && row.is(STORE)) || row.chained & RENAMES_OPERAND)),
          stack_engine(native && row.chained & STACK_MOVED),
          stack_read(native && row.chained & STACK_READ),
          forwards(native && row.chained & FORWARDS),
          may_prefetch(row.destination_count == 0 && !row.is(LOAD | STORE | BRANCH | STRING)),
          few_destinations(row.destination_count < USUAL_DESTINATIONS),
          loads_part(row.temporary & MERGED && row.is(LOAD)),
          computes_part(row.temporary & MERGED && !row.is(LOAD)),
          merges_loaded(row.temporary & MERGES_LOADED),
          temporary(row.temporary & COMPUTED ? 3 : row.temporary & (AT_ONCE | LOADED)),
          rounds(byte(static_cast<std::int16_t>(row.rounds()))),
          source_count(byte(row.source_count)),
          address_count(byte(std::min(row.address_count, row.source_count))),
          destination_count(0),
          base_count(0) {
        for (int source = 0; source < MAX_SOURCES; ++source) sources[source] = byte(row.sources[source]);
        const bool places = address_count <= USUAL_ADDRESS && source_count - address_count <= USUAL_OTHERS;
        std::fill_n(address, USUAL_ADDRESS, REGISTERS);
        std::fill_n(others, USUAL_OTHERS, REGISTERS);
        if (places) {
            std::copy_n(sources, address_count, address);
            std::copy_n(sources + address_count, source_count - address_count, others);
        }
        const auto put = [](Register* registers, std::uint8_t& count, std::int16_t which) {
            const Register name = byte(which);
            if (std::find(registers, registers + count, name) == registers + count) registers[count++] = name;
        };
        std::fill_n(destinations, MAX_DESTINATIONS, REGISTERS);
        std::fill_n(bases, MAX_DESTINATIONS, REGISTERS);
        for (int destination = 0; destination < row.destination_count; ++destination)
            (row.base_updates >> destination) & 1 ? put(bases, base_count, row.destinations[destination])
                                                  : put(destinations, destination_count, row.destinations[destination]);
        const bool usual = !is(STRING | ATOMIC | BARRIER | SERIALIZING | SYSCALL) && interruption == Interruption::None &&
                           divider == Divider::None && !chained && computes <= 1 && places &&
                           destination_count <= USUAL_DESTINATIONS && base_count <= USUAL_BASES &&
                           std::max<int>({micro_operations + stack_read, int_destinations, fp_destinations}) <= ReleaseRing::USUAL;
        plain = usual ? !may_prefetch : -1;
    }

    bool is(std::uint16_t mask) const { return (flags & mask) != 0; }
    Address fall_through() const { return pc + length; }

  private:
    static bool has_vectors(const StaticInstruction& row) {
        const auto among = [](const std::int16_t* registers, int count) {
            return std::any_of(registers, registers + count, [](std::int16_t which) {
                return which >= VECTOR_REGISTERS && which < 2 * VECTOR_REGISTERS;
            });
        };
        return among(row.sources, row.source_count) || among(row.destinations, row.destination_count);
    }

    static std::uint8_t byte(std::int16_t value) {
        if (value < 0 || value > 255) throw std::invalid_argument("a column of an instruction's row is beyond a byte");
        return static_cast<std::uint8_t>(value);
    }
};
static_assert(sizeof(DecodedInstruction) == 64);

using DecodedProgram = std::vector<DecodedInstruction>;  // sorted by address

inline DecodedProgram decoded(const Program& program, bool native = false) {
    DecodedProgram instructions;
    instructions.reserve(program.size);
    for (std::size_t which = 0; which < program.size; ++which)
        instructions.emplace_back(program.rows[which], program.pc[which], native);
    return instructions;
}

}  // namespace perfvec
