// Ports that operations are bound to when they are dispatched, and may not leave for one that is free.
//
// Zen has a scheduler for each of its four integer units, and two or three for vectors (AMD 56665, "Software Optimization
// Guide for the AMD Zen3 Microarchitecture"); Intel's allocation tells each operation its port by how many wait there
// (Abel and Reineke, "uiCA", ICS 2022). So a port may be idle while an operation that it could do waits for another. The
// port with the fewest that wait is taken: benchmarks/uarch/host_loops.py compares what chains beside others take.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "../types.hpp"

namespace perfvec {

class BoundPorts {
  public:
    static constexpr int MOST = 16;

    explicit BoundPorts(int ports) : waiting_(std::min(ports, MOST), 0) {}

    // Binds an operation that is dispatched at `dispatched` to one of the first `among` ports (0: of all); returns the
    // first cycle from `cycle` on, which is not before, in which the port does nothing else, and books it.
    Cycle reserve(int among, Cycle dispatched, Cycle cycle) {
        pass(dispatched);
        const int ports = static_cast<int>(waiting_.size()), choices = among > 0 ? std::min(among, ports) : ports;
        int best = static_cast<int>(turn_++ % static_cast<unsigned>(choices));  // of several with as few by turns
        for (int k = 1, port = best; k < choices; ++k) {
            port = port + 1 == choices ? 0 : port + 1;
            if (waiting_[port] < waiting_[best]) best = port;
        }
        while (cycle < now_ + HORIZON && (busy_[cycle & (HORIZON - 1)] >> best & 1)) ++cycle;
        if (cycle >= now_ + HORIZON) return cycle;  // too far ahead to know
        busy_[cycle & (HORIZON - 1)] |= static_cast<std::uint16_t>(1u << best);
        ++waiting_[best];
        return cycle;
    }

  private:
    static constexpr Cycle HORIZON = 4096;  // cycles ahead that can be booked

    // Bookings before `cycle` have left.
    void pass(Cycle cycle) {
        if (cycle >= now_ + HORIZON) {
            busy_.fill(0);
            std::fill(waiting_.begin(), waiting_.end(), 0);
            now_ = cycle;
        }
        for (; now_ < cycle; ++now_) {
            std::uint16_t& busy = busy_[now_ & (HORIZON - 1)];
            for (std::size_t port = 0; busy != 0; ++port, busy = static_cast<std::uint16_t>(busy >> 1)) waiting_[port] -= busy & 1;
        }
    }

    Cycle now_ = 0;
    unsigned turn_ = 0;
    std::vector<int> waiting_;  // of each port
    std::array<std::uint16_t, HORIZON> busy_{};  // ports of each cycle, a bit each
};

}  // namespace perfvec
