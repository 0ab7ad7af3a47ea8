// The contract of a direction predictor: will a conditional branch be taken?
//
// A branch meets its predictor twice, as in gem5's out-of-order core. The front end asks for a prediction and moves the
// speculative histories; at retirement the tables are updated. Other branches pass in between, so a predictor keeps what
// its update needs in a record of its own per branch in flight, found by `slot`.
//
// To add a predictor: write one header beside this one that implements the class (local.hpp is the smallest), and name
// it in predictors.cpp and in PREDICTORS of uarch/constraints.py.
#pragma once

#include <memory>
#include <string>

#include "../types.hpp"

namespace perfvec {

constexpr int IN_FLIGHT = 256;  // branches between fetch and retirement: slots 0 … IN_FLIGHT - 1

struct BranchOutcome {
    Address pc;
    Address target;  // executed next: the fall-through where it is not taken
    bool taken;
    bool conditional;
    bool direct;
};

class DirectionPredictor {
  public:
    virtual ~DirectionPredictor() = default;

    // At fetch: the direction of the conditional branch at `pc`.
    virtual bool predict(int slot, Address pc) = 0;

    // At fetch, after `predict`, for every branch: move the speculative histories by what the branch will do. A trace has
    // no wrong path, and gem5 restores these histories when it leaves one.
    virtual void speculate(int /*slot*/, Address /*pc*/, bool /*taken*/, bool /*conditional*/) {}

    // At retirement, for every branch, in program order.
    virtual void update(int slot, const BranchOutcome& outcome) = 0;

    // An unconditional branch is fetched on a wrong path. Only for histories that gem5 does not restore.
    virtual void on_wrong_path(Address /*pc*/) {}
};

// Throws std::invalid_argument for an unknown kind. `entries` as in the configuration's branch_predictor.entries.
// Returns nullptr for "none": no branch is predicted.
std::unique_ptr<DirectionPredictor> make_predictor(const std::string& kind, int entries);

}  // namespace perfvec
