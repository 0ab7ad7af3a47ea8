// The signature of a unit of executed instructions: a few numbers that cost some nanoseconds an instruction: counts,
// distances between touches of a line, code, and the cycles of three simple machines (interval model: Eyerman et al.,
// TOCS 2009). They tell units apart before any machine is simulated.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "last_touch.hpp"

namespace perfvec {

constexpr int SOURCES = 8, DESTINATIONS = 6, REGISTERS = 256;

struct Static {  // what is used of a static instruction
    std::uint64_t pc;
    std::uint8_t length, latency;
    std::uint16_t flags;  // as in uarch/instructions.py (Flag)
    std::uint8_t sources[SOURCES], destinations[DESTINATIONS];
    std::uint8_t source_count, destination_count, kinds;  // kinds: a bit of each, long, very long, branch
};
static_assert(sizeof(Static) == 32);

constexpr int KINDS = 3, KIND_BITS = 16;  // of a kind there are so many bits in a sum of ADDS
constexpr std::uint64_t one_of(int kind) { return std::uint64_t{1} << (KIND_BITS * kind); }
constexpr std::uint64_t ADDS[1 << KINDS] = {0, one_of(0), one_of(1), one_of(0) + one_of(1),
                                            one_of(2), one_of(0) + one_of(2), one_of(1) + one_of(2),
                                            one_of(0) + one_of(1) + one_of(2)};

enum : std::uint16_t { BRANCH = 1, CONDITIONAL = 2, INDIRECT = 4, RETURN = 16, LOAD = 32 };

// Four numbers side by side, one of each simple machine and one that is not used.
using Four = float __attribute__((vector_size(16)));

inline Four larger(Four a, Four b) {
#ifdef __SSE__
    return _mm_max_ps(a, b);
#else
    return a > b ? a : b;
#endif
}

// Three machines with one pipeline of a width, a window, and fixed latencies by distance of reuse: one of 192 instructions, the
// same with every line near, and one of 24. Times are quarters of a cycle, from the end of the last unit on.
class SimpleMachines {
  public:
    static constexpr int COUNT = 3;

    void execute(const Static& row, int distance_class, int code_class, bool mispredicted) {
        Four leaves = retire_[at_];
        leaves[2] = retire_[at_ >= SHORT ? at_ - SHORT : at_ + LONG - SHORT][2];
        Four begin = larger(dispatch_ + 1, leaves) + CODE[code_class];
        dispatch_ = begin;
        for (int k = 0; k < row.source_count; ++k) begin = larger(begin, ready_[row.sources[k]]);
        Four done = begin + 4 * static_cast<float>(row.latency);
        if (row.flags & LOAD) done += DATA[distance_class];
        for (int k = 0; k < row.destination_count; ++k) ready_[row.destinations[k]] = done;
        retired_ = larger(retired_, done);
        retire_[at_] = retired_;
        at_ = at_ + 1 == LONG ? 0 : at_ + 1;
        if (mispredicted) dispatch_ = done + 4 * 12;
    }

    // Cycles since the last call.
    std::array<float, COUNT> take() {
        const Four cycles = retired_ / 4, start = retired_;
        dispatch_ -= start;
        retired_ -= start;
        // Whatever was over long ago: sums stay exact.
        for (Four& time : ready_) time = larger(time - start, LONG_AGO);
        for (Four& time : retire_) time = larger(time - start, LONG_AGO);
        return {cycles[0], cycles[1], cycles[2]};
    }

  private:
    static constexpr int LONG = 192, SHORT = 24;
    static constexpr Four LONG_AGO = {-1e6f, -1e6f, -1e6f, -1e6f};
    static constexpr Four DATA[] = {{0, 0, 4}, {48, 0, 48}, {160, 0, 240}, {800, 0, 800}};
    static constexpr Four CODE[] = {{}, DATA[1], DATA[2], DATA[3]};

    Four dispatch_{}, retired_{};
    int at_ = 0;
    std::array<Four, LONG> retire_{};
    std::array<Four, REGISTERS> ready_{};
};

class Signature {
  public:
    static constexpr int MACHINES = SimpleMachines::COUNT, COUNTS = 17, CODE_SKETCH = 16, SIZE = MACHINES + COUNTS + CODE_SKETCH;

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

    void follow() { ++since_branch_; }

    void execute(const Static& row, int data_class, int code_class, bool mispredicted) {
        machines_.execute(row, data_class, code_class, mispredicted);
        kinds_ += ADDS[row.kinds];
    }

    void accesses(std::int64_t all, std::int64_t stores) {
        counts_[3] += static_cast<float>(all - stores);
        counts_[4] += static_cast<float>(stores);
    }

    std::array<float, SIZE> take() {
        std::array<float, SIZE> all;
        float* out = all.data();
        for (const float cycles : machines_.take()) *out++ = cycles;
        for (int kind = 0; kind < KINDS; ++kind)
            counts_[5 + kind] = static_cast<float>(kinds_ >> (KIND_BITS * kind) & ((1 << KIND_BITS) - 1));
        kinds_ = 0;
        out = std::copy(std::begin(counts_), std::end(counts_), out);
        std::copy(std::begin(sketch_), std::end(sketch_), out);
        counts_.fill(0);
        sketch_.fill(0);
        return all;
    }

  private:
    static int log8(std::uint64_t distance) { return std::max(0, (63 - __builtin_clzll(distance | 1)) / 3 - 2); }

    SimpleMachines machines_;
    std::uint64_t kinds_ = 0;  // instructions of each kind, side by side
    std::array<float, COUNTS> counts_{};
    std::array<float, CODE_SKETCH> sketch_{};
    std::array<std::uint64_t, 512> near_data_{}, near_code_{};
    std::array<std::int8_t, 1 << 14> counters_{};
    std::array<std::uint64_t, 1 << 10> targets_{};
    std::uint64_t history_ = 0;
    float since_branch_ = 0;
};

}  // namespace perfvec
