// The last touch of each cache line, and the lines that were touched since a gap began, in the order of their last touch.
//
// For least-recently-used replacement this order alone decides what a cache of any size and associativity holds (Mattson
// et al., IBM Systems Journal 1970; Barr et al., ISPASS 2005). A level below the first sees only what that misses, so a
// line in constant use is old there. So each line has two places in the order: its last touch, and the last one from far
// enough back that a first level misses it. Where nothing much lies between them they are one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace perfvec {

// Line << LINE_SHIFT | flags. DIRTY: stored to. NEAR: only a first level sees this touch. BELOW: only the levels below it do,
// as the line is touched again later. Of code, which is not stored to, the first bit is MISPREDICTED: from a branch there,
// fetch went astray.
using Touch = std::uint64_t;
constexpr Touch DIRTY = 1, MISPREDICTED = 1, CODE = 2, NEAR = 4, BELOW = 8;
constexpr int LINE_SHIFT = 4;

class LastTouch {
  public:
    static constexpr std::uint64_t NEVER = ~std::uint64_t{0};

    LastTouch() : slots_(std::size_t{1} << 12) {}

    // Touches a line; returns how many touches ago the last one was, NEVER where there was none.
    std::uint64_t touch(std::uint64_t line, bool code, bool store) {
        const std::uint64_t key = line << 1 | code;
        std::size_t& at = hint(line, code);
        Slot* slot = &slots_[at];
        if (slot->key != key) {
            at = find(key);
            slot = &slots_[at];
        }
        const std::uint64_t before = slot->time;
        const bool fresh = before < gap_;  // not touched in this gap yet
        if (fresh) {
            if (before == 0) ++count_;
            slot->key = key;
            slot->dirty = false;
            touched_.push_back(key);
        }
        slot->time = ++clock_;
        slot->dirty |= store;
        if (before == 0) {
            slot->missed = clock_;
            if (count_ * 2 > slots_.size()) resize();
            return NEVER;
        }
        return clock_ - before;
    }

    // The touch just made of this line, which was touched before, misses a first level.
    void miss(std::uint64_t line, bool code) {
        Slot& slot = slots_[hint(line, code)];
        if (slot.key == (line << 1 | code)) slot.missed = clock_;
    }

    // The number of touches so far.
    std::uint64_t now() const { return clock_; }

    // Has the host fetch a line of data's slot.
    void prefetch(std::uint64_t line) const { __builtin_prefetch(&slots_[home(line << 1)]); }

    // Touches a line of code; as `touch`. Until another line of code is touched, the slot waits for this one's last time.
    std::uint64_t touch_code(std::uint64_t line) {
        settle();
        const std::uint64_t distance = touch(line, true, false);
        const std::size_t at = hint(line, true);
        if (slots_[at].key == (line << 1 | 1)) {  // not where all have moved since
            code_line_ = line;
            code_slot_ = at;
            code_time_ = clock_;
        }
        return distance;
    }

    // Tells whether the line is that of code which was touched last, which is touched then.
    bool touch_same_code(std::uint64_t line) {
        if (line != code_line_) return false;
        code_time_ = ++clock_;
        return true;
    }

    // From the line of code touched last, fetch went astray.
    void mispredict() {
        if (code_line_ != NEVER) astray_[astray_count_++ % ASTRAY] = {code_line_, code_time_};
    }

