// The units with by far the most accesses, all of which count: a string operation over megabytes takes longer than
// thousands of other units, and a random sample has it or not. (A take-all stratum; Hidiroglou, The American Statistician
// 1986.)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace perfvec {

class TakeAll {
  public:
    static constexpr std::int64_t LEAST = 1 << 14;  // accesses: 16 an instruction of a unit
    static constexpr std::int64_t ALL = 1 << 24;    // of all members: what a file keeps, and each machine simulates
    static constexpr std::size_t MOST = 16;

    // A unit of the run, told once. One with more accesses than members may have together is none.
    void see(std::uint64_t unit, std::int64_t accesses) {
        if (accesses <= least_ || accesses > ALL) return;
        members_.push_back({accesses, unit});
        std::stable_sort(members_.begin(), members_.end(),
                         [](const Member& a, const Member& b) { return a.accesses > b.accesses; });
        all_ += accesses;
        while (members_.size() > MOST || all_ > ALL) {
            least_ = members_.back().accesses;  // of those with as many the first ones stay, and no other one comes
            all_ -= least_;
            members_.pop_back();
            ++left;
        }
    }

    bool contains(std::uint64_t unit) const {
        return std::any_of(members_.begin(), members_.end(), [=](const Member& member) { return member.unit == unit; });
    }

    std::vector<std::uint64_t> units() const {
        std::vector<std::uint64_t> found;
        for (const Member& member : members_) found.push_back(member.unit);
        std::sort(found.begin(), found.end());
        return found;
    }

    std::size_t left = 0;  // units that were members

  private:
    struct Member {
        std::int64_t accesses;
        std::uint64_t unit;
    };
    std::vector<Member> members_;  // the one with the most accesses first
    std::int64_t least_ = LEAST, all_ = 0;
};

}  // namespace perfvec
