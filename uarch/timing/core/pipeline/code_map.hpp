// The program's instructions as fetch in no time passes them: three to a line of the host's cache, straight stretches at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "decoded_instruction.hpp"

namespace perfvec {

class CodeMap {
  public:
    struct Instruction {
        Address pc = 0;
        std::uint8_t length = 0;
        std::uint16_t flags = 0;
        std::int16_t operations = 1;  // micro-operations, or 1
        std::int32_t last_of_stretch = -1;  // what is executed behind this one in any case, and ends on the same line
        std::int32_t operations_up_to = 0;  // and with this one, from the program's first on

        Address fall_through() const { return pc + length; }
    };

    void draw(const DecodedProgram& program) {
        instructions_.clear();
        instructions_.reserve(program.size());
        std::int32_t operations = 0;
        for (const DecodedInstruction& row : program) {
            const std::int16_t own = std::max<std::int16_t>(row.micro_operations, 1);
            operations += own;
            instructions_.push_back({row.pc, row.length, row.flags, own, -1, operations});
        }
        for (std::size_t here = instructions_.size(); here-- > 0;) {
            Instruction& row = instructions_[here];
            row.last_of_stretch = goes_on(here) ? instructions_[here + 1].last_of_stretch : static_cast<std::int32_t>(here);
        }
    }

    std::size_t size() const { return instructions_.size(); }
    const Instruction& operator[](std::int64_t here) const { return instructions_[static_cast<std::size_t>(here)]; }

    // Asks the host for an instruction that will be needed.
    void prefetch(std::int64_t here) const { __builtin_prefetch(&instructions_[static_cast<std::size_t>(here)]); }

  private:
    bool goes_on(std::size_t here) const {
        const Instruction& row = instructions_[here];
        if (row.flags & BRANCH || here + 1 == instructions_.size()) return false;
        const Instruction& behind = instructions_[here + 1];
        return behind.pc == row.fall_through() && line_of(behind.fall_through() - 1) == line_of(row.fall_through() - 1);
    }

    std::vector<Instruction> instructions_;
};

}  // namespace perfvec
