// Loads that read what a store shortly before has written, and have often done so.
//
// A core that lets loads go ahead of older stores finds out once that this one must not, and lets it wait from then on
// (store sets: Chrysos & Emer, ISCA 1998), until it forgets all that it has learnt, after so many loads. Only some such
// reads go ahead of the store; of many one has. Where a sampled unit begins the core knows of these loads.
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

    // The instruction `id` loads, as number `now` of the run. Whether a store near it wrote what it reads, and what it had
    // read MANY times before number `begin`.
    bool load(std::uint32_t id, std::uint64_t address, std::uint64_t size, std::uint64_t now, std::uint64_t begin) {
        if (++loads_ % FORGOTTEN_AFTER == 0) forgotten_ = now;
        bool near = false;
        for (std::uint64_t block = address >> BLOCK; block <= (address + size - 1) >> BLOCK; ++block) {
            const Store& store = stores_[block & (STORES - 1)];
            near |= store.block == block && now - store.at < NEAR;
        }
        if (!near) return false;
        if (id >= loads_by_id_.size()) loads_by_id_.resize(id + 1);
        Load& one = loads_by_id_[id];
        if (one.last < forgotten_) one = {};
        one.last = now;
        if (++one.reads == MANY) one.known_from = now;
        return one.known_from < begin;
    }

  private:
    static constexpr int BLOCK = 4;             // bits of an address within 16 bytes, as gem5's O3 compares
    static constexpr std::uint64_t STORES = 1024, NEAR = 512;  // instructions, as many as are in flight at most
    static constexpr std::uint64_t FORGOTTEN_AFTER = 250'000;  // loads (uarch/timing/core/pipeline/store_sets.hpp)
    static constexpr std::uint64_t MANY = 64;
    static constexpr std::uint64_t NEVER = ~std::uint64_t{0};

    struct Store {
        std::uint64_t block = NEVER, at = 0;
    };
    std::array<Store, STORES> stores_;  // the last one to a block, by its low bits
    struct Load {  // since all was forgotten
        std::uint64_t last = 0, reads = 0;  // what stores near it wrote
        std::uint64_t known_from = NEVER;
    };
    std::vector<Load> loads_by_id_;
    std::uint64_t loads_ = 0, forgotten_ = 0;
};

}  // namespace perfvec
