// Of the branches before a sampled unit those that teach a predictor what it needs there.
//
// The latest branches are kept all. Of those before, the ones that lead to earlier executions of what the unit executes:
// the same branch after the same directions. What else a run executes teaches little about the unit, and there is much more
// of it than can be kept (the idea of storing branches, not predictors: Barr et al., ISPASS 2006). A predictor passes all
// units, so that what is of use to one may lie before several others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace perfvec {

struct Branch {  // an executed branch, and the instruction after it
    std::uint32_t id, following;
};

struct Range {  // of branches, by their numbers in a run
    std::uint64_t begin, end;
};

// A set of numbers of branches, all of them within `size` from a first one on.
class Marks {
  public:
    explicit Marks(std::size_t size) : words_(size / BITS + 2) {}

    // Nothing is marked; all numbers are `first` or larger.
    void clear(std::uint64_t first) {
        std::fill(words_.begin(), words_.end(), 0);
        base_ = first / BITS * BITS;
    }

    // Marks a range, but only so many of it, the last ones, that are not marked yet. Returns how many those were.
    std::uint64_t add(Range range, std::uint64_t most) {
        if (range.begin == range.end) return 0;
        const std::uint64_t first = range.begin - base_, last = range.end - 1 - base_;
        std::uint64_t left = most;
        for (std::uint64_t word = last / BITS + 1; word-- > first / BITS && left > 0;) {
            std::uint64_t fresh = ~words_[word];
            if (word == first / BITS) fresh &= ~std::uint64_t{0} << first % BITS;
            if (word == last / BITS) fresh &= ~std::uint64_t{0} >> (BITS - 1 - last % BITS);
            if (fresh == 0) continue;  // most often: units execute the same contexts over and over
            std::uint64_t count = static_cast<std::uint64_t>(__builtin_popcountll(fresh));
            for (; count > left; --count) fresh &= fresh - 1;
            words_[word] |= fresh;
            left -= count;
        }
        return most - left;
    }

    // What is marked, as ranges that do not touch, in their order.
    std::vector<Range> ranges() const {
        std::vector<Range> all;
        for (std::size_t word = 0; word < words_.size(); ++word)
            for (std::uint64_t marks = words_[word]; marks != 0;) {
                const int from = __builtin_ctzll(marks);
                const std::uint64_t above = ~(marks >> from);  // bits behind the run are 0 in `marks`
                const int length = above == 0 ? BITS : __builtin_ctzll(above);
                const std::uint64_t begin = base_ + word * BITS + static_cast<std::uint64_t>(from);
                const std::uint64_t end = begin + static_cast<std::uint64_t>(length);
                if (!all.empty() && all.back().end == begin)
                    all.back().end = end;
                else
                    all.push_back({begin, end});
                marks = from + length == BITS ? 0 : marks & ~std::uint64_t{0} << (from + length);
            }
        return all;
    }

  private:
    static constexpr int BITS = 64;
    std::vector<std::uint64_t> words_;
    std::uint64_t base_ = 0;
};

struct History {
    std::vector<Range> ranges;
    std::vector<Branch> branches;  // of all ranges
};

// The branches that are in one of several histories, each once.
class UsefulBranches {
  public:
    explicit UsefulBranches(const std::vector<History>& histories) {
        std::vector<Part> parts;
        for (const History& history : histories) {
            const Branch* first = history.branches.data();
            for (const auto& [from, to] : history.ranges) {
                parts.push_back({from, to, first});
                first += to - from;
            }
        }
        std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
        std::uint64_t reached = 0;
        for (const Part& part : parts) {
            const std::uint64_t from = std::max(reached, part.begin);
            if (from >= part.end) continue;
            parts_.push_back({from, part.end, part.first + (from - part.begin)});
            reached = part.end;
        }
    }

