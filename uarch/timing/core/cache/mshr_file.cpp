#include "mshr_file.hpp"

#include <algorithm>
#include <utility>

namespace perfvec {

MshrFile::MshrFile(int mshrs) : mshrs_(mshrs), entries_(mshrs + EARLIER), misses_(4 * entries_) {
    latest_ = misses_.data() + entries_;
    for (int entry = 0; entry < entries_; ++entry) misses_[entry] = {0, 0, entry};
}

int MshrFile::occupied(Cycle cycle) const {
    int taken = 0;
    const Miss* first = latest_ - entries_;
    for (const Miss* miss = latest_; miss != first && (--miss)->end > cycle;) taken += miss->begin <= cycle;
    return taken;
}

Cycle MshrFile::search_free(int most, Cycle cycle) const {
    const Miss* first = latest_ - entries_;
    for (;;) {
        int taken = 0;
        Cycle free = NEVER;
        for (const Miss* miss = latest_; miss != first && (--miss)->end > cycle;) {
            const bool inside = miss->begin <= cycle;
            taken += inside;
            free = inside ? miss->end : free;
        }
        if (taken < most) return cycle;
        cycle = free;
    }
}

MshrFile::Miss* MshrFile::crowded_out(Cycle begin, Cycle end) {
    Miss* const first = latest_ - entries_;
    int others = 0;
    for (const Miss* miss = latest_; miss != first && (--miss)->end > begin;) others += miss->begin < end;
    if (others < mshrs_) return nullptr;
    Miss* found = nullptr;
    for (Miss* miss = latest_; miss != first && (--miss)->end > begin;) {
        const Cycle at = miss->begin;
        if (at <= begin || at >= end || at >= miss->end) continue;
        if (found && (at != found->begin ? at > found->begin : miss->entry > found->entry)) continue;
        if (occupied(at) >= mshrs_) found = miss;
    }
    return found;
}

// The miss, which has got another end, goes where it belongs.
void MshrFile::put_in_order(Miss* miss) {
    for (; miss + 1 != latest_ && miss[1].ends_before(miss[0]); ++miss) std::swap(miss[0], miss[1]);
    for (; miss != latest_ - entries_ && miss[0].ends_before(miss[-1]); --miss) std::swap(miss[-1], miss[0]);
}

Cycle MshrFile::book(Cycle begin, Cycle end) {
    const Cycle start = begin;
    Cycle last = 0;
    for (int turn = 0; turn < EARLIER && begin < last_end(); ++turn) {
        Miss* const crowded = crowded_out(begin, end);
        if (!crowded) break;
        const Cycle later = crowded->begin, length = crowded->end - later;
        crowded->begin = begin;
        crowded->end = end;
        put_in_order(crowded);
        begin = free_from(later);
        end = begin + length;
        last = end;
    }
    if (latest_ == misses_.data() + misses_.size()) {
        std::copy(latest_ - entries_, latest_, misses_.data());
        latest_ = misses_.data() + entries_;
    }
    const Miss& displaced = latest_[-entries_];
    forgotten_ = std::max(forgotten_, displaced.end);
    *latest_++ = {begin, end, displaced.entry};
    put_in_order(latest_ - 1);
    const Cycle free = free_from(start);
    return free > start || last > 0 ? std::max(free, last) : 0;
}

}  // namespace perfvec
