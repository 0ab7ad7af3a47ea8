// Loads that read what a store shortly before has written, and did so before.
//
// A core that lets loads go ahead of older stores finds out once that this one must not, and lets it wait from then on
// (store sets: Chrysos & Emer, ISCA 1998), until it forgets all that it has learnt, after so many loads. Where a sampled
// unit begins it knows of these loads.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace perfvec {

class NearStores {
  public:
    void store(std::uint64_t address, std::uint64_t size, std::uint64_t now) {
        for (std::uint64_t block = address >> BLOCK; block <= (address + size - 1) >> BLOCK; ++block)
            stores_[block & (STORES - 1)] = {block, now};
    }

    // The instruction `id` loads, as number `now` of the run. Whether a store near it wrote what it reads, and one did
    // so before number `begin`.
    bool load(std::uint32_t id, std::uint64_t address, std::uint64_t size, std::uint64_t now, std::uint64_t begin) {
        if (++loads_ % FORGOTTEN_AFTER == 0) forgotten_ = now;
        bool near = false;
        for (std::uint64_t block = address >> BLOCK; block <= (address + size - 1) >> BLOCK; ++block) {
            const Store& store = stores_[block & (STORES - 1)];
            near |= store.block == block && now - store.at < NEAR;
        }
        if (!near) return false;
        if (id >= first_.size()) first_.resize(id + 1, NEVER);
        std::uint64_t& first = first_[id];
        if (first == NEVER || first < forgotten_) first = now;
        return first < begin;
    }

  private:
    static constexpr int BLOCK = 4;             // bits of an address within 16 bytes, as gem5's O3 compares
    static constexpr std::uint64_t STORES = 1024, NEAR = 512;  // instructions, about as many as are in flight
    static constexpr std::uint64_t FORGOTTEN_AFTER = 250'000;  // loads (uarch/timing/core/pipeline/store_sets.hpp)
    static constexpr std::uint64_t NEVER = ~std::uint64_t{0};

    struct Store {
        std::uint64_t block = NEVER, at = 0;
    };
    std::array<Store, STORES> stores_;  // the last one to a block, by its low bits
    std::vector<std::uint64_t> first_;  // by instruction: where it first read from a store near it since all was forgotten
    std::uint64_t loads_ = 0, forgotten_ = 0;
};

}  // namespace perfvec
