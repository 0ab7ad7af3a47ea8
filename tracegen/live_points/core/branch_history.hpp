// Of the branches before a sampled unit those that teach a predictor what it needs there.
//
// The latest branches are kept all. Of those before, the ones around earlier executions of what the unit executes: the
// same branch after the same directions. What else a run executes teaches little about the unit, and there is much more of
// it than can be kept (the idea of storing branches, not predictors: Barr et al., ISPASS 2006).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace perfvec {

struct Branch {  // an executed branch, and the instruction after it
    std::uint32_t id, following;
};

// Numbers of branches in a run, as ranges [begin, end) that neither touch nor overlap, in their order.
class Ranges {
  public:
    struct Range {
        std::uint64_t begin, end;
    };

    // Adds a range, but only so many of it, the last ones, that are not there yet. Returns how many those were.
    std::uint64_t add(Range one, std::uint64_t most) {
        const auto behind = std::partition_point(all_.begin(), all_.end(), [&](auto& s) { return s.begin <= one.end; });
        auto first = behind;
        std::uint64_t added = 0, at = one.end;  // all from `at` on are there
        for (; first != all_.begin() && (first - 1)->end >= one.begin; --first) {
            const Range& there = *(first - 1);
            const std::uint64_t between = at > there.end ? at - there.end : 0;
            if (added + between > most) break;
            added += between;
            at = std::min(at, there.begin);
        }
        if (at > one.begin) {
            const std::uint64_t rest = std::min(at - one.begin, most - added);
            at -= rest;
            added += rest;
        }
        if (first != behind) one.end = std::max(one.end, (behind - 1)->end);
        one.begin = at;
        if (one.begin == one.end) return 0;
        all_.insert(all_.erase(first, behind), one);
        return added;
    }

    const std::vector<Range>& all() const { return all_; }

  private:
    std::vector<Range> all_;
};

struct History {
    Ranges ranges;
    std::vector<Branch> branches;  // of all ranges
};

// The branches from `begin` to `end` that are in one of the histories, each once, in their order.
inline std::vector<Branch> between(const std::vector<History>& histories, std::uint64_t begin, std::uint64_t end) {
    struct Part {
        std::uint64_t begin, end;
        const Branch* first;
    };
    std::vector<Part> parts;
    for (const History& history : histories) {
        const Branch* first = history.branches.data();
        for (const auto& [from, to] : history.ranges.all()) {
            parts.push_back({from, std::min(to, end), first});
            first += to - from;
        }
    }
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
    std::vector<Branch> found;
    for (const Part& part : parts) {
        const std::uint64_t from = std::max(begin, part.begin);
        if (from >= part.end) continue;
        found.insert(found.end(), part.first + (from - part.begin), part.first + (part.end - part.begin));
        begin = part.end;
    }
    return found;
}

class BranchHistory {
  public:
    // With so many branches for a unit, a third of them the latest.
    explicit BranchHistory(std::size_t most)
        : most_(most), ring_(REMEMBERED), before_(REMEMBERED), latest_(CONTEXTS) {}

    std::uint64_t size() const { return size_; }

    void add(Branch branch, bool taken) {
        const std::uint64_t context =
            (branch.id + 1) * 0x9E3779B97F4A7C15u ^ (directions_ & DIRECTIONS) * 0xBF58476D1CE4E5B9u;
        std::uint32_t& latest = latest_[(context ^ context >> 32) & (CONTEXTS - 1)];
        const std::size_t place = size_ & (REMEMBERED - 1);
        ring_[place] = branch;
        before_[place] = latest;
        latest = static_cast<std::uint32_t>(++size_);
        directions_ = directions_ << 1 | taken;
    }

    // Of the branches before `begin` those that are of use to all since.
    History of_use(std::uint64_t begin) {
        const std::uint64_t oldest = size_ > REMEMBERED ? size_ - REMEMBERED : 0;
        History history;
        std::uint64_t left = most_;
        const auto keep = [&](std::uint64_t last, std::uint64_t length) {  // up to the one numbered `last`
            const std::uint64_t end = last + 1;
            left -= history.ranges.add({end - std::min(length, end - oldest), end}, left);
        };
        if (begin > oldest) keep(begin - 1, most_ / 3);
        std::vector<std::uint64_t> earlier;  // of each context, one more than the number of an execution before `begin`
        for (std::uint64_t k = std::max(begin, oldest); k < size_; ++k) {
            const std::uint64_t one = before(k);
            if (one <= begin) earlier.push_back(one);
        }
        for (int time = 0; time < TIMES && left > 0; ++time)
            for (std::uint64_t& one : earlier) {
                if (one <= oldest || left == 0) continue;
                keep(one - 1, LENGTH);
                one = before(one - 1);
            }
        history.branches.reserve(most_ - left);
        for (const auto& [from, to] : history.ranges.all())
            for (std::uint64_t k = from; k < to; ++k) history.branches.push_back(ring_[k & (REMEMBERED - 1)]);
        return history;
    }

  private:
    static constexpr std::size_t REMEMBERED = 1 << 20, CONTEXTS = 1 << 18;
    static constexpr std::uint64_t DIRECTIONS = 0xF;  // of the last four branches
    static constexpr int TIMES = 4;              // so many executions of a context
    static constexpr std::uint64_t LENGTH = 128;  // branches of a range that ends with one

    // One more than the number of the branch before number `k` in its context.
    std::uint64_t before(std::uint64_t k) const {
        return size_ - static_cast<std::uint32_t>(size_ - before_[k & (REMEMBERED - 1)]);
    }

    std::size_t most_;
    std::uint64_t size_ = 0, directions_ = 0;
    std::vector<Branch> ring_;           // the latest, by number
    std::vector<std::uint32_t> before_;  // of each, low bits of one more than the number of the one before in its context
    std::vector<std::uint32_t> latest_;  // low bits of one more than the number of each context's last one, hashed
};

}  // namespace perfvec
