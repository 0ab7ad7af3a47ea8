// The physical page that a virtual one lies in: caches and memory see physical addresses.
//
// `Virtual`: its own, as in cachegrind, where a trace does not tell. `InOrder`: the next one at the first touch, as on a
// computer just started. `Drawn`: any, as after days of use; always the same for a page.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "types.hpp"

namespace perfvec {

enum class FrameOrder { Virtual, InOrder, Drawn };

class Frames {
  public:
    // Pages of `page_bits` address bits; their frames begin at `base`.
    Frames(FrameOrder order, int page_bits, Address base = 0) : order_(order), page_bits_(page_bits), base_(base) {}

    Address physical(Address address) { return order_ == FrameOrder::Virtual ? address : translated(address); }

  private:
    static constexpr int LATELY = 64;
    static constexpr int ADDRESS_BITS = 48;
    struct Page {
        std::int64_t page = -1;
        Address frame = 0;
    };

    Address translated(Address address) {
        const std::int64_t page = address >> page_bits_;
        Page& lately = lately_[page & (LATELY - 1)];
        if (lately.page != page)
            lately = {page, order_ == FrameOrder::Drawn ? drawn(page) : known_.try_emplace(page, known_.size()).first->second};
        return base_ + (lately.frame << page_bits_) + (address & ((Address{1} << page_bits_) - 1));
    }

    // No two pages have one frame: odd factors and shifts can be undone.
    Address drawn(std::int64_t page) const {
        const int bits = ADDRESS_BITS - page_bits_;
        const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
        std::uint64_t mixed = static_cast<std::uint64_t>(page) & mask;
        for (const std::uint64_t factor : {0x9E3779B97F4A7C15u, 0xBF58476D1CE4E5B9u}) {
            mixed = (mixed * factor) & mask;
            mixed ^= mixed >> (bits / 2);
        }
        return static_cast<Address>(mixed);
    }

    FrameOrder order_;
    int page_bits_;
    Address base_;
    std::array<Page, LATELY> lately_;
    std::unordered_map<std::int64_t, Address> known_;
};

}  // namespace perfvec
