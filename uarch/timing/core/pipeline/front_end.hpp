// The front end of the out-of-order core: fetch, the fetch queue, decode, and how a stall travels back to fetch.
//
// gem5's stages tell the one before to stop and to go on, and that takes a cycle a stage. What is on its way meanwhile is
// kept in a stage's skid buffer; only when that is empty does the stage let the one before go on, whose micro-operations
// then take the whole way again. So a renaming that is held up for one cycle at b stops decode from b + 1 and fetch from
// b + 2 on, and when decode has worked off what was sent before, the next comes `frontend_delay` + 1 cycles later: a
// bubble that a deep front end pays for every stall. A squash that takes more than one cycle stalls it in the same way.
//
// A `buffered` front end, as silicon has it, pays none: what was fetched waits in a queue right before rename, and fetch
// only stops when that is full.
#pragma once

#include <algorithm>

#include "../cache/hierarchy.hpp"
#include "../stack.hpp"
#include "release_ring.hpp"
#include "slots.hpp"

namespace perfvec {

struct Span {  // cycles of an instruction's first and last micro-operation
    Cycle first, last;
};

class FrontEnd {
  public:
    static constexpr int FETCH_QUEUE = 32;  // micro-operations between fetch and decode (gem5's default)
    static constexpr Line NO_LINE = -1;

    FrontEnd(std::int64_t fetch_width, std::int64_t decode_width, std::int64_t delay, int taken_branches = 1,
             bool buffered = false)
        : fetch_width_(fetch_width),
          decode_width_(decode_width),
          taken_branches_(taken_branches),
          delay_(delay),
          buffered_(buffered),
          queue_(buffered ? most_under_way() : FETCH_QUEUE, -1) {}

    // A new 64-byte line is asked for in the cycle in which the former one ends; a group ends with its line.
    template <bool STACK>
    __attribute__((always_inline)) Span fetch(Hierarchy& caches, Address pc, std::int64_t length, std::int64_t operations,
                                              Waits& waits) {
        const bool redirected = redirected_ > 0;
        if constexpr (STACK) waits.add(redirect_cause_, redirected_);
        redirected_ = 0;
        const Cycle began = fetch_.cycle;
        const Line last = line_of(pc + length - 1);
        for (Line line = line_of(pc); line <= last; ++line) {
            if (line == line_) continue;
            const Cycle data = caches.access_code(line, fetch_.cycle, pc);
            if constexpr (STACK)
                waits.add_access(FetchTranslation, caches.translated(), fetched_after(redirected, caches.answered()),
                                 data - fetch_.cycle - 1);
            const bool within = line_ == NO_LINE && followed_in_ == fetch_.cycle && data <= fetch_.cycle + 1;
            if (!within) fetch_ = {std::max(fetch_.cycle + 1, data), 0};  // else a branch has led there in this cycle
            line_ = line;
        }
        const Cycle room = queue_.released(std::min(operations, queue_.entries())) + 1;
        if (room > fetch_.cycle) {
            if constexpr (STACK) waits.add(stall_cause_, room - fetch_.cycle);
            fetch_ = {room, 0};
        }
        const Cycle first = fetch_.next(fetch_width_);
        const Cycle before = fetch_.cycle;
        fetch_.take(operations, fetch_width_);
        if constexpr (STACK) waits.add(FetchBandwidth, fetch_.cycle - before + (began != before));
        return {first, fetch_.cycle};
    }

    // To be called now and then (release_ring.hpp).
    void make_room() { queue_.make_room(); }

    // `renamed` is the cycle in which the instruction before was renamed.
    template <bool STACK>
    __attribute__((always_inline)) Span decode(Span fetched, std::int64_t operations, Cycle renamed, Waits& waits) {
        // Leaving the fetch queue.
        send_.reach(fetched.first);
        Cycle begin = send_.next(decode_width_);
        send_.take(operations, decode_width_);
        send_.reach(fetched.last, 1);
        if (stalled_ != NEVER && std::max(send_.cycle + delay_, decode_.cycle) > stalled_) {
            // It is not among what rename has in hand, so rename goes on when what came before is done.
            resumed_ = renamed + 1;
            emptied_ = std::max(emptied_, renamed);
            stalled_ = NEVER;
        }
        bool behind = false, held = false;
        if (stopped_ != NEVER) {
            if (send_.cycle >= stopped_) {
                const Cycle goes_on = std::max(emptied_, resumed_) + 1;
                if (goes_on > begin) {
                    begin = goes_on;
                    send_ = {goes_on, 0};
                    send_.take(operations, decode_width_);
                    held = true;
                }
                stopped_ = NEVER;
            } else {
                behind = send_.cycle + delay_ < resumed_ || send_.cycle + delay_ <= emptied_;
            }
        }
        if (!buffered_) queue_.book(std::min<std::int64_t>(operations, FETCH_QUEUE), send_.cycle);
        // Decode.
        begin += delay_;
        const Cycle last = send_.cycle + delay_;
        if (behind) begin = begin < resumed_ ? resumed_ : begin + 1;
        decode_.reach(begin);
        const Cycle first = decode_.next(decode_width_);
        decode_.take(operations, decode_width_);
        decode_.reach(last, 1);
        if (behind) emptied_ = std::max(emptied_, decode_.cycle);
        if constexpr (STACK)
            waits.add(held || behind ? stall_cause_ : DecodeBandwidth, decode_.cycle - fetched.last - delay_);
        return {first, decode_.cycle};
    }