    // Those from `begin` to `end`, in their order; no earlier ones are asked for afterwards.
    std::vector<Branch> between(std::uint64_t begin, std::uint64_t end) {
        std::vector<Branch> found;
        while (next_ < parts_.size() && parts_[next_].end <= begin) ++next_;
        for (std::size_t k = next_; k < parts_.size() && parts_[k].begin < end; ++k) {
            const Part& part = parts_[k];
            const std::uint64_t from = std::max(begin, part.begin), to = std::min(end, part.end);
            found.insert(found.end(), part.first + (from - part.begin), part.first + (to - part.begin));
        }
        return found;
    }

  private:
    struct Part {
        std::uint64_t begin, end;
        const Branch* first;
    };
    std::vector<Part> parts_;  // do not overlap
    std::size_t next_ = 0;
};

class BranchHistory {
  public:
    // With so many branches for a unit, a third of them the latest.
    explicit BranchHistory(std::size_t most)
        : most_(most), ring_(REMEMBERED), before_(REMEMBERED), latest_(CONTEXTS), kept_(REMEMBERED) {}

    std::uint64_t size() const { return size_; }

    void add(Branch branch, bool taken) {
        const std::uint64_t context =
            (branch.id + 1) * 0x9E3779B97F4A7C15u ^ (directions_ & DIRECTIONS) * 0xBF58476D1CE4E5B9u;
        std::uint32_t& latest = latest_[(context ^ context >> 32) & (CONTEXTS - 1)];
        __builtin_prefetch(&latest, 1);
        if (size_ - linked_ == BEHIND) link();
        behind_[size_ & (BEHIND - 1)] = &latest;
        ring_[size_++ & (REMEMBERED - 1)] = branch;
        directions_ = directions_ << 1 | taken;
    }

    // Of the branches before `begin` those that are of use to all since.
    History of_use(std::uint64_t begin) {
        while (linked_ < size_) link();
        const std::uint64_t oldest = size_ > REMEMBERED ? size_ - REMEMBERED : 0;
        kept_.clear(oldest);
        std::uint64_t left = most_;
        const auto keep = [&](std::uint64_t last, std::uint64_t length) {  // up to the one numbered `last`
            const std::uint64_t end = last + 1;
            left -= kept_.add({end - std::min(length, end - oldest), end}, left);
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
        History history{kept_.ranges(), {}};
        history.branches.reserve(most_ - left);
        for (const auto& [from, to] : history.ranges)
            for (std::uint64_t k = from; k < to; ++k) history.branches.push_back(ring_[k & (REMEMBERED - 1)]);
        return history;
    }

  private:
    static constexpr std::size_t REMEMBERED = 1 << 20, CONTEXTS = 1 << 20;
    static constexpr std::uint64_t DIRECTIONS = 0xFFFF;  // of the last 16 branches
    static constexpr int TIMES = 16;                     // so many executions of a context
    static constexpr std::uint64_t LENGTH = 512;         // branches of a range that ends with one
    static constexpr std::uint64_t BEHIND = 16;          // branches

    // The next branch is the latest one in its context, a few branches late: by then the host has fetched it.
    void link() {
        std::uint32_t& latest = *behind_[linked_ & (BEHIND - 1)];
        before_[linked_ & (REMEMBERED - 1)] = latest;
        latest = static_cast<std::uint32_t>(++linked_);
    }

    // One more than the number of the branch before number `k` in its context.
    std::uint64_t before(std::uint64_t k) const {
        return size_ - static_cast<std::uint32_t>(size_ - before_[k & (REMEMBERED - 1)]);
    }

    std::size_t most_;
    std::uint64_t size_ = 0, linked_ = 0, directions_ = 0;
    std::uint32_t* behind_[BEHIND] = {};  // where the contexts of those not linked yet are
    std::vector<Branch> ring_;           // the latest, by number
    std::vector<std::uint32_t> before_;  // of each, low bits of one more than the number of the one before in its context
    std::vector<std::uint32_t> latest_;  // low bits of one more than the number of each context's last one, hashed
    Marks kept_;
};

}  // namespace perfvec
