// Tagged prefetching (Smith, Computing Surveys 1982) with gem5's degree: the next two lines.
#pragma once

#include "prefetcher.hpp"

namespace perfvec {

class TaggedPrefetcher final : public Prefetcher {
  public:
    void observe(const PrefetchTrigger& trigger, PrefetchQueue& queue) override {
        for (int ahead = 1; ahead <= DEGREE; ++ahead) queue.want(trigger, line_of(trigger.address) + ahead, ahead);
    }

  private:
    static constexpr int DEGREE = 2;
};

}  // namespace perfvec
