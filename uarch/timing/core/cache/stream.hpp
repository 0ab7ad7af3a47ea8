// Stream prefetching (Jouppi, ISCA 1990; the stream table as in Srinath et al., HPCA 2007): a page whose lines are asked
// for one after another, up or down, has its next lines fetched far ahead, as cores do that hide a memory's whole latency.
//
// A table of pages, the least recently used one given up. Two steps in one direction make a stream; it is then kept
// DISTANCE lines ahead of the latest access.
#pragma once

#include <algorithm>
#include <array>

#include "prefetcher.hpp"

namespace perfvec {

class StreamPrefetcher final : public Prefetcher {
  public:
    void observe(const PrefetchTrigger& trigger, PrefetchQueue& queue) override {
        const Line line = line_of(trigger.address);
        Stream& stream = find(line >> LINES_OF_PAGE_BITS);
        const Line step = line - stream.last;
        if (stream.last >= 0 && step != 0) {
            const int direction = step > 0 ? 1 : -1;
            const bool near = step * direction <= NEAR;
            stream.steps = near && direction == stream.direction ? stream.steps + 1 : near;
            if (stream.steps < 2) stream.ahead = line;
            stream.direction = direction;
        }
        stream.last = line;
        if (stream.steps < 2) return;
        const int direction = stream.direction;
        if ((stream.ahead - line) * direction < 0) stream.ahead = line;
        for (int ahead = 1; (stream.ahead - line) * direction < DISTANCE; ++ahead) {
            stream.ahead += direction;
            queue.want(trigger, stream.ahead, ahead);
        }
    }

  private:
    static constexpr int STREAMS = 32, DISTANCE = 24, LINES_OF_PAGE_BITS = 6;
    static constexpr Line NEAR = 4;  // lines of a step at most
    struct Stream {
        std::int64_t page = -1, used = 0;
        Line last = -1, ahead = -1;
        int direction = 0, steps = 0;
    };

    Stream& find(std::int64_t page) {
        Stream* oldest = &streams_[0];
        for (Stream& stream : streams_) {
            if (stream.page == page) {
                stream.used = ++clock_;
                return stream;
            }
            if (stream.used < oldest->used) oldest = &stream;
        }
        *oldest = {page, ++clock_, -1, -1, 0, 0};
        return *oldest;
    }

    std::array<Stream, STREAMS> streams_;
    std::int64_t clock_ = 0;
};

}  // namespace perfvec
