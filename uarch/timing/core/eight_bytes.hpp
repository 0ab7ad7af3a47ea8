// Eight bytes of a word at once, without a branch (Warren, Hacker's Delight, 2nd edition, section 6-1).
#pragma once

#include <cstdint>
#include <cstring>

namespace perfvec {

class EightBytes {
  public:
    static constexpr int COUNT = 8;

    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first byte must be the lowest");

    explicit EightBytes(std::uint64_t word) : word_(word) {}
    static EightBytes of(const std::uint8_t* bytes) {
        EightBytes result(0);
        std::memcpy(&result.word_, bytes, COUNT);
        return result;
    }
    static EightBytes all(std::uint8_t byte) { return EightBytes(ONES * byte); }
    void store(std::uint8_t* bytes) const { std::memcpy(bytes, &word_, COUNT); }

    // The highest bit of each byte that equals `byte`. Bytes behind such a one may be told too, so compare them again.
    std::uint64_t perhaps_equal(std::uint8_t byte) const {
        const std::uint64_t differs = word_ ^ (ONES * byte);
        return (differs - ONES) & ~differs & HIGHEST;
    }
    // The place of the first byte with its highest bit set.
    static int first(std::uint64_t bits) { return __builtin_ctzll(bits) / COUNT; }

    // Adds one to each byte below `byte`; all are below 128.
    EightBytes increased_below(std::uint8_t byte) const {
        return EightBytes(word_ + ((~((word_ | HIGHEST) - ONES * byte) & HIGHEST) >> 7));
    }

  private:
    static constexpr std::uint64_t ONES = 0x0101010101010101, HIGHEST = ONES << 7;
    std::uint64_t word_;
};

}  // namespace perfvec
