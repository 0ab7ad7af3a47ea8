// The contract of an indirect predictor: where does an indirect jump or call go? Returns are the return stack's.
//
// As with directions (direction_predictor.hpp) the front end asks and moves the histories, and at retirement the tables
// are updated. To add one: write a header beside this one that implements the class (target_table.hpp is the smallest),
// and name it in predictors.cpp and in INDIRECT_PREDICTORS of uarch/constraints.py.
#pragma once

#include <memory>
#include <string>

#include "direction_predictor.hpp"

namespace perfvec {

class IndirectPredictor {
  public:
    static constexpr Address NOWHERE = -1;

    virtual ~IndirectPredictor() = default;

    // At fetch: the target of the indirect jump at `pc`, or `otherwise` where nothing is known.
    virtual Address predict(int slot, Address pc, Address otherwise) = 0;

    // At fetch, for every branch: move the histories by what it does. `asked`: `predict` came before.
    virtual void speculate(int slot, const BranchOutcome& branch, bool asked) = 0;

    // At retirement, in program order, for those that were asked for.
    virtual void update(int /*slot*/, const BranchOutcome& /*branch*/) {}
};

// Throws std::invalid_argument for an unknown kind.
std::unique_ptr<IndirectPredictor> make_indirect_predictor(const std::string& kind);

}  // namespace perfvec
