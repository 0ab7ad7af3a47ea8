// One level of the cache hierarchy: its lines, its MSHRs, its prefetcher. What levels do together is in hierarchy.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "../eight_bytes.hpp"
#include "../memory/bus.hpp"
#include "lru.hpp"
#include "mshr_file.hpp"
#include "prefetcher.hpp"
#include "replacement_policy.hpp"

namespace perfvec {

// The place that data came from.
enum Level { L1I, L1D, L2, L3, MEMORY, LEVELS = MEMORY };

// Who sees a touch that takes no time: all levels; a first one alone, which has the line as a rule; or the levels below it
// alone, because the line is touched again later.
enum class Seen { ByAll, ByFirst, Below };

struct CacheCounters {
    std::int64_t accesses = 0, misses = 0, write_backs = 0, prefetches = 0;
    std::int64_t merged = 0;      // with a miss whose line is on its way
    std::int64_t useful = 0;      // prefetched lines that a request used
    std::int64_t covered = 0;     // of the useful ones, those that a demand request used first
    std::int64_t late = 0;        // of the useful ones, those on their way when the request came
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

// A set's bytes lie together, so that the host fetches them at once: the way used last, a byte of each way's tag, flags, what
// the replacement policy knows. Where most lines are not found, as in lower levels, their tags are not even looked at.
class Cache {
    struct Entry {
        Line line = -1;
        Cycle ready = 0;
    };

  public:
    // Bits of a line's flags; above them the level that its data came from.
    static constexpr std::uint8_t DIRTY = 1, PREFETCHED = 2;
    static constexpr int SOURCE_SHIFT = 2;

    Cache() : mshrs(0) {}
    Cache(std::int64_t sets, int ways, int mshr_entries, std::unique_ptr<ReplacementPolicy> policy)
        : mshrs(mshr_entries),
          ways_(ways),
          set_bits_(bits_of(sets)),
          flags_(TAGS + words_of(ways)),
          state_(flags_ + words_of(ways)),
          bytes_bits_(bits_of(state_ + policy->bytes())),
          set_mask_(sets - 1),
          policy_(std::move(policy)),
          lru_(dynamic_cast<Lru*>(policy_.get())),
          entries_(sets * ways + EightBytes::COUNT),  // a search looks at whole words of tags
          bytes_(((sets << bytes_bits_) + HOST_LINE - 1) / HOST_LINE) {
        for (std::int64_t set = 0; set < sets; ++set) policy_->clear(bytes_of(set) + state_);
    }

    int ways() const { return ways_; }
    std::int64_t set_of(Line line) const { return line & set_mask_; }
    std::size_t lines() const { return static_cast<std::size_t>((set_mask_ + 1) * ways_); }

    // A line comes in every so many cycles at most, into one set every so many.
    void fill_every(Cycle cycles, Cycle of_a_set) {
        if (cycles > 1) fills_ = std::make_unique<Bus>();
        fill_cycles_ = cycles;
        if (of_a_set > 1) set_filled_.assign(static_cast<std::size_t>(set_mask_ + 1), -of_a_set);
        set_fill_cycles_ = of_a_set;
    }

    // The cycle in which a line that is there at `cycle` can come in.
    Cycle filled(Line line, Cycle cycle) {
        if (!set_filled_.empty()) cycle = filled_in_set(set_filled_[static_cast<std::size_t>(line & set_mask_)], cycle);
        return fills_ ? fills_->take((cycle + fill_cycles_ - 1) / fill_cycles_) * fill_cycles_ : cycle;
    }

    // Where a line is, if it is there.
    class Place {
      public:
        Place() = default;
        explicit operator bool() const { return entry_ != nullptr; }

      private:
        friend class Cache;
        Place(Entry* entry, std::uint8_t* flags) : entry_(entry), flags_(flags) {}
        Entry* entry_ = nullptr;
        std::uint8_t* flags_ = nullptr;
    };

    // The way used last is looked at first: most searches of a first level end there.
    Place find(Line line) {
        const std::int64_t number = line & set_mask_;
        std::uint8_t* const set = bytes_of(number);
        const int way = *set & WAY;
        Entry* const entry = entries_of(number) + way;
        return entry->line == line ? Place(entry, set + flags_ + way) : search(line);
    }

    // The same, where that is unlikely.
    __attribute__((noinline)) Place search(Line line) {
        const std::int64_t number = line & set_mask_;
        std::uint8_t* const set = bytes_of(number);
        const std::uint8_t tag = tag_of(line);
        for (int begin = 0; begin < ways_; begin += EightBytes::COUNT) {
            std::uint64_t found = EightBytes::of(set + TAGS + begin).perhaps_equal(tag);
            for (; found; found &= found - 1) {
                const int way = begin + EightBytes::first(found);
                if (Entry* const entry = entries_of(number) + way; entry->line == line) return {entry, set + flags_ + way};
            }
        }
        return {};
    }

