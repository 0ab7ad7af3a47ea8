#include "mshr_file.hpp"

#include <algorithm>
#include <utility>

namespace perfvec {

int MshrFile::occupied(Cycle cycle) const {
    int taken = 0;
    for (int entry = 0; entry < entries_; ++entry) taken += (begin_[entry] <= cycle) & (cycle < end_[entry]);
    return taken;
}

Cycle MshrFile::free_from(int most, Cycle cycle) const {
    cycle = std::max(cycle, forgotten_);
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

int MshrFile::crowded_out(Cycle begin, Cycle end) const {
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
    const auto first = std::min_element(end_.begin(), end_.end()) - end_.begin();
    forgotten_ = std::max(forgotten_, end_[first]);
    begin_[first] = begin;
    end_[first] = end;
    const Cycle free = free_from(start);
    return free > start || last > 0 ? std::max(free, last) : 0;
}

}  // namespace perfvec
