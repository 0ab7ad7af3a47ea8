// True least recently used.
#pragma once

#include "../eight_bytes.hpp"
#include "replacement_policy.hpp"

namespace perfvec {

// A byte a way: how many others were used since.
class Lru final : public ReplacementPolicy {
  public:
    explicit Lru(int ways) : ways_(ways), words_((ways + EightBytes::COUNT - 1) / EightBytes::COUNT) {}

    int bytes() const override { return words_ * EightBytes::COUNT; }

    void clear(std::uint8_t* others) const override {
        for (int way = 0; way < bytes(); ++way)  // the first way was used before all others
            others[way] = static_cast<std::uint8_t>(way < ways_ ? ways_ - 1 - way : NO_WAY);
    }

    void on_use(std::uint8_t* others, int way) override {
        const std::uint8_t before = others[way];
        for (int word = 0; word < words_; ++word) {
            std::uint8_t* const eight = others + word * EightBytes::COUNT;
            EightBytes::of(eight).increased_below(before).store(eight);
        }
        others[way] = 0;
    }

    int victim(std::uint8_t* others) override {
        const auto all = static_cast<std::uint8_t>(ways_ - 1);
        for (int word = 0;; ++word)
            if (const std::uint64_t found = EightBytes::of(others + word * EightBytes::COUNT).perhaps_equal(all))
                return word * EightBytes::COUNT + EightBytes::first(found);  // the first one told is equal
    }

  private:
    static constexpr std::uint8_t NO_WAY = 127;
    int ways_, words_;
};

}  // namespace perfvec
