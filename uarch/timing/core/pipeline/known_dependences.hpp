// What the run before it has taught the store sets, where a sampled unit begins.
//
// Of each of the unit's loads is known which stores it has read from, shortly behind them, and how often since the sets
// last forgot. A set takes one such read that went ahead of its store. How often a load goes ahead of a store depends on
// the machine, so it is learnt in the sampled units, whatever places both access: where one read or more of those in the
// run is expected to have gone ahead, both are in one set.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core.hpp"
#include "store_sets.hpp"

namespace perfvec {

class KnownDependences {
  public:
    explicit KnownDependences(std::size_t instructions) { grow(instructions); }

    void grow(std::size_t instructions) {
        first_.resize(instructions);
        issued_.resize(instructions, -1);
    }

    // A unit begins, of whose loads this is known.
    void begin(const NearReads& reads, const Program& program, StoreSets& sets) {
        for (const Pair& pair : pairs_) first_[pair.load] = 0;
        pairs_.clear();
        for (std::size_t k = 0; k < reads.count; ++k) {
            const std::uint32_t load = reads.load[k], store = reads.store[k];
            Ahead& ahead = ahead_[std::uint64_t{load} << 32 | store];
            pairs_.push_back({load, store, reads.times[k], &ahead});
            if (first_[load] == 0) first_[load] = static_cast<std::uint32_t>(pairs_.size());
            join_if_expected(pairs_.back(), program, sets);
        }
    }

    bool has(std::uint32_t load) const { return first_[load] != 0; }

    // The load could issue at `cycle`; returns when it can, behind the stores that it is known to read from.
    Cycle load(std::uint32_t here, Cycle cycle, const Program& program, StoreSets& sets) {
        Cycle allowed = cycle;
        for (std::size_t k = first_[here] - 1; k < pairs_.size() && pairs_[k].load == here; ++k) {
            const Pair& pair = pairs_[k];
            const Cycle issued = issued_[pair.store];
            ++pair.ahead->of;
            if (issued <= cycle) continue;
            ++pair.ahead->times;
            if (join_if_expected(pair, program, sets)) allowed = std::max(allowed, issued + 1);
        }
        return allowed;
    }

    void store(std::uint32_t here, Cycle issue) {
        if (!pairs_.empty()) issued_[here] = issue;
    }

  private:
    struct Ahead {  // in the sample: executions of a load, and those in which it could go ahead of the store
        std::int64_t of = 0, times = 0;
    };
    struct Pair {
        std::uint32_t load, store, reads;
        Ahead* ahead;
    };

    static bool join_if_expected(const Pair& pair, const Program& program, StoreSets& sets) {
        if (pair.ahead->times * std::int64_t{pair.reads} < std::max<std::int64_t>(pair.ahead->of, 1)) return false;
        sets.join(program.pc[pair.load], program.pc[pair.store]);
        return true;
    }

    std::vector<Pair> pairs_;            // of the unit, by load
    std::vector<std::uint32_t> first_;   // by instruction: 1 + the first pair of this load, or 0
    std::vector<Cycle> issued_;          // by instruction: when this store issued last
    std::unordered_map<std::uint64_t, Ahead> ahead_;
};

}  // namespace perfvec
