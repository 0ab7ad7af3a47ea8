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
            words_[word & (WORDS - 1)] = {word, data, written, offset(address, word), offset(address + size, word)};
    }

    // The store that was noted as written NEVER has been written.
    void note_written(Address address, std::int64_t size, Cycle data, Cycle written) {
        for (Address word = address >> 3; word <= (address + size - 1) >> 3; ++word) {
            Word& row = words_[word & (WORDS - 1)];
            if (row.word == word && row.begin == offset(address, word) && row.data == data) row.written = written;
        }
    }

    // Forwarded where one store in flight at `cycle` covers the load, Partial where it holds only a part of it.
    Answer find(Address address, std::int64_t size, Cycle cycle) const {
        Answer answer;
        for (Address word = address >> 3; word <= (address + size - 1) >> 3; ++word) {
            const Word& row = words_[word & (WORDS - 1)];
            const std::int32_t begin = offset(address, word), end = offset(address + size, word);
            if (row.word != word || row.written <= cycle || row.begin >= end || row.end <= begin) continue;
            if (row.begin <= begin && end <= row.end) {
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
    struct alignas(32) Word {
        Address word = -1;
        Cycle data = 0, written = 0;
        std::int32_t begin = 0, end = 0;  // bytes from the word's first one
    };

    static std::int32_t offset(Address address, Address word) { return static_cast<std::int32_t>(address - (word << 3)); }

    std::vector<Word> words_;
};

}  // namespace perfvec
