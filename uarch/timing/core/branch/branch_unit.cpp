#include "branch_unit.hpp"

namespace perfvec {

namespace {

int log2_of(int entries) {
    int log = 0;
    while (entries >> (log + 1)) ++log;
    return log;
}

}  // namespace

BranchUnit::BranchUnit(const std::string& kind, int entries, int btb_entries, int ras_entries,
                       const std::string& indirect)
    : predictor_(make_predictor(kind, entries)),
      target_buffer_(std::max(btb_entries, 1)),
      target_buffer_shift_(2 + log2_of(std::max(btb_entries, 1))),
      return_stack_(std::max(ras_entries, 1), NOWHERE),
      indirect_(make_indirect_predictor(indirect)) {}

Redirect BranchUnit::fetch(Address pc, Address fall_through, Address target, std::uint16_t flags, Cycle fetched,
                           Cycle retired) {
    ++branches;
    if (left_ > 0) return followed(fetched, retired);
    const bool taken = target != fall_through;
    if (!predictor_) {  // fetches on: every taken branch is a surprise
        mispredictions += taken;
        by_kind.direction += taken;
        return taken ? Redirect::Execute : Redirect::None;
    }
    update_until(fetched);
    in_flight_before += waiting_;
    const bool conditional = flags & CONDITIONAL, direct = !(flags & INDIRECT), asked = !direct && !(flags & RETURN);
    const int slot = (oldest_ + waiting_) & (IN_FLIGHT - 1);
    const bool predicted = conditional ? predictor_->predict(slot, pc) : true;
    predictor_->speculate(slot, pc, taken, conditional);

    Target& entry = target_buffer_[(pc >> 2) & static_cast<Address>(target_buffer_.size() - 1)];
    const Address tag = tag_of(pc);
    Address expected = predicted && entry.tag == tag ? entry.target : NOWHERE;
    if (flags & RETURN) {
        const Address top = return_stack_[top_];
        if (top != NOWHERE) expected = top;
        top_ = top_ == 0 ? return_stack_.size() - 1 : top_ - 1;
    } else if (asked) {
        expected = indirect_->predict(slot, pc, expected);
    }
    if (flags & CALL) {
        top_ = top_ == return_stack_.size() - 1 ? 0 : top_ + 1;
        return_stack_[top_] = fall_through;
    }
    const BranchOutcome branch{pc, target, taken, conditional, direct};
    indirect_->speculate(slot, branch, asked);

    Redirect outcome = Redirect::None;
    if (!direct || !taken || expected == NOWHERE) {
        if ((expected == NOWHERE ? fall_through : expected) != target)
            outcome = direct && !conditional ? Redirect::Decode : Redirect::Execute;
    } else if (expected != target) {
        outcome = Redirect::Decode;
    }
    if (outcome != Redirect::None && taken && direct) entry = {tag, target};

    in_flight_[slot] = {branch, retired, asked, false};
    ++waiting_;
    redirected_at_decode += outcome == Redirect::Decode;
    if (outcome == Redirect::Execute) {
        ++mispredictions;
        count_misprediction(flags, conditional && predicted != taken);
    }
    if (tells_retargets_ && !direct) {
        Address& last = last_targets_[(pc >> 1) & (LAST_TARGETS - 1)];
        if (outcome == Redirect::None && (flags & RETURN || last != target)) outcome = Redirect::Retarget;
        last = target;
    }
    return outcome;
}

Redirect BranchUnit::followed(Cycle fetched, Cycle retired) {
    if (predictor_) {
        update_until(fetched);
        in_flight_before += waiting_;
        in_flight_[(oldest_ + waiting_++) & (IN_FLIGHT - 1)] = {{}, retired, false, true};
    }
    const std::uint8_t outcome = *followed_++;
    --left_;
    const Redirect redirect = redirect_of(outcome);
    if (redirect == Redirect::Retarget) return tells_retargets_ ? redirect : Redirect::None;
    redirected_at_decode += redirect == Redirect::Decode;
    if (redirect == Redirect::Execute) {
        ++mispredictions;
        std::int64_t* const kinds[] = {&by_kind.direction, &by_kind.target, &by_kind.indirect, &by_kind.returns};
        ++*kinds[outcome >> 2 & 3];
    }
    return redirect;
}

void BranchUnit::count_misprediction(std::uint16_t flags, bool wrong_direction) {
    if (wrong_direction)
        ++by_kind.direction;
    else if (flags & RETURN)
        ++by_kind.returns;
    else if (flags & INDIRECT)
        ++by_kind.indirect;
    else
        ++by_kind.target;
}

// The predictor learns the branches that retired before a fetch in cycle `fetched`.
void BranchUnit::update_until(Cycle fetched) {
    while (waiting_ > 0) {
        const InFlight& branch = in_flight_[oldest_];
        if (branch.retired >= fetched && waiting_ < IN_FLIGHT) return;
        if (!branch.followed) predictor_->update(oldest_, branch.outcome);
        if (branch.indirect) indirect_->update(oldest_, branch.outcome);
        oldest_ = (oldest_ + 1) & (IN_FLIGHT - 1);
        --waiting_;
    }
    oldest_ = 0;  // the records of a few branches stay in the host's cache
}

}  // namespace perfvec
