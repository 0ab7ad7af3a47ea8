#include "mshr_file.hpp"

#include <algorithm>
#include <utility>

// Searches of all entries take four at a time where the host can compare four cycles at once.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SEARCHED_BY_LANES __attribute__((target_clones("avx2", "default")))
#else
#define SEARCHED_BY_LANES
#endif

namespace perfvec {

SEARCHED_BY_LANES
int MshrFile::occupied(Cycle cycle) const {
    int taken = 0;
    for (int entry = 0; entry < entries_; ++entry) taken += (begin_[entry] <= cycle) & (cycle < end_[entry]);
    return taken;
}

SEARCHED_BY_LANES
Cycle MshrFile::search_free(int most, Cycle cycle) const {
    for (;;) {
        std::int64_t taken = 0;
        Cycle free = NEVER;
        for (int entry = 0; entry < entries_; ++entry) {
            const bool inside = (begin_[entry] <= cycle) & (cycle < end_[entry]);
            taken += inside;
            free = std::min(free, inside ? end_[entry] : NEVER);
        }
        if (taken < most) return cycle;
        cycle = free;
    }
}

SEARCHED_BY_LANES
int MshrFile::crowded_out(Cycle begin, Cycle end) const {
    if (begin >= last_end_) return -1;
    std::int64_t others = 0;
    for (int entry = 0; entry < entries_; ++entry) others += (begin_[entry] < end) & (begin < end_[entry]);
    int first = -1;
    if (others < mshrs_) return first;
    for (int entry = 0; entry < entries_; ++entry) {
        const Cycle at = begin_[entry];
        if (at <= begin || at >= end || at >= end_[entry] || (first >= 0 && at >= begin_[first])) continue;
        if (occupied(at) >= mshrs_) first = entry;
    }
    return first;
}

SEARCHED_BY_LANES
Cycle MshrFile::book(Cycle begin, Cycle end) {
    const Cycle start = begin;
    Cycle last = 0;
    for (int turn = 0; turn < EARLIER; ++turn) {
        const int entry = crowded_out(begin, end);
        if (entry < 0) break;
        const Cycle later = begin_[entry], length = end_[entry] - later;
        begin_[entry] = begin;
        end_[entry] = end;
        begin = free_from(later);
        end = begin + length;
        last = end;
    }
    Cycle earliest = NEVER;
    for (int entry = 0; entry < entries_; ++entry) earliest = std::min(earliest, end_[entry]);
    int first = 0;
    while (end_[first] != earliest) ++first;
    forgotten_ = std::max(forgotten_, end_[first]);
    begin_[first] = begin;
    end_[first] = end;
    last_end_ = std::max(last_end_, end);
    const Cycle free = free_from(start);
    return free > start || last > 0 ? std::max(free, last) : 0;
}

}  // namespace perfvec
