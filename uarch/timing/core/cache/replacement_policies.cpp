// The replacement policy of the caches. A machine's configuration has no field for it: all have the same.
#include "lru.hpp"
#include "replacement_policy.hpp"

namespace perfvec {

std::unique_ptr<ReplacementPolicy> make_replacement_policy(std::int64_t sets, int ways) {
    return std::make_unique<Lru>(sets, ways);
}

}  // namespace perfvec
