// Loads that read what a store shortly before has written: from which store, and how often.
//
// A core that lets loads go ahead of older stores finds out once that this one must not, and lets it wait for that store
// from then on (store sets: Chrysos & Emer, ISCA 1998), until it forgets all that it has learnt, after so many loads.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

namespace perfvec {

struct NearRead {  // static instructions, and how often since all was forgotten
    std::uint32_t load, store, times;  // times: by blocks of 16 bytes, as gem5's O3 compares
    std::uint32_t same_bytes;          // of these, as silicon does
    bool operator<(const NearRead& other) const { return std::tie(load, store) < std::tie(other.load, other.store); }
};

class NearStores {
  public:
    void store(std::uint32_t id, std::uint64_t address, std::uint64_t size, std::uint64_t now) {
        for (std::uint64_t block = address >> BLOCK; block <= (address + size - 1) >> BLOCK; ++block)
            stores_[block & (STORES - 1)] = {block, now, id, bytes(block, address, size)};
    }

    // The instruction `id` loads, as number `now` of the run, of the unit from number `begin` on. What it had read
    // before the unit is added to `known`, if that is wanted.
    void load(std::uint32_t id, std::uint64_t address, std::uint64_t size, std::uint64_t now, std::uint64_t begin,
              std::vector<NearRead>* known) {
        if (++loads_ % FORGOTTEN_AFTER == 0) forgotten_ = now;
        if (known) tell(id, begin, *known);
        std::uint32_t last = NONE;
        for (std::uint64_t block = address >> BLOCK; block <= (address + size - 1) >> BLOCK; ++block) {
            const Store& store = stores_[block & (STORES - 1)];
            if (store.block != block || now - store.at >= NEAR || store.id == last) continue;
            last = store.id;
            count(id, store.id, now, (store.bytes & bytes(block, address, size)) != 0);
        }
    }

  private:
    static constexpr int BLOCK = 4;  // bits of an address within a block
    static constexpr std::uint64_t STORES = 1024;
    // Instructions. A load rarely goes ahead of a store that is further away. Chosen on a loop that adds at random places,
    // which waits too early in a run with more: cycles 1 % too many, with 32 up to 6 %, with 64 up to 9 %.
    static constexpr std::uint64_t NEAR = 24;
    static constexpr std::uint64_t FORGOTTEN_AFTER = 250'000;  // loads (uarch/timing/core/pipeline/store_sets.hpp)
    static constexpr std::uint64_t NEVER = ~std::uint64_t{0};
    static constexpr std::uint32_t NONE = ~std::uint32_t{0};

    struct Store {
        std::uint64_t block = NEVER, at = 0;
        std::uint32_t id = NONE, bytes = 0;  // bytes: a bit each
    };
    struct Pair {
        std::uint32_t store = NONE, reads = 0, same_bytes = 0;
    };
    struct Load {  // since all was forgotten
        std::uint64_t last = 0, begin = NEVER;
        std::array<Pair, 4> pairs;  // the most frequent ones
    };

    // The bytes of the block that an access touches.
    static std::uint32_t bytes(std::uint64_t block, std::uint64_t address, std::uint64_t size) {
        constexpr std::uint64_t WIDTH = 1 << BLOCK;
        const std::uint64_t begin = block * WIDTH;
        const std::uint64_t first = std::max(address, begin) - begin, end = std::min(address + size, begin + WIDTH) - begin;
        return (1u << end) - (1u << first);
    }

    Load& of(std::uint32_t id) {
        if (id >= loads_by_id_.size()) loads_by_id_.resize(id + 1);
        Load& one = loads_by_id_[id];
        if (one.last < forgotten_) {
            one.pairs = {};
            one.last = forgotten_;
        }
        return one;
    }

    void tell(std::uint32_t id, std::uint64_t begin, std::vector<NearRead>& known) {
        Load& one = of(id);
        if (one.begin == begin) return;
        one.begin = begin;
        for (const Pair& pair : one.pairs)
            if (pair.reads > 0) known.push_back({id, pair.store, pair.reads, pair.same_bytes});
    }

    void count(std::uint32_t id, std::uint32_t store, std::uint64_t now, bool same_bytes) {
        Load& one = of(id);
        one.last = now;
        Pair* place = &one.pairs[0];
        for (Pair& pair : one.pairs) {
            if (pair.store == store) {
                ++pair.reads;
                pair.same_bytes += same_bytes;
                return;
            }
            if (pair.reads < place->reads) place = &pair;
        }
        *place = {store, 1, same_bytes};
    }

    std::array<Store, STORES> stores_;  // the last one to a block, by its low bits
    std::vector<Load> loads_by_id_;
    std::uint64_t loads_ = 0, forgotten_ = 0;
};

}  // namespace perfvec
