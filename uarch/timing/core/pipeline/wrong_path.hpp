// The instructions that the out-of-order core fetches after a misprediction, until it knows better.
//
// A trace holds the path taken only, but the code around it is known: every instruction that the program executes
// anywhere. So the wrong path is walked from where the branch was expected to go, each branch on it going where it went
// last. It brings lines into the instruction cache, which is often what the program needs next, and fills the reorder
// buffer with micro-operations to be squashed. Where its loads go is known only of those that the path taken executes too
// (squashed_loads.hpp).
#pragma once

#include <vector>

#include "../branch/branch_unit.hpp"
#include "../cache/hierarchy.hpp"
#include "code_map.hpp"
#include "slots.hpp"
#include "squashed_loads.hpp"

namespace perfvec {

class WrongPath {
  public:
    static constexpr std::int64_t UNKNOWN = -1;

    explicit WrongPath(const DecodedProgram& program) : program_(program), branches_(program.size()) {}

    // The program has got more instructions.
    void grow() { branches_.resize(program_.size()); }

    // The branch `here` went to the instruction `following`.
    void note_branch(std::uint32_t here, std::uint32_t following, bool taken) {
        Branch& branch = branches_[here];
        branch.taken = taken;
        if (taken && following != LAST) branch.target = static_cast<std::int32_t>(following);
    }

    // Where the branch was expected to go, which it does not.
    struct Place {
        std::int64_t here;  // the instruction, UNKNOWN where the program never executes it,
        Address address;    // and where it is, which may be known then
        static constexpr Address NOWHERE = -1;
        bool nowhere() const { return here == UNKNOWN && address == NOWHERE; }
    };
    Place expected(std::uint32_t branch, bool taken) const {
        if (taken) return {branches_[branch].target, Place::NOWHERE};
        return {next(branch), program_[branch].fall_through()};
    }

    struct Start {
        Place place;
        Line line;             // the line at hand
        std::int64_t width;    // micro-operations fetched a cycle
        Cycle from, until;     // fetches from … until …
        Cycle by;              // those fetched by this cycle are counted
        std::int64_t most;     // micro-operations that there is room for
        std::int64_t entries;  // of them in the reorder buffer, and what else they take
        std::int64_t loads = 0, stores = 0, int_registers = 0, fp_registers = 0;
    };
    struct Walked {
        std::int64_t count;  // micro-operations fetched by `Start::by`
        Line line;           // then at hand, UNKNOWN where it is still on its way
    };

    // `squashed` is told what can be executed.
    Walked walk(const Start& start, BranchUnit& branches, Hierarchy& caches, SquashedLoads& squashed) {
        Place place = start.place;
        Line line = start.line;
        if (place.nowhere()) return {0, line};
        Slots slots{start.from, 0};
        std::int64_t count = 0, fetched = 0, loads = 0, stores = 0, int_registers = 0, fp_registers = 0;
        bool enters = true, issues = true;  // the reorder buffer and the queues; the units before all is squashed
        while (fetched < start.most) {
            const auto [address, length, operations, flags] = instruction_at(place);
            const bool known = place.here != UNKNOWN;
            if (known) {
                int_registers += program_[place.here].int_destinations;
                fp_registers += program_[place.here].fp_destinations;
            }
            const Line last = line_of(address + length - 1);
            for (Line wanted = line_of(address); wanted <= last; ++wanted) {
                if (wanted == line) continue;
                const Cycle data = caches.access_code(wanted, slots.cycle, address);
                slots = {std::max(slots.cycle + 1, data), 0};
                line = wanted;
                if (slots.cycle >= start.until) {
                    took(start, start.until);
                    squashed.end();
                    return {count, UNKNOWN};
                }
            }
            slots.take(operations, start.width);
            if (slots.cycle >= start.until) break;
            fetched += operations;
            loads += (flags & LOAD) != 0;
            stores += (flags & STORE) != 0;
            enters &= fetched <= start.entries && loads <= start.loads && stores <= start.stores &&
                      int_registers <= start.int_registers && fp_registers <= start.fp_registers &&
                      !(flags & (SERIALIZING | SYSCALL | STRING));
            if (enters && slots.cycle <= start.by) count += operations;
            issues = enters && issues && known &&
                     squashed.pass(static_cast<std::uint32_t>(place.here), program_[place.here], slots.cycle);
            if ((flags & BRANCH) && !(flags & CONDITIONAL)) branches.on_wrong_path(address);
            if (leaves(place, flags)) slots.used = start.width;
            place = behind(place, address + length, flags);
            if (place.nowhere()) break;
        }
        took(start, fetched >= start.most ? std::min(slots.cycle, start.until) : start.until);
        squashed.end();
        return {count, line};
    }

