// Direct branches that were taken since a gap began, each once, in the order of their last time.
//
// A branch target buffer makes an entry of every such branch, over the one that was there: this order decides what one of
// any size holds, as that of lines does for a cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "branch_history.hpp"

namespace perfvec {

class TakenBranches {
  public:
    void add(Branch branch) {
        if (branch.id >= last_.size()) last_.resize(branch.id + branch.id / 2 + 1);
        Last& last = last_[branch.id];
        if (last.time <= gap_) since_.push_back(branch.id);
        last = {++time_, branch.following};
    }

    std::vector<Branch> end_gap() {
        std::sort(since_.begin(), since_.end(), [&](auto a, auto b) { return last_[a].time < last_[b].time; });
        std::vector<Branch> taken;
        taken.reserve(since_.size());
        for (const std::uint32_t id : since_) taken.push_back({id, last_[id].following});
        return taken;
    }

    void begin_gap() {
        gap_ = time_;
        since_.clear();
    }

  private:
    struct Last {
        std::uint64_t time = 0;
        std::uint32_t following = 0;
    };
    std::vector<Last> last_;  // of each branch
    std::vector<std::uint32_t> since_;
    std::uint64_t time_ = 0, gap_ = 0;
};

// Each branch where it is last.
inline std::vector<Branch> last_of_each(const std::vector<Branch>& branches, std::size_t statics) {
    std::vector<bool> seen(statics);
    std::vector<Branch> last;
    for (std::size_t k = branches.size(); k-- > 0;) {
        if (seen[branches[k].id]) continue;
        seen[branches[k].id] = true;
        last.push_back(branches[k]);
    }
    std::reverse(last.begin(), last.end());
    return last;
}

}  // namespace perfvec
