// One level of the cache hierarchy: its lines, its MSHRs, its prefetcher. What levels do together is in hierarchy.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "../memory/bus.hpp"
#include "mshr_file.hpp"
#include "prefetcher.hpp"
#include "replacement_policy.hpp"

namespace perfvec {

// The place that data came from.
enum Level { L1I, L1D, L2, L3, MEMORY, LEVELS = MEMORY };

struct CacheCounters {
    std::int64_t accesses = 0, misses = 0, write_backs = 0, prefetches = 0;
    std::int64_t merged = 0;      // with a miss whose line is on its way
    std::int64_t useful = 0;      // prefetched lines that a request used
    std::int64_t late = 0;        // of these, on their way when the request came
    std::int64_t from_prefetchers = 0, from_prefetchers_missed = 0;  // of accesses and misses: what a level above prefetches
};

// A span of time that is widened as long as what is added overlaps it or comes before its end.
struct TimeSpan {
    Cycle begin = 0, end = 0;

    bool contains(Cycle cycle) const { return begin <= cycle && cycle < end; }

    void extend(Cycle from, Cycle to) {
        begin = from > end ? from : std::min(begin, from);
        end = std::max(end, to);
    }
};

class Cache {
  public:
    // Bits of a line's flags; above them the level that its data came from.
    static constexpr std::uint8_t DIRTY = 1, PREFETCHED = 2;
    static constexpr int SOURCE_SHIFT = 2;
    static constexpr std::int64_t TAGS_OF_HOST_LINE = 64 / sizeof(Line);

    Cache() : mshrs(0) {}
    Cache(std::int64_t sets, int ways, int mshr_entries, std::unique_ptr<ReplacementPolicy> policy)
        : mshrs(mshr_entries),
          ways_(ways),
          set_mask_(sets - 1),
          policy_(std::move(policy)),
          tag_(sets * ways, -1),
          ready_(sets * ways, 0),
          flags_(sets * ways, 0),
          recent_(sets, 0) {}

    std::size_t lines() const { return tag_.size(); }

    // A line comes in every so many cycles at most.
    void fill_every(Cycle cycles) {
        if (cycles > 1) fills_ = std::make_unique<Bus>();
        fill_cycles_ = cycles;
    }

    // The cycle in which a line that is there at `cycle` can come in.
    Cycle filled(Cycle cycle) {
        return fills_ ? fills_->take((cycle + fill_cycles_ - 1) / fill_cycles_) * fill_cycles_ : cycle;
    }

    // Where the line is, or -1. The one used last is looked at first: most searches end there.
    std::int64_t find(Line line) const {
        const std::int64_t set = line & set_mask_, first = set * ways_;
        if (const std::int64_t recent = first + (recent_[set] & WAY); tag_[recent] == line) return recent;
        for (std::int64_t place = first; place < first + ways_; ++place)
            if (tag_[place] == line) return place;
        return -1;
    }

    // Asks the host for the line's set: that of a large cache is not in its first ones.
    void prefetch(Line line) const {
        const std::int64_t set = line & set_mask_, first = set * ways_;
        for (std::int64_t place = first; place < first + ways_; place += TAGS_OF_HOST_LINE) __builtin_prefetch(&tag_[place]);
        __builtin_prefetch(&ready_[first]);
        __builtin_prefetch(&flags_[first]);
        __builtin_prefetch(&recent_[set]);
        policy_->prefetch(set);
    }

    // The line found at `place` is used.
    void use(Line line, std::int64_t place, std::uint8_t flags) {
        const std::int64_t set = line & set_mask_;
        const int way = static_cast<int>(place - set * ways_);
        if (recent_[set] != way) {
            recent_[set] = static_cast<std::uint8_t>(way);
            policy_->on_use(set, way);
        }
        set_flags(place, flags);
    }

    struct Victim {
        Line line;
        bool dirty;
    };

    // Puts `line` in the place of another, which it returns (-1 where the place was empty).
    Victim fill(Line line, std::uint8_t flags, Cycle ready) {
        const std::int64_t set = line & set_mask_;
        const int way = policy_->victim(set);
        const std::int64_t place = set * ways_ + way;
        const Victim victim{tag_[place], (flags_[place] & DIRTY) != 0};
        tag_[place] = line;
        flags_[place] = flags;
        ready_[place] = ready;
        recent_[set] = static_cast<std::uint8_t>(way | FILLED);
        policy_->on_fill(set, way);
        return victim;
    }

    std::uint8_t flags(std::int64_t place) const { return flags_[place] & (DIRTY | PREFETCHED); }
    void set_flags(std::int64_t place, std::uint8_t flags) {
        flags_[place] = static_cast<std::uint8_t>((flags_[place] & ~(DIRTY | PREFETCHED)) | flags);
    }
    int source(std::int64_t place) const { return flags_[place] >> SOURCE_SHIFT; }
    Cycle ready(std::int64_t place) const { return ready_[place]; }

    // Tells whether the data of the line at `place` has not come by `cycle`.
    bool under_way(std::int64_t place, Cycle cycle) const { return cycle < ready_[place] - response; }

    int latency = 0, request = 0, transfer = 0, response = 0;  // cycles
    int next = -1;                                             // the level below, -1: main memory
    MshrFile mshrs;
    TimeSpan blocked;  // in which the level now and then accepts nothing
    TimeSpan crowded;  // in which as many accesses wait for one line as can
    std::unique_ptr<Prefetcher> prefetcher;
    PrefetchQueue queue;
    CacheCounters counters;

  private:
    int ways_ = 0;
    Cycle fill_cycles_ = 1;
    std::unique_ptr<Bus> fills_;  // its slots
    std::int64_t set_mask_ = 0;
    std::unique_ptr<ReplacementPolicy> policy_;
    std::vector<Line> tag_;
    std::vector<Cycle> ready_;
    static constexpr std::uint8_t FILLED = 0x80, WAY = FILLED - 1;
    std::vector<std::uint8_t> flags_, recent_;  // recent_: the way used last of each set; FILLED until it is hit
};

}  // namespace perfvec