    // Brings in the lines that are fetched in about so many cycles, in no time.
    void pass(Place place, Line line, std::int64_t width, Cycle cycles, Hierarchy& caches, const CodeMap& code) const {
        for (std::int64_t left = cycles * width; left > 0 && !place.nowhere();) {
            const bool known = place.here != UNKNOWN;
            const CodeMap::Instruction first = known ? code[place.here] : CodeMap::Instruction{place.address, USUAL_LENGTH};
            const Line end = line_of(first.fall_through() - 1);
            for (Line wanted = line_of(first.pc); wanted <= end; ++wanted) {
                if (wanted == line) continue;
                const int holder = caches.holder_of_code(wanted);
                caches.access_code(wanted, 0, first.pc, false);
                if (holder == MEMORY) return;
                left -= width * (holder == L1I ? 1 : caches.unhindered(L1I, holder));
                line = wanted;
            }
            if (!known) {
                --left;
                place.address = first.fall_through();
                continue;
            }
            const CodeMap::Instruction& last = code[first.last_of_stretch];  // brings in no other line
            left -= last.operations_up_to - first.operations_up_to + first.operations;
            place.here = first.last_of_stretch;
            place = behind(place, last.fall_through(), last.flags);
        }
    }

    // The cycles that one of the last wrong paths behind mispredictions was fetched for; another one each time.
    Cycle usual_cycles() { return cycles_[asked_++ % LASTING]; }

  private:
    static constexpr int USUAL_LENGTH = 4;      // bytes of an instruction that the program never executes
    static constexpr std::size_t LASTING = 64;  // wrong paths whose cycles are remembered
    static constexpr Cycle FIRST = 24;          // cycles of one of which nothing is known

    struct Instruction {
        Address address;
        std::int64_t length, operations;
        std::uint16_t flags;
    };
    Instruction instruction_at(const Place& place) const {
        if (place.here == UNKNOWN) return {place.address, USUAL_LENGTH, 1, 0};
        const DecodedInstruction& row = program_[place.here];
        return {row.pc, row.length, row.micro_operations, row.flags};
    }

    // A branch on the path that is taken.
    bool leaves(const Place& place, std::uint16_t flags) const {
        return (flags & BRANCH) && (!(flags & CONDITIONAL) || branches_[place.here].taken);
    }

    // Where the path goes on.
    Place behind(const Place& place, Address fall_through, std::uint16_t flags) const {
        if (leaves(place, flags)) return {branches_[place.here].target, Place::NOWHERE};
        return {place.here == UNKNOWN ? UNKNOWN : next(place.here), fall_through};
    }

    void took(const Start& start, Cycle until) {
        if (start.entries < 0) return;  // decode found it
        cycles_[walks_++ % LASTING] = until - start.from;
    }

    // The instruction behind `here`, UNKNOWN where the program never executes it.
    std::int64_t next(std::int64_t here) const {
        const auto behind = static_cast<std::size_t>(here) + 1;
        return behind < program_.size() && program_[behind].pc == program_[here].fall_through() ? here + 1 : UNKNOWN;
    }

    struct Branch {
        std::int32_t target = UNKNOWN;  // where it went when it was last taken
        bool taken = false;             // whether it was taken last
    };

    const DecodedProgram& program_;
    std::vector<Branch> branches_;  // by instruction
    std::vector<Cycle> cycles_ = std::vector<Cycle>(LASTING, FIRST);
    std::size_t walks_ = 0, asked_ = 0;
};

}  // namespace perfvec
