// A binary tree a set, whose nodes point away from what was used last: one bit a node stands in for the order of all ways.
#pragma once

#include <cstdint>
#include <vector>

#include "replacement_policy.hpp"

namespace perfvec {

// As gem5's TreePLRURP: the nodes of a heap, so that any number of ways up to 64 will do, and ways never filled wait until
// the tree points to them.
class TreePlru final : public ReplacementPolicy {
  public:
    TreePlru(std::int64_t sets, int ways) : nodes_(ways - 1), right_(sets, 0) {}

    void on_use(std::int64_t set, int way) override {
        std::uint64_t& right = right_[set];
        for (int node = nodes_ + way; node > 0; node = (node - 1) / 2) {
            const std::uint64_t parent = std::uint64_t{1} << ((node - 1) / 2);
            right = node % 2 == 0 ? right & ~parent : right | parent;
        }
    }

    int victim(std::int64_t set) override {
        int node = 0;
        while (node < nodes_) node = 2 * node + 1 + static_cast<int>(right_[set] >> node & 1);
        return node - nodes_;
    }

    void prefetch(std::int64_t set) const override { __builtin_prefetch(&right_[set]); }

  private:
    int nodes_;                         // below them in the heap are the ways
    std::vector<std::uint64_t> right_;  // [sets] a bit a node: the victim is on its right
};

}  // namespace perfvec
