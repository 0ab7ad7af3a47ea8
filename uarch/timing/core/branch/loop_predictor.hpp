// The loop predictor of L-TAGE (Seznec, CBP-2, JILP 2007) and TAGE-SC-L: branches that leave after a constant count.
//
// A set-associative table of four ways, found by tag; an entry predicts once it saw the same count often enough. As in gem5
// the iterations are counted at retirement, so that those in flight are not, and in L-TAGE an entry is for a branch taken
// while looping. TAGE-SC-L hashes the ways apart, keeps the direction, and allocates only now and then.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../random.hpp"
#include "../types.hpp"

namespace perfvec {

struct LoopPredictorSizes {
    int log_sets, tag_bits, count_bits, sure, oldest, first_age;
    bool eager;  // L-TAGE's variant
};

template <const LoopPredictorSizes& SIZES>
class LoopPredictor {
  public:
    struct Record {
        std::int32_t hit = -1;   // the entry, -1: none
        bool valid = false;      // it was sure
        bool said = false;       // the direction
    };

    LoopPredictor() : entries_(WAYS << SIZES.log_sets) {}

    // Its word where it is sure and trusted, else `predicted`.
    bool predict(Record& record, Address pc, bool predicted) {
        record = {};
        const std::int64_t tag = tag_of(pc);
        for (int way = 0; way < WAYS; ++way) {
            const std::int32_t place = place_of(pc, way);
            const Entry& entry = entries_[place];
            if (entry.tag != tag) continue;
            const bool looping = SIZES.eager || entry.direction;
            record.hit = place;
            record.valid = entry.sureness == SIZES.sure || (!SIZES.eager && entry.sureness * entry.trips > 128);
            record.said = entry.seen + 1 == entry.trips ? !looping : looping;
            break;
        }
        return record.valid && trust_ >= 0 ? record.said : predicted;
    }

    // `before` is what was predicted without it, `final` what was predicted in the end.
    void update(const Record& record, Address pc, bool taken, bool before, bool final, Random& random) {
        if (record.valid && final != record.said)
            trust_ = std::clamp(trust_ + (record.said == taken ? 1 : -1), -64, 63);
        if (record.hit >= 0) {
            count_iteration(record, entries_[record.hit], taken, before, random);
        } else if (SIZES.eager) {
            if (!taken) return;
            const std::int64_t first = random.next();
            for (int way = 0; way < WAYS; ++way)
                if (claim(entries_[place_of(pc, (first + way) & (WAYS - 1))], pc, taken)) break;
        } else if (final != taken && (random.next() & 3) == 0) {
            claim(entries_[place_of(pc, random.next() & (WAYS - 1))], pc, taken);
        }
    }

  private:
    static constexpr int WAYS = 4;
    struct Entry {
        std::int64_t tag = 0;
        std::int32_t trips = 0, seen = 0, sureness = 0, age = 0;
        bool direction = false;  // while looping
    };

    static std::int64_t tag_of(Address pc) {
        const std::int64_t mask = (1 << SIZES.tag_bits) - 1;
        if (SIZES.eager) return (pc >> (2 + SIZES.log_sets)) & mask;
        return ((pc >> SIZES.log_sets) ^ (pc >> (SIZES.log_sets + SIZES.tag_bits))) & mask;
    }

    static std::int32_t place_of(Address pc, std::int64_t way) {
        const std::int64_t mask = (1 << SIZES.log_sets) - 1;
        std::int64_t set = (pc >> 2) & mask;
        if (!SIZES.eager) set = ((pc ^ (pc >> 2)) & mask) ^ (((pc >> SIZES.log_sets) & mask) >> way);
        return static_cast<std::int32_t>(WAYS * set + way);
    }

    // Takes an entry if it is of no age, else ages it.
    bool claim(Entry& entry, Address pc, bool taken) {
        if (entry.age > 0) {
            --entry.age;
            return false;
        }
        entry = {tag_of(pc), 0, SIZES.eager, 0, SIZES.first_age, !taken};
        return true;
    }

    void count_iteration(const Record& record, Entry& entry, bool taken, bool before, Random& random) {
        if (record.valid) {
            if (record.said != taken) {  // the count is not constant after all
                entry.trips = entry.seen = entry.sureness = entry.age = 0;
                return;
            }
            if (record.said != before || (!SIZES.eager && (random.next() & 7) == 0))
                entry.age = std::min(entry.age + 1, SIZES.oldest);
        }
        entry.seen = (entry.seen + 1) & ((1 << SIZES.count_bits) - 1);
        if (entry.seen > entry.trips) {
            entry.sureness = 0;
            if (entry.trips != 0) forget(entry);
        }
        if (taken == (SIZES.eager || entry.direction)) return;
        if (entry.seen == entry.trips) {
            entry.sureness = std::min(entry.sureness + 1, SIZES.sure);
            if (entry.trips < 3) {  // a loop so short needs no counting
                entry.direction = taken;
                entry.trips = entry.age = entry.sureness = 0;
            }
        } else if (entry.trips == 0) {  // the first time to the end
            entry.sureness = 0;
            entry.trips = entry.seen;
        } else {
            forget(entry);
        }
        entry.seen = 0;
    }

    static void forget(Entry& entry) {
        entry.trips = entry.sureness = 0;
        if (SIZES.eager) entry.age = 0;
    }

    int trust_ = -1;  // does it do better where it differs?
    std::vector<Entry> entries_;
};

}  // namespace perfvec
