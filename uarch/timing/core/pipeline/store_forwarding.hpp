// Stores in flight, by the 8-byte words that they write, so that loads get their data before it is in the cache.
#pragma once

#include <algorithm>
#include <vector>

#include "../types.hpp"

namespace perfvec {

class StoreForwarding {
  public:
    enum class Source { Cache, Forwarded, Partial };
    struct Answer {
        Source source = Source::Cache;
        Cycle cycle = 0;  // of the data (Forwarded), of the write that has to come first (Partial)
    };

    StoreForwarding() : words_(WORDS) {}

    void note_store(Address address, std::int64_t size, Cycle data, Cycle written) {
        for (Address word = address >> 3; word <= (address + size - 1) >> 3; ++word)
            words_[word & (WORDS - 1)] = {word, address, address + size, data, written};
    }

    // The store that was noted as written NEVER has been written.
    void note_written(Address address, std::int64_t size, Cycle data, Cycle written) {
        for (Address word = address >> 3; word <= (address + size - 1) >> 3; ++word) {
            Word& row = words_[word & (WORDS - 1)];
            if (row.word == word && row.begin == address && row.data == data) row.written = written;
        }
    }

    // Forwarded where one store in flight at `cycle` covers the load, Partial where it holds only a part of it.
    Answer find(Address address, std::int64_t size, Cycle cycle) const {
        Answer answer;
        for (Address word = address >> 3; word <= (address + size - 1) >> 3; ++word) {
            const Word& row = words_[word & (WORDS - 1)];
            if (row.word != word || row.written <= cycle || row.begin >= address + size || row.end <= address) continue;
            if (row.begin <= address && address + size <= row.end) {
                if (answer.source != Source::Partial)
                    answer = {Source::Forwarded, std::max(answer.cycle, row.data)};
            } else {
                if (answer.source != Source::Partial) answer.cycle = 0;
                answer = {Source::Partial, std::max(answer.cycle, row.written)};
            }
        }
        return answer;
    }

  private:
    static constexpr int WORDS = 512;  // direct-mapped
    struct alignas(64) Word {
        Address word = -1, begin = 0, end = 0;
        Cycle data = 0, written = 0;
    };
    std::vector<Word> words_;
};

}  // namespace perfvec
