// The registry of replacement policies, by the names of a machine's `replacement` fields.
#include <stdexcept>

#include "lru.hpp"
#include "random_replacement.hpp"
#include "replacement_policy.hpp"
#include "srrip.hpp"
#include "tree_plru.hpp"

namespace perfvec {

std::unique_ptr<ReplacementPolicy> make_replacement_policy(const std::string& kind, int ways) {
    if (kind == "lru") return std::make_unique<Lru>(ways);
    if (kind == "tree-plru") return std::make_unique<TreePlru>(ways);
    if (kind == "srrip") return std::make_unique<Srrip>(ways);
    if (kind == "random") return std::make_unique<RandomReplacement>(ways);
    throw std::invalid_argument("no replacement policy is named " + kind);
}

}  // namespace perfvec