    // The micro-operations decoded last were renamed at `cycle`.
    void renamed(std::int64_t operations, Cycle cycle) {
        if (buffered_) queue_.book(std::min(operations, queue_.entries()), cycle);
    }

    // Rename could not take all that it had in `cycle`.
    void stall(Cycle cycle, Cause cause) {
        stall_cause_ = cause;
        if (buffered_) return;
        if (stalled_ == NEVER) stalled_ = cycle;
        if (stopped_ == NEVER) stopped_ = cycle + 2;
    }

    // A branch that completed at `resolved` was mispredicted; the reorder buffer needs so many cycles to squash.
    void squashed(Cycle resolved, std::int64_t steps) {
        stalled_ = stopped_ = NEVER;
        if (steps > 1) {
            stopped_ = resolved + 6;
            resumed_ = resolved + steps + 4;
            emptied_ = 0;
            stall_cause_ = MispredictExecute;
        }
    }

    // Fetching goes on at `cycle`, in the line at hand or, where `line` is NO_LINE, in one to ask for.
    void go_on(Cycle cycle, Line line, std::int64_t used, Cause cause) {
        redirect_cause_ = cause;
        redirected_ = std::max<Cycle>(cycle - fetch_.cycle, 0);
        fetch_ = {cycle, used};
        line_ = line;
    }

    // The branch at `pc` goes to `target` as expected: nothing more is fetched in its cycle, unless fetch `follows` several
    // in one; it does not follow the same one twice.
    void end_group(Address pc, Address target, bool follows) {
        followed_ = followed_in_ == fetch_.cycle ? followed_ + 1 : 1;
        if (follows && followed_ < taken_branches_ && pc != last_taken_)
            followed_in_ = fetch_.cycle;
        else
            fetch_.used = fetch_width_;
        last_taken_ = pc;
        if (line_of(target) != line_) line_ = NO_LINE;
    }

    // Micro-operations that the queue and the stages before rename can hold.
    std::int64_t most_under_way() const { return FETCH_QUEUE + decode_width_ * (delay_ + 2); }

    std::int64_t fetch_width() const { return fetch_width_; }
    std::int64_t decode_width() const { return decode_width_; }
    Cycle fetch_cycle() const { return fetch_.cycle; }
    Line line() const { return line_; }

  private:
    // The cause of the cycles that fetch a line: a hit would not be waited for if fetch had not been redirected.
    Cause fetched_after(bool redirected, int level) const {
        return redirected && level == L1I ? redirect_cause_ : fetch_from(level);
    }

    std::int64_t fetch_width_, decode_width_, taken_branches_, delay_;
    bool buffered_;
    Slots fetch_, send_, decode_;  // send_: from the fetch queue to decode
    Line line_ = NO_LINE;          // the one at hand
    ReleaseRing queue_;            // when the latest micro-operations left the fetch queue, or were renamed
    Address last_taken_ = 0;       // the last branch taken as expected
    Cycle followed_in_ = -1;       // the cycle in which a branch was followed and fetch went on,
    std::int64_t followed_ = 0;    // and branches taken in it
    Cycle stalled_ = NEVER;        // the cycle in which rename stalled,
    Cycle stopped_ = NEVER;        // from which fetch sends nothing,
    Cycle resumed_ = 0;            // from which decode goes on,
    Cycle emptied_ = 0;            // in which it has worked off what came meanwhile
    Cause stall_cause_ = FullReorderBuffer, redirect_cause_ = MispredictExecute;
    Cycle redirected_ = 0;  // cycles by which the last redirection put fetch off
};

}  // namespace perfvec
