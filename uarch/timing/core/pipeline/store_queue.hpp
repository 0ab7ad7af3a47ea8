// The out-of-order core's stores, from rename until they are in the cache, and what loads find in them.
//
// A store is written from 2 cycles after it retires on, and reaches the cache when no load that comes later in the program
// can be there before it: under total store order (x86-64) when the store before it is written, else in order too, but as
// many a cycle as there are store ports, and loads then find its line on the way (gem5's LSQUnit::writebackStores). With the
// micro-operations of a real family stores pass through the cache one behind another: their lines are asked for early, their
// places free in order, and several go in a cycle to one line alone, or to `store_lines`. A line that came early may have
// left L1D again before its store is written (see `displaced`).
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "../cache/hierarchy.hpp"
#include "../machine.hpp"
#include "../stack.hpp"
#include "release_ring.hpp"
#include "response_port.hpp"
#include "store_forwarding.hpp"

namespace perfvec {

class StoreQueue {
  public:
    struct Store {
        Address address;
        std::int64_t size;
        Address pc;
        Cycle data;  // when what is stored is known
    };

    StoreQueue(const Machine& machine, Hierarchy& caches, ResponsePort& responses, Cycle free_at)
        : caches_(caches),
          responses_(responses),
          native_(machine.native),
          total_store_order_(machine.total_store_order),
          ports_(machine.units.store_ports),
          most_lines_(machine.store_lines),
          refetch_(machine.native ? machine.store_refetch : 0),
          protected_(static_cast<std::size_t>(std::max(caches.levels[L1D].ways() / 2, 1))),
          ring_(machine.out_of_order->store_queue_entries, free_at) {
        std::size_t size = 1;
        while (size < static_cast<std::size_t>(ring_.entries()) * (refetch_ > 0 ? 2 : 1)) size *= 2;
        retired_.resize(size);
        if (refetch_ > 0) {
            sets_.resize(caches_.levels[L1D].lines() / static_cast<std::size_t>(caches_.levels[L1D].ways()));
            to_set_.assign(sets_.size() * protected_, -ring_.entries());
        }
    }

    std::int64_t entries() const { return ring_.entries(); }
    std::int64_t waiting() const { return ring_.handed_out() - written_; }
    Cycle released(std::int64_t wanted) const { return ring_.released(wanted); }
    void make_room() { ring_.make_room(); }

    Cycle drained() const { return drained_; }  // when all that were written so far are in the cache

    void keep_history(bool kept) { kept_ = kept; }
    const History& history() const { return history_; }  // what writing waited for

    // A store that can be written from `cycle` on. One instruction's may be more than the queue holds.
    void retire(const Store& store, Cycle cycle) {
        if (waiting() == entries()) write_next();
        retired_[place(ring_.handed_out())] = {store, cycle, 0};
        ring_.hand_out();
        forwarding_.note_store(store.address, store.size, store.data, NEVER);
    }

    // The stores that can go to the cache before `cycle`, which all later loads reach not before it, do so.
    void write_before(Cycle cycle) {
        while (waiting() > 0) {
            if (starts(retired_[place(written_)]) >= cycle) break;
            write_next();
        }
    }

    // Stores go to the cache until at most `count` wait.
    void write_down_to(std::int64_t count) {
        while (waiting() > count) write_next();
    }

    // Returns the answer of the stores before a load that asks at `cycle`.
    StoreForwarding::Answer find(Address address, std::int64_t size, Cycle cycle) {
        const StoreForwarding::Answer answer = forwarding_.find(address, size, cycle);
        return answer.source != StoreForwarding::Source::Cache && waiting() > 0 ? find_again(address, size, cycle) : answer;
    }

    // The same on a path that is squashed, for which no store goes ahead.
    StoreForwarding::Answer find_ahead(Address address, std::int64_t size, Cycle cycle) const {
        return forwarding_.find(address, size, cycle);
    }

  private:
    static constexpr Cycle HISTORY = 4096;  // cycles that the history looks back over a gap

    struct Retired : Store {
        Cycle earliest;
        Cycle gone;  // from the queue
    };
    struct Set {  // of L1D, as stores saw it
        Line last = -1;
        std::size_t next = 0;
    };

    std::size_t place(std::int64_t number) const { return static_cast<std::size_t>(number) & (retired_.size() - 1); }

    // The cycle in which a store can go to the cache.
    Cycle starts(const Retired& store) const {
        const bool beside = native_ && sent_ > 0 && store.earliest <= next_ && line_of(store.address) != line_;
        return std::max(store.earliest, next_ + (beside && lines_ >= most_lines_));
    }

