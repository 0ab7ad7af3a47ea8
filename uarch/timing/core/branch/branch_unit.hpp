// The front end's knowledge when it meets a branch: direction, target buffer, return stack, indirect targets.
//
// As in gem5's out-of-order core:
//
// - a branch taken by prediction goes where the BTB says (direct-mapped, 16-bit tags, address by 4 bytes, so that two
//   branches in 4 bytes are one to it); without an entry it is taken for not taken. An entry is made when a direct branch
//   taken went elsewhere than expected; decode notices that for an unconditional branch, and for one predicted taken;
// - a return asks the stack, any other indirect branch the indirect predictor (gem5's is target_table.hpp);
// - what a predictor learns at retirement, younger branches do not know that are fetched before. The core says when a
//   branch is fetched and when it retires; one without such times teaches at once. Most to the predictors whose histories
//   move at retirement, this is worth half of their mispredictions.
//
// Silicon finds the target of a return, and of an indirect jump that goes elsewhere than last time, later than that of
// other branches: where the core asks for it (`tell_retargets`), such a one, predicted right, is told as `Retarget`.
//
// Branches of wrong paths leave nothing here but in the perceptron's history. gem5's count of mispredictions has those of
// wrong paths too, more of them the longer a branch waits for its data and the larger the reorder buffer is, and those of
// branches inside its microcode (divisions, repeated string instructions, byte shifts of vectors).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "../instruction.hpp"
#include "direction_predictor.hpp"
#include "indirect_predictor.hpp"

namespace perfvec {

enum class Redirect { None, Decode, Execute, Retarget };

struct Mispredictions {  // by what was wrong
    std::int64_t direction = 0, target = 0, indirect = 0, returns = 0;
};

class BranchUnit {
  public:
    BranchUnit(const std::string& kind, int entries, int btb_entries, int ras_entries,
               const std::string& indirect = "target-table");

    // Where fetch is redirected from after the branch at `pc`, which goes to `target`: nowhere when it goes where the front
    // end expected. `fetched` and `retired` are cycles, or left out: what the branch teaches is known to those fetched after
    // it retired.
    Redirect fetch(Address pc, Address fall_through, Address target, std::uint16_t flags, Cycle fetched = 0,
                   Cycle retired = -1);

    // The target buffer has an entry of a direct branch that was taken, as of every such one.
    void take(Address pc, Address target) {
        Target& entry = target_buffer_[(pc >> 2) & static_cast<Address>(target_buffer_.size() - 1)];
        entry = {tag_of(pc), target};
    }

    // The branch that came last retires at `cycle`, not when it told `fetch`.
    void retire(Cycle cycle) {
        if (predictor_ && waiting_ > 0) in_flight_[(oldest_ + waiting_ - 1) & (IN_FLIGHT - 1)].retired = cycle;
    }

    // The next branches have these outcomes, found beforehand (`TimelessBranches`).
    void follow(const std::uint8_t* outcomes, std::size_t count) {
        followed_ = outcomes;
        left_ = count;
    }
    static Redirect redirect_of(std::uint8_t outcome) { return static_cast<Redirect>(outcome & 3); }
    bool follows() const { return followed_ != nullptr; }

    // An unconditional branch on a wrong path is fetched.
    void on_wrong_path(Address pc) {
        if (predictor_) predictor_->on_wrong_path(pc);
    }

    int in_flight() const { return waiting_; }

    // The redirection told last is found where branches commit: a misprediction like others.
    void found_at_commitment() {
        --redirected_at_decode;
        ++mispredictions;
        ++by_kind.target;
    }

    void tell_retargets(bool tell) { tells_retargets_ = tell; }

    std::int64_t branches = 0, mispredictions = 0;
    std::int64_t redirected_at_decode = 0;
    Mispredictions by_kind;
    std::int64_t in_flight_before = 0;  // sum over branches: how many before it had not retired when it was fetched

  private:
    static constexpr Address NOWHERE = IndirectPredictor::NOWHERE;
    static constexpr int TAG_BITS = 16;
    static constexpr int LAST_TARGETS = 512;

    struct Target {
        Address tag = NOWHERE, target = NOWHERE;
    };
    struct InFlight {  // fetched, not yet learnt
        BranchOutcome outcome;
        Cycle retired;
        bool indirect;  // asked the indirect predictor
        bool followed;  // teaches nothing
    };

    Address tag_of(Address pc) const { return (pc >> target_buffer_shift_) & ((1 << TAG_BITS) - 1); }
    Redirect followed(Cycle fetched, Cycle retired);
    void update_until(Cycle fetched);
    void count_misprediction(std::uint16_t flags, bool wrong_direction);

    const std::uint8_t* followed_ = nullptr;
    std::size_t left_ = 0;
    std::unique_ptr<DirectionPredictor> predictor_;
    std::vector<Target> target_buffer_;
    int target_buffer_shift_;
    std::vector<Address> return_stack_;  // circular
    std::size_t top_ = 0;
    std::unique_ptr<IndirectPredictor> indirect_;
    bool tells_retargets_ = false;
    std::vector<Address> last_targets_ = std::vector<Address>(LAST_TARGETS, NOWHERE);  // of indirect jumps, by address
    std::array<InFlight, IN_FLIGHT> in_flight_{};  // circular
    int oldest_ = 0, waiting_ = 0;
};

}  // namespace perfvec
