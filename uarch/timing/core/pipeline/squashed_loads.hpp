// The work that loads on a squashed path have done for the path that is taken in the end.
//
// After a misprediction the core goes on where the branch does not, until it is resolved. Often both ways meet again soon:
// then a load that is executed on the path taken was executed on the wrong one already, with the same operands if nothing
// between writes them, and its line is on its way since. The same holds for what is fetched again after a trap.
//
// To know that it was the same, every register gets a tag, made of the instruction that wrote it last and the tags of what
// that one read. The tags of a squashed path start from those of the path taken, where the two part. So a load of the path
// taken whose tag is among those of the loads that were fetched on the squashed path reads what that one has read. When it
// could issue then follows from when it was fetched there and from when its sources were ready there, which is what they
// would be ready at had the path been taken, for all of them were on that path too. (gem5 executes wrong paths; a response
// to a squashed load fills the cache like any other: LSQUnit::writeback.)
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstring>

#include "decoded_instruction.hpp"

namespace perfvec {

class SquashedLoads {
  public:
    using Tag = std::uint64_t;

    // A path that begins at `from` and will be squashed at `until` parts from the one taken, whose registers are ready at
    // `ready`. Its instructions can be issued `depth` cycles after they are fetched.
    void part(const Cycle* ready, Cycle depth, Cycle from, Cycle until) {
        depth_ = depth;
        until_ = until - from - depth >= LEAST ? until : 0;
        if (until_ == 0) return;
        squashed_ = tags_;
        if (left_ == 0) {
            std::copy_n(ready, REGISTERS + 1, ready_.begin());
            written_.reset();
            begin_ = from;
        }
    }

    // The next instruction of the squashed path. Returns whether those behind it can be issued there too.
    bool pass(std::uint32_t here, const DecodedInstruction& row, Cycle fetched) {
        const Cycle cycle = fetched + depth_;
        const std::int64_t left = until_ - cycle;
        if (left <= 0 || left > MOST_LEFT) return false;
        const Tag tag = combine(here, row, squashed_);
        set_destinations(row, tag, squashed_);
        __builtin_prefetch(&passed_[tag >> SHIFT], 1);
        keep_waiting();
        waiting_ = {tag, cycle, static_cast<std::int32_t>(left), row.is(LOAD)};
        ++count_;
        return true;
    }

    // The squashed path is over.
    void end() {
        if (until_ == 0) return;
        keep_waiting();
        left_ = loads_ > 0 ? std::max(left_, count_ + BEYOND) : 0;
        count_ = 0;
    }

    bool active() const { return left_ > 0; }

    // The next instruction of the path taken (called for each one while active): the cycle in which it could issue on a
    // squashed path, NEVER where it was not there or squashed before.
    Cycle take(std::uint32_t here, const DecodedInstruction& row) {
        if (--left_ == 0) loads_ = 0;
        const Tag tag = combine(here, row, tags_);
        set_destinations(row, tag, tags_);
        Cycle ready = 0;
        for (int source = 0; source < USUAL_SOURCES; ++source) ready = std::max(ready, ready_[row.sources[source]]);
        for (int source = USUAL_SOURCES; source < row.source_count; ++source)
            ready = std::max(ready, ready_[row.sources[source]]);
        // What is not found was not there, and nothing that is found depends on it; or another took its place in the table.
        const Cycle lost = row.is(LOAD) ? NEVER : ready;
        if (!written_[tag >> SHIFT]) return lost;
        const Passed& passed = passed_[tag >> SHIFT];
        if (passed.tag != tag || passed.since < begin_) return lost;
        if (row.is(LOAD) && --loads_ == 0) left_ = 0;  // there is nothing more to be found
        for (std::uint32_t path = passed.count - std::min(passed.count, PATHS); path != passed.count; ++path) {
            const auto& [after, left] = passed.paths[path % PATHS];
            const Cycle dispatched = passed.since + after;
            if (ready < dispatched + left) return std::max(ready, dispatched);
        }
        return NEVER;
    }

    // That instruction's results were first ready at `cycle`, on a squashed path or on the one taken.
    void write(const DecodedInstruction& row, Cycle cycle) { set_destinations(row, cycle, ready_); }

