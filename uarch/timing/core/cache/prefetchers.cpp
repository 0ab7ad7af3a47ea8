// All prefetchers by name, as uarch/constraints.py (PREFETCHERS) has them.
#include <stdexcept>

#include "prefetcher.hpp"
#include "stream.hpp"
#include "stride.hpp"
#include "tagged.hpp"

namespace perfvec {

std::unique_ptr<Prefetcher> make_prefetcher(const std::string& kind, Random& random) {
    if (kind == "none") return nullptr;
    if (kind == "stride") return std::make_unique<StridePrefetcher>(random);
    if (kind == "stream") return std::make_unique<StreamPrefetcher>();
    if (kind == "tagged") return std::make_unique<TaggedPrefetcher>();
    throw std::invalid_argument("prefetcher " + kind + ": none, stride, stream and tagged are known");
}

}  // namespace perfvec
