// The stores that a load waits for: memory dependence prediction with store sets (Chrysos & Emer, ISCA 1998).
//
// A load goes ahead of older stores whose addresses are not known yet. Where one of them turns out to write what the load
// has read, everything from the load on is fetched again, and load and store are put into one set: from then on the load
// waits for the store of its set that was fetched last, and the stores of a set issue in order. Sizes, hashing, merging
// and the period of clearing are those of gem5's O3, which compares addresses in blocks of 16 bytes; silicon (`exact`)
// compares bytes.
#pragma once

#include <algorithm>
#include <array>

#include "../types.hpp"

namespace perfvec {

class StoreSets {
  public:
    explicit StoreSets(bool exact = false) : exact_(exact) {
        member_.fill(NO_SET);
        issued_.fill(-1);
    }

    std::int64_t violations() const { return violations_; }

    // First cycle in which the load or store at `pc` may issue.
    Cycle waits_for(Address pc) const {
        const int set = member_[place(pc)];
        return set != NO_SET ? issued_[set] + 1 : 0;
    }

    // The store at `pc` issues at `cycle`.
    void note_issue(Address pc, Address address, std::int64_t size, Cycle cycle) {
        const int set = member_[place(pc)];
        if (set != NO_SET) issued_[set] = cycle;
        for (Address block = address >> BLOCK_BITS; block <= (address + size - 1) >> BLOCK_BITS; ++block) {
            Block& row = blocks_[block & (BLOCKS - 1)];
            if (row.block != block || row.issue <= cycle) row = {block, cycle, pc, bytes(block, address, size)};
        }
    }

    // Cycle at which an older store finds that the load at `pc`, issued at `cycle`, has read too early; else 0.
    Cycle violated(Address pc, Address address, std::int64_t size, Cycle cycle) {
        if (++accesses_ == CLEAR_AFTER) {
            member_.fill(NO_SET);
            accesses_ = 0;
        }
        Cycle found = 0;
        for (Address block = address >> BLOCK_BITS; block <= (address + size - 1) >> BLOCK_BITS; ++block) {
            const Block& row = blocks_[block & (BLOCKS - 1)];
            if (row.block == block && row.issue > cycle && row.bytes & bytes(block, address, size)) {
                found = std::max(found, row.issue + 1);
                ++violations_;
                join(pc, row.pc);
            }
        }
        return found;
    }

    // One set for both; of two sets the smaller number stays.
    void join(Address load, Address store) {
        int &of_load = member_[place(load)], &of_store = member_[place(store)];
        if (of_load == NO_SET && of_store == NO_SET) {
            const int set = static_cast<int>((load ^ (load >> 10)) & (SETS - 1));
            issued_[set] = -1;
            of_load = of_store = set;
        } else if (of_load == NO_SET) {
            of_load = of_store;
        } else if (of_store == NO_SET) {
            of_store = of_load;
        } else {
            of_load = of_store = std::min(of_load, of_store);
        }
    }

    int set_of(Address pc) const { return member_[place(pc)]; }

    static constexpr int SETS = 1024, CLEAR_AFTER = 250'000;  // accesses
    static constexpr int BLOCK_BITS = 4, BLOCKS = 512, NO_SET = -1;

  private:
    struct Block {
        Address block = -1;
        Cycle issue = -1;
        Address pc = -1;
        std::uint32_t bytes = 0;  // a bit each
    };

    // Bytes of the block that an access touches, or all.
    std::uint32_t bytes(Address block, Address address, std::int64_t size) const {
        constexpr Address WIDTH = Address{1} << BLOCK_BITS;
        if (!exact_) return (1u << WIDTH) - 1;
        const Address first = std::max<Address>(address - block * WIDTH, 0);
        const Address end = std::min<Address>(address + size - block * WIDTH, WIDTH);
        return (1u << end) - (1u << first);
    }

    static std::size_t place(Address pc) { return (pc >> 2) & (SETS - 1); }

    bool exact_;
    std::array<int, SETS> member_;    // by address of load or store: its set
    std::array<Cycle, SETS> issued_;  // by set: cycle in which the store fetched last issues
    std::array<Block, BLOCKS> blocks_;
    std::int64_t accesses_ = 0, violations_ = 0;
};

}  // namespace perfvec