    // Returns what was touched since the last call with the time of each, the latest last.
    std::vector<std::pair<std::uint64_t, Touch>> end_gap() {
        settle();
        std::vector<std::pair<std::uint64_t, Touch>> order;
        order.reserve(touched_.size() + touched_.size() / 2);
        for (std::uint64_t k = astray_count_; k-- > astray_count_ - std::min(astray_count_, ASTRAY);) {
            const auto [line, time] = astray_[k % ASTRAY];
            if (time < gap_) break;
            Slot& slot = slots_[find(line << 1 | 1)];
            if (slot.astray) continue;
            slot.astray = true;
            slot.dirty = slot.time - time < TOGETHER;  // MISPREDICTED, of code
            if (!slot.dirty) order.emplace_back(time, line << LINE_SHIFT | CODE | MISPREDICTED | NEAR);
        }
        for (const std::uint64_t key : touched_) {
            Slot& slot = slots_[find(key)];
            slot.astray = false;
            const Touch line = (key >> 1) << LINE_SHIFT | (key & 1 ? CODE : 0), dirty = slot.dirty ? DIRTY : 0;
            const bool together = slot.missed >= gap_ && slot.time - slot.missed < TOGETHER;
            order.emplace_back(std::uint64_t{slot.time}, line | dirty | (together ? 0 : NEAR));
            if (!together && slot.missed >= gap_) order.emplace_back(slot.missed, line | BELOW);
        }
        std::sort(order.begin(), order.end());
        begin_gap();
        return order;
    }

    void begin_gap() {
        settle();
        touched_.clear();
        gap_ = clock_ + 1;
    }

  private:
    struct Slot {
        std::uint64_t key = ~std::uint64_t{0};
        std::uint64_t time : 62;   // of the last touch, from 1 on; 0: the slot is empty
        std::uint64_t dirty : 1;   // stored to in this gap
        std::uint64_t astray : 1;  // while a gap ends: code whose last misprediction is known
        std::uint64_t missed;      // the time of the last touch that misses a first level
        Slot() : time(0), dirty(0), astray(0), missed(0) {}
    };
    static constexpr std::size_t HINTS = 1 << 10;
    static constexpr std::uint64_t ASTRAY = 1 << 14;  // mispredictions that are remembered: more lines than caches keep of them
    static constexpr std::uint64_t TOGETHER = 1024;  // touches, among which a first level's are some hundred lines
    static constexpr std::size_t MOST = std::size_t{1} << 24;  // lines that are remembered: a gigabyte's

    std::size_t& hint(std::uint64_t line, bool code) { return hints_[(line ^ (code ? HINTS / 2 : 0)) & (HINTS - 1)]; }

    void settle() {
        if (code_line_ != NEVER) slots_[code_slot_].time = code_time_;
        code_line_ = NEVER;
    }

    std::size_t home(std::uint64_t key) const { return (key * 0x9E3779B97F4A7C15u) >> 20 & (slots_.size() - 1); }

    std::size_t find(std::uint64_t key) const {
        std::size_t at = home(key);
        while (slots_[at].time != 0 && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
        return at;
    }

    // Twice the room; of more lines than MOST, the half touched longest ago is forgotten, but not what this gap needs.
    void resize() {
        settle();
        std::uint64_t from = 0;
        std::size_t left = count_;
        if (count_ > MOST) {
            std::vector<std::uint64_t> times;
            for (const Slot& slot : slots_)
                if (slot.time != 0) times.push_back(slot.time);
            std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
            from = std::min(times[times.size() / 2], gap_);
            left = std::count_if(times.begin(), times.end(), [&](std::uint64_t time) { return time >= from; });
        }
        const std::size_t size = left * 4 > slots_.size() * 3 / 2 ? slots_.size() * 2 : slots_.size();
        std::vector<Slot> old(size);
        old.swap(slots_);
        count_ = 0;
        for (const Slot& slot : old) {
            if (slot.time == 0 || slot.time < from) continue;
            slots_[find(slot.key)] = slot;
            ++count_;
        }
        std::fill(std::begin(hints_), std::end(hints_), 0);
    }

    std::vector<Slot> slots_;
    std::size_t hints_[HINTS] = {};  // where lines were found lately
    std::vector<std::uint64_t> touched_;
    std::uint64_t clock_ = 0, gap_ = 1;
    std::uint64_t code_line_ = NEVER, code_time_ = 0;  // the line of code touched last, and when
    std::size_t code_slot_ = 0;
    struct Astray {
        std::uint64_t line, time;  // of code, and when
    };
    std::vector<Astray> astray_ = std::vector<Astray>(ASTRAY);  // the last mispredictions
    std::uint64_t astray_count_ = 0;
    std::size_t count_ = 0;
};

}  // namespace perfvec