    // Asks the host for the line's set: that of a large cache is not in its first ones.
    void prefetch(Line line) {
        const std::int64_t number = line & set_mask_;
        __builtin_prefetch(bytes_of(number));
        for (int way = 0; way < ways_; way += HOST_LINE / int{sizeof(Entry)}) __builtin_prefetch(entries_of(number) + way);
    }

    // The line found at `place` is used.
    void use(Line line, Place place, std::uint8_t flags) {
        std::uint8_t* const set = bytes_of(line & set_mask_);
        if (const auto way = static_cast<int>(place.flags_ - set) - flags_; *set != way) {
            *set = static_cast<std::uint8_t>(way);
            lru_ ? lru_->on_use(set + state_, way) : policy_->on_use(set + state_, way);
        }
        set_flags(place, flags);
    }

    struct Victim {
        Line line;
        bool dirty;
    };

    // Puts `line` in the place of another, which it returns (-1 where the place was empty).
    Victim fill(Line line, std::uint8_t flags, Cycle ready) {
        const std::int64_t number = line & set_mask_;
        std::uint8_t* const set = bytes_of(number);
        const int way = lru_ ? lru_->victim(set + state_) : policy_->victim(set + state_);
        Entry& entry = entries_of(number)[way];
        const Victim victim{entry.line, (set[flags_ + way] & DIRTY) != 0};
        entry = {line, ready};
        set[TAGS + way] = tag_of(line);
        set[flags_ + way] = flags;
        *set = static_cast<std::uint8_t>(way | FILLED);
        lru_ ? lru_->on_fill(set + state_, way) : policy_->on_fill(set + state_, way);
        return victim;
    }

    std::uint8_t flags(Place place) const { return *place.flags_ & (DIRTY | PREFETCHED); }
    void set_flags(Place place, std::uint8_t flags) {
        *place.flags_ = static_cast<std::uint8_t>((*place.flags_ & ~(DIRTY | PREFETCHED)) | flags);
    }
    int source(Place place) const { return *place.flags_ >> SOURCE_SHIFT; }
    Cycle ready(Place place) const { return place.entry_->ready; }

    // Tells whether the data of the line at `place` has not come by `cycle`.
    bool under_way(Place place, Cycle cycle) const { return cycle < ready(place) - response; }

    int latency = 0, request = 0, transfer = 0, response = 0;  // cycles
    int next = -1;                                             // the level below, -1: main memory
    MshrFile mshrs;
    TimeSpan blocked;  // in which the level now and then accepts nothing
    TimeSpan crowded;  // in which as many accesses wait for one line as can
    std::unique_ptr<Prefetcher> prefetcher;
    PrefetchQueue queue;
    CacheCounters counters;

  private:
    static constexpr std::uint8_t FILLED = 0x80, WAY = FILLED - 1;  // of the first byte: not hit since it was filled; the way
    static constexpr int TAGS = EightBytes::COUNT, HOST_LINE = 64;
    struct alignas(HOST_LINE) HostLine {
        std::array<std::uint8_t, HOST_LINE> bytes{};
    };

    // Lines come in no other order than they are asked for, but for those that take longer than all that can wait.
    Cycle filled_in_set(Cycle& latest, Cycle cycle) {
        if (cycle + mshrs.size() * set_fill_cycles_ < latest) return cycle;
        latest = std::max(cycle, latest + set_fill_cycles_);
        return latest;
    }

    static int bits_of(std::int64_t count) {
        int bits = 0;
        while (std::int64_t{1} << bits < count) ++bits;
        return bits;
    }
    static int words_of(int ways) { return (ways + EightBytes::COUNT - 1) / EightBytes::COUNT * EightBytes::COUNT; }

    std::uint8_t tag_of(Line line) const { return static_cast<std::uint8_t>(line >> set_bits_); }
    std::uint8_t* bytes_of(std::int64_t set) { return bytes_.data()->bytes.data() + (set << bytes_bits_); }
    Entry* entries_of(std::int64_t set) { return entries_.data() + set * ways_; }

    int ways_ = 0, set_bits_ = 0;
    int flags_ = 0, state_ = 0, bytes_bits_ = 0;  // in a set's bytes: where flags and the policy's state begin; log2 of all
    Cycle fill_cycles_ = 1, set_fill_cycles_ = 1;
    std::vector<Cycle> set_filled_;  // when the latest line of each set comes in; empty where that is not looked at
    std::unique_ptr<Bus> fills_;  // its slots
    std::int64_t set_mask_ = 0;
    std::unique_ptr<ReplacementPolicy> policy_;
    Lru* lru_ = nullptr;  // the policy, where it is this one, whose functions can then be inlined
    std::vector<Entry> entries_;
    std::vector<HostLine> bytes_;
};

}  // namespace perfvec
