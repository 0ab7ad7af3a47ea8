// Memory renaming: a load of a general register takes it from one of the last stores, without the cache (Tyson and Austin,
// "Improving the Accuracy and Performance of Memory Communication Through Renaming", MICRO 1997).
//
// The cases that Zen 4 renames were found with loops of benchmarks/uarch/host_loops.py: moves of 4 and 8 bytes from one
// of the last 16 stores, whatever registers the addresses are made of, and arithmetic in memory. Zen 5 renames operands in
// memory too.
#pragma once

#include <cstdint>
#include <vector>

#include "../types.hpp"

namespace perfvec {

class MemoryRenaming {
  public:
    // Of the last `reach` stores; 0: nothing is renamed.
    explicit MemoryRenaming(int reach) : reach_(reach), words_(reach > 0 ? WORDS : 0) {}

    bool active() const { return reach_ > 0; }

    // A store of a general register, whose content is there at `data`, or else of what cannot be renamed.
    void note_store(Address address, std::int64_t size, bool general, Cycle data) {
        ++stores_;
        for (Address word = address >> 3; word <= (address + size - 1) >> 3; ++word)
            words_[word & (WORDS - 1)] = {address, data, stores_, general ? size : 0};
    }

    // When the register is there that a load takes; NEVER where it takes none.
    Cycle find(Address address, std::int64_t size) const {
        const Store& store = words_[(address >> 3) & (WORDS - 1)];
        const bool reached = store.address == address && size <= store.bytes && stores_ - store.number < reach_;
        return reached ? store.data : NEVER;
    }

  private:
    static constexpr int WORDS = 256;  // of 8 bytes, direct-mapped
    struct Store {
        Address address = -1;
        Cycle data = 0;
        std::int64_t number = 0, bytes = 0;
    };

    std::int64_t reach_, stores_ = 0;
    std::vector<Store> words_;
};

}  // namespace perfvec
