// The contract of a cache's prefetcher, and the queue in which what it wants waits until it can go.
//
// A prefetcher sees misses, also those of a line that is on its way already, and the first use of what it brought (Smith's
// tagged prefetching, Computing Surveys 1982). What it wants waits in a queue of 32 and goes one a cycle, while fewer than
// all but two of the level's MSHRs are taken (gem5's MSHRQueue::canPrefetch): never, where there are two. A demand for the
// line takes it out, a newer one the oldest.
//
// To add a prefetcher: one header beside this one that implements the class (tagged.hpp is the smallest), a line in
// make_prefetcher (prefetchers.cpp), and its name in PREFETCHERS of uarch/constraints.py.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "../random.hpp"
#include "../types.hpp"

namespace perfvec {

// Who asks a cache: the core for data, for instructions, or the prefetcher of a level above it.
enum Requester { DATA_REQUEST, CODE_REQUEST, PREFETCH_OF_LEVEL, REQUESTERS = PREFETCH_OF_LEVEL + 4 };

struct PrefetchTrigger {
    Address address;
    Address pc;
    int requester;
    Cycle cycle;
    bool missed;
};

class PrefetchQueue {
  public:
    static constexpr int ENTRIES = 32;
    struct Entry {
        Line line = -1;  // -1: taken out
        Cycle ready = 0;
        Address pc = 0;
    };

    bool empty() const { return waiting_ == 0; }
    int waiting() const { return waiting_; }  // those taken out too
    const Entry& operator[](int k) const { return entries_[(head_ + k) & (ENTRIES - 1)]; }
    const Entry& first() const { return entries_[head_]; }

    void drop_first() {
        head_ = (head_ + 1) & (ENTRIES - 1);
        --waiting_;
    }

    // A demand for the line: nobody has to prefetch it.
    void take_out(Line line) {
        for (int k = 0; k < waiting_; ++k) {
            Entry& entry = at(k);
            if (entry.line == line) entry.line = -1;
        }
    }

    // The `ahead`-th line that a trigger makes a prefetcher want. It does not leave the page.
    void want(const PrefetchTrigger& trigger, Line line, int ahead) {
        if (line >> 6 != trigger.address >> 12) return;
        for (int k = 0; k < waiting_; ++k)
            if (at(k).line == line) return;
        if (waiting_ == ENTRIES) drop_first();
        at(waiting_++) = {line, trigger.cycle + ahead, trigger.pc};
    }

    Cycle now = 0;        // the cycle of the access at hand, up to which what waits may go
    bool unbooked = false;  // a miss is under way that has no MSHR booked yet

  private:
    Entry& at(int k) { return entries_[(head_ + k) & (ENTRIES - 1)]; }

    std::array<Entry, ENTRIES> entries_;
    int head_ = 0, waiting_ = 0;
};

class Prefetcher {
  public:
    static constexpr int MSHRS_LEFT = 2;  // gem5's demand reserve and one more: fewer than all but so many may be taken
    static constexpr int LASTING = 4;     // cycles after an access in which what waits may still go before the next one

    virtual ~Prefetcher() = default;

    // Tells whether it learns what each instruction does.
    virtual bool by_instruction() const { return false; }

    // Tells whether an access is any of its business.
    virtual bool sees(const PrefetchTrigger&) const { return true; }

    // Learns from an access and puts what it wants into the queue.
    virtual void observe(const PrefetchTrigger& trigger, PrefetchQueue& queue) = 0;

    // Called by the cache at an access.
    void train(const PrefetchTrigger& trigger, PrefetchQueue& queue) {
        queue.now = trigger.cycle + LASTING;
        if (!sees(trigger)) return;
        queue.take_out(line_of(trigger.address));
        observe(trigger, queue);
    }
};

// Throws std::invalid_argument for an unknown kind. Returns nullptr for "none". `random` is one for all levels.
std::unique_ptr<Prefetcher> make_prefetcher(const std::string& kind, Random& random);

}  // namespace perfvec
