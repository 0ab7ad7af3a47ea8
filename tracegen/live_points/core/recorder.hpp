// One pass over a run: sampling units drawn at random, what lies between them as far as a machine's state needs it, and
// every unit's signature.
//
// A run is divided into units of UNIT instructions; one is counted where a hash of its number is below a bound, which
// halves whenever there are too many: the counted units are a simple random sample at any time (bottom-k sampling,
// Cohen & Kaplan, PODC 2007), and memory does not grow with the run. Those with by far the most accesses count besides
// (take_all.hpp). Or the units that count are listed beforehand. A counted unit is kept with the one before it, its
// warm-up, instruction by instruction; what lies between is a gap: the lines that were touched, in the order of their last
// touch, the branches that are of use (branch_history.hpp), those that were taken (taken_branches.hpp), the last misses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "branch_history.hpp"
#include "last_touch.hpp"
#include "near_stores.hpp"
#include "signature.hpp"
#include "take_all.hpp"
#include "taken_branches.hpp"

namespace perfvec {

constexpr std::size_t UNIT = 1024;  // instructions; divides a trace's chunks, and is a multiple of 16

constexpr std::size_t MISSES = 1024;  // of a gap, the last ones

struct Miss {  // an access to data that were not touched lately, so that a first level lacks them
    std::uint64_t address;
    std::uint32_t id;
    bool far;  // nor for long, so that a second level does
    std::uint64_t place;  // so many of the gap's lines come before it; until that is known, touches
};

struct Gap {
    std::vector<Touch> lines;  // the latest touch last
    std::vector<Miss> misses;  // the latest last, the last MISSES of the gap
    std::vector<Branch> taken;  // direct branches, where they were taken last
};

struct Executed {  // consecutive instructions
    std::vector<std::uint32_t> id, following, accesses;  // accesses: how many it makes
    std::vector<std::uint64_t> address;
    std::vector<std::uint8_t> size, is_store;
    std::vector<bool> missed;  // of each line touched, whether a first level misses it
    std::vector<bool> mispredicted;  // of each instruction
};

struct Piece {  // a unit that is kept, and the gap before it, empty where the piece before it is the unit before it
    std::uint64_t unit = 0;
    bool counted = false;
    Gap gap;
    std::vector<Branch> branches;  // of the gap, those of use to predictors, the latest last; known in the end
    Executed executed;
    std::vector<Miss> misses;  // of what it executed
    std::vector<NearRead> near_reads;  // what its loads had read from near stores before it, by load and store
    std::uint64_t first_branch = 0, end_branch = 0;  // its own, by their numbers in the run
    History history;                                 // of a unit that counts: what is of use before its warm-up
};

struct ChunkView {
    std::size_t size;
    const std::uint32_t *id, *following;
    const std::int64_t* offset;
    const std::uint64_t* address;
    const std::uint8_t *access_size, *is_store;
};

class Recorder {
  public:
    // `listed`: the units that count, ascending; where there are none, those with the lowest keys do.
    Recorder(std::size_t capacity, std::size_t signatures, std::size_t branches, std::uint64_t seed,
             std::vector<std::uint64_t> listed = {})
        : capacity_(listed.empty() ? capacity : listed.size()),
          most_signatures_(signatures),
          seed_(seed),
          listed_(std::move(listed)),
          history_(branches) {}

    void observe(const ChunkView& chunk);

    // Lets only these units count, and dissolves the others into gaps; what comes after the last one goes.
    void keep(const std::vector<std::uint64_t>& units);

    std::vector<Static> statics;  // grows with the program; rows never change
    std::vector<Piece> pieces;
    std::vector<std::uint64_t> signature_units;
    std::vector<std::array<float, Signature::SIZE>> signatures;
    std::uint64_t units = 0, instructions = 0;
    TakeAll take_all;

    bool counts(std::uint64_t unit) const { return drawn(unit) || take_all.contains(unit); }

  private:
    std::uint64_t key(std::uint64_t unit) const;
    bool drawn(std::uint64_t unit) const {
        return listed_.empty() ? key(unit) <= bound_ : std::binary_search(listed_.begin(), listed_.end(), unit);
    }
    bool detailed(std::uint64_t unit) const { return counts(unit) || counts(unit + 1); }
    bool signed_(std::uint64_t unit) const { return key(unit) <= signature_bound_; }
    void look_ahead(const ChunkView& chunk);
    void execute(const ChunkView& chunk, std::size_t begin, std::size_t end);
    void append(const ChunkView& chunk, std::size_t begin, std::size_t end);
    void begin_unit();
    void end_unit();
    void thin();
    void recount();
    void thin_signatures();
    void dissolve(const std::vector<bool>& counted, bool next_counts);
    Gap end_gap();

    std::size_t capacity_, most_signatures_;
    std::uint64_t seed_, bound_ = ~std::uint64_t{0}, signature_bound_ = ~std::uint64_t{0};
    std::vector<std::uint64_t> listed_;
    LastTouch lines_;
    Signature signature_;
    Gap open_;  // what was dissolved behind the last piece
    BranchHistory history_;
    TakenBranches taken_;
    NearStores near_stores_;
    std::vector<Miss> miss_ring_ = std::vector<Miss>(MISSES);
    std::uint64_t miss_count_ = 0;  // since the last piece
    std::size_t in_unit_ = 0, drawn_ = 0;
    bool recording_ = false, after_piece_ = true, timed_ = true;
};

}  // namespace perfvec