    // The oldest store that waits goes to the cache; its entry is free when it and all before it are there.
    void write_next() {
        Retired& store = retired_[place(written_)];
        const Cycle start = starts(store);
        const Line line = line_of(store.address);
        lines_ = sent_ > 0 && start == next_ ? lines_ + (line != line_) : 1;
        line_ = line;
        Cycle done = caches_.access_data(store.address, store.size, start, true, store.pc);
        if (kept_) {
            history_.add_gap(start - std::max(next_, start - HISTORY));
            history_.add(store_to(caches_.answered()), done - start);
        }
        if (refetch_ > 0 && many_lines_in_set(line)) done = std::max(done, drained_) + displaced(store);
        done += responses_.taken(done);
        drained_ = std::max(drained_, done);
        Cycle visible = done;
        if (total_store_order_ && !native_) {
            next_ = done;
        } else {
            sent_ = start == next_ ? sent_ + 1 : 1;
            next_ = start;
            if (sent_ == ports_) {
                next_ = start + 1;
                sent_ = 0;
            }
            // A load that comes later asks the cache for it; under total store order when all before it are there too.
            visible = total_store_order_ ? drained_ : start + 1;
        }
        ring_.release(written_) = store.gone = drained_;
        ++written_;
        forwarding_.note_written(store.address, store.size, store.data, visible);
    }

    // Tells whether the last stores to the set, half as many as it has ways, each to another line than the one before, are
    // among those that the queue can hold.
    bool many_lines_in_set(Line line) {
        const auto number = static_cast<std::size_t>(caches_.levels[L1D].set_of(line));
        Set& set = sets_[number];
        if (set.last == line) return false;
        set.last = line;
        std::int64_t& earlier = to_set_[number * protected_ + set.next];
        set.next = set.next + 1 < protected_ ? set.next + 1 : 0;
        const bool many = written_ - earlier < entries();
        earlier = written_;
        return many;
    }

    // Cycles that a store waits for its line once more, on average, if it missed or cannot have been kept.
    //
    // Lines are asked for before their turn, and others have been asked for since. Each one that came into the set can have
    // taken its place, one of twice as many as there are ways, but for the first ones, half as many: so loops on Zen 5 tell,
    // which store to 4 to 1,024 lines at strides of 64 to 8,192 bytes (docs/appendix/real-computers.md). The stores before
    // it in the queue stand for those behind it.
    __attribute__((noinline)) Cycle displaced(const Retired& store) {
        const Cache& cache = caches_.levels[L1D];
        const Line own = line_of(store.address);
        std::uint64_t seen[4] = {};  // lines, by a hash
        int others = 0;
        for (std::int64_t k = written_ - 1; k > std::max<std::int64_t>(written_ - entries(), -1); --k) {
            const Retired& before = retired_[place(k)];
            if (before.gone <= store.earliest) break;
            const Line line = line_of(before.address);
            if (line == own || cache.set_of(line) != cache.set_of(own)) continue;
            const std::uint64_t hash = (static_cast<std::uint64_t>(line) * 0x9E3779B97F4A7C15u) >> 56;
            const std::uint64_t bit = std::uint64_t{1} << (hash & 63);
            others += (seen[hash >> 6] & bit) == 0;
            seen[hash >> 6] |= bit;
        }
        const int displacing = others - static_cast<int>(protected_);
        if (displacing <= 0 || (others < cache.ways() && caches_.answered() == L1D)) return 0;
        displaced_ += static_cast<double>(refetch_) * (1 - std::pow(1 - 0.5 / cache.ways(), displacing));
        const auto whole = static_cast<Cycle>(displaced_);
        displaced_ -= static_cast<double>(whole);
        return whole;
    }

    // Where a store may have been written by `cycle`, or its time is needed.
    __attribute__((noinline)) StoreForwarding::Answer find_again(Address address, std::int64_t size, Cycle cycle) {
        write_before(cycle);
        for (;;) {
            const StoreForwarding::Answer answer = forwarding_.find(address, size, cycle);
            if (answer.cycle < NEVER) return answer;
            write_next();
        }
    }

    Hierarchy& caches_;
    ResponsePort& responses_;
    bool native_, total_store_order_, kept_ = false;
    std::int64_t ports_, most_lines_;
    Cycle refetch_;
    std::size_t protected_;  // lines of a set that others do not displace
    std::vector<Set> sets_;
    std::vector<std::int64_t> to_set_;  // numbers of the last `protected_` stores to each set
    double displaced_ = 0;  // parts of cycles that are still to be waited
    ReleaseRing ring_;
    std::vector<Retired> retired_;  // by entry, modulo a power of two: all that wait; with `refetch_` as many before
    StoreForwarding forwarding_;
    History history_;
    std::int64_t written_ = 0;  // stores sent to the cache so far
    std::int64_t sent_ = 0;     // of them in the cycle next_
    Cycle next_ = 0;            // when the next one can be sent
    std::int64_t lines_ = 0;    // their lines
    Line line_ = 0;             // of the last one
    Cycle drained_ = 0;
};

}  // namespace perfvec
