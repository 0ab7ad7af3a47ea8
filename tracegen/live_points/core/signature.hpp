// The signature of a unit of executed instructions: a few numbers that cost some nanoseconds an instruction: counts,
// distances between touches of a line, code, and the cycles of three simple machines (interval model: Eyerman et al.,
// TOCS 2009). They tell units apart before any machine is simulated.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "last_touch.hpp"

namespace perfvec {

constexpr int SOURCES = 8, DESTINATIONS = 6, REGISTERS = 256;

struct Static {  // what is used of a static instruction
    std::uint64_t pc;
    std::uint8_t length, latency;
    std::uint16_t flags;  // as in uarch/instructions.py (Flag)
    std::uint8_t sources[SOURCES], destinations[DESTINATIONS];
    std::uint8_t source_count, destination_count;
};

enum : std::uint16_t { BRANCH = 1, CONDITIONAL = 2, INDIRECT = 4, RETURN = 16, LOAD = 32 };

// Cycles on a machine with one pipeline of a width, a window, fixed latencies by distance of reuse, in quarters of a cycle.
class SimpleMachine {
  public:
    SimpleMachine(int window, std::array<int, 4> memory) : window_(window), memory_(memory), retire_(window, 0) {}

    void execute(const Static& row, int distance_class, int code_class, bool mispredicted) {
        std::uint64_t begin = std::max(dispatch_ + 1, retire_[at_]);
        if (code_class > 0) begin += 4 * memory_[code_class];
        dispatch_ = begin;
        for (int k = 0; k < row.source_count; ++k) begin = std::max(begin, ready_[row.sources[k]]);
        std::uint64_t done = begin + 4 * row.latency;
        if (row.flags & LOAD) done += 4 * memory_[distance_class];
        for (int k = 0; k < row.destination_count; ++k) ready_[row.destinations[k]] = done;
        retired_ = std::max(retired_, done);
        retire_[at_] = retired_;
        at_ = at_ + 1 == window_ ? 0 : at_ + 1;
        if (mispredicted) dispatch_ = done + 4 * 12;
    }

    // Cycles since the last call.
    float take() {
        const float cycles = static_cast<float>(retired_ - taken_) / 4;
        taken_ = retired_;
        return cycles;
    }

  private:
    int window_, at_ = 0;
    std::array<int, 4> memory_;
    std::vector<std::uint64_t> retire_;
    std::array<std::uint64_t, REGISTERS> ready_{};
    std::uint64_t dispatch_ = 0, retired_ = 0, taken_ = 0;
};

class Signature {
  public:
    static constexpr int MACHINES = 3, COUNTS = 17, CODE_SKETCH = 16, SIZE = MACHINES + COUNTS + CODE_SKETCH;

    // Of an access, how far back the last touch of its line is: 0 near, 3 far.
    int data(std::uint64_t line, std::uint64_t distance) {
        std::uint64_t& near = near_data_[line & 511];
        if (near == line) return 0;
        near = line;
        const int bin = distance == LastTouch::NEVER ? 6 : std::min(5, log8(distance));
        ++counts_[8 + bin];
        return bin < 2 ? 0 : bin < 4 ? 1 : bin < 5 ? 2 : 3;
    }

    int code(std::uint64_t line, std::uint64_t distance) {
        std::uint64_t& near = near_code_[line & 511];
        if (near == line) return 0;
        near = line;
        const int bin = distance == LastTouch::NEVER ? 1 : log8(distance) < 4 ? 0 : 1;
        ++counts_[15 + bin];
        return bin + 1;
    }

    bool branch(const Static& row, std::uint32_t id, std::uint64_t target) {
        bool wrong = false;
        if (row.flags & CONDITIONAL) {
            const bool taken = target != row.pc + row.length;
            std::int8_t& counter = counters_[(row.pc ^ history_ * 5) & (counters_.size() - 1)];
            wrong = (counter >= 0) != taken;
            counter = static_cast<std::int8_t>(std::clamp(counter + (taken ? 1 : -1), -2, 1));
            history_ = history_ << 1 | taken;
            ++counts_[0];
        } else if (row.flags & INDIRECT && !(row.flags & RETURN)) {
            std::uint64_t& last = targets_[(row.pc ^ history_ * 3) & (targets_.size() - 1)];
            wrong = last != target;
            last = target;
            ++counts_[1];
        }
        counts_[2] += wrong;
        const std::uint32_t mixed = (id * 0x9E3779B1u) >> 24;
        sketch_[mixed & (CODE_SKETCH - 1)] += since_branch_;
        since_branch_ = 0;
        return wrong;
    }

    void execute(const Static& row, int data_class, int code_class, bool mispredicted) {
        ++since_branch_;
        for (SimpleMachine& machine : machines_) machine.execute(row, data_class, code_class, mispredicted);
    }

    void accesses(int loads, int stores) {
        counts_[3] += static_cast<float>(loads);
        counts_[4] += static_cast<float>(stores);
    }

    void latency(const Static& row) {
        counts_[5] += row.latency > 2;
        counts_[6] += row.latency > 6;
        counts_[7] += row.flags & BRANCH;
    }

    std::array<float, SIZE> take() {
        std::array<float, SIZE> all;
        float* out = all.data();
        for (SimpleMachine& machine : machines_) *out++ = machine.take();
        out = std::copy(std::begin(counts_), std::end(counts_), out);
        std::copy(std::begin(sketch_), std::end(sketch_), out);
        counts_.fill(0);
        sketch_.fill(0);
        return all;
    }

  private:
    static int log8(std::uint64_t distance) { return std::max(0, (63 - __builtin_clzll(distance | 1)) / 3 - 2); }

    std::array<SimpleMachine, MACHINES> machines_{SimpleMachine(192, {0, 12, 40, 200}), SimpleMachine(192, {0, 0, 0, 0}),
                                                  SimpleMachine(24, {1, 12, 60, 200})};
    std::array<float, COUNTS> counts_{};
    std::array<float, CODE_SKETCH> sketch_{};
    std::array<std::uint64_t, 512> near_data_{}, near_code_{};
    std::array<std::int8_t, 1 << 14> counters_{};
    std::array<std::uint64_t, 1 << 10> targets_{};
    std::uint64_t history_ = 0;
    float since_branch_ = 0;
};

}  // namespace perfvec
