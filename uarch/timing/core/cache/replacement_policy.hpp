// The contract of a replacement policy: which way of a full set gives way to a new line.
//
// To add a policy: one header beside this one that implements the class (random_replacement.hpp is the smallest), and a line
// in make_replacement_policy (replacement_policies.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace perfvec {

class ReplacementPolicy {
  public:
    virtual ~ReplacementPolicy() = default;

    // An access hits `way`. Of further hits right after, of the same way of the set, nothing is told.
    virtual void on_use(std::int64_t set, int way) = 0;

    // A new line has been put into `way`.
    virtual void on_fill(std::int64_t set, int way) { on_use(set, way); }

    // The way to put a new line in: best one that was never filled.
    virtual int victim(std::int64_t set) = 0;

    // The set will be asked for soon: the host may fetch what is known of it.
    virtual void prefetch(std::int64_t /*set*/) const {}
};

// That of a name in a machine's configuration, for a cache of so many sets and ways.
std::unique_ptr<ReplacementPolicy> make_replacement_policy(const std::string& kind, std::int64_t sets, int ways);

}  // namespace perfvec