  private:
    static constexpr Cycle LEAST = 12;  // cycles in which anything can be issued; what is squashed earlier has gained little
    static constexpr int BITS = 12, SHIFT = 64 - BITS;
    static constexpr std::int64_t BEYOND = 16;  // instructions by which the path taken may be longer than the squashed one
    static constexpr std::int64_t MOST_LEFT = 1 << 30;
    static constexpr std::uint32_t PATHS = 4;  // the latest ones that an instruction was on
    struct Path {
        std::int32_t after;  // `since` it was dispatched
        std::int32_t left;   // cycles until it was squashed
    };
    struct alignas(64) Passed {
        Tag tag = 0;
        Cycle since = 0;  // dispatched on the first path
        std::uint32_t count = 0;
        std::array<Path, PATHS> paths{};
    };
    using Tags = std::array<Tag, REGISTERS + 1>;

    // The instruction of the squashed path before the one at hand: by now its place in the table has come from memory.
    struct Waiting {
        Tag tag;
        Cycle cycle;
        std::int32_t left;  // 0: there is none
        bool loads;
    };

    void keep_waiting() {
        const auto [tag, cycle, left, loads] = waiting_;
        if (left == 0) return;
        waiting_.left = 0;
        Passed& passed = passed_[tag >> SHIFT];
        if (passed.tag != tag || passed.since < begin_ || cycle - passed.since > MOST_LEFT) {
            passed = {tag, cycle, 0, {}};
            loads_ += loads;
        }
        written_[tag >> SHIFT] = true;
        passed.paths[passed.count++ % PATHS] = {static_cast<std::int32_t>(cycle - passed.since), left};
    }

    static constexpr int USUAL_SOURCES = 4;  // so many places are read, whatever the number of sources is

    static Tag combine(std::uint32_t here, const DecodedInstruction& row, const Tags& tags) {
        Tag tag = (Tag{here} + 1) * 0x9E3779B97F4A7C15u ^ tags[row.sources[0]] * 0xBF58476D1CE4E5B9u ^
                  tags[row.sources[1]] * 0x94D049BB133111EBu ^ tags[row.sources[2]] * 0xD6E8FEB86659FD93u ^
                  tags[row.sources[3]] * 0xC2B2AE3D27D4EB4Fu;
        for (int source = USUAL_SOURCES; source < row.source_count; ++source)
            tag = (tag ^ tag >> 29) * 0xBF58476D1CE4E5B9u ^ tags[row.sources[source]];
        return (tag ^ tag >> 32) * 0x9E3779B97F4A7C15u;
    }

    // Sets all that an instruction writes. The first few places are all written, as in the core's own step.
    template <typename Value>
    static void set_destinations(const DecodedInstruction& row, Value value, std::array<Value, REGISTERS + 1>& registers) {
        for (int each = 0; each < row.USUAL_DESTINATIONS; ++each) registers[row.destinations[each]] = value;
        for (int each = 0; each < row.USUAL_BASES; ++each) registers[row.bases[each]] = value;
        if (__builtin_expect(row.plain < 0, 0)) {
            for (int each = row.USUAL_DESTINATIONS; each < row.destination_count; ++each)
                registers[row.destinations[each]] = value;
            for (int each = row.USUAL_BASES; each < row.base_count; ++each) registers[row.bases[each]] = value;
        }
        registers[REGISTERS] = 0;
    }

    Tags tags_{}, squashed_{};                    // by register, on the path taken and on the squashed one
    std::array<Cycle, REGISTERS + 1> ready_{};    // by register: when it was first ready, on either
    std::array<Passed, 1 << BITS> passed_{};      // by the upper bits of their tags
    Waiting waiting_{};
    std::bitset<1 << BITS> written_;              // those since `begin_`: most searches need not look further
    std::int64_t left_ = 0;                       // instructions of the path taken to be looked at
    std::int64_t loads_ = 0, count_ = 0;          // loads to be found; instructions of the squashed path at hand
    Cycle begin_ = 0;                             // of the first path whose instructions still count
    Cycle depth_ = 0, until_ = 0;                 // of the last one
};

}  // namespace perfvec
