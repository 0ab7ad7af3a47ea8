// The contract of a replacement policy: which way of a full set gives way to a new line.
//
// To add a policy: one header beside this one that implements the class (lru.hpp is the smallest), and a line in
// make_replacement_policy (replacement_policies.cpp).
#pragma once

#include <cstdint>
#include <memory>

namespace perfvec {

class ReplacementPolicy {
  public:
    virtual ~ReplacementPolicy() = default;

    // An access hits `way`, or a new line has been put there. Of further hits right after, in the same set, nothing is told.
    virtual void on_use(std::int64_t set, int way) = 0;
    virtual void on_fill(std::int64_t set, int way) { on_use(set, way); }

    // The way to put a new line in. Ways that were never filled count as used before all others.
    virtual int victim(std::int64_t set) = 0;

    // The set will be asked for soon: the host may fetch what is known of it.
    virtual void prefetch(std::int64_t /*set*/) const {}
};

// That of every cache.
std::unique_ptr<ReplacementPolicy> make_replacement_policy(std::int64_t sets, int ways);

}  // namespace perfvec
