// One machine that runs one program.
#pragma once

#include <memory>
#include <vector>

#include "branch/branch_unit.hpp"
#include "cache/hierarchy.hpp"
#include "pipeline/core.hpp"
#include "pipeline/in_order.hpp"
#include "pipeline/out_of_order.hpp"

namespace perfvec {

class Simulation {
  public:
    Simulation(const Machine& machine, std::vector<StaticInstruction> rows, std::vector<Address> pc)
        : rows_(std::move(rows)),
          pc_(std::move(pc)),
          program_{rows_.data(), pc_.data(), rows_.size()},
          code_ahead_(ahead_of(machine)),
          native_(machine.native),
          caches(machine),
          branches(machine.branch_predictor.kind, machine.branch_predictor.entries,
                   machine.branch_predictor.btb_entries, machine.branch_predictor.ras_entries,
                   machine.branch_predictor.indirect) {
        if (machine.in_order)
            core = std::make_unique<InOrderCore>(machine, program_, caches, branches);
        else
            core = std::make_unique<OutOfOrderCore>(machine, program_, caches, branches);
    }
    Simulation(const Simulation&) = delete;
    Simulation& operator=(const Simulation&) = delete;

    // The program has these static instructions from now on; the ones so far are the first of them, unchanged.
    void grow(std::vector<StaticInstruction> rows, std::vector<Address> pc) {
        rows_ = std::move(rows);
        pc_ = std::move(pc);
        program_ = {rows_.data(), pc_.data(), rows_.size()};
        core->grow(program_);
    }

    const Program& program() const { return program_; }
    bool native() const { return native_; }

    // Lets the chunk pass through caches and TLBs in no time; the branch predictor does not see it.
    void warm(const Chunk& chunk) {
        for (std::size_t k = 0; k < chunk.size; ++k) {
            const std::uint32_t here = chunk.static_id[k];
            const Address pc = pc_[here];
            const Line last = line_of(pc + rows_[here].length - 1);
            for (Line line = line_of(pc); line <= last; ++line) {
                if (line == warm_line_) continue;
                caches.access_code(line, 0, pc, false);
                warm_line_ = line;
            }
            for (std::int64_t which = chunk.access_offset[k]; which < chunk.access_offset[k + 1]; ++which)
                caches.access_data(chunk.address[which], chunk.bytes(which), 0, chunk.is_store[which], pc, false);
        }
    }

    // Accesses to data that missed, each behind so many touches (`place`, ascending); whether they missed L2 too.
    struct Misses {
        std::size_t count;
        const std::uint32_t *id, *place;
        const std::uint64_t* address;
        const bool* far;
    };

    // Puts lines into caches and TLBs in no time, each with the bits of a touch, in the order of their last touch, and shows
    // prefetchers the misses in between.
    void touch(const std::uint64_t* touches, std::size_t count, const Misses& misses) {
        std::size_t miss = 0;
        const auto learn_until = [&](std::size_t place) {
            for (; miss < misses.count && misses.place[miss] <= place; ++miss)
                caches.learn_miss(within_half(misses.address[miss]), pc_[misses.id[miss]], misses.far[miss]);
        };
        for (std::size_t k = 0; k < count; ++k) {
            learn_until(k);
            if (k + TOUCHED_AHEAD < count) {
                const std::uint64_t ahead = touches[k + TOUCHED_AHEAD];
                if (!(ahead & TOUCHED_NEAR)) caches.prepare(level_of(ahead), line_touched(ahead));
            }
            const int level = level_of(touches[k]);
            const Line line = line_touched(touches[k]);
            const Seen by = touches[k] & TOUCHED_NEAR ? Seen::ByFirst : touches[k] & TOUCHED_BELOW ? Seen::Below : Seen::ByAll;
            if (level == L1D) {
                caches.touch(level, line, touches[k] & TOUCHED_DIRTY, by);
                continue;
            }
            for (int n = 0; n <= code_ahead_.first_level; ++n) caches.touch(L1I, line + n, false, by);
            const bool astray = touches[k] & TOUCHED_MISPREDICTED;
            const int last = astray ? code_ahead_.mispredicted : by == Seen::ByFirst ? 0 : code_ahead_.all;
            for (int n = code_ahead_.first_level + 1; n <= last; ++n) caches.touch_below(line + n);
        }
        learn_until(count);
        warm_line_ = -1;
    }

    // Teaches the branch unit executed branches, each with the instruction after it, in no time.
    void learn(const std::uint32_t* branch, const std::uint32_t* following, std::size_t count) {
        const Cycle retired = core->retired;  // of all branches so far: each knows the ones before it
        for (std::size_t k = 0; k < count; ++k) {
            const Address pc = pc_[branch[k]], fall_through = pc + rows_[branch[k]].length;
            const Address target = following[k] == LAST ? fall_through : pc_[following[k]];
            branches.fetch(pc, fall_through, target, rows_[branch[k]].flags, retired + 1, retired);
        }
    }

    // Tells it of direct branches that were taken (`BranchUnit::take`).
    void take(const std::uint32_t* branch, const std::uint32_t* following, std::size_t count) {
        for (std::size_t k = 0; k < count; ++k)
            if (following[k] != LAST) branches.take(pc_[branch[k]], pc_[following[k]]);
    }

    static constexpr std::uint64_t TOUCHED_DIRTY = 1, TOUCHED_MISPREDICTED = 1, TOUCHED_CODE = 2;
    static constexpr std::uint64_t TOUCHED_NEAR = 4, TOUCHED_BELOW = 8;
    static constexpr int TOUCHED_SHIFT = 4;
    static Line line_touched(std::uint64_t touch) { return line_of(within_half(touch >> TOUCHED_SHIFT << LINE_BITS)); }
    static int level_of(std::uint64_t touch) { return touch & TOUCHED_CODE ? L1I : L1D; }
    static constexpr std::size_t TOUCHED_AHEAD = 8;

  private:
    // Lines beyond one of code that are fetched, too: behind branches that are taken, before that is known, and behind those
    // that are mispredicted. In order the next two come into the first level, of a misprediction a third into those below;
    // without a predictor that is every branch, and fetch goes on until the buffers before issue are full: some 35 bytes
    // for each instruction of width, from the middle of a line on. Out of order they are found in the levels below, where
    // little else of a wrong path lasts. From the misses of both with and without it, on cc1
    // (docs/appendix/live-points.md).
    struct CodeAhead {
        int first_level, all, mispredicted;
    };
    static CodeAhead ahead_of(const Machine& machine) {
        if (machine.taken_path_only) return {0, 0, 0};
        if (!machine.in_order) return {0, 2, 2};
        if (machine.branch_predictor.kind == "none") {
            const int reached = (32 + 35 * machine.in_order->width + 32) / 64;  // rounded
            return {2, 1 + reached, 1 + reached};
        }
        return {2, 2, 3};
    }

    std::vector<StaticInstruction> rows_;
    std::vector<Address> pc_;
    Program program_;
    CodeAhead code_ahead_;
    bool native_;
    Line warm_line_ = -1;

  public:
    Hierarchy caches;
    BranchUnit branches;
    std::unique_ptr<Core> core;
};

}  // namespace perfvec
