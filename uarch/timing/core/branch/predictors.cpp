// All predictors by name, as uarch/constraints.py (PREDICTORS, INDIRECT_PREDICTORS) has them.
#include <cmath>
#include <stdexcept>

#include "bimode.hpp"
#include "direction_predictor.hpp"
#include "indirect_predictor.hpp"
#include "ittage.hpp"
#include "local.hpp"
#include "ltage.hpp"
#include "multiperspective_perceptron.hpp"
#include "tage.hpp"
#include "tage_sc_l.hpp"
#include "target_table.hpp"
#include "tournament.hpp"

namespace perfvec {

std::vector<int> geometric(int shortest, int longest, int count) {
    const double ratio = static_cast<double>(longest) / shortest;
    std::vector<int> lengths;
    for (int k = 0; k < count; ++k)
        lengths.push_back(static_cast<int>(shortest * std::pow(ratio, static_cast<double>(k) / std::max(count - 1, 1)) + 0.5));
    return lengths;
}

std::unique_ptr<DirectionPredictor> make_predictor(const std::string& kind, int entries) {
    const bool small = entries <= 1024;
    if (kind == "none") return nullptr;
    if (kind == "local") return std::make_unique<Local>(entries);
    if (kind == "bimode") return std::make_unique<BiMode>(entries);
    if (kind == "tournament") return std::make_unique<Tournament>(entries);
    if (kind == "tage") return std::make_unique<Tage<7, TAGE_SIZES>>();  // of gem5's size, whatever `entries`
    if (kind == "ltage") return std::make_unique<LTage>();
    if (kind == "tage-sc-l") {
        if (small) return std::make_unique<SmallTageScl>();
        return std::make_unique<LargeTageScl>();
    }
    if (kind == "perceptron") {
        if (small) return std::make_unique<MultiperspectivePerceptron<SMALL_PERCEPTRON>>();
        return std::make_unique<MultiperspectivePerceptron<LARGE_PERCEPTRON>>();
    }
    throw std::invalid_argument("branch predictor " + kind +
                                ": none, local, bimode, tournament, tage, ltage, tage-sc-l and perceptron are known");
}

std::unique_ptr<IndirectPredictor> make_indirect_predictor(const std::string& kind) {
    if (kind == "target-table") return std::make_unique<TargetTable>();
    if (kind == "ittage") return std::make_unique<Ittage>();
    throw std::invalid_argument("indirect predictor " + kind + ": target-table and ittage are known");
}

}  // namespace perfvec
