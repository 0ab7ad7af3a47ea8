// A memory of fixed latency and bandwidth, as gem5's SimpleMemory. What it gives waits for the core's next clock edge.
#pragma once

#include <algorithm>
#include <cmath>

#include "bus.hpp"
#include "main_memory.hpp"

namespace perfvec {

class SimpleMemory : public MainMemory {
  public:
    SimpleMemory(double latency_ns, double bandwidth_gbs, double frequency_ghz)
        : latency_(std::max<Cycle>(1, std::llrint(std::ceil(latency_ns * frequency_ghz - ROUNDING)))),
          slot_(std::max<Cycle>(1, std::llrint(64 * picoseconds(bandwidth_gbs) / 1000 * frequency_ghz * FRACTION))) {}

    Cycle read(Line, Cycle cycle, bool) override {
        ++counters.reads;
        return take(cycle) + latency_;
    }

    void write(Line, Cycle cycle) override {
        ++counters.writes;
        take(cycle);
    }

  private:
    // Of a byte, whole ones as in gem5; a GB is 2³⁰ bytes.
    static double picoseconds(double bandwidth_gbs) {
        constexpr double GIGABYTE = 1 << 30, SECOND = 1e12;
        return std::max(1.0, std::floor(SECOND / (bandwidth_gbs * GIGABYTE) + 0.5));
    }

    static constexpr double ROUNDING = 1e-6;  // of a whole number of cycles
    static constexpr Cycle FRACTION = 1024;  // a slot's length is kept in 1/1024 cycle

    Cycle take(Cycle cycle) {
        const std::int64_t slot = bus_.take(cycle * FRACTION / slot_);
        return std::max(cycle, slot * slot_ / FRACTION);
    }

    Cycle latency_, slot_;
    Bus bus_;
};

}  // namespace perfvec
