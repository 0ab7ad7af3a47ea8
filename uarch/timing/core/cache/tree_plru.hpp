// A binary tree a set, whose nodes point away from what was used last: one bit a node stands in for the order of all ways.
#pragma once

#include <cstring>

#include "replacement_policy.hpp"

namespace perfvec {

// As gem5's TreePLRURP, but for any number of ways up to 64, of which gem5 takes powers of two: the nodes of a heap, and
// ways never filled wait until the tree points to them. A set has a word with a bit a node: the victim is on its right.
class TreePlru final : public ReplacementPolicy {
  public:
    explicit TreePlru(int ways) : nodes_(ways - 1) {}

    int bytes() const override { return sizeof(std::uint64_t); }

    void on_use(std::uint8_t* set, int way) override {
        std::uint64_t right = word(set);
        for (int node = nodes_ + way; node > 0; node = (node - 1) / 2) {
            const std::uint64_t parent = std::uint64_t{1} << ((node - 1) / 2);
            right = node % 2 == 0 ? right & ~parent : right | parent;
        }
        std::memcpy(set, &right, sizeof right);
    }

    int victim(std::uint8_t* set) override {
        int node = 0;
        for (const std::uint64_t right = word(set); node < nodes_;) node = 2 * node + 1 + static_cast<int>(right >> node & 1);
        return node - nodes_;
    }

  private:
    static std::uint64_t word(const std::uint8_t* set) {
        std::uint64_t right;
        std::memcpy(&right, set, sizeof right);
        return right;
    }

    int nodes_;  // below them in the heap are the ways
};

}  // namespace perfvec
