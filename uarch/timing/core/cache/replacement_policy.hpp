// The contract of a replacement policy: which way of a full set gives way to a new line.
//
// Its state of a set lies beside the set's lines, as `bytes()` bytes that are 8-byte aligned. To add a policy: one header
// beside this one that implements the class (random_replacement.hpp is the smallest), and a line in
// make_replacement_policy (replacement_policies.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace perfvec {

class ReplacementPolicy {
  public:
    virtual ~ReplacementPolicy() = default;

    // Bytes of a set's state, and the state of an empty set; until then its bytes are 0.
    virtual int bytes() const = 0;
    virtual void clear(std::uint8_t* /*set*/) const {}

    // An access hits `way`. Of further hits right after, of the same way of the set, nothing is told.
    virtual void on_use(std::uint8_t* set, int way) = 0;

    // A new line has been put into `way`.
    virtual void on_fill(std::uint8_t* set, int way) { on_use(set, way); }

    // The way to put a new line in: best one that was never filled.
    virtual int victim(std::uint8_t* set) = 0;
};

// That of a name in a machine's configuration, for sets of so many ways.
std::unique_ptr<ReplacementPolicy> make_replacement_policy(const std::string& kind, int ways);

}  // namespace perfvec
